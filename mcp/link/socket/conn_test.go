package socket

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
)

// TestWhoTakesNothingIsGone shows that a write has an end, also between two pings.
func TestWhoTakesNothingIsGone(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := websocket.Accept(w, r, nil); err == nil {
			<-release // and reads nothing
			_ = c.CloseNow()
		}
	}))
	defer srv.Close()
	defer close(release)
	ws, _, err := websocket.Dial(t.Context(), srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := newConn(ws, 0, Pulse{Every: time.Hour})
	c.patience = 50 * time.Millisecond
	l := newLane(c, 0)
	l.late.is(nil)
	c.port = l
	ended := make(chan error, 1)
	go func() { ended <- c.live() }()
	big := jsonrpc.NewRequest(jsonrpc.StringID("a"), "m", strings.Repeat("x", 1<<20))
	within, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for err = nil; err == nil; {
		err = l.Send(within, link.Outgoing{Message: big})
	}
	select {
	case err := <-ended:
		if !strings.Contains(err.Error(), "does not take what is sent") {
			t.Errorf("it ended with %v", err)
		}
	case <-within.Done():
		t.Error("the connection lives")
	}
}
