package socket_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/link/linktest"
	"github.com/sluicegate/sluice/mcp/link/socket"
)

// A seat is a slot that a provider has taken.
type seat struct {
	who, slot string
	link      link.Link
	in        *linktest.Inbox
}

// house is a broker as far as a Door can tell: who knows token "a" or "b" may come in, a
// slot "held" is held, and one "probe" asks probe first.
type house struct {
	*socket.Door
	url   string
	seats chan seat
	probe func(seat) bool
}

func open(t *testing.T, d *socket.Door) *house {
	t.Helper()
	h := &house{Door: d, seats: make(chan seat, 5000)}
	d.Admit = func(r *http.Request) (socket.Register, error) {
		who := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if who == "" {
			who = r.Header.Get("X-Provider-Token")
		}
		switch who {
		case "a", "b":
		case "c":
			return nil, &socket.Refused{Status: http.StatusForbidden, Text: "c may not serve here"}
		default:
			return nil, errors.New("the provider's token is not known")
		}
		return func(slot string, l link.Link) (link.Inbox, error) {
			s := seat{who, slot, l, linktest.NewInbox()}
			if slot == "held" || h.probe != nil && !h.probe(s) {
				return nil, errors.New("mcp: the slot is taken by a provider that is alive" + strings.Repeat("!", 200))
			}
			h.seats <- s
			return s.in, nil
		}, nil
	}
	srv := httptest.NewServer(d)
	t.Cleanup(func() { _ = d.Close(); srv.Close() })
	h.url = srv.URL
	return h
}

// enter dials in.
func (h *house) enter(t *testing.T, path, token string) *websocket.Conn {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), h.url+path, &websocket.DialOptions{HTTPHeader: http.Header{"X-Provider-Token": {token}}, Subprotocols: []string{"mcp"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.CloseNow() })
	c.SetReadLimit(-1)
	return c
}

func say(t *testing.T, c *websocket.Conn, frame string) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c *websocket.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, frame, err := c.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return string(frame)
}

func note(method string) string { return string(jsonrpc.NewNotification(method, nil).Raw) }

func wrap(slot, frame string) string { return fmt.Sprintf(`{"provider":%q,"payload":%s}`, slot, frame) }

func TestDoorRefuses(t *testing.T) {
	h := open(t, &socket.Door{MaxConnections: 1})
	for _, c := range []struct {
		name, path, token string
		status            int
		says              string
	}{
		{"no slot", "/provider/", "a", 404, "/provider/<slot>"},
		{"more than a slot", "/provider/x/y", "a", 404, "/provider/<slot>"},
		{"elsewhere", "/elsewhere", "a", 404, "/provider/<slot>"},
		{"M-114 a token in the URL", "/provider/x?access_token=hunter2", "a", 400, "access_token"},
		{"M-114 another", "/providers?apiKey=hunter2", "", 400, "apiKey"},
		{"4.2.10 an unknown token", "/provider/x", "hunter2", 401, "not known"},
		{"4.2.10 none", "/providers", "", 401, "not known"},
		{"4.2.10 one that may not", "/provider/x", "c", 403, "may not"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+c.path, nil)
			req.Header.Set("X-Provider-Token", c.token)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body := make([]byte, 1000)
			n, _ := resp.Body.Read(body)
			m, bad := jsonrpc.Parse(body[:n], jsonrpc.Bounds{})
			if resp.StatusCode != c.status || bad != nil || !strings.Contains(m.Fault().Message, c.says) || strings.Contains(string(body), "hunter2") {
				t.Errorf("%d %s", resp.StatusCode, body[:n])
			}
			if (resp.Header.Get("Www-Authenticate") != "") != (c.status == 401) {
				t.Errorf("WWW-Authenticate: %q", resp.Header.Get("Www-Authenticate"))
			}
		})
	}
	t.Run("too many connections", func(t *testing.T) {
		first := h.enter(t, "/provider/x", "a")
		linktest.Get(t, h.seats)
		_, resp, err := websocket.Dial(t.Context(), h.url+"/provider/y", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer a"}}})
		if err == nil || resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a second: %v", err)
		}
		_ = first.Close(websocket.StatusNormalClosure, "")
		for err != nil { // the place is free a moment after the end
			_, _, err = websocket.Dial(t.Context(), h.url+"/provider/y", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer a"}}})
		}
	})
	t.Run("no handshake", func(t *testing.T) {
		h := open(t, &socket.Door{MaxConnections: 1})
		for range 3 {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/provider/x", nil)
			req.Header.Set("X-Provider-Token", "a")
			resp, err := http.DefaultClient.Do(req)
			if err != nil || resp.StatusCode != http.StatusUpgradeRequired {
				t.Fatalf("%v %v", resp, err)
			}
			_ = resp.Body.Close()
		}
	})
}

