package mcptest_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/mcp/mcptest"
)

// serve starts a provider over Streamable HTTP.
func serve(t *testing.T, o mcptest.Options, h mcptest.HTTP) (*mcptest.Provider, *mcptest.Handler, string) {
	p := mcptest.New(o)
	handler := p.Handler(h)
	s := httptest.NewServer(handler)
	t.Cleanup(func() { p.Close(); s.CloseClientConnections(); s.Close() })
	return p, handler, s.URL
}

// ask sends a request and returns its reply.
func ask(t *testing.T, url string, a mcptest.Ask) *mcptest.Reply {
	t.Helper()
	r, err := a.Send(within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// session begins one and returns its header.
func session(t *testing.T, url string) string {
	t.Helper()
	r := ask(t, url, mcptest.Ask{Body: string(mcptest.Request("0", "initialize", map[string]any{"protocolVersion": "2025-11-25"}))})
	return "Mcp-Session-Id: " + r.Header.Get("Mcp-Session-Id")
}

func TestLegacyHTTP(t *testing.T) {
	p, h, url := serve(t, mcptest.Options{}, mcptest.HTTP{})
	s := session(t, url)
	call := func(tool, arguments string, more ...string) mcptest.Ask {
		return mcptest.Ask{Header: []string{s}, Body: string(mcptest.CallTool("1", tool, arguments, more...))}
	}
	if f, before, err := ask(t, url, call("progress", `{"n":3}`, "_meta", `{"progressToken":1}`)).Answer(); err != nil || before != 3 || f.Result == nil {
		t.Errorf("%v, %d, %v", f, before, err)
	}
	if r := ask(t, url, mcptest.Ask{Header: []string{s}, Body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`}); r.StatusCode != http.StatusAccepted {
		t.Error(r.Status)
	}
	listening := ask(t, url, mcptest.Ask{Method: "GET", Header: []string{s}})
	p.Notify("notifications/tools/list_changed", nil)
	if f, err := listening.Next(); err != nil || f.Method != "notifications/tools/list_changed" {
		t.Errorf("%v %v", f, err)
	}
	if r, err := call("die", "{}").Send(within(t), url); err == nil {
		t.Error("an answer after the end", r.Status)
	}
	s = "Mcp-Session-Id: unheard"
	if r := ask(t, url, call("echo", "{}")); r.StatusCode != http.StatusNotFound {
		t.Error(r.Status)
	}
	s = session(t, url)
	h.Forget()
	if r := ask(t, url, call("echo", "{}")); r.StatusCode != http.StatusNotFound {
		t.Error(r.Status)
	}
	if begun, open := h.Sessions(); begun != 2 || open != 0 || p.Count("echo") != 0 {
		t.Error(begun, open, p.Seen())
	}
	h.Fail(mcptest.Fault{Status: 429, Header: http.Header{"Retry-After": {"3"}}, Body: "slow down"})
	if r := ask(t, url, call("echo", "{}")); r.StatusCode != 429 || r.Header.Get("Retry-After") != "3" {
		t.Error(r.Status, r.Header)
	}
}

func TestJSON(t *testing.T) {
	_, _, url := serve(t, mcptest.Options{}, mcptest.HTTP{JSON: true, Stateless: true})
	r := ask(t, url, mcptest.Ask{Body: string(mcptest.CallTool("1", "progress", `{"n":2}`, "_meta", `{"progressToken":1}`))})
	if f, before, err := r.Answer(); err != nil || before != 0 || string(f.ID) != "1" || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%v %d %v", f, before, err)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Error(err)
	}
}

func TestModernHTTP(t *testing.T) {
	p, _, url := serve(t, mcptest.Options{Tools: []mcptest.Tool{{Name: "größe"}, {Name: "hold"}, {Name: "input"}, {Name: "task"}}}, mcptest.HTTP{})
	call := func(tool, header string, more ...string) mcptest.Ask {
		return mcptest.Ask{Body: string(mcptest.CallTool("1", tool, "{}", append(more, "_meta", mcptest.Meta)...))}.Modern("tools/call", header)
	}
	if f, _, err := ask(t, url, call("größe", "größe")).Answer(); err != nil || !strings.Contains(string(f.Result), `"resultType":"complete"`) {
		t.Errorf("M-056 %s %v", f.Raw, err)
	}
	for _, header := range []string{"", "other"} {
		if r := ask(t, url, call("hold", header)); r.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: %s", header, r.Status)
		}
	}
	if f, _, err := ask(t, url, call("input", "input")).Answer(); err != nil || !strings.Contains(string(f.Result), `"resultType":"input_required"`) {
		t.Errorf("%s %v", f.Raw, err)
	}
	if f, _, err := ask(t, url, call("input", "input", "inputResponses", `{"name":{"action":"accept"}}`)).Answer(); err != nil || !strings.Contains(string(f.Result), "accept") {
		t.Errorf("%s %v", f.Raw, err)
	}
	if f, _, err := ask(t, url, call("task", "task")).Answer(); err != nil || !strings.Contains(string(f.Result), `"resultType":"task"`) {
		t.Errorf("%s %v", f.Raw, err)
	}
	ctx, leave := context.WithCancel(within(t))
	gone := make(chan error, 1)
	go func() {
		_, err := call("hold", "hold").Send(ctx, url)
		gone <- err
	}()
	held, err := p.Held(within(t), "")
	if err != nil {
		t.Fatal(err)
	}
	leave()
	<-held.Cancelled() // which is what M-015 asks of a provider
	<-gone
	listening := ask(t, url, mcptest.Ask{Body: `{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{"_meta":` + mcptest.Meta + `,"notifications":{"toolsListChanged":true}}}`}.Modern("subscriptions/listen", ""))
	if f, err := listening.Next(); err != nil || f.Method != "notifications/subscriptions/acknowledged" {
		t.Errorf("%v %v", f, err)
	}
	p.SetTools(mcptest.Tool{Name: "new"})
	if f, err := listening.Next(); err != nil || f.Method != "notifications/tools/list_changed" || string(f.Params) != `{"_meta":{"io.modelcontextprotocol/subscriptionId":5}}` {
		t.Errorf("%v %v", f, err)
	}
}

// TestDialIn stands in for a broker: it accepts a socket and speaks first.
func TestDialIn(t *testing.T) {
	sockets := make(chan *websocket.Conn, 2)
	broker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Provider-Token") != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
		} else if c, err := websocket.Accept(w, r, nil); err == nil {
			sockets <- c
		}
	}))
	defer broker.Close()
	ctx := within(t)
	if _, err := mcptest.New(mcptest.Options{}).DialIn(ctx, broker.URL, nil); err == nil || !strings.Contains(err.Error(), "401") {
		t.Error(err)
	}
	header := http.Header{"X-Provider-Token": {"secret"}}
	p := mcptest.New(mcptest.Options{})
	line, err := p.DialIn(ctx, broker.URL, header)
	if err != nil {
		t.Fatal(err)
	}
	c := <-sockets
	turn := func(send, want string) {
		t.Helper()
		if err := c.Write(ctx, websocket.MessageText, []byte(send)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := c.Read(ctx); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s %v, want %s", got, err, want)
		}
	}
	turn(string(mcptest.CallTool("1", "fail", "{}")), `"isError":true`)
	said := make(chan string, 1)
	go func() {
		_, err := line.Request(ctx, "broker/budget/reserve", map[string]any{"quantity": 3})
		said <- err.Error()
	}()
	_, q, err := c.Read(ctx)
	if err != nil || !strings.Contains(string(q), `"params":{"quantity":3}`) {
		t.Fatalf("%s %v", q, err)
	}
	f, _ := mcptest.ReadFrame(q)
	if err := c.Write(ctx, websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":`+string(f.ID)+`,"error":{"code":-32003,"message":"no"}}`)); err != nil {
		t.Fatal(err)
	}
	if got := <-said; got != "no (code -32003) " {
		t.Error(got)
	}
	c.CloseNow()
	<-line.Done()

	if _, err := mcptest.DialMany(ctx, broker.URL, header, map[string]*mcptest.Provider{"a": p, "b": mcptest.New(mcptest.Options{})}); err != nil {
		t.Fatal(err)
	}
	c = <-sockets
	defer c.CloseNow()
	var slots []string
	for range 2 {
		_, first, err := c.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		slots = append(slots, string(first))
	}
	slices.Sort(slots)
	if want := `{"provider":"a","payload":{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}}`; slots[0] != want {
		t.Error(slots)
	}
	turn(`{"provider":"b","payload":`+string(mcptest.CallTool("1", "echo", "{}"))+`}`, `{"provider":"b","payload":{"jsonrpc":"2.0","id":1,"result"`)
}

// TestAsk looks at the bytes that leave.
func TestAsk(t *testing.T) {
	got := make(chan *http.Request, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got <- r }))
	defer s.Close()
	r := ask(t, s.URL+"/p?q=1", mcptest.Ask{Method: "PUT", Header: []string{"X-A: 1", "x-a: 2", "accept: */*"}, Body: "{}"})
	q := <-got
	if q.Method != "PUT" || q.RequestURI != "/p?q=1" || !slices.Equal(q.Header["X-A"], []string{"1", "2"}) || !slices.Equal(q.Header["Accept"], []string{"*/*"}) || q.ContentLength != 2 {
		t.Errorf("%+v", q)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Error(err)
	}
}
