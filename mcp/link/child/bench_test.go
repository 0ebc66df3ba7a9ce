//go:build unix

package child_test

import (
	"strconv"
	"testing"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/link/linktest"
)

// BenchmarkCall is a call to a program that answers at once, and 64 at a time.
func BenchmarkCall(b *testing.B) {
	for _, at := range []int{1, 64} {
		b.Run(strconv.Itoa(at), func(b *testing.B) {
			in := linktest.NewInbox()
			l, err := command("echo").Dial(b.Context(), in)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			b.ReportAllocs()
			m := jsonrpc.NewRequest(jsonrpc.StringID("brk-1"), "tools/call", map[string]any{"name": "x", "arguments": map[string]any{}})
			for i := 0; i < b.N; i++ {
				if err := l.Send(b.Context(), link.Outgoing{Message: m}); err != nil {
					b.Fatal(err)
				}
				if i >= at-1 {
					<-in.Messages
				}
			}
		})
	}
}
