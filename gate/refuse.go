package gate

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/gate/cost"
	"github.com/sluicegate/sluice/gate/upstream"
	"github.com/sluicegate/sluice/wire"
)

// answers say what answers tell about limits.
type answers struct {
	*wire.Writer
	fields []string // the header fields that the writer's families own
	merge  Merge
}

func newAnswers(o *Options, h Headers) (a answers, err error) {
	a.Writer, err = wire.New(wire.Options{Families: h.Families, When: h.When, Problem: o.Problem, CORS: o.CORS})
	if err != nil {
		return a, err
	}
	a.fields, a.merge = a.Fields(), h.Merge
	return a, nil
}

// answers returns what the request's endpoint says about answers, or the gate.
func (v *visit) answers() *answers {
	if e := v.spot.endpoint; e != nil {
		return &e.answers
	}
	return &v.set.answers
}

// tell adds to the head of an admitted request's answer what it tells about limits. An
// answer with status 429 or 503 comes from somebody behind who knows better: it passes
// as it is.
func (v *visit) tell(h http.Header, status int) {
	if v.passed.Degraded() {
		v.answers().MarkDegraded(h)
	}
	if len(v.levels) == 0 || status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		return
	}
	a := v.answers()
	if a.merge != Replace && !a.prevails(h, v.levels) {
		return
	}
	a.Annotate(h, v.levels, time.Now())
}

// prevails reports whether the gate's fields replace those that an answer has.
func (a *answers) prevails(h http.Header, levels []sluice.Level) bool {
	has := false
	for _, name := range a.fields {
		has = has || h[name] != nil
	}
	if !has || a.merge == Keep {
		return !has
	}
	theirs, ok := remaining(h)
	if !ok {
		return true
	}
	for i := range levels {
		if !levels[i].Shadow && levels[i].Remaining < theirs {
			return true
		}
	}
	return false
}

// remaining reads the least that an answer says is left, in any family.
func remaining(h http.Header) (least int64, ok bool) {
	note := func(n int64) {
		if !ok || n < least {
			least, ok = n, true
		}
	}
	for _, name := range []string{"X-Ratelimit-Remaining", "Ratelimit-Remaining"} {
		if n, err := strconv.ParseInt(h.Get(name), 10, 64); err == nil && n >= 0 {
			note(n)
		}
	}
	list, err := httpsfv.UnmarshalList(h["Ratelimit"])
	if err != nil {
		return least, ok
	}
	for _, member := range list {
		if n, is := remainder(member); is {
			note(n)
		}
	}
	return least, ok
}

// remainder reads what a member of a RateLimit field says is left: a String, which names
// the limit, with an Integer r. What is spelt otherwise is another field of that name.
func remainder(m httpsfv.Member) (int64, bool) {
	item, ok := m.(httpsfv.Item)
	if !ok {
		return 0, false
	}
	if _, named := item.Value.(string); !named {
		return 0, false
	}
	r, _ := item.Params.Get("r")
	n, ok := r.(int64)
	return n, ok && n >= 0
}

// refuse answers a request that the controller did not admit.
func (v *visit) refuse(d decision) {
	v.outcome = ""
	if d.refusal != nil {
		v.outcome = Refused
	}
	switch {
	case d.refusal != nil && v.spot.mcp != nil && v.r.Method == http.MethodPost:
		v.refuseRPC(d.refusal)
	case d.refusal != nil:
		v.answers().Refuse(&v.reply, v.r, d.refusal)
	case errors.Is(d.err, context.Canceled):
		// The client has gone: there is nobody to answer.
	case errors.Is(d.err, context.DeadlineExceeded):
		v.refuseRequest(http.StatusServiceUnavailable, "the request waited longer than it may")
	default:
		if !errors.Is(d.err, sluice.ErrClosed) {
			v.set.log.ErrorContext(v.r.Context(), "gate: a request could not be decided", "error", d.err)
		}
		v.refuseRequest(http.StatusServiceUnavailable, "the service is stopping or cannot decide")
	}
}

// refuseRPC answers a JSON-RPC call. Clients match an answer to a call by its id, so the
// body is read for it, within bounds.
func (v *visit) refuseRPC(refusal *sluice.Refusal) {
	var rpc wire.RPC
	if body, err := cost.Peek(v.r, rpcBody); err == nil {
		rpc, _ = wire.ParseRPC(body) // without ids the answer's is null
	}
	rpc.Version = v.r.Header.Get("MCP-Protocol-Version")
	rpc.Code, rpc.Status = v.spot.mcp.Code, v.spot.mcp.Status
	v.answers().RefuseRPC(&v.reply, v.r, refusal, rpc)
}

// rpcBody is how much of a refused call's body is read for its id.
const rpcBody = 64 << 10

// refuseRequest answers a request that is at fault itself, or that nobody can serve.
func (v *visit) refuseRequest(status int, detail string) {
	v.conclude(status)
	v.set.fail(&v.reply, v.r, status, detail)
}

// failForward answers a request that could not be forwarded to its upstream.
func (s *setup) failForward(w http.ResponseWriter, r *http.Request, status int, detail string) {
	if out, ok := w.(*writer); ok && out.visit.wasLate() {
		status, detail = http.StatusRequestTimeout, "the body took too long"
	}
	if status == upstream.StatusGone {
		panic(http.ErrAbortHandler) // the server closes the connection and says nothing
	}
	s.fail(w, r, status, detail)
}

// fail answers with a problem that is no refusal of the controller's.
func (s *setup) fail(w http.ResponseWriter, r *http.Request, status int, detail string) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	body, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, detail})
	if err != nil {
		panic(err) // of texts and a number
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that has gone needs no answer
	}
}
