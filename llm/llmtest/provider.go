package llmtest

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sluicegate/sluice/llm/dialect"
)

// Options of a Provider. The zero value is usable.
type Options struct {
	// Plan decides what happens to a request. Nil reads the model's name.
	Plan func(*Request) Plan
	// Header is sent with every answer.
	Header http.Header
	// Key is the credential that requests must show, in the place of their dialect. Empty
	// takes any.
	Key string
}

// A Request is what has come.
type Request struct {
	// N counts the requests, from 1.
	N int
	*dialect.Request
	Header http.Header
	Path   string
	Body   []byte
}

// A Served is a request that was answered, as the provider counts it.
type Served struct {
	// Began is when it came, At when its answer ended.
	Began, At     time.Time
	Model         string
	Status        int
	Input, Output int64
	// Whole is false if the client left, or the plan was to break off.
	Whole bool
}

// A Provider is an http.Handler that stands for a provider. It is safe for concurrent use.
type Provider struct {
	o Options

	mu     sync.Mutex
	n      int
	open   int
	most   int
	served []Served
	hung   chan struct{}
}

// New returns a Provider.
func New(o Options) *Provider {
	if o.Plan == nil {
		o.Plan = func(r *Request) Plan {
			p, err := ParsePlan(r.Model)
			if err != nil {
				return Plan{Status: http.StatusBadRequest, Code: err.Error()}
			}
			return p
		}
	}
	return &Provider{o: o, hung: make(chan struct{})}
}

// Close lets go of requests that hang.
func (p *Provider) Close() { close(p.hung) }

// ServeHTTP implements http.Handler.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	route := dialect.Find(r.Method, r.URL.Path, r.URL.RawQuery)
	ask, err := dialect.Read(route, body)
	q := &Request{Request: ask, Header: r.Header, Path: r.URL.Path, Body: body}
	q.N = p.begin()
	s := Served{Began: time.Now(), Status: http.StatusOK}
	defer func() { p.finish(s) }()
	for name, values := range p.o.Header {
		w.Header()[name] = values
	}
	switch {
	case err != nil:
		s.Status = http.StatusBadRequest
		route.Dialect.Write(w, dialect.Fault{Status: s.Status, Message: "the body cannot be read"})
	case p.o.Key != "" && !shows(r, p.o.Key):
		s.Status = http.StatusUnauthorized
		route.Dialect.Write(w, dialect.Fault{Status: s.Status, Message: "the key is wrong"})
	case !route.Operation.UsesTokens():
		s.Model = ask.Model
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object":"list","data":[],"models":[],"input_tokens":%d,"totalTokens":%d}`, count(ask), count(ask))
	default:
		s.Model = ask.Model
		p.answer(w, r, q, &s)
	}
}

// shows reports whether a request shows the key, in any dialect's place.
func shows(r *http.Request, key string) bool {
	return slices.Contains([]string{r.Header.Get("X-Api-Key"), r.Header.Get("Api-Key"), r.Header.Get("X-Goog-Api-Key"), r.URL.Query().Get("key")}, key) ||
		r.Header.Get("Authorization") == "Bearer "+key
}

func (p *Provider) begin() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	p.open++
	p.most = max(p.most, p.open)
	return p.n
}

func (p *Provider) finish(s Served) {
	s.At = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	p.served = append(p.served, s)
}

// answer carries out the plan for a request.
func (p *Provider) answer(w http.ResponseWriter, r *http.Request, q *Request, s *Served) {
	plan := p.o.Plan(q)
	if !p.pause(r, plan.Latency) {
		return
	}
	if plan.Hang {
		select {
		case <-p.hung:
		case <-r.Context().Done():
		}
		return
	}
	if plan.Status >= 400 {
		s.Status, s.Whole = plan.Status, true
		refuse(w, q.Route.Dialect, &plan)
		return
	}
	a := newReply(q, plan)
	s.Input = a.input
	if !q.Stream {
		s.Output, s.Whole = a.output, true
		w.Header().Set("Content-Type", "application/json")
		write(w, a.whole(), plan.Bytes)
		return
	}
	p.stream(w, r, a, s)
}

// pause waits, and reports whether the client is still there.
func (p *Provider) pause(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return r.Context().Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// refuse answers with the error of a plan.
func refuse(w http.ResponseWriter, d dialect.Name, plan *Plan) {
	f := dialect.Fault{Status: plan.Status, Code: plan.Code, Message: cmp.Or(plan.Code, http.StatusText(plan.Status)), Dimension: "requests"}
	if plan.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatFloat(plan.RetryAfter.Seconds(), 'f', -1, 64))
	}
	body := []byte(plan.Body)
	if plan.Body == "" {
		body = errorBody(d, f)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(plan.Status)
	_, _ = w.Write(body) // a client that has gone is not told
}

// errorBody is an error of the dialect whose code is the plan's.
func errorBody(d dialect.Name, f dialect.Fault) []byte {
	body := d.Body(f)
	if f.Code != "" && d == dialect.OpenAI {
		body = bytes.ReplaceAll(body, []byte(`"code":"rate_limit_exceeded"`), []byte(`"code":`+quote(f.Code)))
		if f.Code == "insufficient_quota" {
			body = bytes.ReplaceAll(body, []byte(`"type":"requests"`), []byte(`"type":"insufficient_quota"`))
		}
	}
	return body
}

// stream sends an answer in pieces, as far as the plan lets it.
func (p *Provider) stream(w http.ResponseWriter, r *http.Request, a *reply, s *Served) {
	w.Header().Set("Content-Type", a.contentType())
	w.WriteHeader(http.StatusOK)
	before, pieces, after := a.pieces()
	send := func(b []byte) bool { return r.Context().Err() == nil && write(w, b, a.plan.Bytes) }
	if !send(before) {
		return
	}
	for i, piece := range pieces {
		s.Output = a.output * int64(i) / int64(len(pieces))
		switch i + 1 {
		case a.plan.FailAt:
			send(a.failure())
			return
		case a.plan.CutAt:
			if !a.plan.Silent {
				panic(http.ErrAbortHandler)
			}
			return
		}
		if i > 0 && !p.pause(r, a.plan.Between) || !send(piece) {
			return
		}
	}
	s.Output = a.output
	s.Whole = send(after)
}

// write writes b in pieces of n bytes, each sent by itself, and reports whether the client
// is there.
func write(w http.ResponseWriter, b []byte, n int) bool {
	if n <= 0 {
		n = max(1, len(b))
	}
	for len(b) > 0 {
		m := min(n, len(b))
		if _, err := w.Write(b[:m]); err != nil {
			return false
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return false
		}
		b = b[m:]
	}
	return true
}

// Requests returns how many requests have come.
func (p *Provider) Requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// AtOnce returns how many requests are under way, and how many were at most.
func (p *Provider) AtOnce() (now, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open, p.most
}

// Served returns what has been answered, in the order in which it ended.
func (p *Provider) Served() []Served {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.served)
}

// MostTokens returns the most tokens, input and output, that were served to requests that
// came within any span of this length: providers count a request when it comes.
func (p *Provider) MostTokens(span time.Duration) (most int64) {
	list, sum, first := p.Served(), int64(0), 0
	slices.SortFunc(list, func(a, b Served) int { return a.Began.Compare(b.Began) })
	for _, s := range list {
		sum += s.Input + s.Output
		for s.Began.Sub(list[first].Began) >= span {
			sum -= list[first].Input + list[first].Output
			first++
		}
		most = max(most, sum)
	}
	return most
}
