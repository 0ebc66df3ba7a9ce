package admin

import (
	"context"
	"flag"
	"net/http/httptest"
	"testing"
	"time"
)

var show = flag.Duration("show", 0, "serve the page over made-up traffic for so long, and print its address")

// TestShow serves the page for somebody to look at: go test ./admin -run TestShow -show 10m -v.
func TestShow(t *testing.T) {
	if *show == 0 {
		return
	}
	tr := newTraffic()
	a, err := New(tr.options())
	if err != nil {
		t.Fatal(err)
	}
	a.Loaded("5be1c0ffee", nil)
	tr.run(a, 300)
	ctx, cancel := context.WithTimeout(t.Context(), *show)
	defer cancel()
	go a.Run(ctx)
	go func() {
		time.Sleep(time.Second / 2) // between two samples
		for s := 300; ctx.Err() == nil; s++ {
			tr.second(a, s)
			time.Sleep(time.Second)
		}
	}()
	server := httptest.NewServer(a.Handler())
	defer server.Close()
	t.Log(server.URL)
	println(server.URL)
	<-ctx.Done()
}
