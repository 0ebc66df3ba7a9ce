// Package knock limits what an address may do before anybody knows who sends its requests:
// neither a flood nor a series of guessed credentials shall be a way around a policy.
//
// The limits are rules for three kinds of calls, which every surface makes alike, so that one
// rule bounds what an address may do at all of them.
package knock

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/lately"
)

// The kinds of calls that are made for an address, whatever credential it shows.
const (
	// KindPreAuth and KindPreAuthSite are a request, before anything of it is verified: of the
	// address, and of the whole site of an IPv6 client. They are made if rules name them.
	KindPreAuth     = "preauth"
	KindPreAuthSite = "preauth-site"
	// KindFailure is a credential that is not good.
	KindFailure = "auth-failure"
)

// How many addresses are remembered that may have used up what they may try, and for how
// long.
const (
	maxSuspects = 1 << 14
	suspectFor  = 10 * time.Minute
)

// A Door asks a controller about addresses. It is safe for concurrent use. Use [New].
type Door struct {
	ctl      *sluice.Controller
	ahead    atomic.Pointer[outlook]
	suspects *lately.Set[string]
}

// New returns a Door of a controller.
func New(ctl *sluice.Controller) *Door {
	return &Door{ctl: ctl, suspects: lately.New[string](maxSuspects, suspectFor)}
}

// An outlook is what is known of a policy before it is asked: the kinds of calls that rules
// name.
type outlook struct {
	policy *sluice.Policy
	kinds  []string
}

// names reports whether rules of the policy in force name a kind of calls. A rule for all
// kinds is none of them: it would count each request twice.
func (d *Door) names(kind string) bool {
	p, o := d.ctl.Policy(), d.ahead.Load()
	if o == nil || o.policy != p {
		o = &outlook{policy: p}
		for i := range p.Rules {
			o.kinds = append(o.kinds, p.Rules[i].Match.Is[sluice.Kind]...)
		}
		d.ahead.Store(o)
	}
	return slices.Contains(o.kinds, kind)
}

// A Visitor is where a request comes from, as rules know it, and what it is for.
type Visitor struct {
	IP     string // "ip:203.0.113.9"
	Site   string // the site of an IPv6 client, empty for others
	Method string // of the request
	Path   string // of the request
}

// A knocked is a call of a request's and what was decided about it.
type knocked struct {
	call     sluice.Call
	decision sluice.Decision
}

// knocks are used again: every request makes one or two.
var knocks = sync.Pool{New: func() any { return new(knocked) }}

// Held is what a request holds until its end, nil if nothing.
type Held []*knocked

// Release gives it back. It is for one goroutine, and is called once.
func (h Held) Release() {
	for _, k := range h {
		k.decision.Admission().Release()
		knocks.Put(k)
	}
}

// Knock takes what an address may do before anything is verified; what it holds is to be
// released at the request's end. The error is a [*sluice.Refusal] or the store's, and then
// nothing is held.
func (d *Door) Knock(ctx context.Context, v Visitor) (held Held, err error) {
	for _, c := range []struct{ kind, id string }{{KindPreAuth, v.IP}, {KindPreAuthSite, v.Site}} {
		if c.id == "" || !d.names(c.kind) {
			continue
		}
		k := knocks.Get().(*knocked)
		k.call = sluice.Call{Kind: c.kind, Subject: c.id, IP: c.id, Method: v.Method, Resource: v.Path}
		ok, err := d.ctl.Try(ctx, &k.call, &k.decision)
		switch {
		case err == nil && !ok:
			err = k.decision.Refusal().Clone()
		case ok && len(k.decision.Admission().Holds()) > 0:
			held = append(held, k)
			continue
		}
		Held{k}.Release()
		if err != nil {
			held.Release()
			return nil, err
		}
	}
	return held, nil
}

// Barred returns the refusal of an address that has shown too many bad credentials, or nil. It
// is asked before a credential is looked at, so that nobody learns whether this one is good.
func (d *Door) Barred(ctx context.Context, ip string) *sluice.Refusal {
	if !d.suspects.Has(ip) {
		return nil
	}
	if e, err := d.ctl.Check(ctx, failure(ip)); err == nil && !e.Admitted {
		return e.Refusal
	}
	d.suspects.Remove(ip)
	return nil
}

// Guessed debits a bad credential to the address that has shown it. It returns a refusal if
// that was one too many. A store that fails bars nobody.
func (d *Door) Guessed(ctx context.Context, ip string) *sluice.Refusal {
	call, t := failure(ip), &sluice.Decision{WantLevels: true}
	ok, err := d.ctl.Try(ctx, &call, t)
	if err != nil {
		return nil
	}
	if !ok {
		d.suspects.Add(ip)
		return t.Refusal().Clone()
	}
	for _, l := range t.Levels() {
		if l.Remaining == 0 && !l.Shadow {
			d.suspects.Add(ip)
		}
	}
	t.Admission().Release()
	return nil
}

func failure(ip string) sluice.Call { return sluice.Call{Kind: KindFailure, Subject: ip, IP: ip} }
