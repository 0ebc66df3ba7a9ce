package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// A call is one request of a client, from its arrival until nobody works on it any more.
// It has two ends. The client's is reached when it is answered, or when it cancels. The
// work's is reached when the provider answers or provably works on it no more, or when an
// operator or a rule says so; until then the call holds its slots, whoever still waits for it.
//
//	reply ───────────────► answered, work ended
//	reply with a task ───► answered ─ until the task has ended; see tasks.go
//	reply with questions ► answered ─ until the client comes back; see park.go and input.go
//	deadline, cancel ────► answered ─ hold ──► late reply, operator, MaxHold ► work ended
//	                                └ free ──► work ended
//	provider gone ───────► answered ─ as above, at its deadline; at once if its process has ended
type call struct {
	b       *Broker
	session *Session
	x       Exchange
	id      jsonrpc.ID // the broker's own
	name    string     // the same as text, and its name in the ledger
	earlier string     // the call with whose admission it goes on; empty for its own; on calls.mu
	start   time.Time
	ctx     context.Context // ends when nobody waits for an answer
	leave   context.CancelFunc

	caller      *policy.Caller
	correlation string
	params      http.Header     // that repeat arguments; nil where there are none
	token       json.RawMessage // the client's progress token
	who         sluice.Call     // what is admitted

	mu sync.Mutex

	// What it is about. The goroutine that serves the call writes it, on mu: see learn.
	slot    *slot
	request *jsonrpc.Message
	version string // the revision that the client speaks
	tool    *tool

	// What it holds.
	admission sluice.Admission
	admitted  bool
	since     time.Time   // it was admitted
	kept      []string    // rules whose slots it held when it was last looked at
	overdue   *time.Timer // looks again; see overdue.go
	ended     bool        // the work's side

	// Where the provider works on it.
	conn      *conn      // where it was sent
	upstream  jsonrpc.ID // its id there, and its progress token: at first the broker's own
	reference string     // the caller's, as the provider knows it
	sent      bool
	told      bool // the provider, to stop
	resent    bool
	rounds    int // how often the provider has asked for input
	task      string
	parked    bool // answered with a question; its admission waits for the client's answer

	// How the client is answered.
	answered  bool
	why       audit.Outcome // how the client's side has ended
	timer     *time.Timer
	due       time.Time   // the deadline
	latest    time.Time   // beyond this no progress extends it
	lapsing   *time.Timer // ends with the deadline of a call whose provider has gone
	progress  *float64    // the last value that was passed on
	shown     json.RawMessage
	said      json.RawMessage                         // the last message that was
	listening bool                                    // holds nothing and lasts as long as the client likes
	cached    func(result json.RawMessage)            // keeps a result that may be given again
	filter    func(*jsonrpc.Message) *jsonrpc.Message // takes from a result what is not the caller's
	undo      func()                                  // takes back what was noted for a request that fails
}

// answer ends the client's side with a frame, once. It reports whether it did. The caller
// holds c.mu.
func (c *call) answer(m *jsonrpc.Message, status int, why audit.Outcome) bool {
	if c.answered {
		return false
	}
	c.answered, c.why = true, why
	if c.undo != nil && why != audit.Completed {
		c.undo()
	}
	c.leave()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.session.forget(c)
	c.b.callers.revoke(c)
	c.session.dropQuestions(c)
	if m == nil {
		c.x.Answer(nil, status)
	} else {
		c.x.Answer(m.Raw, status)
	}
	return true
}

// release ends the work's side, once: the slots come back, and the call is no longer
// known. It comes before the answer, or the client's next call could be refused for want
// of them. The caller holds c.mu.
func (c *call) release() bool {
	if c.ended {
		return false
	}
	c.ended = true
	for _, t := range []*time.Timer{c.overdue, c.lapsing} {
		if t != nil {
			t.Stop()
		}
	}
	c.admission.Release()
	c.b.calls.remove(c)
	if c.sent { // one that was told to stop is never answered
		c.conn.take(c.upstream)
	}
	return true
}

// result answers with a result of the broker's own.
func (c *call) result(result any, why audit.Outcome) {
	c.resultWith(result, audit.Event{Action: audit.Complete, Outcome: why, Allowed: true})
}

// resultWith is result with more to say to the audit.
func (c *call) resultWith(result any, e audit.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release()
	if c.answer(c.dress(jsonrpc.NewResult(c.request.ID, result)), okStatus, e.Outcome) {
		c.note(e)
	}
}

// fail answers with an error of the broker's, for a call that nobody works on.
func (c *call) fail(what protocol.Situation, why audit.Outcome, message string, data any) {
	c.failWith(what, audit.Event{Action: audit.Complete, Outcome: why}, message, data)
}

// failWith is fail with more to say to the audit.
func (c *call) failWith(what protocol.Situation, e audit.Event, message string, data any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release()
	if c.refuse(what, e.Outcome, message, data) {
		c.note(e)
	}
}

// failCode is fail for a request that is none, in any era.
func (c *call) failCode(code int64, status int, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release()
	e := &jsonrpc.Error{Code: code, Message: message}
	if c.answer(jsonrpc.NewError(c.request.ID, e), status, audit.Invalid) {
		c.note(audit.Event{Action: audit.Complete, Outcome: audit.Invalid, Error: message})
	}
}

