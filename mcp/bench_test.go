package mcp_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link/loopback"
	"github.com/sluicegate/sluice/store/memory"
)

// instant is a provider that answers at once and reads no more than it must, so that what
// is measured is the broker.
func instant(c *loopback.Conn) error {
	for {
		frame, err := c.Next()
		if err != nil {
			return err
		}
		m, bad := jsonrpc.Parse(frame, jsonrpc.Bounds{})
		if bad != nil || m.Kind != jsonrpc.Request {
			continue
		}
		var result any = map[string]any{"content": []any{}}
		switch m.Method {
		case "initialize":
			result = map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": "instant", "version": "1"}}
		case "tools/list":
			result = map[string]any{"tools": []any{map[string]any{"name": "echo", "inputSchema": map[string]any{"type": "object"}}}}
		}
		if err := c.Send(jsonrpc.NewResult(m.ID, result).Raw); err != nil {
			return err
		}
	}
}

// done is an exchange that tells when it has ended.
type done chan int

func (done) Notify([]byte)                 {}
func (d done) Answer(f []byte, status int) { d <- len(f) }

func BenchmarkCall(b *testing.B) {
	for _, bytes := range []int{100, 20_000, 400_000} {
		for _, ruled := range []bool{false, true} {
			b.Run(fmt.Sprintf("bytes=%d/rules=%v", bytes, ruled), func(b *testing.B) {
				var rules []sluice.Rule
				if ruled {
					rules = []sluice.Rule{slots("slots", 1000, sluice.Free), window("calls", 1<<40, limit.Hour, sluice.Subject), window("rate", 1<<40, limit.Second)}
				}
				store := memory.New(memory.Options{})
				defer store.Close()
				ctl, err := sluice.Open(&sluice.Policy{Rules: rules}, store, sluice.Options{})
				if err != nil {
					b.Fatal(err)
				}
				broker, err := mcp.New(ctl, mcp.Options{Slots: []mcp.Slot{{Name: "p", Dialer: &loopback.Dialer{Serve: instant}, Protocol: "legacy", RequestTimeout: 1e11}}})
				if err != nil {
					b.Fatal(err)
				}
				defer broker.Close(context.Background())
				s, err := broker.Connect("p", nil, mcp.ConnectOptions{})
				if err != nil {
					b.Fatal(err)
				}
				x := make(done, 1)
				send := func(frame []byte) int {
					m, bad := jsonrpc.Parse(frame, jsonrpc.Bounds{})
					if bad != nil {
						b.Fatal(bad)
					}
					s.Receive(m, x)
					return <-x
				}
				send([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`))
				frame := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":%q}}}`, strings.Repeat("x", bytes))
				b.ReportAllocs()
				for b.Loop() {
					send(frame)
				}
			})
		}
	}
}
