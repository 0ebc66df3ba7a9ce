package mcp_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/link/loopback"
	"github.com/sluicegate/sluice/mcp/mcptest"
)

// A library is a provider with resources that clients may subscribe to. It keeps every frame
// that it gets.
type library struct {
	*mcptest.Provider
	r      *rig
	slot   string
	frames chan *mcptest.Frame
	refuse string // a URI that it does not let anybody subscribe to
	line   *loopback.Conn
}

func (r *rig) library(slot, protocol string) *library {
	r.t.Helper()
	l := &library{Provider: mcptest.New(mcptest.Options{}), r: r, slot: slot, frames: make(chan *mcptest.Frame, 1000), refuse: "no://thing"}
	r.t.Cleanup(l.Close)
	r.addSlot(mcp.Slot{Name: slot, Protocol: protocol, RequestTimeout: time.Minute, Dialer: &loopback.Dialer{Name: slot, Serve: func(c *loopback.Conn) error {
		l.line = c
		return l.Serve(shelf{c, l})
	}}})
	r.status(slot)
	return l
}

type shelf struct {
	*loopback.Conn
	l *library
}

const canSubscribe = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{}}`

// Next answers what a provider of mcptest does not know.
func (s shelf) Next() ([]byte, error) {
	for {
		frame, err := s.Conn.Next()
		if err != nil {
			return nil, err
		}
		f, err := mcptest.ReadFrame(slices.Clone(frame))
		if err != nil {
			return nil, err
		}
		s.l.frames <- f
		var answer string
		switch {
		case f.Method == "initialize":
			answer = `"result":{"protocolVersion":"2025-06-18","capabilities":` + canSubscribe + `,"serverInfo":{"name":"l","version":"1"}}`
		case f.Method == "server/discover":
			answer = `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + canSubscribe + `}`
		case f.Method == "subscriptions/listen":
			continue // goes on
		case strings.HasPrefix(f.Method, "resources/") && strings.Contains(string(f.Params), s.l.refuse):
			answer = `"error":{"code":-32002,"message":"no such resource"}`
		case f.Method == "resources/subscribe", f.Method == "resources/unsubscribe":
			answer = `"result":{}`
		default:
			return frame, nil
		}
		if err := s.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%s}`, f.ID, answer)); err != nil {
			return nil, err
		}
	}
}

// got are the parameters of what the provider was sent since, of some methods.
func (l *library) got(methods ...string) (list []string) {
	synctest.Wait()
	for {
		select {
		case f := <-l.frames:
			if slices.Contains(methods, f.Method) {
				var p struct {
					URI, Level    string
					Notifications struct{ ResourceSubscriptions []string }
				}
				_ = json.Unmarshal(f.Params, &p)
				list = append(list, strings.TrimPrefix(f.Method, "resources/")+" "+p.URI+p.Level+strings.Join(p.Notifications.ResourceSubscriptions, ","))
			}
		default:
			return list
		}
	}
}

// updates says that a resource has changed.
func (l *library) updates(uri string) {
	l.Notify("notifications/resources/updated", map[string]any{"uri": uri, "_meta": map[string]string{"io.modelcontextprotocol/subscriptionId": "upstream"}})
	synctest.Wait()
}

var aboutResources = []string{"resources/subscribe", "resources/unsubscribe", "subscriptions/listen"}

func uri(u string) map[string]any { return map[string]any{"uri": u} }

// wants fails the test if a provider was sent other things than these.
func (l *library) wants(list ...string) {
	l.r.t.Helper()
	if got := l.got(aboutResources...); !slices.Equal(got, list) {
		l.r.t.Errorf("the provider was sent %q, want %q", got, list)
	}
}

// TestSubscriptions is one resource with several clients.
func TestSubscriptions(t *testing.T) {
	const updated = "notifications/resources/updated"
	begin := func(t *testing.T, r *rig, protocol string) (l *library, a, b *client) {
		l = r.library("l", protocol)
		l.got()
		return l, r.client("l", "2025-06-18", nil), r.client("l", "2025-06-18", nil)
	}
	bubble(t, "an older provider: who has subscribed hears, the last to leave ends it", nil, nil, func(t *testing.T, r *rig, _ *client) {
		l, a, b := begin(t, r, "legacy")
		a.ask("resources/subscribe", uri("a://1")).passed()
		b.ask("resources/subscribe", uri("a://1")).passed()
		b.ask("resources/subscribe", uri("a://2/")).passed()
		l.wants("subscribe a://1", "subscribe a://1", "subscribe a://2/")
		for _, u := range []string{"a://1", "a://1/part", "a://1#part", "a://10", "a://2/part", "a://3"} {
			l.updates(u)
		}
		if x, y := a.heard(updated), b.heard(updated); x != 3 || y != 4 {
			t.Errorf("they heard %d and %d times, want 3 and 4", x, y)
		}
		a.ask("resources/unsubscribe", uri("a://1")).passed()
		l.wants()
		l.updates("a://1")
		if x, y := a.heard(updated), b.heard(updated); x != 0 || y != 1 {
			t.Errorf("they heard %d and %d times, want 0 and 1", x, y)
		}
		b.Close()
		synctest.Wait()
		got := l.got(aboutResources...)
		if slices.Sort(got); !slices.Equal(got, []string{"unsubscribe a://1", "unsubscribe a://2/"}) {
			t.Errorf("the provider was sent %q", got)
		}
	})
	bubble(t, "what the provider refuses, each client hears, and nobody is subscribed", nil, nil, func(t *testing.T, r *rig, _ *client) {
		l, a, b := begin(t, r, "legacy")
		for _, c := range []*client{a, b} {
			if f := c.ask("resources/subscribe", uri(l.refuse)).answer(); f.Error == nil || f.Error.Code != -32002 {
				t.Errorf("got %s", f.Raw)
			}
		}
		l.updates(l.refuse)
		if n := a.heard(updated) + b.heard(updated); n != 0 {
			t.Errorf("they heard %d times", n)
		}
	})
	bubble(t, "a provider that has come back is asked again for what is still wanted", nil, nil, func(t *testing.T, r *rig, _ *client) {
		l, a, b := begin(t, r, "legacy")
		a.ask("resources/subscribe", uri("a://1")).passed()
		b.ask("resources/subscribe", uri("a://2")).passed()
		b.ask("logging/setLevel", map[string]any{"level": "warning"}).passed()
		b.ask("resources/unsubscribe", uri("a://2")).passed()
		l.got()
		r.reload(remarked(r.options, "l"))
		r.status("l")
		if got := l.got(append(aboutResources, "logging/setLevel")...); !slices.Contains(got, "subscribe a://1") || !slices.Contains(got, "logging/setLevel warning") || len(got) != 2 {
			t.Errorf("the provider was sent %q", got)
		}
		l.updates("a://1")
		if n := a.heard(updated); n != 1 {
			t.Errorf("heard %d times", n)
		}
	})
	bubble(t, "2.3 a provider of the newest revision is asked to tell of all that is wanted", nil, nil, func(t *testing.T, r *rig, _ *client) {
		l, a, b := begin(t, r, "modern")
		a.ask("resources/subscribe", uri("a://1")).passed()
		b.ask("resources/subscribe", uri("a://1")).passed()
		l.wants("subscriptions/listen a://1")
		l.updates("a://1")
		for _, c := range []*client{a, b} {
			f := <-c.pushed
			has(t, f.Raw, updated, "-upstream", `"uri":"a://1"`)
		}
		a.ask("resources/unsubscribe", uri("a://1")).passed()
		l.wants()
		b.Close()
		l.wants("subscriptions/listen ")
	})
	bubble(t, "2.3 it is asked again when the request for changes ends", nil, nil, func(t *testing.T, r *rig, _ *client) {
		l, a, _ := begin(t, r, "modern")
		a.ask("resources/subscribe", uri("a://1")).passed()
		var id string
		for f := range l.frames {
			if f.Method == "subscriptions/listen" && strings.Contains(string(f.Params), "a://1") {
				id = string(f.ID)
				break
			}
		}
		time.Sleep(time.Minute)
		if err := l.line.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete"}}`, id)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		l.wants("subscriptions/listen a://1")
	})
	bubble(t, "2.3 a client of the newest revision, with a provider of each era", nil, nil, func(t *testing.T, r *rig, _ *client) {
		for _, protocol := range []string{"legacy", "modern"} {
			l := r.library(protocol, protocol)
			c := r.client(protocol, "2026-07-28", nil)
			x := c.send(`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"_meta":` + mcptest.Meta + `,"notifications":{"resourceSubscriptions":["a://1"],"toolsListChanged":true}}}`)
			has(t, (<-x.frames).Raw, "acknowledged", `"resourceSubscriptions":["a://1"]`)
			l.updates("a://1")
			l.updates("a://2")
			has(t, (<-x.frames).Raw, updated, `subscriptionId":7`, "-upstream")
			l.got()
			x.cancel()
			l.wants(map[string]string{"legacy": "unsubscribe a://1", "modern": "subscriptions/listen "}[protocol])
			if len(x.frames)+x.after != 0 {
				t.Error("it heard more")
			}
		}
	})
}