func (c *call) isAnswered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered
}

// refuse answers with an error and leaves the work's side as it is. The caller holds c.mu.
func (c *call) refuse(what protocol.Situation, why audit.Outcome, message string, data any) bool {
	e, status := c.b.settings().Table.Error(what, c.version, message, data)
	return c.answer(jsonrpc.NewError(c.request.ID, e), status, why)
}

// reply is the provider's answer: the work has ended, unless it names a task that goes on
// or asks for more input.
func (c *call) reply(m *jsonrpc.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := c.answered
	if !late && !c.slot.tooLarge(m) && (c.parks(m) || c.inquires(m)) {
		return
	}
	goesOn := c.b.tasks.watch(c, m)
	ended := !goesOn && c.release()
	switch {
	case late:
	case c.slot.tooLarge(m):
		c.refuse(protocol.Unavailable, audit.Failed, c.slot.largeText(len(m.Raw)), reason{Reason: "result-too-large"})
	default:
		if c.filter != nil {
			m = c.filter(m)
		}
		if c.cached != nil && m.Err == nil && !goesOn {
			c.cached(m.Result)
		}
		answer, status := c.inbound(m)
		c.answer(answer, status, pick(m.Err == nil, audit.Completed, audit.Failed))
	}
	if ended {
		c.note(audit.Event{Action: audit.Complete, Outcome: pick(late, audit.Late, c.why), Allowed: true})
	} else {
		c.shed()
	}
}

// shed gives up the arguments of a call that goes on after its answer, which may be for long
// and in large numbers. The caller holds c.mu.
func (c *call) shed() { c.request = jsonrpc.NewRequest(c.request.ID, c.request.Method, nil) }

// lost says that the provider will not answer over the connection on which it was asked.
func (c *call) lost(f link.Failure) {
	c.mu.Lock()
	if f.NotRun && f.SessionGone && !c.resent && !c.answered {
		c.resent = true
		c.mu.Unlock()
		go c.b.resend(c)
		return
	}
	defer c.mu.Unlock()
	defer c.refuse(protocol.Unavailable, audit.Failed, c.slot.lostText(f), lostReason(f))
	switch {
	case f.NotRun:
		if c.release() {
			c.note(audit.Event{Action: audit.Complete, Outcome: audit.NotDispatched, Error: "the request never reached the provider"})
		}
	case f.Stopped:
		if c.release() {
			c.note(audit.Event{Action: audit.Complete, Outcome: audit.Failed, Error: "the provider's process has ended"})
		}
	default: // it may still work on it
		if !c.answered && !c.ended {
			c.note(audit.Event{Action: audit.Lost, Outcome: audit.Failed})
			c.watchDeadline()
		}
		if !c.holds() {
			c.release()
		}
	}
}

// cancel is the client's wish to hear no more of it: no answer, and the slots as at a
// deadline.
func (c *call) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered {
		return
	}
	c.stop(audit.Cancel, audit.Cancelled)
	c.answer(nil, acceptedStatus, audit.Cancelled)
}

// stop ends the work of a call that nobody waits for. What the provider does not work on
// needs nobody's word. The caller holds c.mu.
func (c *call) stop(action audit.Action, why audit.Outcome) {
	if c.sent {
		c.abandon(action, why)
		return
	}
	if c.release() {
		c.note(audit.Event{Action: action, Outcome: why})
	}
}

// abandon lets the rules decide about the slots of a call that nobody waits for. The
// provider is told only if none is held: one that obeys never answers, and the answer is
// what would free them. The caller holds c.mu.
func (c *call) abandon(action audit.Action, why audit.Outcome) {
	released := c.giveUp()
	if len(c.kept) == 0 || c.b.settings().forwardsCancel(c.kept) {
		c.tellToStop(string(action))
	}
	c.note(audit.Event{Action: action, Outcome: why, ReleasedRules: released})
	if len(c.kept) == 0 { // an answer would still be taken for its own
		c.release()
	}
}

// giveUp gives back the slots of rules that let it, and returns these. What c goes on holding
// it keeps. The caller holds c.mu.
func (c *call) giveUp() (released []string) {
	before := c.admission.Holds()
	c.admission.Abandon()
	c.kept = slices.Clone(c.admission.Holds())
	return baseRules(slices.DeleteFunc(before, func(rule string) bool { return slices.Contains(c.kept, rule) }))
}

// tellToStop tells the provider that its answer is not wanted any more. The caller holds c.mu.
func (c *call) tellToStop(reason string) {
	c.told = true
	c.conn.link.Cancel(c.upstream, reason)
}

// freed is an operator's word that the work has stopped. It reports whether anything was
// held.
func (c *call) freed(by string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	released := baseRules(c.admission.Holds())
	if c.sent && !c.ended { // its stream would stay open for an answer that nobody waits for
		c.tellToStop("released by an operator")
	}
	defer c.refuse(protocol.Unavailable, audit.Released, "An operator has released this call; its outcome is unknown", reason{Reason: "released"})
	if c.release() {
		c.note(audit.Event{Action: audit.Release, Outcome: audit.Released, Allowed: true, By: by, ReleasedRules: released})
		return true
	}
	return false
}

func (c *call) holds() bool { return c.admitted && len(c.admission.Holds()) > 0 }
