package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

// Values of [sluice.Call.Kind] that the rules of this package match. Surfaces that make
// calls use the same words.
const (
	KindHTTP        = "http"         // a request whose caller is known
	KindPreAuth     = "preauth"      // a request before anything is verified
	KindPreAuthSite = "preauth-site" // the same for the site of an IPv6 client, a /48
	KindAuthFailure = "auth-failure" // a credential that was not good
	KindStream      = "stream"       // a long answer that is open; Capability says which
	KindFrame       = "frame"        // a message on a WebSocket
	KindLLM         = "llm"          // a call of a language model, once for its tenant
	KindLLMAttempt  = "llm-attempt"  // the same as it is sent to a provider
	KindTool        = "tool"         // a tools/call of MCP
	KindMethod      = "method"       // another request of MCP, where a rule names methods
	KindOperation   = "operation"    // a reservation of native work
	KindMessage     = "message"      // a chat message; Capability is inbound or outbound
	KindSource      = "source"       // a call of a data source; Provider is its group
	KindPoll        = "poll"         // a request of a connector
)

// A compiler checks a decoded Config and makes its rules, in the order of [sluice.Policy].
type compiler struct {
	c       *Config
	env     func(name string) (value string, ok bool)
	report  func(Problem)
	ids     map[string]Pos
	shadows int      // how many rules only report
	replace []string // routes that stand instead of the tier
}

// compile fills c's policy and reports what is wrong beyond the single value.
func compile(c *Config, env func(name string) (value string, ok bool), report func(Problem)) {
	k := &compiler{c: c, env: env, report: report, ids: map[string]Pos{}}
	k.listeners()
	k.store()
	k.identity()
	k.endpoints()
	k.tiers()
	k.streams()
	k.upstreams()
	k.answers()
	for i := range c.Rules {
		k.rule(&c.Rules[i])
	}
	k.llm()
	k.mcp()
	k.sources()
	k.channels()
	k.connectors()
	k.processes()
	if !c.Enabled {
		c.policy.Rules = nil
	}
}

// problem reports a problem at the place of a field, given by its address.
func (k *compiler) problem(field any, code Code, format string, args ...any) {
	at := k.c.places[field]
	k.report(Problem{Pos: at.pos, Code: code, Key: at.key, Message: fmt.Sprintf(format, args...)})
}

// given reports whether the files say something about a field.
func (k *compiler) given(field any) bool { return k.c.places[field].given }

// maxShadows is how many shadow rules the engine keeps apart.
const maxShadows = 255

// add appends a rule that was written at field's place.
func (k *compiler) add(field any, r sluice.Rule) {
	pos := k.c.places[field].pos
	if !k.given(field) {
		pos = Pos{File: "built-in"} // a limit that the files do not mention
	}
	if code, err := checkID(r.ID); err != nil {
		k.problem(field, code, "%v", err)
		return
	}
	if first, twice := k.ids[r.ID]; twice {
		k.problem(field, CodeDuplicate, "two rules have the id %q; the other is at %s; give one of them another id", r.ID, first)
		return
	}
	k.ids[r.ID] = pos
	if r.Shadow {
		if k.shadows++; k.shadows == maxShadows+1 {
			k.problem(field, CodeRange, "more than %d rules are shadow rules; enforce some, or remove them", maxShadows)
		}
	}
	r.Source = pos.String()
	k.c.policy.Rules = append(k.c.policy.Rules, r)
}

// limit validates l and warns if it denies everything.
func (k *compiler) limit(field any, l limit.Limit, unit string) (sluice.Limit, bool) {
	if err := l.Validate(); err != nil {
		k.problem(field, CodeRange, "%s", strings.TrimPrefix(err.Error(), "limit: "))
		return sluice.Limit{}, false
	}
	if l.Capacity() == 0 {
		k.problem(field, WarnDeniesAll, "a limit of zero denies everything; leave the key out for no limit")
	}
	return sluice.Limit{Limit: l, Unit: sluice.Unit(unit)}, true
}

// allowance returns the bucket that a means, or false if it gives no rate.
func (k *compiler) allowance(a *Allowance) (sluice.Limit, bool) {
	rate, field, ok := k.oneRate(a)
	switch {
	case !ok:
		return sluice.Limit{}, false
	case rate == nil && a.Burst != nil:
		k.problem(&a.Burst, CodeConflict, "a burst needs a rate, such as requestsPerSecond; without one nothing comes back")
		return sluice.Limit{}, false
	case rate == nil:
		return sluice.Limit{}, false
	case a.Burst != nil && rate.Burst != nil:
		k.problem(&a.Burst, CodeConflict, "the limit names a burst already; keep one")
		return sluice.Limit{}, false
	case a.Burst != nil:
		rate = &Rate{Max: rate.Max, Per: rate.Per, Burst: a.Burst}
		field = pick[any](rate.Max > 0, &a.Burst, field)
	}
	return k.limit(field, rate.bucket(), "")
}

