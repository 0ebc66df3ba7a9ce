package admin

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/admin/recent"
	"github.com/sluicegate/sluice/admin/tally"
)

// How much the status and the page show.
const (
	topTalkers   = 100
	recentShown  = 256
	sparkSeconds = 60
)

// ruleView is one rule and what it did.
type ruleView struct {
	ID       string            `json:"id"`
	Match    string            `json:"match"`
	Limits   []string          `json:"limits"`
	GroupBy  []string          `json:"groupBy"`
	Shadow   bool              `json:"shadow"`
	Source   string            `json:"source,omitempty"`
	Outcomes map[string]uint64 `json:"outcomes"` // since the start
	Hits     float64           `json:"hitsPerSecond"`
	Refused  float64           `json:"refusedRatio"` // of the last minute's hits, 0 to 1
	Waiting  int               `json:"waiting"`
	Held     int               `json:"held"`
	Keys     *int64            `json:"keys,omitempty"`
	Spark    []tally.Point     `json:"spark,omitempty"`
}

// viewRules returns the rules of the policy in its order, with spark points each.
func (a *Admin) viewRules(spark int) []ruleView {
	views := []ruleView{}
	p := a.opts.Policy()
	if p == nil {
		return views
	}
	waiting, held, keys := a.opts.Waiting(), a.opts.Held(), a.opts.Stats().KeysByRule
	counted := map[string]*tally.Rule{}
	for _, r := range a.tally.Rules() {
		counted[r.ID] = r
	}
	for i := range p.Rules {
		r := &p.Rules[i]
		v := ruleView{
			ID: r.ID, Match: r.Match.String(), Limits: limitTexts(r), GroupBy: groupTexts(r.GroupBy),
			Shadow: r.Shadow, Source: r.Source, Waiting: waiting[r.ID], Held: held[r.ID],
		}
		if n, ok := keys[r.ID]; ok {
			v.Keys = &n
		}
		if c := counted[r.ID]; c != nil {
			v.Outcomes = byName(c.Counts())
			minute := a.tally.RuleSeries(c, sparkSeconds)
			v.Hits, v.Refused = rates(minute)
			v.Spark = minute[len(minute)-spark:]
		}
		views = append(views, v)
	}
	return views
}

// rates returns hits a second over the last ten seconds, and the share of the minute's
// hits that was refused.
func rates(minute []tally.Point) (hits, refused float64) {
	var h, r, recent uint64
	for i, p := range minute {
		h, r = h+uint64(p.Hits), r+uint64(p.Refused)
		if i >= len(minute)-10 {
			recent += uint64(p.Hits)
		}
	}
	if h > 0 {
		refused = float64(r) / float64(h)
	}
	return float64(recent) / 10, refused
}

func byName(c tally.Counts) map[string]uint64 {
	m := make(map[string]uint64, len(c))
	for o, n := range c {
		m[tally.Outcome(o).String()] = n
	}
	return m
}

func limitTexts(r *sluice.Rule) []string {
	texts := make([]string, len(r.Limits))
	for i, l := range r.Limits {
		texts[i] = l.Limit.String()
		if l.Unit != "" && l.Unit != sluice.Calls {
			texts[i] += " " + string(l.Unit)
		}
	}
	return texts
}

func groupTexts(dims []sluice.Dimension) []string {
	texts := make([]string, len(dims))
	for i, d := range dims {
		texts[i] = d.String()
	}
	return texts
}

// talkerView is one of the busiest callers.
type talkerView struct {
	Label   string  `json:"label"`         // to be shown
	Key     string  `json:"key,omitempty"` // to be reset; absent if it is masked or too long
	Rate    float64 `json:"perSecond"`
	Refused float64 `json:"refusedPerSecond"`
	Rule    string  `json:"rule,omitempty"`
}

func (a *Admin) viewTalkers(k int) []talkerView {
	views := []talkerView{}
	for _, t := range a.talkers.Top(k) {
		v := talkerView{Label: a.Label(t.Name), Rate: round(t.Rate), Refused: round(t.Refused), Rule: t.Rule}
		if !t.Truncated && !a.opts.Mask {
			v.Key = t.Name
		}
		views = append(views, v)
	}
	return views
}