func TestOneSlot(t *testing.T) {
	h := open(t, &socket.Door{MaxFrame: 1000})
	t.Run("4.2.1 plain frames, both ways", func(t *testing.T) {
		c := h.enter(t, "/provider/x", "a")
		s := linktest.Get(t, h.seats)
		if s.who != "a" || s.slot != "x" || c.Subprotocol() != "mcp" {
			t.Errorf("%s has taken %s over %q", s.who, s.slot, c.Subprotocol())
		}
		linktest.Send(t, s.link, "", linktest.Ask("1", nil))
		if got := hear(t, c); got != string(linktest.Ask("1", nil).Raw) {
			t.Errorf("heard %s", got)
		}
		say(t, c, `{"jsonrpc":"2.0","id":"1","result":{}}`)
		if m := linktest.Get(t, s.in.Messages); m.ID != jsonrpc.StringID("1") {
			t.Errorf("got %s", m.Raw)
		}
		say(t, c, "no JSON")
		linktest.Get(t, s.in.Faults)
		say(t, c, `{"jsonrpc":"2.0","id":9,"method":"m","params":"`+strings.Repeat("x", 2000)+`"}`)
		if got := hear(t, c); !strings.Contains(got, `"id":9,"error":{"code":-32600`) {
			t.Errorf("M-074 heard %s", got)
		}
	})
	t.Run("M-045 a provider that goes takes its link with it", func(t *testing.T) {
		c := h.enter(t, "/provider/x", "a")
		s := linktest.Get(t, h.seats)
		_ = c.CloseNow()
		if err := linktest.Get(t, s.in.Ends); err == link.ErrClosed {
			t.Errorf("down: %v", err)
		}
	})
	t.Run("4.2.1 a slot that is held", func(t *testing.T) {
		c := h.enter(t, "/provider/held", "a")
		_, _, err := c.Read(t.Context())
		if e, ok := errors.AsType[websocket.CloseError](err); !ok || e.Code != websocket.StatusPolicyViolation || !strings.Contains(e.Reason, "is taken") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("M-113 nothing of an old connection arrives after its end", func(t *testing.T) {
		old := h.enter(t, "/provider/x", "a")
		first := linktest.Get(t, h.seats)
		_ = first.link.Close()
		h.enter(t, "/provider/x", "a")
		second := linktest.Get(t, h.seats)
		_ = old.Write(t.Context(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":"1","result":{}}`))
		_, _, _ = old.Read(t.Context()) // which answers the close frame
		if err := linktest.Get(t, first.in.Ends); err != link.ErrClosed || len(first.in.Messages)+len(second.in.Messages) > 0 {
			t.Errorf("down: %v, and %d messages", err, len(first.in.Messages)+len(second.in.Messages))
		}
	})
}

func TestManySlots(t *testing.T) {
	h := open(t, &socket.Door{MaxFrame: 1000, MaxSlots: 3})
	c := h.enter(t, "/providers", "b")
	var x, y seat
	t.Run("4.2.1 a slot is registered by its first frame", func(t *testing.T) {
		for _, slot := range []string{"x", "y"} {
			say(t, c, wrap(slot, note("hello")))
			say(t, c, wrap(slot, note("again")))
			s := linktest.Get(t, h.seats)
			if s.who != "b" || s.slot != slot {
				t.Fatalf("%s has taken %s", s.who, s.slot)
			}
			for _, want := range []string{"hello", "again"} {
				if m := linktest.Get(t, s.in.Messages); m.Method != want {
					t.Errorf("%s heard %s, want %s", slot, m.Raw, want)
				}
			}
			linktest.Send(t, s.link, "", linktest.Ask("1", nil))
			if got := hear(t, c); got != wrap(slot, string(linktest.Ask("1", nil).Raw)) {
				t.Errorf("heard %s", got)
			}
			x, y = y, s
		}
	})
	refused := func(t *testing.T, slot, id, says string) {
		t.Helper()
		got := hear(t, c)
		raw, _ := jsonrpc.Lookup([]byte(got), "payload")
		m, bad := jsonrpc.Parse(raw, jsonrpc.Bounds{})
		if bad != nil || m.ID.String() != id || !strings.Contains(m.Fault().Message, says) || !strings.HasPrefix(got, fmt.Sprintf(`{"provider":%q`, slot)) {
			t.Errorf("heard %s", got)
		}
	}
	t.Run("what is no envelope", func(t *testing.T) {
		for _, frame := range []string{"[]", "{}", note("hello"), `{"provider":7,"payload":{}}`, `{"provider":"","payload":{}}`, `{"provider":"x"}`, "x",
			wrap(strings.Repeat("x", 129), note("m"))} {
			say(t, c, frame)
			refused(t, "", "null", "no envelope")
		}
	})
	t.Run("M-074 too long: the call of that slot fails alone", func(t *testing.T) {
		say(t, c, wrap("y", `{"result":"`+strings.Repeat("x", 5000)+`","jsonrpc":"2.0","id":"1"}`))
		if f := linktest.Get(t, y.in.Losses); f.ID != jsonrpc.StringID("1") || !f.Stopped {
			t.Errorf("lost %s: %+v", f.ID, f.Failure)
		}
		say(t, c, `{"payload":{"jsonrpc":"2.0","id":"2","result":"`+strings.Repeat("x", 5000)+`"},"provider":"y"}`) // nobody's
		say(t, c, wrap("unknown", strings.Repeat("x", 5000)))
		say(t, c, wrap("y", note("then")))
		if m := linktest.Get(t, y.in.Messages); m.Method != "then" {
			t.Errorf("got %s", m.Raw)
		}
	})
	t.Run("4.2.1 a slot that is held", func(t *testing.T) {
		say(t, c, wrap("held", string(linktest.Ask("9", nil).Raw)))
		refused(t, "held", `"9"`, "is taken")
	})
	t.Run("too many slots", func(t *testing.T) {
		say(t, c, wrap("z", note("hello")))
		linktest.Get(t, h.seats)
		say(t, c, wrap("zz", note("hello")))
		refused(t, "zz", "null", "too many slots")
	})
	t.Run("M-113 a slot that is closed stays so on this connection, and the others go on", func(t *testing.T) {
		_ = x.link.Close()
		if err := linktest.Get(t, x.in.Ends); err != link.ErrClosed {
			t.Errorf("down: %v", err)
		}
		say(t, c, wrap("x", string(linktest.Ask("8", nil).Raw)))
		refused(t, "x", `"8"`, "closed for this connection")
		say(t, c, wrap("y", note("here")))
		if m := linktest.Get(t, y.in.Messages); m.Method != "here" || len(h.seats) > 0 {
			t.Errorf("got %s, and %d new seats", m.Raw, len(h.seats))
		}
	})
	t.Run("the end is everybody's", func(t *testing.T) {
		_ = c.CloseNow()
		linktest.Get(t, y.in.Ends)
		if len(x.in.Ends) > 0 {
			t.Error("down twice")
		}
	})
}

// TestLivenessOfEachOther has two connections take a slot of the other's at once. Each is
// asked whether it is there while it waits for its own registration.
func TestLivenessOfEachOther(t *testing.T) {
	h := open(t, &socket.Door{})
	holders := map[string]link.Link{}
	var mu sync.Mutex
	var both sync.WaitGroup
	both.Add(2)
	h.probe = func(s seat) bool {
		mu.Lock()
		holder := holders[s.slot]
		if holder == nil {
			holders[s.slot] = s.link
		}
		mu.Unlock()
		if holder == nil {
			return true
		}
		both.Done()
		both.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return !holder.(link.Prober).Alive(ctx)
	}
	conns := map[string]*websocket.Conn{"x": h.enter(t, "/providers", "a"), "y": h.enter(t, "/providers", "a")}
	for slot, c := range conns {
		say(t, c, wrap(slot, note("hello")))
		linktest.Get(t, h.seats)
	}
	var answers sync.WaitGroup
	for slot, c := range conns {
		other := map[string]string{"x": "y", "y": "x"}[slot]
		answers.Go(func() {
			say(t, c, wrap(other, note("hello")))
			if got := hear(t, c); !strings.Contains(got, "is taken") {
				t.Errorf("4.2.1 heard %s", got)
			}
			c.CloseRead(t.Context()) // pings are answered by who reads, and the other may be asking still
		})
	}
	answers.Wait()
}

func TestDoorCloses(t *testing.T) {
	h := open(t, &socket.Door{})
	one, many := h.enter(t, "/provider/x", "a"), h.enter(t, "/providers", "a")
	s := linktest.Get(t, h.seats)
	closed := make(chan error, 1)
	go func() { closed <- h.Close() }()
	for _, c := range []*websocket.Conn{one, many} {
		if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Errorf("got %v", err)
		}
	}
	linktest.Get(t, s.in.Ends)
	linktest.Get(t, closed)
	if _, resp, err := websocket.Dial(t.Context(), h.url+"/providers", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer a"}}}); err == nil || resp.StatusCode != 503 {
		t.Errorf("after the end: %v", err)
	}
}

// TestNobodyIsLeft lets in and loses two thousand providers, in every way.
func TestNobodyIsLeft(t *testing.T) {
	h := open(t, &socket.Door{})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	cycle := func(i int) {
		path := []string{"/provider/x", "/providers", "/provider/held"}[i%3]
		c, _, err := websocket.Dial(t.Context(), h.url+path, &websocket.DialOptions{HTTPClient: client, HTTPHeader: http.Header{"X-Provider-Token": {"a"}}})
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.CloseNow() }()
		if i%3 == 1 {
			say(t, c, wrap("x", note("hello")))
		}
		if i%3 == 2 {
			_, _, _ = c.Read(t.Context())
			return
		}
		s := linktest.Get(t, h.seats)
		if i%2 == 0 {
			_ = s.link.Close()
		}
		_ = c.CloseNow()
		linktest.Get(t, s.in.Ends)
	}
	cycle(0)
	before := runtime.NumGoroutine()
	for i := range 2000 {
		cycle(i)
	}
	linktest.Settles(t, before)
}
