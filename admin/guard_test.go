package admin

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"net/http"
	"net/http/httptest"
)

func TestWhoMayAsk(t *testing.T) {
	tokens := []Token{NewToken("viewer", "see", Reader), NewToken("boss", "do", Operator)}
	const status, reset = "GET /actuator/ratelimits", "POST /actuator/ratelimits/reset?key=user:x"
	for _, c := range []struct {
		name    string
		tokens  bool
		peer    string
		ask     string
		headers []string
		want    int
	}{
		{"curl on this machine may read", false, "127.0.0.1:5", status, nil, 200},
		{"curl -X POST on this machine may reset", false, "127.0.0.1:5", reset, nil, 200},
		{"IPv6 loopback", false, "[::1]:5", status, nil, 200},
		{"mapped loopback", false, "[::ffff:127.0.0.1]:5", status, nil, 200},
		{"a unix socket's file mode has decided", false, "@", reset, nil, 200},
		{"another machine, no tokens", false, "203.0.113.9:5", status, nil, 403},
		{"an unreadable peer", false, "what", status, nil, 403},
		{"a local proxy in front is no local caller", false, "127.0.0.1:5", status, []string{"X-Forwarded-For: 203.0.113.9"}, 403},
		{"nor is one that says Forwarded", false, "127.0.0.1:5", status, []string{"Forwarded: for=203.0.113.9"}, 403},

		{"I-122 no token", true, "203.0.113.9:5", status, nil, 401},
		{"I-122 no token on this machine", true, "127.0.0.1:5", status, nil, 401},
		{"I-122 a wrong token", true, "203.0.113.9:5", status, []string{"Authorization: Bearer seee"}, 401},
		{"another scheme", true, "203.0.113.9:5", status, []string{"Authorization: Basic see"}, 401},
		{"a reader reads", true, "203.0.113.9:5", status, []string{"Authorization: Bearer see"}, 200},
		{"a scheme in small letters", true, "203.0.113.9:5", status, []string{"Authorization: bearer  see"}, 200},
		{"a reader may not reset", true, "203.0.113.9:5", reset, []string{"Authorization: Bearer see"}, 403},
		{"an operator resets", true, "203.0.113.9:5", reset, []string{"Authorization: Bearer do"}, 200},
		{"metrics need a token too", true, "203.0.113.9:5", "GET /metrics", nil, 401},
		{"the stream needs a token too", true, "203.0.113.9:5", "GET /api/v1/stream", nil, 401},
		{"the page's files hold nothing", true, "203.0.113.9:5", "GET /app.js", nil, 200},
		{"health holds nothing", true, "203.0.113.9:5", "GET /actuator/health", nil, 200},

		{"an attacker's name for this machine", false, "127.0.0.1:5", status, []string{"Host: evil.example:9090"}, 421},
		{"even for the page", false, "127.0.0.1:5", "GET /", []string{"Host: evil.example"}, 421},
		{"localhost with a port", false, "127.0.0.1:5", status, []string{"Host: localhost:9090"}, 200},
		{"an address", false, "127.0.0.1:5", status, []string{"Host: [::1]:9090"}, 200},
		{"a configured name", false, "127.0.0.1:5", status, []string{"Host: Admin.Internal.:9090"}, 200},

		{"another site's form", false, "127.0.0.1:5", reset, []string{"Origin: http://evil.example"}, 403},
		{"a form of a sandboxed frame", false, "127.0.0.1:5", reset, []string{"Origin: null"}, 403},
		{"another site's fetch", false, "127.0.0.1:5", reset, []string{"Sec-Fetch-Site: cross-site", "X-Sluice-Request: page"}, 403},
		{"another port of this machine", false, "127.0.0.1:5", reset, []string{"Sec-Fetch-Site: same-site", "Origin: http://127.0.0.1:3000", "X-Sluice-Request: page"}, 403},
		{"another site's image", false, "127.0.0.1:5", status, []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"a link on another site to the page", false, "127.0.0.1:5", "GET /", []string{"Sec-Fetch-Site: cross-site"}, 200},
		{"our page without its header", false, "127.0.0.1:5", reset, []string{"Sec-Fetch-Site: same-origin"}, 403},
		{"our page", false, "127.0.0.1:5", reset, []string{"Sec-Fetch-Site: same-origin", "Origin: http://127.0.0.1:9090", "X-Sluice-Request: page"}, 200},
		{"an address typed into a browser", false, "127.0.0.1:5", status, []string{"Sec-Fetch-Site: none"}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newTraffic().options()
			o.Hosts = []string{"admin.internal"}
			if c.tokens {
				o.Tokens = tokens
			}
			if got := askAs(t, o, c.peer, c.ask, c.headers...).Code; got != c.want {
				t.Errorf("answered %d, want %d", got, c.want)
			}
		})
	}
}

// askAs sends one request as if from peer.
func askAs(t *testing.T, o Options, peer, ask string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	method, path, _ := strings.Cut(ask, " ")
	r := httptest.NewRequest(method, "http://127.0.0.1:9090"+path, nil)
	r.RemoteAddr = peer
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
		if name == "Host" {
			r.Host = value
		}
	}
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r)
	return w
}