// recentView is one decision that somebody may want to ask about.
type recentView struct {
	Seq        uint64    `json:"seq"`
	Time       time.Time `json:"time"`
	Outcome    string    `json:"outcome"`
	Reason     string    `json:"reason,omitempty"`
	Rule       string    `json:"rule,omitempty"`
	Subject    string    `json:"subject"`
	Kind       string    `json:"kind"`
	Method     string    `json:"method,omitempty"`
	Route      string    `json:"route,omitempty"`
	RetryAfter int64     `json:"retryAfterMs,omitempty"`
	Waited     int64     `json:"waitedMs,omitempty"`
}

func (a *Admin) viewRecent(since uint64) []recentView {
	views := []recentView{}
	for _, e := range a.recent.Since(since, recentShown) {
		views = append(views, a.viewEntry(e))
	}
	return views
}

func (a *Admin) viewEntry(e recent.Entry) recentView {
	return recentView{
		Seq: e.Seq, Time: e.Time.UTC(), Outcome: e.Outcome, Reason: e.Reason, Rule: e.Rule,
		Subject: a.Label(e.Subject), Kind: e.Kind, Method: printable(e.Method), Route: e.Route,
		RetryAfter: e.RetryAfter.Milliseconds(), Waited: e.Waited.Milliseconds(),
	}
}

// stateView is what banners speak of.
type stateView struct {
	Draining     bool       `json:"draining"`
	NotReady     string     `json:"notReady,omitempty"`
	Degraded     bool       `json:"degraded"`
	StoreFault   string     `json:"storeFault,omitempty"`
	ConfigHash   string     `json:"configHash"`
	ConfigLoaded *time.Time `json:"configLoaded,omitempty"`
	ReloadError  string     `json:"reloadError,omitempty"`
	ReloadFailed *time.Time `json:"reloadFailed,omitempty"`
}

func (a *Admin) viewState() stateView {
	l, st := a.load.Load(), a.opts.Stats()
	v := stateView{
		Draining: a.opts.Draining(), Degraded: st.Degraded, StoreFault: st.Fault,
		ConfigHash: l.hash, ReloadError: l.err,
	}
	if err := a.opts.Ready(); err != nil {
		v.NotReady = err.Error()
	}
	if !l.at.IsZero() {
		v.ConfigLoaded = &l.at
	}
	if !l.failed.IsZero() {
		v.ReloadFailed = &l.failed
	}
	return v
}

// Label returns an identity as the page shows it: digests short, other text with nothing
// that a screen would not show, and cut down further if Mask is set.
func (a *Admin) Label(identity string) string {
	kind, value, ok := strings.Cut(identity, ":")
	if !ok {
		kind, value = "", identity
	}
	switch {
	case kind == "apikey" && len(value) > 8:
		value = value[:8] + "…"
	case a.opts.Mask && kind == "ip":
		value = maskIP(value)
	case a.opts.Mask:
		value = firstRunes(value, 2) + "…"
	}
	if ok {
		value = kind + ":" + value
	}
	return printable(value)
}

// maskIP hides the last part of an IPv4 address and the second half of an IPv6 prefix.
func maskIP(ip string) string {
	if i := strings.LastIndexByte(ip, '.'); i >= 0 {
		return ip[:i] + ".×"
	}
	parts := strings.SplitN(ip, ":", 3)
	if len(parts) < 3 {
		return "×"
	}
	return parts[0] + ":" + parts[1] + ":×"
}

func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// printable spells out what cannot be seen, such as line breaks and marks that turn the
// direction of text, so that a caller's name cannot pretend to be another's.
func printable(s string) string {
	plain := func(r rune) bool { return r != unicode.ReplacementChar && unicode.IsPrint(r) }
	if !slices.ContainsFunc([]rune(s), func(r rune) bool { return !plain(r) }) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// round keeps two decimals; more would only flicker.
func round(v float64) float64 { return math.Round(v*100) / 100 }