// oneRate returns the rate of a and its field, nil if there is none. It reports a second
// one and is then not ok.
func (k *compiler) oneRate(a *Allowance) (rate *Rate, field any, ok bool) {
	per := func(n *int64, span limit.Micros) *Rate {
		if n == nil {
			return nil
		}
		return &Rate{Max: *n, Per: span}
	}
	for _, r := range []struct {
		field any
		rate  *Rate
	}{
		{&a.Limit, a.Limit},
		{&a.RequestsPerSecond, per(a.RequestsPerSecond, limit.Second)},
		{&a.RequestsPerMinute, per(a.RequestsPerMinute, limit.Minute)},
		{&a.RequestsPerHour, per(a.RequestsPerHour, limit.Hour)},
	} {
		switch {
		case r.rate == nil:
		case rate != nil:
			k.problem(r.field, CodeConflict, "a rate is given already by %s; keep one", k.c.places[field].key)
			return nil, nil, false
		default:
			rate, field = r.rate, r.field
		}
	}
	return rate, field, true
}

// pick returns a if first, else b.
func pick[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}

// slots returns the limit of n at once, or false if n is nil.
func (k *compiler) slots(field any, n *int64) (sluice.Limit, bool) {
	if n == nil {
		return sluice.Limit{}, false
	}
	return k.limit(field, limit.Slots(*n), "")
}

// limits collects those that are there.
type limits []sluice.Limit

func (ls *limits) add(l sluice.Limit, ok bool) {
	if ok {
		*ls = append(*ls, l)
	}
}

// queue turns a line into the engine's. pacing are the limits of the same rule.
func (k *compiler) queue(q *Queue, pacing limits) *sluice.Queue {
	if q == nil {
		return nil
	}
	out := &sluice.Queue{Timeout: q.Timeout}
	if q.TimeoutMs != nil {
		if q.Timeout != 0 {
			k.problem(&q.TimeoutMs, CodeConflict, "the time-out is given already by timeout; keep one")
		}
		out.Timeout = k.milliseconds(&q.TimeoutMs, *q.TimeoutMs)
	}
	if q.Depth != nil {
		depth := int(min(*q.Depth, 1<<31-1))
		out.Depth = &depth
		k.unreachable(&q.Depth, depth, out.Timeout, pacing)
	}
	if d, ok := sluice.ParseDimension(q.FairBy); ok {
		out.FairBy = &d
	} else if len(q.Shares) > 0 {
		k.problem(&q.Shares, CodeRequired, "shares need fairBy, which says what they are shares of")
	}
	for i := range q.Shares {
		if s := &q.Shares[i]; s.N == 0 {
			k.problem(&s.N, CodeRange, "a share of zero never has its turn; the least is 1")
		}
	}
	out.Shares = shares(q.Shares)
	return out
}

// unreachable warns of places in line that nobody could wait in for as long as it takes.
func (k *compiler) unreachable(field any, depth int, timeout time.Duration, pacing limits) {
	if timeout == 0 {
		return
	}
	for _, l := range pacing {
		if l.Kind != limit.KindBucket && l.Kind != limit.KindPace || l.Max == 0 {
			continue
		}
		most := int64(float64(limit.MicrosOf(timeout)) / float64(l.Per) * float64(l.Max))
		if int64(depth) > most {
			k.problem(field, WarnDepth, "with %v and a time-out of %v at most %d can get their turn; the other %d places are never used",
				l.Limit, timeout, most, int64(depth)-most)
			return
		}
	}
}

// milliseconds converts n and reports what is too long to be a time.
func (k *compiler) milliseconds(field any, n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	if n > most {
		k.problem(field, CodeRange, "%d ms is too long; the most is %d", n, most)
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

func shares(list []Share) map[string]int64 {
	if len(list) == 0 {
		return nil
	}
	m := make(map[string]int64, len(list))
	for _, s := range list {
		m[s.Name] = s.N
	}
	return m
}

// dimensions returns the dimensions of that names, which the decoder has checked.
func (k *compiler) dimensions(field any, names []string) []sluice.Dimension {
	var out []sluice.Dimension
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			k.problem(field, CodeDuplicate, "%s is named twice", name)
		}
		seen[name] = true
		d, _ := sluice.ParseDimension(name)
		out = append(out, d)
	}
	if len(out) > 4 {
		k.problem(field, CodeRange, "has %d dimensions; at most four can be grouped by", len(out))
	}
	return out
}

var failModes = map[string]sluice.FailMode{"closed": sluice.FailClosed, "open": sluice.FailOpen, "local": sluice.FailLocal}

// is makes a match of one kind of call and further selectors, "dimension, values" in turn.
func is(kind string, more ...any) map[sluice.Dimension][]string {
	m := map[sluice.Dimension][]string{sluice.Kind: {kind}}
	for i := 0; i+1 < len(more); i += 2 {
		m[more[i].(sluice.Dimension)] = more[i+1].([]string)
	}
	return m
}
