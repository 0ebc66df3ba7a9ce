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
	writesMayFail()
	os.Exit(run(untilSignal(), os.Args[1:], streams{os.Stdout, os.Stderr}))
}

// untilSignal returns a context that ends with the first signal to stop. The second ends
// the process at once. Both are read from one channel: to give the second back to the
// system would leave a moment in which neither looks.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(1)
	}()
	return ctx
}
