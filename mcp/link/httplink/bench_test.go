package httplink_test

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/link/httplink"
	"github.com/sluicegate/sluice/mcp/link/linktest"
)

// BenchmarkCall is a call to a provider that answers at once, as JSON and as a stream,
// beside the same request over net/http alone, and 64 at a time.
func BenchmarkCall(b *testing.B) {
	srv := serve(b, func(w http.ResponseWriter, r *http.Request) {
		m := received(r)
		if r.URL.Path == "/stream" {
			events(w)(data(jsonrpc.NewResult(m.ID, nil)))
			return
		}
		answer(w, jsonrpc.NewResult(m.ID, nil))
	})
	m := call("brk-1", "x")
	b.Run("net/http", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			resp, err := http.Post(srv.URL, "application/json", bytes.NewReader(m.Raw))
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
	})
	for _, path := range []string{"json", "stream"} {
		in := linktest.NewInbox()
		l, err := (&httplink.Server{URL: srv.URL + "/" + path}).Dial(b.Context(), in)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = l.Close() })
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = l.Send(b.Context(), link.Outgoing{Message: m, Version: modern})
				<-in.Messages
			}
		})
	}
	b.Run("64 at a time", func(b *testing.B) {
		in := linktest.NewInbox()
		l, err := (&httplink.Server{URL: srv.URL}).Dial(b.Context(), in)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		b.ReportAllocs()
		var senders sync.WaitGroup
		room := make(chan struct{}, 64)
		senders.Go(func() {
			for range b.N {
				<-in.Messages
				<-room
			}
		})
		for range b.N {
			room <- struct{}{}
			_ = l.Send(b.Context(), link.Outgoing{Message: m, Version: modern})
		}
		senders.Wait()
	})
}
