package link_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
)

// A heard is what an Inbox has been told, in words.
type heard struct {
	mu   sync.Mutex
	said []string
}

func (h *heard) say(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, fmt.Sprintf(format, args...))
}

func (h *heard) Message(m *jsonrpc.Message, of jsonrpc.ID) {
	h.say("message %s%s of %s", m.Method, m.ID, of)
}
func (h *heard) Lost(id jsonrpc.ID, f link.Failure) {
	h.say("lost %s notRun=%v stopped=%v", id, f.NotRun, f.Stopped)
}
func (h *heard) Bad(error)      { h.say("bad") }
func (h *heard) Down(err error) { h.say("down: %v", err) }

func (h *heard) wants(t *testing.T, want ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := strings.Join(h.said, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("heard:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
	h.said = nil
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"M-032 characters of several bytes come in pieces", "{\"a\":\"größe 漢字\"}\n", []string{`{"a":"größe 漢字"}`}},
		{"line ends of Windows, and a byte order mark", "\xef\xbb\xbf{}\r\n[]\r\n", []string{"{}", "[]"}},
		{"blank lines are none", "\n \t\r\n{}\n\n", []string{"{}"}},
		{"the last line needs no end", "{}\n[]", []string{"{}", "[]"}},
		{"M-074 the bound itself fits", strings.Repeat("x", 40) + "\r\n{}\n", []string{strings.Repeat("x", 40), "{}"}},
		{"M-074 a line beyond the bound is skipped to its end", strings.Repeat("x", 41) + "\n{}\n", []string{"too long", "{}"}},
		{"M-074 so is a last one", strings.Repeat("x", 100), []string{"too long"}},
		{"nothing", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for kind, r := range map[string]io.Reader{
				"at once": strings.NewReader(c.in),
				"by byte": iotest.OneByteReader(strings.NewReader(c.in)),
			} {
				var got []string
				lines := link.NewLines(r, 40)
				for {
					line, err := lines.Next()
					if _, long := errors.AsType[*link.TooLong](err); long {
						got = append(got, "too long")
						continue
					}
					if err != nil {
						if err != io.EOF {
							t.Errorf("%s: the last error is %v, not EOF", kind, err)
						}
						break
					}
					got = append(got, string(line))
				}
				if strings.Join(got, "|") != strings.Join(c.want, "|") {
					t.Errorf("%s: got %q, want %q", kind, got, c.want)
				}
			}
		})
	}
}

func TestReceiver(t *testing.T) {
	for _, c := range []struct {
		name, frame string
		want        []string
		replied     string
	}{
		{"a message, and on whose stream it came", `{"jsonrpc":"2.0","id":7,"result":{}}`, []string{`message 7 of "q"`}, ""},
		{"M-036 a batch is told one by one", `[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"result":{}}]`,
			[]string{`message a of "q"`, `message 1 of "q"`}, ""},
		{"an item that is no message spoils no other", `[1,{"jsonrpc":"2.0","method":"a"}]`, []string{"bad", `message a of "q"`}, ""},
		{"M-078 stray output is counted", "Server listening on stdio", []string{"bad"}, ""},
		{"M-032 no UTF-8", "{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}", []string{"bad"}, ""},
		{"an answer that is no message fails its request", `{"jsonrpc":"2.0","id":7,"result":{},"result":{}}`, []string{"lost 7 notRun=false stopped=true", "bad"}, ""},
		{"a request that is no message is answered", `{"jsonrpc":"2.0","id":"x","method":"a","method":"b"}`, []string{"bad"},
			`{"jsonrpc":"2.0","id":"x","error":{"code":-32600,"message":"Invalid request: the frame is no message"}}`},
		{"M-074 an answer beyond the bound fails its request", `{"result":{"t":"` + strings.Repeat("x", 300) + `"},"jsonrpc":"2.0","id":7}`,
			[]string{"lost 7 notRun=false stopped=true", "bad"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var in heard
			var replied string
			r := link.NewReceiver(&in, 256, func(m *jsonrpc.Message) { replied = string(m.Raw) })
			r.Frame([]byte(c.frame), jsonrpc.StringID("q"))
			in.wants(t, c.want...)
			if replied != c.replied {
				t.Errorf("replied %s, want %s", replied, c.replied)
			}
		})
	}

	t.Run("M-113 nothing follows the end, and there is one", func(t *testing.T) {
		var in heard
		r := link.NewReceiver(&in, 0, nil)
		r.Down(nil)
		r.Down(io.EOF)
		r.Frame([]byte(`{"jsonrpc":"2.0","id":7,"result":{}}`), jsonrpc.ID{})
		r.Lost(jsonrpc.StringID("q"), link.Failure{Err: io.EOF})
		r.Bad(io.EOF)
		in.wants(t, "down: "+link.ErrClosed.Error())
	})
}

