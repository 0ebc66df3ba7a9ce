// Package admin shows an operator what sluice does and lets them change it: the
// actuator endpoints, Prometheus metrics, and a live page.
//
// An [Admin] learns of decisions through [Admin.Observe], which a controller calls for
// each one, and of everything else through the functions in [Options]. It knows no
// store and no other surface.
//
//	var ctl *sluice.Controller
//	adm, err := admin.New(admin.Options{Policy: func() *sluice.Policy { return ctl.Policy() }, …})
//	ctl, err = sluice.Open(policy, store, sluice.Options{Observe: adm.Observe})
//	go adm.Run(ctx)
//	http.Serve(listener, adm.Handler())
//
// What the handler lets whom do is described at [Options.Tokens].
package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/admin/metrics"
	"github.com/sluicegate/sluice/admin/recent"
	"github.com/sluicegate/sluice/admin/talkers"
	"github.com/sluicegate/sluice/admin/tally"
)

// Options is what an Admin is made of. Policy, Reset and ResetAll are required; a nil
// function elsewhere means that there is nothing to tell, and the endpoint behind it
// answers so. All functions may be called concurrently and at any time after New.
type Options struct {
	// Policy returns the policy in force, nil before there is one. It is called often and
	// must not wait.
	Policy func() *sluice.Policy
	// Waiting returns how many callers stand in line, and Held how many calls hold slots,
	// by rule.
	Waiting, Held func() map[string]int
	// Stats returns what the store says of itself.
	Stats func() Stats
	// Summary returns the parts of the configuration that the status shows.
	Summary func() Summary

	// Reset makes full all time-based limits of an identity and returns the number of
	// cells it found. ResetAll does so for everybody.
	Reset    func(ctx context.Context, identity string) (int, error)
	ResetAll func(ctx context.Context) (int, error)
	// Broker reports whether there is an MCP broker. The page then asks for its state at
	// GET /actuator/mcp, which is served beside [Admin.Handler].
	Broker func() bool
	// Release frees the slots that a call of the MCP broker holds, whose work has stopped
	// by the word of an operator, and reports whether it held any.
	Release func(ctx context.Context, slot, request, by string) (bool, error)
	// Reload loads the configuration again. It need not report to [Admin.Loaded] itself
	// what it returns: whoever loads does, because signals and file changes load too.
	Reload func(ctx context.Context) error
	// Ready returns nil if requests can be served, or why not.
	Ready func() error
	// Draining reports that the process is about to end and wants no new work.
	Draining func() bool

	// Tokens are the bearer tokens that open the endpoints. Without any, only this
	// machine's own addresses are served, and they may do everything. With tokens, a
	// token is needed from everywhere. The page's own files and health are open to
	// whoever reaches the listener; they hold nothing.
	Tokens []Token
	// Hosts are the names, without port, by which the listener may be addressed beside
	// localhost and any IP address. Others are refused, so that a web page cannot make a
	// browser reach the listener under the page's own name. "*" allows all names.
	Hosts []string

	// Mask hides whole addresses and names on the page. Resets need the identity typed.
	Mask bool
	// Recent is how many refusals and other decisions of note are kept for the page. Zero
	// is 256, below zero is none.
	Recent int
	// MaxStreams bounds the pages that are open at once. Zero is 20.
	MaxStreams int
	// Version is shown on the page, in info and in a metric.
	Version string
	// Logger gets what an operator should know, such as refused tokens. Nil is
	// [slog.Default].
	Logger *slog.Logger
	// Audit gets one line for each change that is asked for here: what, by whom, from
	// where, with what result. Nil is Logger.
	Audit *slog.Logger
}

// An Admin counts decisions and serves the endpoints. Use [New]. All methods are safe
// for concurrent use.
type Admin struct {
	opts    Options
	started time.Time

	tally   *tally.Tally
	talkers *talkers.Talkers
	recent  *recent.Ring
	metrics *metrics.Metrics
	live    hub
	guard   *guard
	handler http.Handler

	load atomic.Pointer[load]
}

// load is the outcome of the last load of the configuration.
type load struct {
	hash   string
	at     time.Time // of the last success
	failed time.Time // zero if the last load succeeded
	err    string
}

