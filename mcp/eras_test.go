package mcp_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/link/httplink"
	"github.com/sluicegate/sluice/mcp/mcptest"
)

// has fails the test unless a frame has all of some texts and none of others, which have a "-"
// before them.
func has(t *testing.T, frame []byte, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if none, is := strings.CutPrefix(text, "-"); is == strings.Contains(string(frame), strings.TrimPrefix(text, "-")) && (is || none != "") {
			t.Errorf("got %s, want %q", frame, text)
		}
	}
}

// sentTo is the latest call that a provider saw.
func sentTo(t *testing.T, p *mcptest.Provider) []byte {
	t.Helper()
	seen := p.Seen()
	if len(seen) == 0 {
		t.Fatal("the provider saw no call")
	}
	return seen[len(seen)-1].Frame
}

// TestErasMeet is a client of one era with a provider of the other.
func TestErasMeet(t *testing.T) {
	meta := `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"sampling":{}},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"mine","version":"1"},"io.cyanmycelium/caller":{"ref":"forged"},"traceparent":"00-1","progressToken":"t","own/key":1}`
	bubble(t, "M-120 a modern client's words to the broker do not reach a legacy provider", nil, nil, func(t *testing.T, r *rig, _ *client) {
		c := r.client("p", "2026-07-28", nil)
		has(t, c.call("echo", `{"n":1.0}`, "_meta", meta).passed().Raw, `"resultType":"complete"`, `1.0`)
		has(t, sentTo(t, r.provider), "-modelcontextprotocol/", "-forged", `"traceparent":"00-1"`, `"own/key":1`, `"progressToken":"brk-`)
	})
	bubble(t, "2.3 a legacy provider's results say what a modern client expects", nil, nil, func(t *testing.T, r *rig, _ *client) {
		c := r.client("p", "2026-07-28", nil)
		params := map[string]any{"_meta": json.RawMessage(mcptest.Meta), "uri": "test://one", "name": "one"}
		for method, cacheable := range map[string]bool{"tools/list": true, "resources/list": true, "resources/read": true, "prompts/list": true, "prompts/get": false} {
			f := c.ask(method, params).passed()
			has(t, f.Raw, `"resultType":"complete"`)
			if cacheable {
				has(t, f.Raw, `"ttlMs":0`, `"cacheScope":"private"`)
			} else {
				has(t, f.Raw, "-ttlMs")
			}
		}
		has(t, c.ask("server/discover", params).passed().Raw, `"resultType":"complete"`, `"supportedVersions":["2026-07-28"`, `"cacheScope":"private"`, `serverInfo":{"name":"mcptest"`)
	})
	bubble(t, "2.10 a modern provider hears who asks, and a legacy client hears nothing modern", nil, nil, func(t *testing.T, r *rig, _ *client) {
		p := r.serves(mcp.Slot{Name: "m", Protocol: "modern"}, mcptest.Options{})
		c := r.client("m", "2025-06-18", nil)
		has(t, c.call("echo", `{}`, "_meta", `{"progressToken":5}`).passed().Raw, "-resultType")
		has(t, sentTo(t, p), `/protocolVersion":"2026-07-28"`, `/clientCapabilities":{"sampling":{}}`, `/clientInfo":{"name":"sluice"`)
		for _, method := range []string{"tools/list", "resources/list", "resources/read", "prompts/list"} {
			has(t, c.ask(method, map[string]any{"uri": "test://one"}).passed().Raw, "-resultType", "-ttlMs", "-cacheScope")
		}
	})
	bubble(t, "2.10 and one of its own era what its client said", nil, nil, func(t *testing.T, r *rig, _ *client) {
		p := r.serves(mcp.Slot{Name: "m", Protocol: "modern"}, mcptest.Options{})
		r.client("m", "2026-07-28", nil).call("echo", `{}`, "_meta", meta).passed()
		has(t, sentTo(t, p), `/clientCapabilities":{"sampling":{}}`, `/clientInfo":{"name":"mine"`, "-forged")
	})
	bubble(t, "2.1 what a provider leaves out of its greeting a client still gets", nil, nil, func(t *testing.T, r *rig, _ *client) {
		p := mcptest.New(mcptest.Options{})
		t.Cleanup(p.Close)
		r.addSlot(mcp.Slot{Name: "bare", Protocol: "modern", Dialer: answering(p, "server/discover", `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"instructions":null}`)})
		f := r.client("bare", "", nil).ask("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}}).passed()
		has(t, f.Raw, `"serverInfo":{"name":"sluice"`, "-instructions", `"protocolVersion":"2025-06-18"`)
	})
	bubble(t, "M-106 a modern provider's refusal and a legacy one's reach each client in its words", nil, nil, func(t *testing.T, r *rig, _ *client) {
		r.client("p", "2026-07-28", nil).call("error", `{"code":-32029,"message":"m","data":{"a":1.0}}`, "_meta", mcptest.Meta).refused(-32603)
		has(t, r.client("p", "2025-06-18", nil).call("error", `{"code":-32029,"message":"m","data":{"a":1.0}}`).answer().Raw, `"data":{"a":1.0}`, `"code":-32029`)
	})
	bubble(t, "M-034 initialize twice", nil, nil, func(t *testing.T, r *rig, c *client) {
		c.ask("initialize", map[string]any{"protocolVersion": "2024-11-05", "capabilities": map[string]any{}}).refused(-32600)
		if v := c.Version(); v != "2025-06-18" {
			t.Errorf("the session speaks %s now", v)
		}
	})
}

// TestIDs is what becomes of ids.
func TestIDs(t *testing.T) {
	bubble(t, "M-021 M-022 M-023 M-025 ids come back byte for byte, and none reaches the provider", nil, nil, func(t *testing.T, r *rig, c *client) {
		seen := map[string]bool{}
		for _, id := range []string{`9007199254740993`, `1.0`, `1e3`, `"1"`, `1`, `-0`, `"ü\u00fc\/"`, `""`} {
			f := c.send(string(mcptest.CallTool(id, "echo", `{}`))).passed()
			if string(f.ID) != id {
				t.Errorf("%s came back as %s", id, f.ID)
			}
			up, _ := mcptest.ReadFrame(sentTo(t, r.provider))
			if !strings.HasPrefix(string(up.ID), `"brk-`) || seen[string(up.ID)] {
				t.Errorf("%s went up as %s", id, up.ID)
			}
			seen[string(up.ID)] = true
		}
	})
	bubble(t, "M-030 numbers keep their digits both ways", nil, nil, func(t *testing.T, r *rig, c *client) {
		const n = `{"a":9007199254740993,"b":1.0,"c":1e400,"d":[ 1 , 2 ]}`
		has(t, c.call("echo", n).passed().Raw, `"structuredContent":{"a":9007199254740993,"b":1.0,"c":1e400,"d":[1,2]}`)
		has(t, sentTo(t, r.provider), n)
	})
	bubble(t, "M-020 two requests with one id where each has its own stream get each its own answer", []sluice.Rule{slots("two", 2, sluice.Hold)}, nil, func(t *testing.T, r *rig, _ *client) {
		s, err := r.Connect("p", nil, mcp.ConnectOptions{Transport: "http"})
		if err != nil {
			t.Fatal(err)
		}
		c := &client{Session: s, r: r}
		x := c.send(string(mcptest.CallTool("1", "hold", `{"key":"a"}`)))
		y := c.send(string(mcptest.CallTool("1", "hold", `{"key":"b"}`)))
		a, b := r.key("a"), r.key("b")
		if got := len(r.heldNow()); got != 2 {
			t.Errorf("%d calls hold slots", got)
		}
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		_ = b.Text("second")
		_ = a.Text("first")
		has(t, x.passed().Raw, "first")
		has(t, y.passed().Raw, "second")
		if got := r.audited(audit.Cancel); len(got) != 1 || got[0].Outcome != audit.Ignored || got[0].Reason != "ambiguous-id" {
			t.Errorf("audited %+v", got)
		}
	})
	bubble(t, "M-020 on one stream the second is refused and the first goes on", nil, nil, func(t *testing.T, r *rig, c *client) {
		x := c.send(string(mcptest.CallTool("1", "hold", `{"key":"a"}`)))
		work := r.key("a")
		c.send(string(mcptest.CallTool("1", "echo", `{}`))).refused(-32600)
		_ = work.Text("x")
		x.passed()
	})
}

// TestProgress is what becomes of progress.
func TestProgress(t *testing.T) {
	bubble(t, "M-037 M-040 progress comes before the answer, in order, and nothing after it", nil, nil, func(t *testing.T, r *rig, c *client) {
		for _, tool := range []string{"progress", "late"} {
			for range 50 {
				x := c.call(tool, `{"n":3}`, "_meta", `{"progressToken":"mine"}`)
				x.passed()
				synctest.Wait()
				if want := map[string]int{"progress": 3, "late": 0}[tool]; len(x.frames) != want || x.after != 0 {
					t.Fatalf("%s: %d before the answer, %d after it", tool, len(x.frames), x.after)
				}
				for n := 1; len(x.frames) > 0; n++ {
					has(t, (<-x.frames).Raw, fmt.Sprintf(`"progress":%d,"progressToken":"mine"}`, n))
				}
			}
		}
	})
	bubble(t, "M-038 two clients with one token hear each of its own call", nil, nil, func(t *testing.T, r *rig, c *client) {
		other := r.client("p", "2025-06-18", nil)
		x := c.call("hold", `{"key":"a"}`, "_meta", `{"progressToken":1}`)
		y := other.call("hold", `{"key":"b"}`, "_meta", `{"progressToken":1}`)
		a, b := r.key("a"), r.key("b")
		_ = a.Progress(1, "of a")
		_ = b.Progress(1, "of b")
		_ = a.Text("")
		_ = b.Text("")
		x.passed()
		y.passed()
		has(t, (<-x.frames).Raw, "of a", `"progressToken":1}`)
		has(t, (<-y.frames).Raw, "of b", `"progressToken":1}`)
		if len(x.frames)+len(y.frames) > 0 {
			t.Error("somebody heard more")
		}
	})
	bubble(t, "M-039 without a token, or with one that is none, there is no progress", nil, nil, func(t *testing.T, r *rig, c *client) {
		for _, meta := range []string{`{}`, `{"progressToken":null}`, `{"progressToken":{}}`, `{"progressToken":1.5}`} {
			x := c.call("progress", `{"n":2}`, "_meta", meta)
			x.passed()
			if len(x.frames) != 0 {
				t.Errorf("%s: %s", meta, (<-x.frames).Raw)
			}
		}
	})
	bubble(t, "M-042 values go forward; a new message comes with the last of them", nil, nil, func(t *testing.T, r *rig, c *client) {
		x := c.call("hold", `{"key":"a"}`, "_meta", `{"progressToken":1}`)
		work := r.key("a")
		for _, p := range []struct {
			n    float64
			text string
		}{{1, ""}, {1, ""}, {0.5, ""}, {3, "three"}, {3, "three"}, {2, "new"}, {-1, "newer"}, {4, ""}} {
			_ = work.Progress(p.n, p.text)
		}
		_ = work.Text("")
		x.passed()
		got := ""
		for len(x.frames) > 0 {
			var p struct {
				Progress json.RawMessage
				Message  string
			}
			_ = json.Unmarshal((<-x.frames).Params, &p)
			got += fmt.Sprintf("%s %s;", p.Progress, p.Message)
		}
		if want := "1 ;3 three;3 new;3 newer;4 ;"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	bubble(t, "M-041 progress of a cancelled call goes nowhere", nil, nil, func(t *testing.T, r *rig, c *client) {
		x := c.call("hold", `{"key":"a","cancel":"ignore"}`, "_meta", `{"progressToken":1}`)
		work := r.key("a")
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, c.n))
		_ = work.Progress(1, "")
		_ = work.Text("")
		synctest.Wait()
		if len(x.frames) > 0 || x.after > 0 || x.last != nil {
			t.Error("the client heard of it")
		}
	})
}

// TestValidation is what the broker knows of tools, and says in each era.
func TestValidation(t *testing.T) {
	tool := mcptest.Tool{Name: "set", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740992}},"required":["n"]}`)}
	recursive := mcptest.Tool{Name: "odd", Schema: json.RawMessage(`{"$ref":"#"}`)}
	with := func(t *testing.T, name string, change func(*mcp.Slot), f func(t *testing.T, r *rig, p *mcptest.Provider)) {
		bubble(t, name, []sluice.Rule{window("all", 1000, 3_600_000_000)}, nil, func(t *testing.T, r *rig, _ *client) {
			slot := mcp.Slot{Name: "v", Protocol: "auto"}
			if change != nil {
				change(&slot)
			}
			f(t, r, r.serves(slot, mcptest.Options{Tools: []mcptest.Tool{tool, recursive}}))
		})
	}
	with(t, "2.7 arguments that do not fit never reach the provider", nil, func(t *testing.T, r *rig, p *mcptest.Provider) {
		for version, isError := range map[string]bool{"2024-11-05": false, "2025-03-26": false, "2025-06-18": false, "2025-11-25": true, "2026-07-28": true} {
			for _, arguments := range []string{`{}`, `{"n":"1"}`, `{"n":9007199254740993}`, `[]`} {
				f := r.client("v", version, nil).call("set", arguments, metaOf(version)...).answer()
				if isError {
					has(t, f.Raw, `"isError":true`, "Invalid arguments")
				} else if f.Error == nil || f.Error.Code != -32602 {
					t.Errorf("%s %s: %s", version, arguments, f.Raw)
				}
			}
			r.client("v", version, nil).call("set", `{"n":9007199254740992}`, metaOf(version)...).passed()
		}
		if n := p.Count("set"); n != 5 {
			t.Errorf("%d calls were executed", n)
		}
		synctest.Wait() // the audit hears of a call after its client
		outcomes := map[audit.Outcome]int{}
		for _, e := range r.audited(audit.Admit) {
			outcomes[e.Outcome]++
		}
		if outcomes[audit.Dispatched] != 5 || outcomes[audit.Invalid] != 20 || len(outcomes) != 2 {
			t.Errorf("M-121 audited %v", outcomes)
		}
	})
	with(t, "M-086 an unknown tool is the broker's to refuse, in every era", nil, func(t *testing.T, r *rig, p *mcptest.Provider) {
		for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
			r.client("v", version, nil).call("nobody", `{}`, metaOf(version)...).refused(-32602)
		}
		if n := p.Count(""); n != 0 {
			t.Errorf("the provider was asked %d times", n)
		}
	})
	with(t, "M-087 a schema that refers to itself kills nobody, and is shown", nil, func(t *testing.T, r *rig, p *mcptest.Provider) {
		r.client("v", "2025-06-18", nil).call("odd", `{"x":1}`).passed()
		f := r.client(mcp.BrokerSlot, "2025-06-18", nil).call("provider_status", `{"slot":"v"}`).passed()
		has(t, f.Raw, `"tool":"odd"`)
	})
	with(t, "an operator may switch it off", func(s *mcp.Slot) { s.NoValidation = true }, func(t *testing.T, r *rig, p *mcptest.Provider) {
		r.client("v", "2025-06-18", nil).call("set", `{"n":"x"}`).passed()
	})
	bubble(t, "M-096 a result that is too large is an error that says so, and the slot is free", []sluice.Rule{slots("one", 1, sluice.Hold)}, func(o *mcp.Options) { o.Slots[0].MaxResult = 2000 }, func(t *testing.T, r *rig, c *client) {
		f := c.call("big", `{"bytes":3000}`).answer()
		if f.Error == nil || len(f.Raw) > 500 {
			t.Fatalf("got %.600s", f.Raw)
		}
		has(t, f.Raw, "result-too-large", "2000 that maxResultBytes allows")
		c.call("big", `{"bytes":1000}`).passed()
	})
}

// metaOf is the _meta of a request of a revision.
func metaOf(version string) []string {
	if version == "2026-07-28" {
		return []string{"_meta", mcptest.Meta}
	}
	return nil
}

// TestUnfitTools is a provider over HTTP of the newest revision with a tool whose schema says
// wrongly what travels in headers.
func TestUnfitTools(t *testing.T) {
	p := mcptest.New(mcptest.Options{Tools: []mcptest.Tool{
		{Name: "good", Schema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)},
		{Name: "bad", Schema: json.RawMessage(`{"type":"object","properties":{"list":{"type":"array","x-mcp-header":"List"}}}`)},
	}})
	server := httptest.NewServer(p.Handler(mcptest.HTTP{}))
	r := newRig(t, nil, func(o *mcp.Options) {
		o.Slots = append(o.Slots, mcp.Slot{Name: "h", Protocol: "modern", RequestTimeout: time.Minute, Dialer: &httplink.Server{URL: server.URL}},
			mcp.Slot{Name: "s", Protocol: "modern", RequestTimeout: time.Minute, Dialer: inProcess(p)})
	})
	t.Cleanup(server.Close)
	t.Cleanup(p.Close)
	r.status("h")
	r.status("s")
	t.Run("SEP-2243 it is not offered, and shown to operators", func(t *testing.T) {
		c := r.client("h", "2025-06-18", nil)
		has(t, c.ask("tools/list", map[string]any{}).passed().Raw, `"good"`, `-"bad"`)
		c.call("bad", `{"list":[]}`).refused(-32602)
		c.call("good", `{"region":"größe"}`).passed()
		if got := p.Seen()[0].Header.Get("Mcp-Param-Region"); got != "=?base64?Z3LDtsOfZQ==?=" {
			t.Errorf("the header is %q", got)
		}
		has(t, r.client(mcp.BrokerSlot, "2025-06-18", nil).call("provider_status", `{"slot":"h"}`).passed().Raw, `"tool":"bad"`, "not offered")
	})
	t.Run("SEP-2243 where there are no headers it does no harm", func(t *testing.T) {
		r.client("s", "2025-06-18", nil).call("bad", `{"list":[]}`).passed()
	})
}