// TestGlance shows that a server may write the id before the result or after it.
func TestGlance(t *testing.T) {
	for _, c := range []struct {
		frame        string
		id           string
		answer, asks bool
	}{
		{`{"jsonrpc":"2.0","id":7,"result":{"id":8}}`, "7", true, false},
		{`{"result":{"id":8,"s":"}],\"id\":9"},"jsonrpc":"2.0","id":"brk-1"}`, `"brk-1"`, true, false},
		{` { "error" : { } , "id" : "a\"b" } `, `"a\"b"`, true, false},
		{`{"method":"m","id":1.5}`, "", false, true},
		{`{"id":{"id":7},"result":1}`, "", true, false},
		{`{"id":"` + strings.Repeat("x", 2000) + `","result":1}`, "", true, false},
		{`[{"id":7,"result":1}]`, "", false, false},
		{`}}}}`, "", false, false},
	} {
		var g link.Glance
		for _, b := range []byte(c.frame) {
			g.Write([]byte{b})
		}
		if got := g.ID().String(); got != c.id || g.Answer != c.answer || g.Asks != c.asks {
			t.Errorf("%.60s: got id %s, answer %v, asks %v", c.frame, got, g.Answer, g.Asks)
		}
	}
}

// FuzzGlance compares it with encoding/json, on frames that both understand.
func FuzzGlance(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":7,"result":{"id":8,"a":[1,{"b":"\"}"}]}}`))
	f.Add([]byte(`{"method":"x","params":{"method":"y"},"id":"\u0041"}`))
	f.Fuzz(func(t *testing.T, frame []byte) {
		var g link.Glance
		g.Write(frame)
		m, err := jsonrpc.Parse(frame, jsonrpc.Bounds{})
		if err != nil || m.Kind == jsonrpc.Batch {
			return
		}
		var names map[string]json.RawMessage
		if json.Unmarshal(frame, &names) != nil || bytes.ContainsRune(frame, '\\') {
			return // a name with escapes is not seen
		}
		if got, want := g.ID(), m.ID; want.Valid() && got != want {
			t.Errorf("id %s, want %s", got, want)
		}
		_, result := names["result"]
		_, fault := names["error"]
		if _, method := names["method"]; g.Asks != method || g.Answer != (result || fault) {
			t.Errorf("answer %v, asks %v", g.Answer, g.Asks)
		}
	})
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("{}\r\n\n[1]\n"), byte(3))
	f.Add([]byte("\xef\xbb\xbf{}"), byte(1))
	f.Fuzz(func(t *testing.T, text []byte, limit byte) {
		whole, pieces := readAll(bytes.NewReader(text), int(limit)), readAll(iotest.OneByteReader(bytes.NewReader(text)), int(limit))
		if whole != pieces {
			t.Errorf("at once %q, by bytes %q", whole, pieces)
		}
		for line := range strings.SplitSeq(whole, "\n") {
			if len(line) > int(limit) {
				t.Errorf("a line of %d bytes, over %d", len(line), limit)
			}
		}
	})
}

func readAll(r io.Reader, limit int) string {
	var b strings.Builder
	for lines := link.NewLines(r, limit); ; {
		line, err := lines.Next()
		if _, long := errors.AsType[*link.TooLong](err); err != nil && !long {
			return b.String()
		}
		b.Write(line)
		b.WriteByte('\n')
	}
}

func request(id string) *jsonrpc.Message { return jsonrpc.NewRequest(jsonrpc.StringID(id), "m", nil) }

func TestOutbox(t *testing.T) {
	send := func(ctx context.Context, o *link.Outbox, m *jsonrpc.Message, in link.Inbox) error {
		return o.Send(ctx, m.Raw, m, link.NewReceiver(in, 0, nil))
	}
	t.Run("frames leave in order", func(t *testing.T) {
		o, written := link.NewOutbox(0), ""
		for i := range 5 {
			if err := send(t.Context(), o, jsonrpc.NewNotification(fmt.Sprint(i), nil), &heard{}); err != nil {
				t.Fatal(err)
			}
		}
		_ = o.Run(func(frame []byte) (bool, error) {
			m, _ := jsonrpc.Parse(frame, jsonrpc.Bounds{})
			if written += m.Method; len(written) == 5 {
				o.Close()
			}
			return true, nil
		})
		if written != "01234" {
			t.Errorf("written %s", written)
		}
	})
	t.Run("M-004 what did not leave is proof that nothing was run", func(t *testing.T) {
		o, in := link.NewOutbox(0), &heard{}
		for _, id := range []string{"a", "b", "c"} {
			_ = send(t.Context(), o, request(id), in)
		}
		broken := errors.New("broken pipe")
		err := o.Run(func(frame []byte) (bool, error) {
			if bytes.Contains(frame, []byte(`"b"`)) {
				return true, broken // half of it
			}
			return true, nil
		})
		if err != broken {
			t.Errorf("Run: %v", err)
		}
		in.wants(t, `lost "c" notRun=true stopped=false`)
		if err := send(t.Context(), o, request("d"), in); !errors.Is(err, link.ErrNotSent) {
			t.Errorf("after the end: %v", err)
		}
	})
	t.Run("M-074 a frame beyond the bound does not leave", func(t *testing.T) {
		o := link.NewOutbox(100)
		m := jsonrpc.NewRequest(jsonrpc.StringID("a"), "m", map[string]string{"t": strings.Repeat("x", 100)})
		if err := send(t.Context(), o, m, &heard{}); !errors.Is(err, link.ErrNotSent) || !strings.Contains(err.Error(), "maxFrameBytes") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("answers to a flood of unusable frames do not pile up", func(t *testing.T) {
		o, frame := link.NewOutbox(0), make([]byte, 1<<20)
		for range 100 {
			o.Offer(frame)
		}
		written := 0
		_ = o.Run(func([]byte) (bool, error) {
			if written++; written == 8 {
				o.Close()
			}
			return true, nil
		})
		if written != 8 {
			t.Errorf("%d MiB were kept", written)
		}
	})
	t.Run("nobody waits for ever for a provider that does not read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o, in := link.NewOutbox(1<<20), &heard{}
			big := jsonrpc.NewRequest(jsonrpc.StringID("a"), "m", map[string]string{"t": strings.Repeat("x", 1<<20-100)})
			within, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			began, sent := time.Now(), 0
			var err error
			for ; err == nil; sent++ {
				err = send(within, o, big, in)
			}
			if !errors.Is(err, link.ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*time.Second || sent > 10 {
				t.Errorf("after %v and %d frames: %v", time.Since(began), sent, err)
			}
			waiting := make(chan error)
			go func() { waiting <- send(t.Context(), o, big, in) }()
			synctest.Wait()
			o.Close()
			_ = o.Run(nil)
			if err := <-waiting; !errors.Is(err, link.ErrNotSent) {
				t.Errorf("one that waited when the link ended: %v", err)
			}
		})
	})
}
