package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluicegate/sluice/mcp/mcptest"
)

// many is how many calls are under way at once over each transport.
const many = 200

// TestManyAtOnce has calls under way that are all answered only once the provider works on every one
// of them, over each transport. Each answer goes to the call that it belongs to.
func TestManyAtOnce(t *testing.T) {
	p := mcptest.New(mcptest.Options{})
	s := httptest.NewServer(p.Handler(mcptest.HTTP{}))
	t.Cleanup(func() { p.Close(); s.CloseClientConnections(); s.Close() })
	to := startBroker(t, generous, fmt.Sprintf("{slot: plant, url: %q}", s.URL)).slot("plant")
	for _, name := range []string{"go-sdk over HTTP", "go-sdk over HTTP 2026-07-28", "go-sdk over SSE", "go-sdk over stdio", "WebSocket"} {
		t.Run(name, func(t *testing.T) {
			keys := make([]string, many)
			for i := range keys {
				keys[i] = fmt.Sprintf("%s %d", name, i)
			}
			call := overSocket
			if name != "WebSocket" {
				call = overSDK(t, to, name)
			}
			answered := make(chan error, 1)
			go func() { answered <- call(bounded(t), to, keys) }()
			var held []*mcptest.Call
			for _, key := range keys {
				c, err := p.Held(bounded(t), key)
				if err != nil {
					t.Fatalf("%d calls have reached the provider: %v", len(held), err)
				}
				held = append(held, c)
			}
			slices.Reverse(held)
			for i, c := range held {
				if err := c.Text("answer to " + keys[many-1-i]); err != nil {
					t.Error(err)
				}
			}
			if err := <-answered; err != nil {
				t.Error(err)
			}
		})
	}
}

// overSDK calls by one session of go-sdk's.
func overSDK(t *testing.T, to target, name string) func(context.Context, target, []string) error {
	k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })]
	session := k.connect(t, to).(*goClient).session
	return func(ctx context.Context, _ target, keys []string) error {
		wrong := make(chan error, len(keys))
		for _, key := range keys {
			go func() {
				answer, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "hold", Arguments: map[string]any{"key": key}})
				if err == nil && answer.Content[0].(*sdk.TextContent).Text != "answer to "+key {
					err = fmt.Errorf("the call %q was answered with another's answer", key)
				}
				wrong <- err
			}()
		}
		var all []error
		for range keys {
			all = append(all, <-wrong)
		}
		return errors.Join(all...)
	}
}

// overSocket calls by one WebSocket.
func overSocket(ctx context.Context, to target, keys []string) error {
	w, err := mcptest.Dial(ctx, to.websocket, nil)
	if err != nil {
		return err
	}
	defer w.Close()
	frames := [][]byte{
		mcptest.Request(`"hello"`, "initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "many", "version": "1"}}),
		[]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)}
	for i, key := range keys {
		arguments, _ := json.Marshal(map[string]string{"key": key})
		frames = append(frames, mcptest.CallTool(fmt.Sprint(i), "hold", string(arguments)))
	}
	if err := w.Send(frames[0]); err != nil {
		return err
	}
	if _, err := w.Next(); err != nil {
		return err
	}
	if err := w.Send(frames[1:]...); err != nil {
		return err
	}
	for range keys {
		raw, err := w.Next()
		if err != nil {
			return err
		}
		var i int
		f, err := mcptest.ReadFrame(raw)
		if err == nil {
			err = json.Unmarshal(f.ID, &i)
		}
		if err != nil {
			return err
		}
		if !strings.Contains(string(f.Result), `"answer to `+keys[i]+`"`) {
			return fmt.Errorf("the call %q was answered with another's answer: %s", keys[i], raw)
		}
	}
	return nil
}
