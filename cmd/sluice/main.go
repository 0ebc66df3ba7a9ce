// Command sluice decides when a call may start: it stands in front of servers and gives
// each caller its share.
//
//	sluice serve                      # a demo that answers on :8080
//	sluice serve --config sluice.yaml
//	sluice help
//
// The package has a file for each command. What serving is made of is in program.go,
// with two tables beside it: stores.go and surfaces.go.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // from then on a signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], streams{os.Stdout, os.Stderr}))
}
