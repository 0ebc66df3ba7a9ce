package mcp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/mcptest"
)

// able connects a client of a legacy revision that has declared capabilities.
func (r *rig) able(slot, version, capabilities string) *client {
	r.t.Helper()
	c := r.client(slot, "", nil)
	c.ask("initialize", map[string]any{"protocolVersion": version, "capabilities": json.RawMessage(capabilities), "clientInfo": map[string]string{"name": "test", "version": "1"}}).passed()
	return c
}

// question waits for one that an exchange brings.
func (x *exchange) question(method string) *mcptest.Frame {
	x.t.Helper()
	select {
	case f := <-x.frames:
		if f.Method != method || f.ID == nil {
			x.t.Fatalf("got %s, want a question %s", f.Raw, method)
		}
		return f
	case <-x.done:
		x.t.Fatalf("answered without a question: %s", x.last.Raw)
	case <-time.After(5 * time.Minute):
		x.t.Fatalf("no question %s", method)
	}
	return nil
}

// says answers a question.
func (c *client) says(question *mcptest.Frame, result string) {
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, question.ID, result))
}

const asksForRoots = `{"method":"roots/list","params":{"_meta":{"progressToken":"theirs"}}}`

// TestRelay is a provider's question to a client.
func TestRelay(t *testing.T) {
	one := []sluice.Rule{slots("one", 1, sluice.Hold)}
	bubble(t, "M-072 a question goes to the client of the call, its answer back, and the slot is held", one, nil, func(t *testing.T, r *rig, _ *client) {
		c := r.able("p", "2025-06-18", `{"roots":{},"sampling":{}}`)
		x := c.call("ask", `{"method":"sampling/createMessage","params":{"n":9007199254740993}}`)
		q := x.question("sampling/createMessage")
		if !strings.Contains(string(q.Params), "9007199254740993") {
			t.Errorf("M-030 the question has become %s", q.Params)
		}
		c.call("echo", `{}`).refused(-32029)
		c.says(q, `{"role":"assistant","n":1.0}`)
		if f := x.passed(); !strings.Contains(string(f.Result), `"n":1.0`) {
			t.Errorf("got %s", f.Raw)
		}
		c.call("echo", `{}`).passed()
	})
	bubble(t, "M-072 what the client cannot answer is refused at once", nil, nil, func(t *testing.T, r *rig, _ *client) {
		for capabilities, ask := range map[string]string{
			`{}`: asksForRoots, `{"roots":{}}`: `{"method":"sampling/createMessage","params":{}}`,
			`{"elicitation":{}}`:         `{"method":"elicitation/create","params":{"mode":"url"}}`,
			`{"elicitation":{"url":{}}}`: `{"method":"elicitation/create","params":{"mode":"form"}}`,
		} {
			if f := r.able("p", "2025-11-25", capabilities).call("ask", ask).passed(); !strings.Contains(string(f.Raw), "-32601") {
				t.Errorf("%s: %s was answered with %s", capabilities, ask, f.Raw)
			}
		}
		for capabilities, mode := range map[string]string{`{"elicitation":{"url":{}}}`: "url", `{"elicitation":{}}`: "form", `{"elicitation":{"form":{},"url":{}}}`: "form"} {
			c := r.able("p", "2025-11-25", capabilities)
			x := c.call("ask", fmt.Sprintf(`{"method":"elicitation/create","params":{"mode":%q}}`, mode))
			c.says(x.question("elicitation/create"), `{"action":"decline"}`)
			x.passed()
		}
		if f := r.able("p", "2025-11-25", `{}`).call("ask", `{"method":"vendor/question","params":{}}`).passed(); !strings.Contains(string(f.Raw), "-32601") {
			t.Errorf("an unknown question was answered with %s", f.Raw)
		}
	})
	bubble(t, "M-021 an answer that is the second, or another client's, is nobody's", nil, nil, func(t *testing.T, r *rig, _ *client) {
		c, other := r.able("p", "2025-06-18", `{"roots":{}}`), r.able("p", "2025-06-18", `{"roots":{}}`)
		x := c.call("ask", asksForRoots)
		q := x.question("roots/list")
		other.says(q, `{"roots":["stolen"]}`)
		synctest.Wait()
		if x.answered() {
			t.Fatal("another client has answered the question")
		}
		c.says(q, `{"roots":["mine"]}`)
		c.says(q, `{"roots":["twice"]}`)
		if f := x.passed(); !strings.Contains(string(f.Raw), "mine") {
			t.Errorf("got %s", f.Raw)
		}
	})
	bubble(t, "M-021 a question that may be about either of two calls is put to nobody", nil, nil, func(t *testing.T, r *rig, _ *client) {
		c, other := r.able("p", "2025-06-18", `{"roots":{}}`), r.able("p", "2025-06-18", `{"roots":{}}`)
		other.call("hold", `{"key":"a"}`)
		r.key("a")
		if f := c.call("ask", asksForRoots).passed(); !strings.Contains(string(f.Raw), "-32601") {
			t.Errorf("got %s", f.Raw)
		}
	})
	bubble(t, "M-038 progress of an answer goes to who asked, under its token", nil, nil, func(t *testing.T, r *rig, _ *client) {
		frames := spy(r, "spied")
		c, other := r.able("spied", "2025-06-18", `{"roots":{}}`), r.able("spied", "2025-06-18", `{"roots":{}}`)
		x := c.call("ask", asksForRoots)
		q := x.question("roots/list")
		var asked struct {
			Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
		}
		if err := json.Unmarshal(q.Params, &asked); err != nil || string(asked.Meta.ProgressToken) == `"theirs"` {
			t.Fatalf("the question came with %s: %v", q.Params, err)
		}
		for _, from := range []*client{other, c} {
			from.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, asked.Meta.ProgressToken))
			from.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"theirs","progress":2}}`)
		}
		c.says(q, `{"roots":[]}`)
		x.passed()
		if got := frames("notifications/progress"); len(got) != 1 || !strings.Contains(got[0], `"progressToken":"theirs","progress":1`) {
			t.Errorf("the provider heard %v", got)
		}
	})
	bubble(t, "M-072 a provider takes its question back, in _all too", nil, nil, func(t *testing.T, r *rig, _ *client) {
		for slot, tool := range map[string]string{"p": "raw", mcp.AllSlot: "p-raw"} {
			c := r.able("p", "2025-06-18", `{"roots":{}}`)
			if slot == mcp.AllSlot {
				c = r.able(mcp.AllSlot, "2025-06-18", `{"roots":{}}`)
			}
			x := c.call(tool, `{"frames":["{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"roots/list\"}","{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":77}}"]}`)
			q := x.question("roots/list")
			f := <-x.frames
			if f.Method != "notifications/cancelled" || !strings.Contains(string(f.Params), string(q.ID)) {
				t.Errorf("got %s, want the cancellation of %s", f.Raw, q.ID)
			}
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, c.n))
		}
	})
	bubble(t, "2.1 that the user has been at a page hears the client that was sent there, once, in _all too", nil, nil, func(t *testing.T, r *rig, _ *client) {
		const complete = "notifications/elicitation/complete"
		ask, required, other := r.able("p", "2025-11-25", `{"elicitation":{"url":{}}}`), r.able(mcp.AllSlot, "2025-11-25", `{}`), r.able("p", "2025-11-25", `{"elicitation":{"url":{}}}`)
		x := ask.call("ask", `{"method":"elicitation/create","params":{"mode":"url","elicitationId":"e-1","url":"https://example.com","message":"m"}}`)
		ask.says(x.question("elicitation/create"), `{"action":"accept"}`)
		x.passed()
		required.call("p-error", `{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e-2"}]}}`).answer()
		for _, id := range []any{"e-1", "e-2", "e-1", "e-3", 4} {
			r.provider.Notify(complete, map[string]any{"elicitationId": id})
		}
		synctest.Wait()
		if a, b, c := ask.heard(complete), required.heard(complete), other.heard(complete); a != 1 || b != 1 || c != 0 {
			t.Errorf("they heard %d, %d and %d", a, b, c)
		}
	})
	bubble(t, "M-072 a client that leaves, or cancels, answers nothing more", nil, nil, func(t *testing.T, r *rig, _ *client) {
		c := r.able("p", "2025-06-18", `{"roots":{}}`)
		c.call("ask", asksForRoots).question("roots/list")
		c.Close()
		synctest.Wait()
		if got := r.provider.Count("ask"); got != 1 {
			t.Errorf("%d calls", got)
		}
		if got := len(r.heldNow()); got != 0 {
			t.Errorf("%d calls go on; the provider was not told that no answer comes", got)
		}
	})
}