// New returns an Admin, or says which option is missing or wrong.
func New(o Options) (*Admin, error) {
	if o.Policy == nil || o.Reset == nil || o.ResetAll == nil {
		return nil, errors.New("admin: Options need Policy, Reset and ResetAll")
	}
	if err := checkTokens(o.Tokens); err != nil {
		return nil, err
	}
	o.fill()
	a := &Admin{
		opts: o, started: time.Now(),
		tally: tally.New(o.Policy), talkers: talkers.New(), recent: recent.New(max(0, o.Recent)),
	}
	a.live.max = o.MaxStreams
	a.load.Store(&load{})
	a.metrics = metrics.New(metrics.Sources{
		Tally: a.tally, Waiting: o.Waiting, Held: o.Held, Version: o.Version,
		Store: func() metrics.Store { return o.Stats().metrics() },
	})
	a.guard = newGuard(o)
	a.handler = a.routes()
	return a, nil
}

// fill gives absent functions a body that has nothing to tell.
func (o *Options) fill() {
	none := func() map[string]int { return nil }
	if o.Waiting == nil {
		o.Waiting = none
	}
	if o.Held == nil {
		o.Held = none
	}
	if o.Stats == nil {
		o.Stats = func() Stats { return Stats{} }
	}
	if o.Summary == nil {
		o.Summary = func() Summary { return Summary{Enabled: true} }
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.Draining == nil {
		o.Draining = func() bool { return false }
	}
	if o.Broker == nil {
		o.Broker = func() bool { return false }
	}
	if o.MaxStreams <= 0 {
		o.MaxStreams = 20
	}
	if o.Recent == 0 {
		o.Recent = 256
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Audit == nil {
		o.Audit = o.Logger
	}
}

// Observe counts one decision. It is what [sluice.Options.Observe] wants: it keeps
// nothing of e, takes no lock that waits, and allocates only for the few decisions that
// the list of recent refusals takes in.
func (a *Admin) Observe(e *sluice.Event) {
	a.tally.Count(e)
	if !tally.Aside(e) {
		a.talkers.Count(e.Call.Subject, a.refusedBy(e))
	}
	a.recent.Add(e)
	if e.Waited > 0 {
		a.metrics.Wait(a.queueRule(e), e.Waited)
	}
	if e.Call.Kind == "llm-attempt" {
		a.metrics.LLM(e)
	}
}

// refusedBy returns a lasting pointer to the ID of the rule that refused e, or nil.
func (a *Admin) refusedBy(e *sluice.Event) *string {
	if e.Refusal == nil {
		return nil
	}
	return a.tally.RuleName(e.Refusal.Rule)
}

// queueRule returns the first rule of e that has a queue.
func (a *Admin) queueRule(e *sluice.Event) string {
	p := a.opts.Policy()
	if p == nil {
		return ""
	}
	next := 0
	for i := range p.Rules {
		if next < len(e.Rules) && p.Rules[i].ID == e.Rules[next].Rule {
			if p.Rules[i].Queue != nil {
				return p.Rules[i].ID
			}
			next++
		}
	}
	return ""
}

// Run keeps the series of the last minutes and feeds open pages, once a second, until
// ctx is done. Without Run the counters work and the page stands still.
func (a *Admin) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	defer a.live.close()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			a.tally.Sample(now)
			a.talkers.Tick()
			a.recent.Tick()
			a.live.send(a.encodeTick)
		}
	}
}

// Loaded notes that a load of the configuration has ended: with the configuration of
// that hash in force, or with an error and the one before it still in force.
func (a *Admin) Loaded(hash string, err error) {
	now, old := time.Now(), a.load.Load()
	next := &load{hash: hash, at: now}
	if err != nil {
		next = &load{hash: old.hash, at: old.at, failed: now, err: err.Error()}
	}
	a.load.Store(next)
	a.metrics.Loaded(hash, now, err)
}

// Metrics returns the instruments that surfaces write to: requests answered, refused
// credentials, client addresses that had to be guessed.
func (a *Admin) Metrics() *metrics.Metrics { return a.metrics }

// Handler returns the endpoints and the page.
func (a *Admin) Handler() http.Handler { return a.handler }
