package mcp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/mcp/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	if sluice := os.Getenv(between); sluice != "" {
		if err := standBetween(sluice); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// direct is a provider with nobody in front of it, over all transports.
func direct(t *testing.T) (*mcptest.Provider, target) {
	p := mcptest.New(mcptest.Options{})
	mux := http.NewServeMux()
	mux.Handle("/mcp", p.Handler(mcptest.HTTP{}))
	mux.Handle("/sse", p.SSE())
	mux.Handle("/socket", p.Socket())
	s := httptest.NewServer(mux)
	t.Cleanup(func() { p.Close(); s.CloseClientConnections(); s.Close() })
	path, env, err := mcptest.Child(mcptest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p, target{http: s.URL + "/mcp", sse: s.URL + "/sse", websocket: strings.Replace(s.URL, "http", "ws", 1) + "/socket", stdio: []string{"env", env, path}}
}

// TestDirect does without a broker what TestThroughTheBroker does with one.
func TestDirect(t *testing.T) {
	p, to := direct(t)
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			c := k.connect(t, to)
			exercise(t, k, c)
			if k.listOnly {
				return
			}
			if strings.Contains(k.name, "stdio") {
				cancels(t, k.name, c, nil)
			} else {
				cancels(t, k.name, c, p)
			}
		})
	}
}

// exercise has a client do everything that a provider is used for, but cancel.
func exercise(t *testing.T, k kind, c client) {
	list := c.do(t, command{List: true}).Tools
	for _, name := range []string{"big", "echo", "error", "fail", "hold", "progress"} {
		if !slices.Contains(list, name) {
			t.Errorf("%s is not among the tools %v", name, list)
		}
	}
	const arguments = `{"city":"Zürich"}`
	if r := call(t, c, "echo", arguments); r.Text != arguments || r.IsError || r.Error != nil {
		t.Errorf("echo: %+v", r)
	}
	if k.listOnly {
		return
	}
	if r := call(t, c, "fail", `{}`); !r.IsError {
		t.Errorf("fail: %+v", r)
	}
	if r := call(t, c, "error", `{"code":-5,"message":"no","data":{"why":"because"}}`); r.Error == nil || r.Error.Code != -5 || !strings.Contains(r.Error.Message, "no") || flat(r.Error.Data) != `{"why":"because"}` {
		t.Errorf("error: %+v", r.Error)
	}
	if r := call(t, c, "unheard", `{}`); r.Error == nil || r.Error.Code != -32602 {
		t.Errorf("M-086 unknown: %+v", r)
	}
	const size = 1 << 20
	if r := call(t, c, "big", `{"bytes":1048576}`); len(r.Text) != size {
		t.Errorf("M-096 big: %d bytes, %+v", len(r.Text), r.Error)
	}
	// TypeScript v2 and go-sdk lose progress that comes in one piece with the answer.
	r := call(t, c, "progress", `{"n":3}`)
	if r.Text != "done" || !rising(r.Progress) || len(r.Progress) > 3 {
		t.Errorf("progress: %+v", r)
	}
}

func call(t *testing.T, c client, tool, arguments string) reply {
	t.Helper()
	return c.do(t, command{Call: tool, Arguments: json.RawMessage(arguments)})
}

// flat is JSON without the spaces that a client has put there.
func flat(raw json.RawMessage) string {
	text, _ := json.Marshal(raw) // what is no JSON is no text
	return string(text)
}

// rising says whether progress is 1, 2, 3 and so on.
func rising(list []float64) bool {
	for i, n := range list {
		if n != float64(i+1) {
			return false
		}
	}
	return true
}

// cancels has a client cancel a call once progress has come. The provider has to be told, which is
// asked if it is in this process, and nil otherwise.
func cancels(t *testing.T, key string, c client, p *mcptest.Provider) {
	arguments, _ := json.Marshal(map[string]any{"n": 2, "key": key})
	r := c.do(t, command{Call: "hold", Arguments: arguments, CancelAfter: 2})
	if !r.Cancelled || r.Error == nil || !slices.Equal(r.Progress, []float64{1, 2}) {
		t.Errorf("cancelled: %+v", r)
	}
	if r := call(t, c, "echo", `{}`); r.Text != "{}" {
		t.Errorf("after a cancel: %+v", r)
	}
	if p != nil {
		if err := p.Cancelled(bounded(t), key); err != nil {
			t.Errorf("M-010 the provider was not told of the cancel: %v", err)
		}
	}
}