// TestListening is a client that listens more than once over one connection.
func TestListening(t *testing.T) {
	with := func(name string, f func(t *testing.T, r *rig, p *mcptest.Provider, c *client)) {
		bubble(t, name, nil, nil, func(t *testing.T, r *rig, _ *client) {
			p := r.serves(mcp.Slot{Name: "m", Protocol: "modern"}, mcptest.Options{Tools: named("one")})
			f(t, r, p, r.client("m", "2026-07-28", nil))
		})
	}
	listens := func(c *client) *exchange {
		c.r.t.Helper()
		x := c.ask("subscriptions/listen", map[string]any{"_meta": json.RawMessage(mcptest.Meta), "notifications": map[string]bool{"toolsListChanged": true}})
		has(c.r.t, (<-x.frames).Raw, "acknowledged")
		return x
	}
	const changed = "notifications/tools/list_changed"
	with("M-082 it hears on each of its streams", func(t *testing.T, r *rig, p *mcptest.Provider, c *client) {
		first, second := listens(c), listens(c)
		p.SetTools(named("one", "two")...)
		has(t, (<-first.frames).Raw, changed)
		has(t, (<-second.frames).Raw, changed)
	})
	with("M-082 it hears when it has ended one, and listens again", func(t *testing.T, r *rig, p *mcptest.Provider, c *client) {
		listens(c).cancel()
		synctest.Wait()
		x := listens(c)
		p.SetTools(named("one", "two")...)
		has(t, (<-x.frames).Raw, changed)
	})
	bubble(t, "M-077 what it subscribes to is bounded in number and size", nil, nil, func(t *testing.T, r *rig, _ *client) {
		l := r.library("legacy", "legacy")
		c := r.client("legacy", "2025-06-18", nil)
		c.ask("resources/subscribe", map[string]string{"uri": "a://" + strings.Repeat("x", 8<<10)}).refused(-32602)
		for i := range 1000 {
			c.ask("resources/subscribe", map[string]string{"uri": fmt.Sprint("a://", i)}).passed()
			l.got()
		}
		c.ask("resources/subscribe", map[string]string{"uri": "a://one more"}).refused(-32602)
	})
	with("M-077 what it listens on ends with its connection", func(t *testing.T, r *rig, p *mcptest.Provider, c *client) {
		x := listens(c)
		c.Close()
		<-x.done
	})
}

