package gate_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/identity"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// open returns a controller with rules on a memory store.
func open(t testing.TB, rules ...sluice.Rule) *sluice.Controller {
	t.Helper()
	s := memory.New(memory.Options{})
	ctl, err := sluice.Open(&sluice.Policy{Rules: rules}, s, sluice.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctl.Close()
		s.Close()
	})
	return ctl
}

// newGate returns a gate in front of ctl. Its log is the test's.
func newGate(t testing.TB, ctl *sluice.Controller, o gate.Options) *gate.Gate {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	g, err := gate.New(ctl, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// perHour is a rule that admits n calls of a kind and, for the length of a test, no
// more, to each value of the dimensions, or to each subject.
func perHour(id string, n int64, kind string, by ...sluice.Dimension) sluice.Rule {
	if by == nil {
		by = []sluice.Dimension{sluice.Subject}
	}
	return sluice.Rule{
		ID: id, GroupBy: by,
		Match:  sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {kind}}},
		Limits: []sluice.Limit{{Limit: limit.Window(n, limit.Hour)}},
	}
}

// on restricts a rule to values of a dimension.
func on(r sluice.Rule, d sluice.Dimension, values ...string) sluice.Rule {
	r.Match.Is[d] = values
	return r
}

// slots is a rule that admits n calls of a kind at once.
func slots(id string, n int64, kind string) sluice.Rule {
	r := perHour(id, n, kind)
	r.Limits = []sluice.Limit{{Limit: limit.Slots(n)}}
	return r
}

// ok is a handler that answers 200 with what reached it.
var ok = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("X-Seen", r.Method+" "+r.URL.String())
})

const peer = "203.0.113.9:5000"

// request makes a request from peer. headers are names and values in turn.
func request(method, target string, headers ...string) *http.Request {
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader("")
	}
	r := httptest.NewRequest(method, target, body)
	r.RemoteAddr = peer
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// withBody makes a POST from peer.
func withBody(target, body string, headers ...string) *http.Request {
	r := request(http.MethodPost, target, headers...)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return r
}

// from changes where a request comes from.
func from(addr string, r *http.Request) *http.Request {
	r.RemoteAddr = addr
	return r
}

// do serves r and returns the answer.
func do(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// statuses serves requests one after the other.
func statuses(h http.Handler, rs ...*http.Request) []int {
	var all []int
	for _, r := range rs {
		all = append(all, do(h, r).StatusCode)
	}
	return all
}

// admitted sends n requests and returns how many were not refused.
func admitted(h http.Handler, n int, r func(i int) *http.Request) (passed int) {
	for i := range n {
		if do(h, r(i)).StatusCode == http.StatusOK {
			passed++
		}
	}
	return passed
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func expectList(t *testing.T, what string, got, want []int) {
	t.Helper()
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		same = got[i] == want[i]
	}
	if !same {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

var secret = []byte("0123456789abcdef-test-secret")

// newKey makes an API key.
func newKey(t testing.TB, rec identity.KeyRecord) (raw, line string) {
	t.Helper()
	raw, record, err := identity.NewKey(secret, rec)
	if err != nil {
		t.Fatal(err)
	}
	return raw, string(record)
}

// keys reads a key file.
func keys(t testing.TB, lines ...string) *identity.Keys {
	t.Helper()
	k, err := identity.ReadKeys(strings.NewReader(strings.Join(lines, "")), "keys.jsonl", secret)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// textLogger logs to w, one record a line.
func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
