package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/mcp/mcptest"
)

// A hostile is a frame that no client should send, and what answers it.
type hostile struct {
	name, frame string
	code        int64
	id          string
	headers     string // what Mcp-Method and Mcp-Name say, with a blank between them
	status      int    // HTTP status of the modern era
}

// legacyStatus is the HTTP status of the older era: what is understood is answered with 200.
func (c *hostile) legacyStatus() int {
	if c.status == http.StatusNotFound {
		return http.StatusOK
	}
	return c.status
}

// refuses sends a frame as one of 2026-07-28.
func (s *siege) refuses(c *hostile) {
	s.t.Helper()
	method, name, _ := strings.Cut(c.headers, " ")
	answer, status, _ := s.post(mcptest.Ask{}.Modern(method, name).Header, "/plant/mcp", c.frame)
	f, err := mcptest.ReadFrame(answer)
	if err != nil || f.Error == nil || f.Error.Code != c.code || string(f.ID) != c.id || status != c.status {
		s.t.Errorf("%s in the modern era: HTTP %d, %s", c.name, status, answer)
	}
}

// modernFrame puts into a frame what 2026-07-28 wants to see in each.
func modernFrame(frame string) string {
	return strings.Replace(frame, `"params":{`, `"params":{"_meta":`+mcptest.Meta+`,`, 1)
}

