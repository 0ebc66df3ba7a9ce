// Package recent keeps the last decisions that somebody may want to ask about: the
// refused, the cancelled, the degraded, and those that a shadow rule would have refused.
//
// It is a sample. The first [PerSecond] of a second are kept and the others only
// counted, so that a flood costs the decision path two atomic operations.
package recent

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/admin/tally"
)

const (
	// PerSecond is the most entries taken in a second.
	PerSecond = 50
	// textMax cuts text that a caller chose.
	textMax = 128
)

// An Entry is one decision.
type Entry struct {
	Seq        uint64 // counts up from 1 by one for each entry kept
	Time       time.Time
	Outcome    string // "refused", "shadow_refused", "degraded" or "cancelled"
	Reason     string // a [sluice.Reason]; empty unless refused
	Rule       string // the rule that refused, or would have
	Subject    string
	Kind       string
	Method     string
	Route      string // the endpoint policy, never the path
	RetryAfter time.Duration
	Waited     time.Duration
}

// A Ring keeps the last entries. Use [New]. All methods are safe for concurrent use.
type Ring struct {
	taken   atomic.Int32 // in this second
	skipped atomic.Uint64

	mu      sync.Mutex
	entries []Entry // Seq s stands at s modulo the length
	seq     uint64
}

// New returns a Ring of size entries. A size of zero keeps none.
func New(size int) *Ring { return &Ring{entries: make([]Entry, size)} }

// Add keeps e if it is worth asking about and the ring is not too busy.
func (r *Ring) Add(e *sluice.Event) {
	shadow := tally.ShadowRefusal(e)
	if e.Outcome == sluice.Admitted && !shadow && !e.Degraded {
		return
	}
	if len(r.entries) == 0 {
		return
	}
	if r.taken.Load() >= PerSecond || r.taken.Add(1) > PerSecond {
		r.skipped.Add(1)
		return
	}
	entry := newEntry(e, shadow)
	r.mu.Lock()
	r.seq++
	entry.Seq = r.seq
	r.entries[r.seq%uint64(len(r.entries))] = entry
	r.mu.Unlock()
}

// Tick ends a second. Call it once a second.
func (r *Ring) Tick() { r.taken.Store(0) }

func newEntry(e *sluice.Event, shadow bool) Entry {
	v := Entry{
		Time: time.Now(), Waited: e.Waited,
		Subject: keep(e.Call.Subject), Kind: keep(e.Call.Kind), Method: keep(e.Call.Method), Route: keep(e.Call.Route),
	}
	switch {
	case e.Outcome == sluice.Cancelled:
		v.Outcome = tally.Cancelled.String()
	case e.Refusal != nil:
		v.Outcome, v.Reason = tally.Refused.String(), e.Refusal.Reason.String()
		v.Rule, v.RetryAfter = e.Refusal.Rule, e.Refusal.RetryAfter
	case shadow:
		v.Outcome = tally.ShadowRefused.String()
		v.Rule = shadowRule(e)
	default:
		v.Outcome = tally.Degraded.String()
	}
	return v
}

func shadowRule(e *sluice.Event) string {
	for i := range e.Rules {
		if e.Rules[i].Refused && e.Rules[i].Shadow {
			return e.Rules[i].Rule
		}
	}
	return ""
}

// keep copies s, so that a short piece of a request does not hold on to all of it.
func keep(s string) string { return strings.Clone(s[:min(len(s), textMax)]) }

// Since returns the entries after seq, newest first, at most n.
func (r *Ring) Since(seq uint64, n int) []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Entry
	size := uint64(len(r.entries))
	for s := r.seq; s > seq && len(out) < n && r.seq-s < size; s-- {
		out = append(out, r.entries[s%size])
	}
	return out
}

// Skipped returns how many decisions were worth an entry and got none.
func (r *Ring) Skipped() uint64 { return r.skipped.Load() }
