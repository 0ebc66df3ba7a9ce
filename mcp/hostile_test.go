package mcp_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/link/loopback"
	"github.com/sluicegate/sluice/mcp/mcptest"
)

// TestListsWithoutEnd has providers whose lists of tools have a next page for ever.
func TestListsWithoutEnd(t *testing.T) {
	for _, c := range []struct{ name, tools, says string }{
		{"of one tool", `{"name":"a"}`, "has no end"},
		{"of the same tools again and again", strings.Repeat(`{"name":"a"},`, 199) + `{"name":"a"}`, "more than 10000 tools"},
		{"of what is no tool", strings.Repeat(`0,`, 199) + `0`, "more than 10000 tools"},
		{"of long descriptions", `{"name":"a","description":"` + strings.Repeat("x", 4_000_000) + `"}`, "more than 16 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, nil, func(o *mcp.Options) { o.ListTimeout = time.Minute }) // the bounds are what ends it
			p := mcptest.New(mcptest.Options{})
			t.Cleanup(p.Close)
			r.addSlot(mcp.Slot{Name: "l", Protocol: "legacy", ConnectTimeout: 2 * time.Minute, Dialer: answering(p, "tools/list", `{"tools":[`+c.tools+`],"nextCursor":"next"}`)})
			r.client("l", "2025-11-25", nil) // waits until the provider is connected
			for _, s := range r.Diagnose(t.Context(), mcp.Query{Slot: "l"}).Slots {
				if s.Slot == "l" && (!s.Connected || !strings.Contains(s.ToolsError, c.says)) {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// TestProviderThatOnlyAsks has a provider that asks and asks and reads no answer. What waits
// for it is bounded, it is heard all the same, and others are served.
func TestProviderThatOnlyAsks(t *testing.T) {
	for _, method := range []string{"ping", "broker/authorize", "sampling/createMessage", "nosuch"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const requests = 10_000
				p := mcptest.New(mcptest.Options{})
				defer p.Close()
				var asked atomic.Int64
				stop := make(chan struct{})
				defer close(stop)
				r := newRig(t, nil, nil)
				r.addSlot(mcp.Slot{Name: "asks", Protocol: "legacy", RequestTimeout: time.Minute, Dialer: &loopback.Dialer{MaxFrame: 4096, Serve: func(c *loopback.Conn) error {
					return p.Serve(listening{c, func(frame []byte) {
						if !strings.Contains(string(frame), `"tools/call"`) {
							return
						}
						go func() {
							for n := range requests {
								if c.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"%d%s","method":%q,"params":{}}`, n, strings.Repeat("x", 1000), method)) != nil {
									return
								}
								asked.Add(1)
							}
						}()
						<-stop // it reads no more
					}})
				}}})
				before := runtime.NumGoroutine()
				r.client("asks", "2025-11-25", nil).call("silent", `{}`)
				synctest.Wait()
				heard := asked.Load()
				if grown := runtime.NumGoroutine() - before; heard == requests || grown > 300 {
					t.Errorf("%d requests were heard at once, and there are %d goroutines more", heard, grown)
				}
				r.client("p", "2025-11-25", nil).call("echo", `{}`).passed()
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if asked.Load() == heard {
					t.Error("it is not heard any more")
				}
				r.stop()
			})
		})
	}
}

// TestFrameTooLong has an answer that is longer than a frame may be.
func TestFrameTooLong(t *testing.T) {
	r := newRig(t, []sluice.Rule{slots("one", 1, sluice.Hold)}, func(o *mcp.Options) {
		o.Slots[0].Dialer.(*loopback.Dialer).MaxFrame = 4000
	})
	c := r.client("p", "2025-11-25", nil)
	f := c.call("big", `{"bytes":4000}`).answer()
	want := `Provider "p" answered with more than the 4000 bytes that maxFrameBytes allows`
	if f.Error == nil || f.Error.Code != -32000 || f.Error.Message != want || string(f.Error.Data) != `{"reason":"result-too-large"}` {
		t.Errorf("M-096 %s", f.Raw)
	}
	c.call("echo", `{}`).passed() // M-074 the provider lives, and the slot is free
}
