package provider_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/provider"
)

// A peer is the broker's end of a connection, in the hands of the test: what no broker of
// ours would send.
type peer struct {
	t  *testing.T
	ws *websocket.Conn
}

// listen waits for providers, and greets each.
func listen(t *testing.T, greet func(*peer)) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/under/provider/site" || r.Header.Get("X-Provider-Token") != secret || r.URL.RawQuery != "" {
			t.Errorf("dialled %s with %v", r.URL, r.Header)
		}
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"mcp"}})
		if err != nil {
			t.Error(err)
			return
		}
		greet(&peer{t, ws})
	}))
	t.Cleanup(s.Close)
	return s.URL + "/under/"
}

// dialPeer connects a provider to a peer. Nothing is declared.
func dialPeer(t *testing.T, o provider.Options) (*provider.Provider, *peer) {
	t.Helper()
	peers := make(chan *peer, 10)
	o.URL = listen(t, func(b *peer) {
		peers <- b
		if err := b.ws.Write(t.Context(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":"hello","method":"ping"}`)); err != nil {
			t.Error(err)
		}
	})
	o.Slot, o.Secret, o.FirstPause = "site", secret, time.Millisecond
	p, err := provider.Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	b := <-peers
	if got := b.read(); got != `{"jsonrpc":"2.0","id":"hello","result":{}}` {
		t.Errorf("a ping is answered with %s", got)
	}
	return p, b
}

func (b *peer) send(frame string) {
	b.t.Helper()
	if err := b.ws.Write(b.t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *peer) read() string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
	defer cancel()
	_, frame, err := b.ws.Read(ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(frame)
}

// TestClocks has a broker that does not say how long a grant is good, with a clock that is
// not ours.
func TestClocks(t *testing.T) {
	ago := func(d time.Duration) string { return fmt.Sprintf(`"expiresAt":%d`, time.Now().Add(-d).UnixMilli()) }
	for _, c := range []struct {
		name       string
		members    string
		difference time.Duration
		valid      time.Duration // about how long the grant is good
	}{
		{"C-67a clocks in step", ago(-30 * time.Second), 0, 30 * time.Second},
		{"C-67a clocks that may be apart", ago(-30 * time.Second), 10 * time.Second, 20 * time.Second},
		{"C-67a a broker's clock far ahead", ago(-time.Hour), 0, time.Minute},
		{"C-67a a broker's clock behind", ago(time.Second), 0, 0},
		{"C-67a a broker that says how long, with any clock", ago(time.Hour) + `,"expiresInMs":5000`, time.Hour, 5 * time.Second},
		{"C-67 never more than a minute", ago(time.Hour) + `,"expiresInMs":500000`, 0, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, b := dialPeer(t, provider.Options{Handler: tools(nil), ClockDifference: c.difference})
			granted := make(chan *provider.Grant)
			go func() {
				g, err := p.ReserveBudget(t.Context(), provider.Query{Caller: provider.CallerReference{Ref: "cr_1"}, Unit: "op", Quantity: 1, Key: "k"})
				if err != nil {
					t.Error(err)
				}
				granted <- g
			}()
			want := `{"jsonrpc":"2.0","id":"sdk-1","method":"broker/budget/reserve","params":{"principal":{"ref":"cr_1","type":"caller-ref"},"capability":"","resource":"","resourcePath":"","unit":"op","quantity":1,"idempotencyKey":"k"}}`
			if got := b.read(); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			b.send(`{"jsonrpc":"2.0","id":"sdk-1","result":{"reservationId":"r","decisionId":"d","quantity":1,"replayed":false,` + c.members + `}}`)
			g, now := <-granted, time.Now()
			if c.valid > 0 && !g.Valid(now.Add(c.valid-3*time.Second)) || g.Valid(now.Add(c.valid+time.Millisecond)) {
				t.Errorf("the grant is not good for %v", c.valid)
			}
		})
	}
}

// holding is a handler whose requests end with their context.
type holding struct{ began chan jsonrpc.ID }

func (h holding) Handle(ctx context.Context, m *jsonrpc.Message, send func(*jsonrpc.Message) error) *jsonrpc.Message {
	switch m.Method {
	case "ping":
		return jsonrpc.NewResult(m.ID, nil)
	case "notifications/ask":
		_ = send(jsonrpc.NewRequest(jsonrpc.StringID("mine"), "roots/list", nil))
		return nil
	case "hold":
		h.began <- m.ID
		<-ctx.Done()
		return jsonrpc.NewResult(m.ID, map[string]string{"was": ctx.Err().Error()})
	}
	if m.Kind == jsonrpc.Response {
		_ = send(jsonrpc.NewNotification("got", m.Result))
	}
	return nil
}

func TestFrames(t *testing.T) {
	h := holding{make(chan jsonrpc.ID, 10)}
	_, b := dialPeer(t, provider.Options{Handler: h, MaxRequests: 2})
	for _, c := range []struct{ name, send, want string }{
		{"what is no JSON", `{`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error: the frame is not one JSON value"}}`},
		{"a name that stands twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request: the name of a member stands twice"}}`},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request: a batch"}}`},
		{"a question of the handler's own", `{"jsonrpc":"2.0","method":"notifications/ask"}`, `{"jsonrpc":"2.0","id":"mine","method":"roots/list"}`},
		{"and its answer", `{"jsonrpc":"2.0","id":"mine","result":{"roots":[]}}`, `{"jsonrpc":"2.0","method":"got","params":{"roots":[]}}`},
		{"an answer to nothing is the handler's too", `{"jsonrpc":"2.0","id":"sdk-1","result":{"x":9007199254740993}}`, `{"jsonrpc":"2.0","method":"got","params":{"x":9007199254740993}}`},
	} {
		b.send(c.send)
		if got := b.read(); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
	hold := func(id string) { b.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"hold"}`) }
	hold("1")
	hold(`"1"`)
	<-h.began
	<-h.began
	hold("1")
	if got := b.read(); !strings.Contains(got, "the id is that of a request under way") {
		t.Errorf("got %s", got)
	}
	hold("3")
	if got := b.read(); !strings.Contains(got, `"id":3,"error"`) || !strings.Contains(got, "too many requests") {
		t.Errorf("got %s", got)
	}
	b.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`)
	b.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}`)
	if got := b.read(); got != `{"jsonrpc":"2.0","id":"1","result":{"was":"context canceled"}}` {
		t.Errorf("D20 a request that was cancelled is answered, so that its slot comes back; got %s", got)
	}
	hold("3")
	<-h.began
}

func TestBinaryFramesEndTheConnection(t *testing.T) {
	p, b := dialPeer(t, provider.Options{Handler: tools(nil)})
	asked := make(chan error, 1)
	go func() {
		_, err := p.ReserveBudget(t.Context(), provider.Query{})
		asked <- err
	}()
	b.read()
	if err := b.ws.Write(t.Context(), websocket.MessageBinary, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := <-asked; err != provider.ErrLost {
		t.Errorf("got %v", err)
	}
}

// TestSilence is a broker that has gone without a word.
func TestSilence(t *testing.T) {
	p, _ := dialPeer(t, provider.Options{Handler: tools(nil), Pulse: 20 * time.Millisecond}) // the peer does not read, so it answers no ping
	if _, err := p.ReserveBudget(t.Context(), provider.Query{}); err != provider.ErrLost {
		t.Errorf("got %v", err)
	}
}

func TestRevisions(t *testing.T) {
	_, b := dialPeer(t, provider.Options{Handler: tools(nil)})
	for send, want := range map[string]string{
		`"method":"initialize","params":{"protocolVersion":"2025-03-26"}`: `"protocolVersion":"2025-03-26"`,
		`"method":"initialize","params":{"protocolVersion":"1999-01-01"}`: `"protocolVersion":"2025-11-25"`,
		`"method":"initialize"`:      `"instructions":"Mind the pumps."`,
		`"method":"server/discover"`: `"supportedVersions":["2026-07-28",`,
		`"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"}}`: `"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28",`,
		`"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`: `"resultType":"complete"`,
		`"method":"tools/call","params":{"name":"none"}`:                                                    `"code":-32602,"message":"Unknown tool: \"none\""`,
		`"method":"tools/call","params":{"name":"add","arguments":{"a":"x"}}`:                               `"code":-32602,"message":"Invalid arguments: `,
		`"method":"tools/call","params":{"name":"add"}`:                                                     `"text":"0"`,
		`"method":"resources/list"`: `"code":-32601`,
	} {
		b.send(`{"jsonrpc":"2.0","id":7,` + send + `}`)
		if got := b.read(); !strings.Contains(got, want) || !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":7,`) {
			t.Errorf("%s\ngot  %s\nwant %s", send, got, want)
		}
	}
}

