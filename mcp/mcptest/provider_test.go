package mcptest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/mcp/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	os.Exit(m.Run())
}

// within bounds a test that waits for something that does not come.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// A side is a provider and a wire to it.
type side struct {
	*mcptest.Provider
	mcptest.Wire
}

// wires are the transports on which all frames share a stream.
var wires = map[string]func(t *testing.T, o mcptest.Options) side{
	"pipe": func(t *testing.T, o mcptest.Options) side {
		p := mcptest.New(o)
		fromClient, toProvider := pipe(t)
		fromProvider, toClient := pipe(t)
		go p.Serve(mcptest.Pipe(fromClient, toClient))
		return side{p, mcptest.Pipe(fromProvider, toProvider)}
	},
	"socket": func(t *testing.T, o mcptest.Options) side {
		p := mcptest.New(o)
		s := httptest.NewServer(p.Socket())
		t.Cleanup(s.Close)
		w, err := mcptest.Dial(within(t), s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		return side{p, w}
	},
	"SSE": func(t *testing.T, o mcptest.Options) side {
		p := mcptest.New(o)
		s := httptest.NewServer(p.SSE())
		t.Cleanup(s.Close)
		r, err := mcptest.Ask{Method: "GET"}.Send(within(t), s.URL+"/sse")
		if err != nil {
			t.Fatal(err)
		}
		name, data, err := r.NextEvent()
		if err != nil || name != "endpoint" {
			t.Fatalf("%q %v", name, err)
		}
		return side{p, sse{t, r, s.URL + data}}
	},
}

// pipe is one of the system's, which holds what nobody reads yet.
func pipe(t *testing.T) (r, w *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// sse is the client of an event stream.
type sse struct {
	t    *testing.T
	r    *mcptest.Reply
	post string
}

func (s sse) Send(frames ...[]byte) error {
	for _, f := range frames {
		r, err := mcptest.Ask{Body: string(f)}.Send(s.t.Context(), s.post)
		if err != nil {
			return err
		}
		r.Close()
		if r.StatusCode != http.StatusAccepted {
			return fmt.Errorf("status %s", r.Status)
		}
	}
	return nil
}

func (s sse) Next() ([]byte, error) {
	f, err := s.r.Next()
	if err != nil {
		return nil, err
	}
	return f.Raw, nil
}

func (s sse) Close() error { s.r.Close(); return nil }

// next reads the next frame.
func (s side) next(t *testing.T) *mcptest.Frame {
	t.Helper()
	raw, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	f, err := mcptest.ReadFrame(raw)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// call sends a call and reads one frame.
func (s side) call(t *testing.T, id, tool, arguments string, more ...string) *mcptest.Frame {
	t.Helper()
	s.send(t, string(mcptest.CallTool(id, tool, arguments, more...)))
	return s.next(t)
}

func (s side) send(t *testing.T, frame string) {
	t.Helper()
	if err := s.Send([]byte(frame)); err != nil {
		t.Fatal(err)
	}
}

func TestOnOneStream(t *testing.T) {
	for name, start := range wires {
		t.Run(name, func(t *testing.T) {
			s := start(t, mcptest.Options{})
			t.Cleanup(func() { s.Wire.Close(); s.Provider.Close() })
			answers(t, s)
			cancels(t, s)
			asks(t, s)
			s.send(t, string(mcptest.CallTool("99", "die", "{}")))
			if raw, err := s.Next(); err == nil {
				t.Errorf("after its end the provider says %s", raw)
			}
		})
	}
}

// answers looks at what comes back for calls.
func answers(t *testing.T, s side) {
	s.send(t, string(mcptest.Request("0", "initialize", map[string]any{"protocolVersion": "2025-06-18"})))
	if f := s.next(t); !strings.Contains(string(f.Result), `"protocolVersion":"2025-06-18"`) {
		t.Errorf("%s", f.Raw)
	}
	const big = `{"n":9007199254740993,"f":1.0,"e":1e400,"twice":1,"twice":2}`
	if f := s.call(t, "1", "echo", big); string(f.ID) != "1" || !strings.Contains(string(f.Result), `"structuredContent":`+big) {
		t.Errorf("%s", f.Raw)
	}
	if f := s.call(t, "2", "nothing", "{}"); f.Error == nil || f.Error.Code != -32602 {
		t.Errorf("%s", f.Raw)
	}
	if f := s.call(t, "3", "error", `{"code":-5,"message":"m","data":{"a":1}}`); f.Error == nil || f.Error.Code != -5 || string(f.Error.Data) != `{"a":1}` {
		t.Errorf("%s", f.Raw)
	}
	first := s.call(t, `"four"`, "progress", `{"n":2}`, "_meta", `{"progressToken":"t"}`)
	second, third := s.next(t), s.next(t)
	if string(first.Params) != `{"progress":1,"progressToken":"t"}` || second.Method != "notifications/progress" || string(third.ID) != `"four"` {
		t.Errorf("%s %s %s", first.Raw, second.Raw, third.Raw)
	}
	if f := s.call(t, "5", "raw", `{"frames":["{\"id\":$ID,\"other\":$TOKEN}"]}`, "_meta", `{"progressToken":7}`); string(f.Raw) != `{"id":5,"other":7}` {
		t.Errorf("%s", f.Raw)
	}
	if s.Count("") != 4 || s.Count("echo") != 1 {
		t.Errorf("%d calls were executed: %+v", s.Count(""), s.Seen())
	}
}

// cancels looks at what a cancel does, by each policy.
func cancels(t *testing.T, s side) {
	ctx := within(t)
	for id, policy := range []mcptest.Cancel{mcptest.Quiet, mcptest.Answer, mcptest.Ignore} {
		s.send(t, string(mcptest.CallTool(fmt.Sprint(id), "hold", fmt.Sprintf(`{"key":%q,"cancel":%q}`, policy, policy))))
		held, err := s.Held(ctx, string(policy))
		if err != nil {
			t.Fatal(err)
		}
		s.send(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
		<-held.Cancelled()
		if err := s.Cancelled(ctx, string(policy)); err != nil {
			t.Error(err)
		}
		switch policy {
		case mcptest.Answer:
			if f := s.next(t); f.Error == nil || f.Error.Message != "context canceled" {
				t.Errorf("%s", f.Raw)
			}
		case mcptest.Ignore:
			if err := held.Text("late"); err != nil {
				t.Error(err)
			}
			if f := s.next(t); !strings.Contains(string(f.Result), "late") {
				t.Errorf("%s", f.Raw)
			}
		}
	}
	if s.Most("hold") < 1 {
		t.Error("no call was held")
	}
}

// asks looks at requests of the provider, at other tools and at tasks.
func asks(t *testing.T, s side) {
	q := s.call(t, "20", "ask", `{"method":"elicitation/create","params":{"message":"?"}}`)
	if q.Method != "elicitation/create" || string(q.Params) != `{"message":"?"}` {
		t.Errorf("%s", q.Raw)
	}
	s.send(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept"}}`, q.ID))
	if f := s.next(t); !strings.Contains(string(f.Result), `"action":"accept"`) {
		t.Errorf("%s", f.Raw)
	}
	if f := s.call(t, "21", "change", `{"add":["extra"],"remove":["fail"]}`); f.Method != "notifications/tools/list_changed" {
		t.Errorf("%s", f.Raw)
	}
	s.next(t)
	s.send(t, string(mcptest.Request("22", "tools/list", nil)))
	if f := s.next(t); !strings.Contains(string(f.Result), `"extra"`) || strings.Contains(string(f.Result), `"fail"`) {
		t.Errorf("%s", f.Raw)
	}
	s.send(t, `{"jsonrpc":"2.0","id":30,"method":"subscriptions/listen","params":{"_meta":`+mcptest.Meta+`,"notifications":{"toolsListChanged":true}}}`)
	const of = `"io.modelcontextprotocol/subscriptionId":30`
	if f := s.next(t); f.Method != "notifications/subscriptions/acknowledged" || !strings.Contains(string(f.Params), of) {
		t.Errorf("%s", f.Raw)
	}
	if f := s.call(t, "31", "change", `{"add":["more"]}`); f.Method != "notifications/tools/list_changed" || !strings.Contains(string(f.Params), of) {
		t.Errorf("%s", f.Raw)
	}
	s.next(t)
	if f := s.call(t, "23", "task", `{"key":"job"}`); !strings.Contains(string(f.Result), `"status":"working"`) {
		t.Errorf("%s", f.Raw)
	}
	s.send(t, string(mcptest.Request("24", "tasks/result", map[string]any{"taskId": "task-1"})))
	// Which of the two is answered first is nobody's business.
	one, two := s.call(t, "25", "release", `{"key":"job"}`), s.next(t)
	if all := string(one.Raw) + string(two.Raw); !strings.Contains(all, `"text":"done"`) || !strings.Contains(all, `"text":"1"`) {
		t.Error(all)
	}
}

func TestPages(t *testing.T) {
	s := wires["pipe"](t, mcptest.Options{Page: 2, Tools: []mcptest.Tool{{Name: "a"}, {Name: "b", Does: "fail"}, {Name: "c"}}})
	defer s.Wire.Close()
	s.send(t, string(mcptest.Request("1", "tools/list", nil)))
	if f := s.next(t); string(f.Result) != `{"nextCursor":"2","tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"b","inputSchema":{"type":"object"}}]}` {
		t.Errorf("%s", f.Raw)
	}
	s.send(t, string(mcptest.Request("2", "tools/list", map[string]any{"cursor": "2"})))
	if f := s.next(t); string(f.Result) != `{"tools":[{"name":"c","inputSchema":{"type":"object"}}]}` {
		t.Errorf("%s", f.Raw)
	}
	if f := s.call(t, "3", "b", "{}"); !strings.Contains(string(f.Result), `"isError":true`) {
		t.Errorf("%s", f.Raw)
	}
}

func TestForget(t *testing.T) {
	s := wires["pipe"](t, mcptest.Options{Forget: true})
	defer s.Wire.Close()
	s.call(t, "1", "echo", "{}")
	if s.Count("echo") != 1 || s.Count("") != 1 || len(s.Seen()) != 0 {
		t.Errorf("%d calls, of which %d are kept", s.Count(""), len(s.Seen()))
	}
}

func TestChild(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	path, env, err := mcptest.Child(mcptest.Options{Journal: journal, Tools: []mcptest.Tool{{Name: "echo"}, {Name: "end", Does: "die"}}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(within(t), path)
	cmd.Env = append(os.Environ(), env)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := side{nil, mcptest.Pipe(out, in)}
	if f := s.call(t, "1", "echo", `{"key":"k"}`); f.Error != nil {
		t.Errorf("%s", f.Raw)
	}
	s.send(t, string(mcptest.CallTool("2", "end", `{"code":3}`)))
	if _, err := s.Next(); err != io.EOF {
		t.Error(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 3 {
		t.Error(err)
	}
	list, err := mcptest.Journal(journal)
	if err != nil || len(list) != 2 || list[0].Tool != "echo" || list[0].Key != "k" || list[1].Tool != "end" {
		t.Errorf("%v %+v", err, list)
	}
}
