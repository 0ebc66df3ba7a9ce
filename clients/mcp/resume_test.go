package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A leaving server closes the stream of a call before the answer, and keeps that for a client
// that comes back with Last-Event-ID.
func leaving(t *testing.T) (url string, resumed func() int) {
	s := sdk.NewServer(&sdk.Implementation{Name: "leaving", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "leave", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if r.Extra.CloseSSEStream == nil {
			return nil, fmt.Errorf("there is no stream to close")
		}
		r.Extra.CloseSSEStream(sdk.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "found again"}}}, nil
	})
	var mu sync.Mutex
	n := 0
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)})
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-ID") != "" {
			mu.Lock()
			n++
			mu.Unlock()
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	return h.URL, func() int { mu.Lock(); defer mu.Unlock(); return n }
}

// TestResumption calls a tool whose stream ends before its answer.
func TestResumption(t *testing.T) {
	url, resumed := leaving(t)
	b := startBroker(t, "", fmt.Sprintf("{slot: leaving, url: %q}", url))
	c := goSDK("http", "2025-11-25")(t, b.slot("leaving"))
	if r := call(t, c, "leave", `{}`); !strings.Contains(r.Text, "found again") {
		t.Errorf("%+v", r.Error)
	}
	if resumed() == 0 {
		t.Error("the answer came without the stream being taken up again")
	}
}