// early is a handler that must not be asked before something has happened.
type early struct {
	t    *testing.T
	done *atomic.Bool
}

func (h early) Handle(_ context.Context, m *jsonrpc.Message, _ func(*jsonrpc.Message) error) *jsonrpc.Message {
	if m.Kind == jsonrpc.Request && !h.done.Load() {
		h.t.Errorf("%s is handled before the declaration has been accepted", m.Method)
	}
	return jsonrpc.NewResult(m.ID, nil)
}

func TestNothingIsServedBeforeTheDeclaration(t *testing.T) {
	var accepted atomic.Bool
	peers := make(chan *peer, 1)
	o := provider.Options{Slot: "site", Secret: secret, Handler: early{t, &accepted}, Declaration: &provider.Declaration{Version: "1"}}
	o.URL = listen(t, func(b *peer) { peers <- b })
	dialled := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		_, err := provider.Dial(ctx, o)
		dialled <- err
	}()
	b := <-peers
	if got := b.read(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":"sdk-1","method":"broker/authorization/declare","params":{"version":"1",`) {
		t.Errorf("the first is %s", got)
	}
	b.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	b.send(`{`) // answered by whoever reads, once the ping has been read
	b.read()
	accepted.Store(true)
	b.send(`{"jsonrpc":"2.0","id":"sdk-1","result":{"accepted":true}}`)
	if got := b.read(); got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("got %s", got)
	}
	if err := <-dialled; err != nil {
		t.Error(err)
	}
}

