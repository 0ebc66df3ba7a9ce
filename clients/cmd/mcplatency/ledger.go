package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link/loopback"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/mcp/provider"
	"github.com/sluicegate/sluice/store/file"
	"github.com/sluicegate/sluice/store/memory"
)

const (
	noLedger = -2 // this process is none of the brokers
	noRules  = -1 // one without rules, on books in memory
)

// What is admitted. The first two are slots.
const (
	paced    = "paced"    // a call that a rate alone counts, in memory
	counted  = "counted"  // a call that takes from its caller's quota, and holds a slot
	reserved = "reserved" // a reservation of its caller's budget, settled
)

// A beside is a broker in this process, with a ledger that holds records.
type beside struct {
	ctl      *sluice.Controller
	sessions map[string]*mcp.Session // by slot
	made     atomic.Int64            // reservations so far
}

// beBroker is a broker until its standard input ends. Each line there is how many callers
// make how many of what, and is answered with the time of each.
func beBroker(records int, in *bufio.Scanner, out io.Writer) error {
	dir, err := os.MkdirTemp(".", "ledger")
	if err != nil {
		return err
	}
	b := &beside{sessions: map[string]*mcp.Session{}}
	if err := b.open(filepath.Join(dir, "books"), records); err != nil {
		return err
	}
	answers := json.NewEncoder(out)
	if err := answers.Encode("ready"); err != nil {
		return err
	}
	for in.Scan() {
		var q burstOf
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			return err
		}
		times, err := b.burst(q)
		if err != nil {
			return err
		}
		if err := answers.Encode(times); err != nil {
			return err
		}
	}
	return in.Err()
}

// A burstOf is what the process is asked for.
type burstOf struct {
	What       string
	Callers, N int
}

// rules have every reservation and every quota counted for its caller, so that there are as
// many counters as callers.
func rules() []sluice.Rule {
	of := func(kind, provider string) sluice.Match {
		m := sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {kind}}}
		if provider != "" {
			m.Is[sluice.Provider] = []string{provider}
		}
		return m
	}
	each := []sluice.Dimension{sluice.Subject}
	return []sluice.Rule{
		{ID: "rate", Match: of(mcp.KindTool, ""), Volatile: true, Limits: []sluice.Limit{{Limit: limit.Window(1<<30, limit.Second)}}},
		{ID: "slots", Match: of(mcp.KindTool, counted), OnTimeout: sluice.Free, Limits: []sluice.Limit{{Limit: limit.Slots(1000)}}},
		{ID: "calls", Match: of(mcp.KindTool, counted), GroupBy: each, Limits: []sluice.Limit{{Limit: limit.Window(1<<30, limit.Hour)}}},
		{ID: "budget", Match: of(mcp.KindOperation, ""), GroupBy: each, Settle: sluice.Keep,
			Limits: []sluice.Limit{{Limit: limit.Window(1<<30, limit.Hour), Unit: "operation"}}},
	}
}

func (b *beside) open(books string, records int) (err error) {
	p, o := &sluice.Policy{}, sluice.Options{}
	store := sluice.Store(memory.New(memory.Options{}))
	if records != noRules {
		ledger, err := file.Open(books, file.Options{MaxRecords: 2_000_000, MaxCells: 1 << 22, Retention: time.Hour})
		if err != nil {
			return err
		}
		store, o.KeySecret, p.Rules = ledger, ledger.KeySecret(), rules()
	}
	if b.ctl, err = sluice.Open(p, store, o); err != nil {
		return err
	}
	var slots []mcp.Slot
	for _, name := range []string{paced, counted} {
		slots = append(slots, mcp.Slot{Name: name, Dialer: &loopback.Dialer{Serve: serve}, Protocol: "legacy", RequestTimeout: time.Minute})
	}
	broker, err := mcp.New(b.ctl, mcp.Options{Slots: slots})
	if err != nil {
		return err
	}
	for _, slot := range slots {
		s, err := broker.Connect(slot.Name, policy.NewCaller("user:alice"), mcp.ConnectOptions{Transport: "internal"})
		if err != nil {
			return err
		}
		b.sessions[slot.Name] = s
		if err := b.ask(s, hello); err != nil {
			return err
		}
	}
	// Together they share what the disk confirms.
	_, err = b.burst(burstOf{What: reserved, Callers: 256, N: max(records, 0)})
	return err
}

// burst does something many times, and returns how long each took.
func (b *beside) burst(q burstOf) ([]time.Duration, error) {
	times, failed := make([]time.Duration, q.N), make([]error, q.Callers)
	var all sync.WaitGroup
	for caller := range q.Callers {
		all.Go(func() {
			for i := caller; i < q.N && failed[caller] == nil; i += q.Callers {
				began := time.Now()
				failed[caller] = b.admit(q.What, i)
				times[i] = time.Since(began)
			}
		})
	}
	all.Wait()
	return times, errors.Join(failed...)
}

func (b *beside) admit(what string, i int) error {
	if what == reserved {
		return b.reserve()
	}
	return b.ask(b.sessions[what], fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{}}}`, i+1))
}

// reserve makes a reservation as the broker does for a provider, of a caller of its own, and
// settles it. It is remembered.
func (b *beside) reserve() error {
	n := b.made.Add(1)
	note := fmt.Appendf(nil, `{"reservationId":"rsv_%032d","decisionId":"dec_%032d","slot":"plant","provider":"plant","requestId":"brk-%036d","unit":"operation","quantity":1}`, n, n, n)
	adm, err := b.ctl.Admit(context.Background(), sluice.Call{Kind: mcp.KindOperation, Provider: "plant", Capability: "plant.run", Resource: "/plant",
		Subject: fmt.Sprintf("user:%d", n), Cost: sluice.Cost{{Unit: sluice.Calls, N: 0}, {Unit: "operation", N: 1}},
		ID: fmt.Sprintf("reservation %d", n), Expires: time.Minute, Note: note})
	if err != nil {
		return err
	}
	return adm.SettleAs(context.Background(), sluice.Cost{{Unit: "operation", N: 1}}, 1)
}

// An exchange waits for an answer.
type exchange chan []byte

func (exchange) Notify([]byte)                {}
func (x exchange) Answer(frame []byte, _ int) { x <- bytes.Clone(frame) }

// ask sends a request over a session, and waits for its result.
func (b *beside) ask(s *mcp.Session, frame string) error {
	m, bad := jsonrpc.Parse([]byte(frame), jsonrpc.Bounds{})
	if bad != nil {
		return bad
	}
	x := make(exchange, 1)
	s.Receive(m, x)
	if answer := <-x; !bytes.Contains(answer, []byte(`"result"`)) {
		return fmt.Errorf("%.300s", answer)
	}
	return nil
}

// serve is a provider that answers at once.
func serve(c *loopback.Conn) error {
	server := &provider.Server{Name: "instant", Version: "1", Tools: []provider.Tool{{Name: "echo", Run: func(_ context.Context, q *provider.Request) (*provider.Result, error) {
		return provider.Text(string(q.Arguments)), nil
	}}}}
	for {
		frame, err := c.Next()
		if err != nil {
			return err
		}
		if m, bad := jsonrpc.Parse(frame, jsonrpc.Bounds{}); bad == nil && m.Kind == jsonrpc.Request {
			if err := c.Send(server.Handle(context.Background(), m, nil).Raw); err != nil {
				return err
			}
		}
	}
}