func TestGuessingIsLimited(t *testing.T) {
	w := newWorld(t, func(_ *world, o *Options) { o.Tokens = []Token{NewToken("ci", "right", Reader)} })
	codes := map[int]int{}
	for i := range 50 {
		resp, _ := w.ask("GET", "/actuator/info", "", fmt.Sprint("Authorization: Bearer guess", i))
		codes[resp.StatusCode]++
	}
	if codes[401] != 10 || codes[429] != 40 {
		t.Errorf("I-122: 50 guesses got %v, want ten 401 and then 429", codes)
	}
	resp, _ := w.ask("GET", "/actuator/info", "", "Authorization: Bearer right")
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "6" {
		t.Errorf("I-122: the right token is told apart while the address is locked out: %d, Retry-After %s", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
	if strings.Contains(w.log.String(), "guess") {
		t.Error("a guessed token is in the log")
	}
}

func TestGuessesComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFailures()
		addr := netip.MustParseAddr("203.0.113.9")
		wrong := func() bool { return false }
		for range 10 {
			if f.judge(addr, wrong) != 0 {
				t.Fatal("refused before ten guesses")
			}
		}
		wait := f.judge(addr, wrong)
		time.Sleep(wait - time.Microsecond)
		if f.judge(addr, wrong) == 0 {
			t.Error("admitted before the wait was over")
		}
		time.Sleep(time.Microsecond)
		if f.judge(addr, func() bool { return true }) != 0 {
			t.Error("refused after the wait")
		}
	})
}

func TestGuessersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFailures()
		for i := range 3 * maxFailing {
			addr := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
			f.judge(addr, func() bool { return false })
		}
		if len(f.cells) != maxFailing {
			t.Errorf("%d addresses are remembered, want %d", len(f.cells), maxFailing)
		}
		stranger := netip.MustParseAddr("203.0.113.9")
		if f.judge(stranger, func() bool { return true }) == 0 {
			t.Error("a stranger of a flood guesses for free")
		}
		time.Sleep(time.Hour)
		f.judge(stranger, func() bool { return false })
		f.judge(stranger, func() bool { return false })
		if f.cells[group(stranger)] == nil {
			t.Error("the recovered still take all the room")
		}
	})
}

func TestNeighboursOfAnIPv6PrefixAreOneGuesser(t *testing.T) {
	f := newFailures()
	for i := range 10 {
		f.judge(netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i)), func() bool { return false })
	}
	if f.judge(netip.MustParseAddr("2001:db8::ffff"), func() bool { return true }) == 0 {
		t.Error("a new address of the same /64 may guess on")
	}
}

func TestGuessingInParallelGainsNothing(t *testing.T) {
	f := newFailures()
	var wg sync.WaitGroup
	var mu sync.Mutex
	looked := 0
	for range 64 {
		wg.Go(func() {
			f.judge(netip.MustParseAddr("203.0.113.9"), func() bool { mu.Lock(); looked++; mu.Unlock(); return false })
		})
	}
	wg.Wait()
	if looked != 10 {
		t.Errorf("%d of 64 simultaneous guesses were looked at, want 10", looked)
	}
}

func TestGuardOfAnotherEndpoint(t *testing.T) {
	o := newTraffic().options()
	o.Tokens = []Token{NewToken("viewer", "see", Reader), NewToken("boss", "do", Operator)}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := a.Guard(Operator, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for token, want := range map[string]int{"": 401, "see": 403, "do": 418} {
		r := httptest.NewRequest("POST", "http://localhost/other", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want || w.Header().Get("X-Content-Type-Options") == "" {
			t.Errorf("token %q gets %d, want %d", token, w.Code, want)
		}
	}
}

func TestParseToken(t *testing.T) {
	want := NewToken("ci", "right", Operator)
	for _, text := range []string{fmt.Sprintf("%x", want.Digest), fmt.Sprintf("sha256:%x", want.Digest)} {
		if got, err := ParseToken("ci", text, Operator); err != nil || got != want {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "right", "abcd"} {
		if _, err := ParseToken("ci", text, Reader); err == nil || !strings.Contains(err.Error(), "64 hex digits") {
			t.Errorf("%q: %v, want what a digest looks like", text, err)
		}
	}
}

func TestBrowsersAreHeldBack(t *testing.T) {
	o := newTraffic().options()
	for _, ask := range []string{"GET /", "GET /actuator/ratelimits", "GET /nowhere"} {
		h := askAs(t, o, "127.0.0.1:5", ask, "Origin: http://127.0.0.1:9090").Header()
		for name, part := range map[string]string{
			"Content-Security-Policy": "default-src 'self'", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if !strings.Contains(h.Get(name), part) {
				t.Errorf("%s: %s is %q, want %s", ask, name, h.Get(name), part)
			}
		}
		for name := range h {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: there is no CORS, yet %s is sent", ask, name)
			}
		}
	}
}
