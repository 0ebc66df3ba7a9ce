package clients_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/llm"
	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/llmtest"
	"github.com/sluicegate/sluice/store/memory"
)

// A rig is a gateway with one provider of each dialect behind it.
type rig struct {
	url     string
	mock    *llmtest.Provider
	gateway *llm.Gateway
	control *sluice.Controller
	seen    *traffic
}

// tenantKey is the credential that the gateway takes; the providers are shown its own.
const tenantKey = "of-the-tenant"

const slots = 8

// limits are rules about models of these names: "tight" has room for 100
// tokens a minute, "soon" for a request a second, "later" for one an hour.
func limits() []sluice.Rule {
	about := func(model string, l sluice.Limit) sluice.Rule {
		return sluice.Rule{ID: model, Limits: []sluice.Limit{l},
			Match: sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {llm.KindRequest}, sluice.Model: {model}}}}
	}
	return append(llm.Cooldowns(),
		about("tight", sluice.Limit{Limit: limit.Bucket(100, limit.Minute, 100), Unit: sluice.Tokens}),
		about("soon", sluice.Limit{Limit: limit.Bucket(1, limit.Second, 1)}),
		about("later", sluice.Limit{Limit: limit.Bucket(1, limit.Hour, 1)}),
		sluice.Rule{ID: "slots", Match: sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {llm.KindAttempt}}},
			Limits: []sluice.Limit{{Limit: limit.Slots(slots)}}})
}

// identify takes one key and refuses whoever shows another, or none.
func identify(_ *http.Request, credential string) (llm.Caller, error) {
	if credential != tenantKey {
		return llm.Caller{}, errors.New("Show a key.")
	}
	return llm.Caller{Tenant: "tenant"}, nil
}

// start starts a rig.
func start(t testing.TB) *rig {
	mock := llmtest.New(llmtest.Options{})
	provider := httptest.NewServer(mock)
	control, err := sluice.Open(&sluice.Policy{Rules: limits()}, memory.New(memory.Options{}), sluice.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := llm.Options{Identify: identify}
	for name, d := range map[string]struct {
		dialect dialect.Name
		base    string
	}{"openai": {dialect.OpenAI, "/v1"}, "anthropic": {dialect.Anthropic, "/v1"}, "gemini": {dialect.Gemini, "/v1beta"}} {
		o.Providers = append(o.Providers, llm.Provider{Name: name, Dialect: d.dialect, BaseURL: provider.URL + d.base, Keys: []llm.Key{{ID: "k", Secret: "held-by-the-gateway"}}})
	}
	g, err := llm.New(control, o)
	if err != nil {
		t.Fatal(err)
	}
	seen := &traffic{to: g}
	server := httptest.NewServer(seen)
	t.Cleanup(func() { server.Close(); mock.Close(); provider.Close(); control.Close() })
	return &rig{server.URL, mock, g, control, seen}
}

// A sight is a request of a client, and how it was answered.
type sight struct {
	at     time.Time
	status int
	answer http.Header
}

// A traffic notes what a client sends to the gateway.
type traffic struct {
	to http.Handler

	mu   sync.Mutex
	list []*sight
}

func (f *traffic) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := &sight{at: time.Now(), answer: w.Header()}
	f.mu.Lock()
	f.list = append(f.list, s)
	f.mu.Unlock()
	f.to.ServeHTTP(noted{w, f, s}, r)
}

// take returns what was noted since it was last called.
func (f *traffic) take() []sight {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []sight
	for _, s := range f.list {
		list = append(list, *s)
	}
	f.list = nil
	return list
}

// noted is a ResponseWriter whose status is noted.
type noted struct {
	http.ResponseWriter
	by *traffic
	s  *sight
}

// WriteHeader implements http.ResponseWriter.
func (n noted) WriteHeader(status int) {
	n.by.mu.Lock()
	n.s.status, n.s.answer = status, n.Header().Clone()
	n.by.mu.Unlock()
	n.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController flush.
func (n noted) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// gone waits until the provider has nothing under way and no slot is held, and checks that
// the last answer was not sent to its end.
func gone(t *testing.T, r *rig) {
	t.Helper()
	tick, late := time.NewTicker(time.Millisecond), time.After(10*time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if now, _ := r.mock.AtOnce(); now > 0 || r.free(t) < slots {
				continue
			}
			if list := r.mock.Served(); list[len(list)-1].Whole {
				t.Error("the provider was not told that the client has left")
			}
			return
		case <-late:
			t.Fatalf("a request is under way still, or holds one of the slots: %d are free", r.free(t))
		}
	}
}

// free is how many slots are free.
func (r *rig) free(t *testing.T) int64 {
	t.Helper()
	e, err := r.control.Check(t.Context(), sluice.Call{Kind: llm.KindAttempt})
	if err != nil {
		t.Fatal(err)
	}
	for i := range e.Rules {
		if e.Rules[i].Rule == "slots" {
			return e.Rules[i].Limits[0].Level.Remaining
		}
	}
	t.Fatalf("the rule about slots is not about an attempt: %+v", e)
	return 0
}