func TestNoProgressAfterTheAnswer(t *testing.T) {
	var kept *provider.Request
	h := worker(func(_ context.Context, q *provider.Request) (*provider.Result, error) {
		kept = q
		return provider.Text("done"), nil
	})
	_, b := dialPeer(t, provider.Options{Handler: h})
	b.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work","_meta":{"progressToken":7}}}`)
	b.read()
	if err := kept.Progress(1, 1, "late"); err != nil {
		t.Error(err)
	}
	b.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if got := b.read(); got != `{"jsonrpc":"2.0","id":2,"result":{}}` {
		t.Errorf("got %s", got)
	}
}

// TestNothingBeginsThatNobodyWaitsFor ends requests that wait for the declaration.
func TestNothingBeginsThatNobodyWaitsFor(t *testing.T) {
	var accepted atomic.Bool
	peers := make(chan *peer, 10)
	o := provider.Options{Slot: "site", Secret: secret, Handler: early{t, &accepted}, Declaration: &provider.Declaration{Version: "1"}, FirstPause: time.Millisecond}
	o.URL = listen(t, func(b *peer) { peers <- b })
	dialled := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		_, err := provider.Dial(ctx, o)
		dialled <- err
	}()
	b := <-peers
	b.read()
	b.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
	b.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if got := b.read(); got != `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"The request was cancelled before it began"}}` {
		t.Errorf("C-45 a request that is cancelled: %s", got)
	}
	b.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call"}`)
	b.send(`{`) // answered by whoever reads, once the request has been read
	b.read()
	_ = b.ws.CloseNow()
	b = <-peers
	b.read()
	accepted.Store(true)
	b.send(`{"jsonrpc":"2.0","id":"sdk-1","result":{"accepted":true}}`)
	b.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if got := b.read(); got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("M-113 the id of a request that is over is free: %s", got)
	}
	if err := <-dialled; err != nil {
		t.Error(err)
	}
}
