package gate

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/sluicegate/sluice"
)

// An Observer is told what happens at a gate, for metrics. What the policy says about
// each call the controller's observer is told, see [sluice.Options]. A nil function is
// not told; the others are called by the goroutines of requests, at the same time, and
// must be quick. No argument is text of a caller's.
type Observer struct {
	// Answered is told of each request when its answer has been written, with the status
	// that was sent. A request that nobody answered, because its client had gone, is not
	// reported, one that passes [Gate.PreAuth] only by [Gate.Identity], and middleware
	// that is disabled reports none. A connection that is taken over counts as 101.
	Answered func(status int, o Outcome)
	// CredentialFailed is told of each request with a credential that failed, and of the
	// kind of the failure, such as "expired": see [identity.Finding.Failure].
	CredentialFailed func(kind string)
	// ClientUnclear is told of each request whose client could not be read from a trusted
	// proxy's header: "unparsable", "too_long" or "too_few". The client is then the last
	// trusted hop.
	ClientUnclear func(reason string)
	// Decided is told how long the controller took for a decision that nobody waited
	// for. It is told of one decision in 64, by chance.
	Decided func(took time.Duration)
}

// An Outcome is what a gate made of a request, as metrics spell it.
type Outcome string

// The outcomes.
const (
	Allowed  Outcome = "allowed"  // it went to its handler
	Refused  Outcome = "refused"  // a limit was reached
	Rejected Outcome = "rejected" // it is at fault itself: its path, its body, its credential
	Bypassed Outcome = "bypassed" // its path is excluded, or limits are disabled
	Failed   Outcome = "failed"   // it could not be decided
)

// sampling is of how many decisions one is timed: two readings of the clock cost as much
// as a decision.
const sampling = 64

// decide asks the controller about call, and times a sample.
func (g *Gate) decide(ctx context.Context, call *sluice.Call, m *sluice.Decision) decision {
	decided := g.current.Load().o.Observe.Decided
	if decided == nil || rand.Uint32()%sampling != 0 {
		return g.ask(ctx, call, m)
	}
	start := time.Now()
	d := g.ask(ctx, call, m)
	took := time.Since(start)
	switch {
	case d.err != nil: // it says nothing about the time of decisions
	case d.refusal != nil && d.refusal.Waited > 0, d.refusal == nil && d.admission.Waited() > 0:
	default:
		decided(took)
	}
	return d
}

// report tells the observer about the request, at its end.
func (v *visit) report() {
	if answered := v.set.o.Observe.Answered; answered != nil && v.outcome != "" && v.reply.status != 0 {
		answered(v.reply.status, v.outcome)
	}
}

// conclude notes what became of a request that the gate answers itself.
func (v *visit) conclude(status int) {
	switch {
	case v.outcome != "": // it had been admitted
	case status < http.StatusInternalServerError:
		v.outcome = Rejected
	default:
		v.outcome = Failed
	}
}

// A reply is the response as the gate writes it itself, and the status of whatever was
// written to the client.
type reply struct {
	http.ResponseWriter
	status int // 0 is none yet
}

func (w *reply) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (w *reply) Unwrap() http.ResponseWriter { return w.ResponseWriter }
