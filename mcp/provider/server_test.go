package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/provider"
)

// tools is a server with a tool for each way to end.
func tools(gone chan<- error) *provider.Server {
	return &provider.Server{Name: "plant", Version: "1", Instructions: "Mind the pumps.", Tools: []provider.Tool{
		{Name: "add", Description: "adds", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}}}`), Annotations: json.RawMessage(`{"readOnlyHint":true}`),
			Run: func(_ context.Context, q *provider.Request) (*provider.Result, error) {
				var in struct{ A, B int }
				if err := q.Bind(&in); err != nil {
					return nil, err
				}
				sum, _ := json.Marshal(in.A + in.B)
				return provider.Text(string(sum)), nil
			}},
		{Name: "steps", Run: func(_ context.Context, q *provider.Request) (*provider.Result, error) {
			for i := range 3 {
				if err := q.Progress(float64(i+1), 3, "step"); err != nil {
					return nil, err
				}
			}
			return provider.Text("done"), nil
		}},
		{Name: "wait", Run: func(ctx context.Context, _ *provider.Request) (*provider.Result, error) {
			gone <- nil
			<-ctx.Done()
			gone <- ctx.Err()
			return nil, ctx.Err()
		}},
		{Name: "fail", Run: func(context.Context, *provider.Request) (*provider.Result, error) {
			return nil, errors.New("the valve is stuck")
		}},
		{Name: "refuse", Run: func(context.Context, *provider.Request) (*provider.Result, error) {
			return nil, &jsonrpc.Error{Code: -32602, Message: "no such valve"}
		}},
		{Name: "nothing", Run: func(context.Context, *provider.Request) (*provider.Result, error) { return nil, nil }},
		{Name: "unwritable", Run: func(context.Context, *provider.Request) (*provider.Result, error) {
			return &provider.Result{Structured: func() {}}, nil
		}},
	}}
}

func TestTools(t *testing.T) {
	for _, slot := range []string{"site", "old"} {
		t.Run(map[string]string{"site": "without a handshake", "old": "with one"}[slot], func(t *testing.T) {
			r := newRig(t)
			r.open()
			gone := make(chan error, 2)
			o := r.options(tools(gone))
			o.Slot = slot
			r.dial(o)
			r.connected(1)
			list := r.ask(slot, "tools/list", `"x":0`).wait()
			if text := string(list.Result.Tools); !strings.Contains(text, `"description":"adds"`) || !strings.Contains(text, `"readOnlyHint":true`) || strings.Count(text, "inputSchema") != 7 {
				t.Errorf("got %s", text)
			}
			if got := r.call(slot, "add", `{"a":2,"b":40}`).text(); got != "42" {
				t.Errorf("got %s", got)
			}
			x := r.call(slot, "steps", `{}`)
			if x.text() != "done" || len(x.frames) != 3 || !strings.Contains(string(<-x.frames), `"progress":1,"total":3,"message":"step"`) {
				t.Error("progress is missing")
			}
			if a := r.call(slot, "fail", `{}`).wait(); !a.Result.IsError || a.Result.Content[0].Text != "the valve is stuck" || a.Result.Type != "complete" {
				t.Errorf("got %+v", a)
			}
			if a := r.call(slot, "refuse", `{}`).wait(); a.Error == nil || a.Error.Code != -32602 || a.Error.Message != "no such valve" {
				t.Errorf("got %+v", a)
			}
			if a := r.call(slot, "nothing", `{}`).wait(); a.Error != nil || a.Result.Content == nil || a.Result.IsError {
				t.Errorf("got %+v", a)
			}
			if a := r.call(slot, "unwritable", `{}`).wait(); a.Error == nil || a.Error.Code != -32603 {
				t.Errorf("got %+v", a)
			}
			x = r.call(slot, "wait", `{}`)
			<-gone
			x.cancel()
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Errorf("the context of a cancelled call ended with %v", err)
			}
		})
	}
}