// TestLogs is who hears a provider's log messages.
func TestLogs(t *testing.T) {
	const message = "notifications/message"
	say := func(l *library, level string) {
		l.Notify(message, map[string]any{"level": level, "data": level})
		synctest.Wait()
	}
	bubble(t, "the provider is asked for the most talkative level, and each hears its own", nil, nil, func(t *testing.T, r *rig, _ *client) {
		l := r.library("l", "legacy")
		quiet, loud, silent := r.client("l", "2025-06-18", nil), r.client("l", "2025-06-18", nil), r.client("l", "2025-06-18", nil)
		l.got()
		loud.ask("logging/setLevel", map[string]any{"level": "info"}).passed()
		quiet.ask("logging/setLevel", map[string]any{"level": "error"}).passed()
		if got := l.got("logging/setLevel"); !slices.Equal(got, []string{"logging/setLevel info", "logging/setLevel info"}) {
			t.Errorf("the provider was sent %q", got)
		}
		say(l, "debug")
		say(l, "warning")
		say(l, "alert")
		if a, b, c := loud.heard(message), quiet.heard(message), silent.heard(message); a != 2 || b != 1 || c != 0 {
			t.Errorf("they heard %d, %d and %d", a, b, c)
		}
		for _, level := range []string{`"loud"`, `1`, `null`} {
			loud.ask("logging/setLevel", map[string]any{"level": json.RawMessage(level)}).refused(-32602)
		}
	})
	const logs = `{"frames":["{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"debug\",\"data\":1}}","{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"error\",\"data\":2}}","{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"content\":[]}}"]}`
	bubble(t, "2.3 what a call says goes to its client, who in the newest revision has to ask for it", nil, nil, func(t *testing.T, r *rig, _ *client) {
		for meta, want := range map[string]int{
			`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`:                                              0,
			`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"warning"}`: 1,
			`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"debug"}`:   2,
		} {
			x := r.client("p", "2026-07-28", nil).call("raw", logs, "_meta", meta)
			x.passed()
			if len(x.frames) != want {
				t.Errorf("%s: %d messages, want %d", meta, len(x.frames), want)
			}
		}
		c := r.client("p", "2025-06-18", nil)
		x := c.call("raw", logs)
		x.passed()
		if len(x.frames) != 2 {
			t.Errorf("an older client heard %d", len(x.frames))
		}
	})
	bubble(t, "2.3 an older client's level goes to a modern provider with each call", nil, nil, func(t *testing.T, r *rig, _ *client) {
		l := r.library("l", "modern")
		c := r.client("l", "2025-06-18", nil)
		c.call("echo", `{}`).passed()
		has(t, sentTo(t, l.Provider), "-logLevel")
		c.ask("logging/setLevel", map[string]any{"level": "error"}).passed()
		c.call("echo", `{}`).passed()
		has(t, sentTo(t, l.Provider), `/logLevel":"error"`)
		if got := l.got("logging/setLevel"); len(got) != 0 {
			t.Errorf("the provider was sent %q", got)
		}
	})
}