// TestHostileClients sends what no client should over every transport. Each connection lives
// on, nothing reaches a provider, nothing is debited, and no text of a caller is left anywhere.
func TestHostileClients(t *testing.T) {
	s := openSiege(t)
	const planted = "planted-by-a-caller"
	call := func(id, params string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{` + params + `}}`
	}
	good := `"name":"echo","arguments":{"text":"` + planted + `"}`
	rows := []hostile{
		{"no JSON", `{"` + planted, -32700, "null", "tools/call echo", 400},
		{"a byte order mark", "\ufeff" + call("1", good), -32700, "null", "tools/call echo", 400},
		{"more than one value", call("1", good) + " 1", -32700, "null", "tools/call echo", 400},
		{"M-032 no UTF-8", call("1", `"name":"echo","arguments":{"text":"`+"\xff\xfe"+`"}`), -32700, "null", "tools/call echo", 400},
		{"a number without a value", call("01", good), -32700, "null", "tools/call echo", 400},
		{"nothing", "null", -32600, "null", "tools/call echo", 400},
		{"M-028 two names", call("1", good+`,"name":"big"`), -32600, "1", "tools/call echo", 400},
		{"M-028 two names, one escaped", call("1", good+`,"n\u0061me":"big"`), -32600, "1", "tools/call echo", 400},
		{"M-028 two ids", `{"\u0069d":2,` + call("1", good)[1:], -32600, "null", "tools/call echo", 400},
		{"M-028 an argument twice", call("1", `"name":"echo","arguments":{"a":1,"\u0061":2}`), -32600, "1", "tools/call echo", 400},
		{"M-029 NAMES", strings.Replace(call("1", good), "method", "METHOD", 1), -32600, "1", "tools/call echo", 400},
		{"deep arrays", call("1", `"name":"echo","arguments":{"a":`+strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000)+"}"), -32600, "null", "tools/call echo", 400},
		{"deep objects", call("1", `"name":"echo","arguments":`+strings.Repeat(`{"a":`, 10_000)+"1"+strings.Repeat("}", 10_000)), -32600, "null", "tools/call echo", 400},
		{"params that are a list", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["echo"]}`, -32600, "1", "tools/call echo", 400},
		{"M-033 a batch of calls", "[" + call("1", good) + "]", -32600, "null", "tools/call echo", 400},
		{"an empty batch", "[]", -32600, "null", "tools/call echo", 400},
		{"an unknown method", `{"jsonrpc":"2.0","id":1,"method":"no/such","params":{"text":"` + planted + `"}}`, -32601, "1", "no/such", 404},
		{"a provider's method", `{"jsonrpc":"2.0","id":1,"method":"broker/budget/reserve","params":{"quantity":1}}`, -32601, "1", "broker/budget/reserve", 404},
		{"M-086 an unknown tool", call("1", `"name":"__proto__"`), -32602, "1", "tools/call __proto__", 200},
		{"a tool without a name", call("1", `"name":["echo"]`), -32602, "1", "tools/call echo", 200},
	}
	for _, id := range []string{"null", "true", "{}", "[]", "1.5", `"` + strings.Repeat("x", 2000) + `"`} {
		rows = append(rows, hostile{"M-023 M-024 M-026 id " + id[:min(len(id), 9)], call(id, good), -32600, "null", "tools/call echo", 400})
	}
	before, executed := s.diagnosis(), s.provider.Count("")
	ways := map[string]way{"Streamable HTTP": s.legacy(), "WebSocket": s.socket(), "SSE": s.events(), "stdio": s.bridge()}
	for _, c := range rows {
		for name, send := range ways {
			answer, status := send(c.frame)
			f, err := mcptest.ReadFrame(answer)
			if err != nil || f.Error == nil || f.Error.Code != c.code || string(f.ID) != c.id {
				t.Errorf("%s over %s: %s", c.name, name, answer)
			}
			if name == "Streamable HTTP" && status != c.legacyStatus() {
				t.Errorf("%s over %s: HTTP %d", c.name, name, status)
			}
			if strings.Contains(string(answer), planted) {
				t.Errorf("%s over %s repeats the caller: %s", c.name, name, answer)
			}
		}
		c.frame = modernFrame(c.frame)
		s.refuses(&c)
	}
	for _, c := range []hostile{
		{"M-057 another tool in the header", modernFrame(call("1", `"name":"big","arguments":{}`)), -32020, "1", "tools/call echo", 400},
		{"the handshake of the other era", modernFrame(hello), -32601, "0", "initialize", 404},
		{"M-118 a state that the broker has not made", modernFrame(call("1", good+`,"requestState":"`+planted+`","inputResponses":{}`)), -32602, "1", "tools/call echo", 200},
		{"a call that does not say what it speaks", call("1", good), -32602, "1", "tools/call echo", 400},
	} {
		s.refuses(&c)
	}
	for name, headers := range map[string][]string{"two credentials": {"Authorization: Bearer " + planted}, "an origin": {"Origin: https://" + planted}, "a host": {"Host: " + planted}} {
		if answer, status, _ := s.post(headers, "/plant/mcp", hello); status != 401 && status != 403 {
			t.Errorf("%s: HTTP %d, %s", name, status, answer)
		}
	}
	for path, want := range map[string]int{"/..%2fplant/mcp": 404, "//plant/mcp": 404, "/plant/../web/mcp": 404, "/" + strings.Repeat("x", 10_000) + "/mcp": 404,
		"/plant/mcp?access_token=" + planted: 400, "/plant/messages?sessionId=" + planted: 404, "/provider/%2e%2e": 401} {
		if answer, status, _ := s.post(nil, path, hello); status != want {
			t.Errorf("%.40s: HTTP %d, %s", path, status, answer)
		}
	}
	if n := s.provider.Count("") - executed; n != 0 {
		t.Errorf("%d calls have reached a provider", n)
	}
	if after := s.diagnosis(); after.Authority.Limits.Records != before.Authority.Limits.Records || after.Calls.Total != 0 {
		t.Errorf("something was debited or is held: %+v, %+v", after.Authority.Limits, after.Calls)
	}
	for name, send := range ways {
		if answer, _ := send(call("9", good)); !bytes.Contains(answer, []byte(`"result"`)) {
			t.Errorf("%s does not live on: %s", name, answer)
		}
	}
	s.serves()
	s.leaksNothing(planted)
}

// TestHostileSizes sends frames of 50 MB, asks for results of 20 MB, and begins requests
// that it does not end. Memory stays bounded, others are served, and in the end nothing is left.
func TestHostileSizes(t *testing.T) {
	s := openSiege(t)
	s.serves()
	goroutines, memory := s.metric("go_goroutines"), s.memory()
	huge := strings.Repeat("x", 50<<20)
	var senders sync.WaitGroup
	for n := range 6 {
		senders.Go(func() {
			if n%3 == 0 {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				c, _, err := websocket.Dial(ctx, s.broker+"/plant", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + s.alice}}})
				if err != nil {
					t.Error(err)
					return
				}
				defer c.CloseNow()
				_ = c.Write(ctx, websocket.MessageText, []byte(huge)) // it is cut off
				return
			}
			r, err := http.NewRequest("POST", s.broker+"/plant/mcp", io.MultiReader(strings.NewReader(huge)))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header = http.Header{"Authorization": {"Bearer " + s.alice}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
			if n%3 == 1 {
				r.ContentLength = int64(len(huge))
			}
			if answer, err := http.DefaultTransport.RoundTrip(r); err == nil {
				answer.Body.Close()
				if answer.StatusCode != http.StatusRequestEntityTooLarge {
					t.Error(answer.Status)
				}
			}
		})
	}
	senders.Go(func() { // the administration has the same bounds, also for who has no token
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		r, err := mcptest.Ask{Header: []string{"Content-Length: 100"}, Body: "{"}.Send(ctx, s.admin+"/actuator/reload")
		if err != nil {
			t.Errorf("an unfinished request to the administration: %v", err)
			return
		}
		r.Close()
		if r.StatusCode != http.StatusUnauthorized {
			t.Error(r.Status)
		}
	})
	s.serves()
	senders.Wait()
	for _, slot := range []string{"child", "web", "plant"} {
		f := s.done(slot, "big", `{"bytes":20000000}`)
		if f.Error == nil || f.Error.Code != -32603 || !strings.Contains(f.Error.Message, "maxFrameBytes") {
			t.Errorf("M-096 %s: %.300s", slot, f.Raw)
		}
	}
	s.serves()
	if grown := s.memory() - memory; grown > 600<<20 {
		t.Errorf("memory has grown by %d MiB", grown>>20)
	}
	waitFor(t, func() bool { return s.metric("go_goroutines") <= goroutines+5 })
	if held := s.diagnosis().Calls; held.Total != 0 {
		t.Errorf("%+v are held", held)
	}
}
