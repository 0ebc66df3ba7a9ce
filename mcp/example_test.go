package mcp_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link/loopback"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/store/memory"
)

// A printer is where answers to one message of the program's go.
type printer struct{ done chan struct{} }

func (p printer) Notify(frame []byte) { fmt.Println("meanwhile:", string(frame)) }

func (p printer) Answer(frame []byte, _ int) {
	defer close(p.done)
	answer, bad := jsonrpc.Parse(frame, jsonrpc.Bounds{})
	switch {
	case bad != nil:
		fmt.Println(bad)
	case answer.Err != nil:
		why, _, _ := strings.Cut(answer.Fault().Message, ";") // then comes when to try again
		fmt.Println(answer.ID, why)
	default:
		fmt.Println(answer.ID, string(answer.Result))
	}
}

// A program that embeds the broker calls tools as one of its clients, under the same rules.
func Example() {
	store := memory.New(memory.Options{})
	defer store.Close()
	ctl, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{{
		ID:      "calls-per-user",
		Match:   sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {mcp.KindTool}}},
		GroupBy: []sluice.Dimension{sluice.Subject},
		Limits:  []sluice.Limit{{Limit: limit.Window(1, limit.Hour)}},
	}}}, store, sluice.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer ctl.Close()

	// A provider in this process; others are programs, servers, or dial in.
	broker, err := mcp.New(ctl, mcp.Options{Slots: []mcp.Slot{{Name: "instant", Dialer: &loopback.Dialer{Serve: instant}}}})
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close(context.Background())

	session, err := broker.Connect("instant", policy.NewCaller("user:alice"), mcp.ConnectOptions{Transport: "internal"})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for id := range 2 {
		call := jsonrpc.NewRequest(jsonrpc.RawID(fmt.Append(nil, id)), "tools/call", map[string]any{
			"name": "echo", "arguments": map[string]any{},
		})
		p := printer{make(chan struct{})}
		session.Receive(call, p)
		<-p.done
	}

	// Output:
	// 0 {"content":[]}
	// 1 Tool admission refused by rule calls-per-user: limit-exceeded
}
