package socket_test

import (
	"strconv"
	"testing"

	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/link/linktest"
	"github.com/sluicegate/sluice/mcp/link/socket"
)

// BenchmarkCall is a call to a provider that answers at once, and 64 at a time.
func BenchmarkCall(b *testing.B) {
	url := provide(b, echo)
	for _, at := range []int{1, 64} {
		b.Run(strconv.Itoa(at), func(b *testing.B) {
			in := linktest.NewInbox()
			l, err := (&socket.Server{URL: url}).Dial(b.Context(), in)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			b.ReportAllocs()
			m := linktest.Ask("brk-1", map[string]any{"name": "x", "arguments": map[string]any{}})
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
