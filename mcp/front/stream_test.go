package front_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/mcp/mcptest"
)

func TestAnswersAndStreams(t *testing.T) {
	t.Run("an answer alone is JSON", func(t *testing.T) {
		r := newRig(t, func(s *setting) { s.front.Bounds.Patience = time.Minute })
		s := r.session("2025-11-25")
		reply := r.ask("/p/mcp", call("1", "echo", `{"n": 9007199254740993, "x":1e400 , "f":1.0}`, s))
		if got := reply.Header.Get("Content-Type"); got != "application/json" {
			t.Error(got)
		}
		if f, _ := answered(t, reply); !strings.Contains(string(f.Raw), `9007199254740993`) || !strings.Contains(string(f.Raw), `1e400`) {
			t.Errorf("M-030 %s", f.Raw)
		}
	})
	r := newRig(t, func(s *setting) {
		s.front.Bounds.Patience, s.front.Bounds.KeepAlive = 20*time.Millisecond, 20*time.Millisecond
	})
	old, s := r.session("2025-06-18"), r.session("2025-11-25")
	t.Run("M-037 progress comes first, in order, and makes it a stream", func(t *testing.T) {
		for _, a := range []mcptest.Ask{call("1", "progress", `{"n":3}`, s), modern("1", "progress", `{"n":3}`)} {
			reply := r.ask("/p/mcp", a)
			if h := reply.Header; !strings.HasPrefix(h.Get("Content-Type"), "text/event-stream") || h.Get("X-Accel-Buffering") != "no" {
				t.Error(h)
			}
			for n := 1; n <= 3; n++ {
				f, err := reply.Next()
				if err != nil || f.Method != "notifications/progress" || !strings.Contains(string(f.Params), fmt.Sprintf(`"progress":%d`, n)) {
					t.Fatalf("%v %v", f, err)
				}
			}
			if f, before := answered(t, reply); before != 0 || f.Result == nil {
				t.Error(string(f.Raw))
			}
			if f, err := reply.Next(); err == nil {
				t.Error("after the answer:", string(f.Raw))
			}
		}
	})
	t.Run("M-064 a slow answer", func(t *testing.T) {
		for _, c := range []struct {
			ask   mcptest.Ask
			first string
			id    string
		}{
			{call("1", "hold", `{"key":"11"}`, s), "id: *-0|retry: 1000|data: ", "id: "},
			{call("1", "hold", `{"key":"06"}`, old), ": ka", "id: "},
			{modern("1", "hold", `{"key":"26"}`), ": ka", "event: message"},
		} {
			l := linesOf(t, r.ask("/p/mcp", c.ask))
			l.want(c.first)
			l.want(": ka")
			l.want(": ka")
			for key := range strings.SplitSeq("11 06 26", " ") {
				if strings.Contains(c.ask.Body, key+`"`) {
					_ = r.held(key).Text("at last")
				}
			}
			for got, ok := l.next(); ok; got, ok = l.next() {
				if got == ": ka" {
					continue
				}
				if !strings.HasPrefix(got, c.id) || !strings.Contains(got, "event: message|data: {") || !strings.Contains(got, "at last") {
					t.Error(got)
				}
			}
		}
	})
	t.Run("a frame with line breaks is one line", func(t *testing.T) {
		frames := toJSON(map[string]any{"frames": []string{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1}}`,
			"{\"jsonrpc\":\"2.0\",\r\n\"id\":$ID,\n\"result\":{\"content\":[\n]}}"}})
		l := linesOf(t, r.ask("/p/mcp", call("1", "raw", frames, old)))
		l.want("id: *-1|event: message|data: {*")
		if got := l.want("id: *-2|event: message|data: {*"); !strings.HasSuffix(got, "[ ]}}") {
			t.Error(got)
		}
	})
}

// TestResumption breaks connections and comes back.
func TestResumption(t *testing.T) {
	r := newRig(t, func(s *setting) { s.front.Bounds.Patience = 5 * time.Millisecond })
	s := r.session("2025-11-25")
	// begin starts a call and reads what comes at once, up to its last event's id.
	begin := func(key string) (id string, leave func()) {
		ctx, cancel := context.WithCancel(within(t))
		reply, err := call("1", "hold", `{"key":"`+key+`"}`, s).Send(ctx, r.url+"/p/mcp")
		if err != nil {
			t.Fatal(err)
		}
		first := linesOf(t, reply).want("id: *|retry: 1000|data: ")
		id, _, _ = strings.Cut(strings.TrimPrefix(first, "id: "), "|")
		return id, func() { cancel(); reply.Close() }
	}
	listen := func(last string) *lines {
		return linesOf(t, r.ask("/p/mcp", mcptest.Ask{Method: "GET", Header: []string{s, "Last-Event-ID: " + last}}))
	}
	t.Run("M-016 the answer that came meanwhile", func(t *testing.T) {
		id, leave := begin("a")
		c := r.held("a")
		_ = c.Progress(1, "before")
		leave()
		_ = c.Progress(2, "meanwhile")
		_ = c.Text("the answer")
		until(t, "the answer is kept", func() bool {
			reply := r.ask("/p/mcp", mcptest.Ask{Method: "GET", Header: []string{s, "Last-Event-ID: " + id}})
			defer reply.Close()
			f, before, err := reply.Answer()
			return err == nil && before == 2 && strings.Contains(string(f.Result), "the answer")
		})
		stream, _, _ := strings.Cut(id, "-")
		l := listen(stream + "-2")
		l.want("id: " + stream + "-2|retry: 1000|data: ")
		if got := l.want("id: " + stream + "-3|event: message|data: *"); !strings.Contains(got, "the answer") {
			t.Error(got)
		}
		if more, ok := l.next(); ok {
			t.Error("after the answer:", more)
		}
	})
	t.Run("a call that is still under way", func(t *testing.T) {
		id, leave := begin("b")
		leave()
		c := r.held("b")
		l := listen(id)
		l.want("id: " + id + "|*")
		_ = c.Text("live")
		if got := l.want("id: *"); !strings.Contains(got, "live") {
			t.Error(got)
		}
	})
	t.Run("in place of a connection that is not known to have gone", func(t *testing.T) {
		ctx, cancel := context.WithCancel(within(t))
		defer cancel()
		reply, err := call("1", "hold", `{"key":"c"}`, s).Send(ctx, r.url+"/p/mcp")
		if err != nil {
			t.Fatal(err)
		}
		old := linesOf(t, reply)
		id, _, _ := strings.Cut(strings.TrimPrefix(old.want("id: *|data: "), "id: "), "|")
		l := listen(id)
		l.want("id: " + id + "|*")
		for got, ok := old.next(); ok; got, ok = old.next() {
			if strings.Contains(got, "data: {") {
				t.Error("on the old connection:", got)
			}
		}
		_ = r.held("c").Text("once")
		if got := l.want("id: *"); !strings.Contains(got, "once") {
			t.Error(got)
		}
	})
	t.Run("what made the response a stream", func(t *testing.T) {
		r := newRig(t, func(s *setting) { s.front.Bounds.Patience = time.Minute })
		s := r.session("2025-11-25")
		reply, err := call("1", "hold", `{"key":"e","n":2}`, s).Send(within(t), r.url+"/p/mcp")
		if err != nil {
			t.Fatal(err)
		}
		l := linesOf(t, reply)
		l.want("id: *-0|retry: 1000|data: ")
		stream, _, _ := strings.Cut(strings.TrimPrefix(l.want("id: *-1|event: message|*"), "id: "), "-")
		reply.Close()
		_ = r.held("e").Text("end")
		again := linesOf(t, r.ask("/p/mcp", mcptest.Ask{Method: "GET", Header: []string{s, "Last-Event-ID: " + stream + "-0"}}))
		for n := range 4 {
			again.want(fmt.Sprintf("id: %s-%d|*", stream, n))
		}
	})
	t.Run("what is not kept", func(t *testing.T) {
		for _, last := range []string{"99-1", "x", "1-x", "-1-1", "1"} {
			if f := refused(t, r.ask("/p/mcp", mcptest.Ask{Method: "GET", Header: []string{s, "Last-Event-ID: " + last}})); f.status != 400 {
				t.Error(last, f)
			}
		}
		other := r.session("2025-11-25")
		id, leave := begin("d")
		defer leave()
		if f := refused(t, r.ask("/p/mcp", mcptest.Ask{Method: "GET", Header: []string{other, "Last-Event-ID: " + id}})); f.status != 400 {
			t.Error("another session's stream", f)
		}
		_ = r.held("d").Text("x")
	})
}

// TestPushes listens for what belongs to no request.
func TestPushes(t *testing.T) {
	r := newRig(t, func(s *setting) { s.front.Bounds.KeepAlive = time.Minute })
	older := r.ask("/p/mcp", mcptest.Ask{Method: "GET", Header: []string{r.session("2025-06-18")}})
	linesOf(t, older).want(": ka") // M-064, at once
	s := r.session("2025-11-25")
	listen := func(header ...string) (*lines, *mcptest.Reply) {
		reply := r.ask("/p/mcp", mcptest.Ask{Method: "GET", Header: append(header, s)})
		return linesOf(t, reply), reply
	}
	changed := func(l *lines, id string) {
		t.Helper()
		if got := l.want("id: " + id + "|event: message|data: *"); !strings.Contains(got, "list_changed") {
			t.Error(got)
		}
	}
	tools := func(names ...string) {
		var list []mcptest.Tool
		for _, n := range names {
			list = append(list, mcptest.Tool{Name: n, Does: "echo"})
		}
		r.provider.SetTools(list...)
	}
	l, first := listen()
	l.want("id: 0-0|retry: 1000|data: ")
	tools("one")
	changed(l, "0-1")
	second, reply := listen()
	second.want("id: 0-1|*")
	if _, ok := l.next(); ok {
		t.Error("the first stream goes on beside the second")
	}
	first.Close()
	tools("one", "two")
	changed(second, "0-2")
	reply.Close()
	tools("one", "two", "three")
	until(t, "the broker knows the new tool", func() bool {
		f, _ := answered(t, r.ask("/p/mcp", mcptest.Ask{Header: []string{s}, Body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`}))
		return strings.Contains(string(f.Result), "three")
	})
	third, reply := listen()
	if got, _ := third.next(); got != "id: 0-2|retry: 1000|data: " && got != "id: 0-3|retry: 1000|data: " {
		t.Error("M-082 got", got)
	}
	reply.Close()
	again, _ := listen("Last-Event-ID: 0-1")
	again.want("id: 0-1|*")
	changed(again, "0-2")
	changed(again, "0-3")
}
