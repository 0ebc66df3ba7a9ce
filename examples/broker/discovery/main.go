// Command discovery is a provider that dials into a broker, and offers a tool that looks for
// hosts in a network. The network is made up. The rest is what a provider of real equipment
// does: it says what it serves, and reserves a budget before each operation.
//
//	DISCOVERY_SECRET=… go run ./examples/broker/discovery [-url ws://127.0.0.1:8082]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/sluicegate/sluice/mcp/provider"
)

// What the broker knows the provider's parts by.
const (
	slot      = "network-discovery"
	namespace = "/network-discovery"     // the resource that all others lie below
	lanPath   = "/network-discovery/lan" // the network
	active    = "network.active"         // the capability of a caller who may have hosts asked
	operation = "network-operation"      // the unit of budgets: one packet to one host
)

func main() {
	url := flag.String("url", "ws://127.0.0.1:8082", "where the broker listens")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *url); err != nil {
		fmt.Fprintln(os.Stderr, "discovery:", err)
		os.Exit(1)
	}
}

// serve serves until ctx ends, through broken connections.
func serve(ctx context.Context, url string) error {
	secret := os.Getenv("DISCOVERY_SECRET")
	if secret == "" {
		return errors.New("DISCOVERY_SECRET is not set; give it the value that the broker has")
	}
	p, err := provider.Dial(ctx, provider.Options{
		URL:    url,
		Slot:   slot,
		Secret: secret,
		Declaration: &provider.Declaration{
			Version:      "1",
			Domain:       "network",
			Namespace:    namespace,
			Capabilities: []string{active},
			Resources:    []provider.Resource{{Name: lan.String(), Path: lanPath}},
			BudgetUnits:  []string{operation},
		},
		Handler: &provider.Server{Name: "discovery", Version: "1", Tools: []provider.Tool{{
			Name:        "scan",
			Description: "Asks each address of a part of " + lan.String() + " who is there.",
			Schema:      json.RawMessage(`{"type":"object","properties":{"cidr":{"type":"string"}},"required":["cidr"]}`),
			Run:         scan,
		}}},
		Logger: slog.Default(),
	})
	if err != nil {
		return err
	}
	<-p.Done()
	return nil
}
