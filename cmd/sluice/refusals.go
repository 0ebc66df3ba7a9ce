package main

import (
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
)

// refusalEvery is the least time between two lines about refusals by one rule.
const refusalEvery = time.Second

// A refusalLog writes lines about refused calls, at most one a second for each rule, and
// how many it left out. It is a sample: what is exact are the metrics. Refusals are the
// hot path of an attack, so one that is left out costs a load and an addition.
type refusalLog struct {
	log   *slog.Logger
	start time.Time

	samples atomic.Pointer[map[sampleKey]*sample] // replaced, never written to
	adding  sync.Mutex
}

// A sampleKey is a rule, and whether it only reports.
type sampleKey struct {
	rule   string
	shadow bool
}

func (k sampleKey) mode() string {
	if k.shadow {
		return "shadow"
	}
	return "enforced"
}

type sample struct {
	next       atomic.Int64 // nanoseconds since the start: when a line may be written
	suppressed atomic.Uint64
}

func newRefusalLog(log *slog.Logger) *refusalLog {
	l := &refusalLog{log: log, start: time.Now()}
	l.samples.Store(&map[sampleKey]*sample{})
	return l
}

// observe is told of every decision.
func (l *refusalLog) observe(e *sluice.Event) {
	if e.Refusal != nil {
		l.note(e, sampleKey{e.Refusal.Rule, false})
	}
	for i := range e.Rules {
		if r := &e.Rules[i]; r.Shadow && r.Refused {
			l.note(e, sampleKey{r.Rule, true})
		}
	}
}

func (l *refusalLog) note(e *sluice.Event, key sampleKey) {
	s := (*l.samples.Load())[key]
	if s == nil {
		s = l.add(key)
	}
	now, next := int64(time.Since(l.start)), s.next.Load()
	if now < next || !s.next.CompareAndSwap(next, now+int64(refusalEvery)) {
		s.suppressed.Add(1)
		return
	}
	l.write(e, key, s.suppressed.Swap(0))
}

// add returns the sample of a rule that has none yet. Rules are the policy's, so there
// are never many.
func (l *refusalLog) add(key sampleKey) *sample {
	l.adding.Lock()
	defer l.adding.Unlock()
	old := *l.samples.Load()
	if s := old[key]; s != nil {
		return s
	}
	s := &sample{}
	with := maps.Clone(old)
	with[key] = s
	l.samples.Store(&with)
	return s
}

func (l *refusalLog) write(e *sluice.Event, key sampleKey, suppressed uint64) {
	reason, wait := "", time.Duration(0)
	if !key.shadow {
		reason, wait = e.Refusal.Reason.String(), e.Refusal.RetryAfter
	}
	l.log.Info("a call was refused", "rule", key.rule, "mode", key.mode(), "reason", reason,
		"retry_after_ms", wait.Milliseconds(), "waited_ms", e.Waited.Milliseconds(),
		"subject", e.Call.Subject, "client", e.Call.IP, "kind", e.Call.Kind, "method", e.Call.Method,
		"route", e.Call.Route, "degraded", e.Degraded, "sampled", true, "suppressed", suppressed)
}

// flush writes how many lines were left out and will not be told of by a later one.
func (l *refusalLog) flush() {
	for key, s := range *l.samples.Load() {
		if n := s.suppressed.Swap(0); n > 0 {
			l.log.Info("further calls were refused", "rule", key.rule, "mode", key.mode(), "sampled", true, "suppressed", n)
		}
	}
}