// TestInput is a provider of the newest revision that needs input from a client that does
// not know such answers, but can be asked.
func TestInput(t *testing.T) {
	var modern *mcptest.Provider
	with := func(t *testing.T, name string, f func(t *testing.T, r *rig)) {
		bubble(t, name, []sluice.Rule{slots("one", 1, sluice.Hold)}, nil, func(t *testing.T, r *rig, _ *client) {
			modern = r.serves(mcp.Slot{Name: "m", Protocol: "modern"}, mcptest.Options{})
			f(t, r)
		})
	}
	with(t, "M-118 the client is asked, and the call repeated once with its answer and the state", func(t *testing.T, r *rig) {
		c := r.able("m", "2025-06-18", `{"elicitation":{}}`)
		x := c.call("input", `{"n":1}`, "_meta", `{"progressToken":5}`)
		q := x.question("elicitation/create")
		if !strings.Contains(string(q.Params), `"message":"Who?"`) {
			t.Errorf("the question is %s", q.Params)
		}
		c.call("echo", `{}`).refused(-32029)
		c.says(q, `{"action":"accept","content":{"name":"me"}}`)
		if f := x.passed(); !strings.Contains(string(f.Result), `\"name\":{\"action\":\"accept\"`) || strings.Contains(string(f.Result), "resultType") {
			t.Errorf("got %s", f.Raw)
		}
		seen := modern.Seen()
		if len(seen) != 2 || !strings.Contains(string(seen[1].Frame), `"requestState":"state of`) || !strings.Contains(string(seen[0].Frame), `/clientCapabilities":{"elicitation":{}}`) {
			t.Fatalf("the provider saw %d calls: %s", len(seen), seen)
		}
		first, _ := mcptest.ReadFrame(seen[0].Frame)
		if second, _ := mcptest.ReadFrame(seen[1].Frame); string(second.ID) == string(first.ID) {
			t.Error("both had one id")
		}
		c.call("echo", `{}`).passed()
	})
	with(t, "M-118 a client that cannot be asked gets an error, and the slot is free", func(t *testing.T, r *rig) {
		c := r.able("m", "2025-06-18", `{"sampling":{}}`)
		if f := c.call("input", `{}`).answer(); f.Error == nil || !strings.Contains(string(f.Raw), "unsupported-result") {
			t.Errorf("got %s", f.Raw)
		}
		c.call("echo", `{}`).passed()
	})
	with(t, "M-118 an answer that is an error ends the call", func(t *testing.T, r *rig) {
		c := r.able("m", "2025-06-18", `{"elicitation":{}}`)
		x := c.call("input", `{}`)
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"no"}}`, x.question("elicitation/create").ID))
		if f := x.answer(); f.Error == nil || !strings.Contains(string(f.Raw), "no-input") {
			t.Errorf("got %s", f.Raw)
		}
		c.call("echo", `{}`).passed()
	})
	with(t, "M-118 nothing runs while the client thinks: cancel, deadline and departure free the slot", func(t *testing.T, r *rig) {
		c := r.able("m", "2025-06-18", `{"elicitation":{}}`)
		x := c.call("input", `{}`)
		x.question("elicitation/create")
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, c.n))
		c.call("echo", `{}`).passed()
		late := c.call("input", `{}`)
		q := late.question("elicitation/create")
		if f := late.answer(); f.Error == nil || !strings.Contains(f.Error.Message, "did not respond") {
			t.Errorf("got %s", f.Raw)
		}
		c.says(q, `{"action":"accept"}`)
		c.call("echo", `{}`).passed()
		c.call("input", `{}`).question("elicitation/create")
		c.Close()
		synctest.Wait()
		other := r.able("m", "2025-06-18", `{}`)
		other.call("echo", `{}`).passed()
		if n := modern.Count("input"); n != 3 {
			t.Errorf("the provider saw %d calls, want 3: an answer that came too late repeats nothing", n)
		}
	})
}
