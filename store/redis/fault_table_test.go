package redis_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
	"github.com/sluicegate/sluice/store/redis"
)

// suffered is a policy with a rule for each way to fail, and one of slots. Each kind of
// call has one.
var suffered = []sluice.Rule{
	{ID: "closed", Limits: []sluice.Limit{{Limit: limit.Window(1<<40, limit.Hour)}}},
	{ID: "open", Limits: []sluice.Limit{{Limit: limit.Window(1<<40, limit.Hour)}}, OnStoreError: sluice.FailOpen},
	{ID: "local", Limits: []sluice.Limit{{Limit: limit.Bucket(400, limit.Second, 400)}}, OnStoreError: sluice.FailLocal},
	{ID: "slots", Limits: []sluice.Limit{{Limit: limit.Slots(64)}}},
}

// nodes is how many processes share the limit of a rule that fails local.
const nodes = 4

func suffering(t *testing.T, where scene, log *journal) *sluice.Controller {
	t.Helper()
	s := open(t, redis.Options{URI: where.uri, Wait: where.wait, Logger: slog.New(slog.NewTextHandler(log, nil))})
	shares := memory.New(memory.Options{})
	t.Cleanup(func() { s.Close(); shares.Close() })
	p := &sluice.Policy{Rules: slices.Clone(suffered)}
	for i := range p.Rules {
		p.Rules[i].Match.Is = map[sluice.Dimension][]string{sluice.Kind: {p.Rules[i].ID}}
	}
	c, err := sluice.Open(p, s, sluice.Options{KeySecret: []byte("sixteen bytes or more"), Shares: shares, Processes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A sample is one decision.
type sample struct {
	rule        int
	began       time.Time
	took        time.Duration
	ok          bool
	degraded    bool
	unavailable bool // refused because the server is known not to answer
	storeError  bool // refused because of the store
}

// decide makes one decision, and holds what it got for a moment.
func decide(c *sluice.Controller, rule int, d *sluice.Decision) sample {
	call := sluice.Call{Kind: suffered[rule].ID}
	s := sample{rule: rule, began: time.Now()}
	ok, err := c.Try(context.Background(), &call, d)
	s.took, s.ok, s.degraded = time.Since(s.began), ok, d.Degraded()
	if r := d.Refusal(); !ok && err == nil && r.Reason == sluice.ReasonStore {
		s.storeError, s.unavailable = true, errors.Is(r.Err, redis.ErrUnavailable)
	}
	time.Sleep(time.Millisecond)
	if ok {
		adm := d.Admission()
		adm.Release()
	}
	return s
}

// A crowd is 64 callers that decide until told to stop.
type crowd struct {
	stop    atomic.Bool
	group   sync.WaitGroup
	mu      sync.Mutex
	samples []sample
}

func gather(c *sluice.Controller) *crowd {
	all := &crowd{}
	for i := range 64 {
		all.group.Go(func() {
			var mine []sample
			var d sluice.Decision
			for !all.stop.Load() {
				mine = append(mine, decide(c, i%len(suffered), &d))
			}
			all.add(mine...)
		})
	}
	return all
}

// await joins in until the store decides.
func (all *crowd) await(t *testing.T, c *sluice.Controller) {
	t.Helper()
	var d sluice.Decision
	eventually(t, time.Second+rareMargin, "P-160 the server is asked", func() bool {
		s := decide(c, 0, &d)
		all.add(s)
		return s.ok && !s.degraded
	})
}

func (all *crowd) add(list ...sample) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.samples = append(all.samples, list...)
}

// TestFaults lets 64 callers decide while the server fails and comes back. What it prints
// stands in docs/guide/failures.md. Times are bounded by the wait of a command and a wide
// margin: this machine does other things too.
func TestFaults(t *testing.T) {
	table := []string{"| fault | decisions | known after | p99 until then | p99, breaker open | longest | recovered after | units, slots lost | goroutines |", "|---|---|---|---|---|---|---|---|---|"}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) { table = append(table, suffer(t, f.name, f.scene(t))) })
	}
	t.Log("\n" + strings.Join(table, "\n"))
}

func suffer(t *testing.T, name string, s scene) string {
	log := &journal{}
	c := suffering(t, s, log)
	before := runtime.NumGoroutine()
	all := gather(c)
	time.Sleep(300 * time.Millisecond)
	all.await(t, c)
	struck := time.Now()
	s.strike()
	if !s.passes {
		time.Sleep(time.Second)
	}
	most := runtime.NumGoroutine()
	s.heal()
	back := time.Now()
	all.await(t, c)
	time.Sleep(300 * time.Millisecond)
	all.stop.Store(true)
	all.group.Wait()
	o := outcome{scene: s, samples: all.samples, struck: struck, back: back, most: most - before}
	o.count()
	units, slots := o.checkBooks(t, c)
	o.log = log.lines()
	o.check(t)
	return fmt.Sprintf("| %s | %d | %.0f ms | %.1f ms | %.2f ms | %.0f ms | %.0f ms | %d, %d | +%d |", name, o.decisions,
		ms(o.known), ms(quantile(o.first, 0.99)), ms(quantile(o.open, 0.99)), ms(o.longest), ms(o.recovered), units, slots, o.most)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// An outcome is what callers saw.
type outcome struct {
	scene
	samples      []sample
	struck, back time.Time
	log          []string
	most         int // goroutines while the server failed, beside those before

	decisions        int             // from the fault on
	known, recovered time.Duration   // until a caller was not let wait; until one passed by the store
	first, open      []time.Duration // decisions until it was known, and those that were told so
	longest          time.Duration
	sure, unsure     int64 // units of the closed rule: granted; and asked for without an answer
	local            int   // granted of the local share
	wrong            []string
}

// count sorts the samples.
func (o *outcome) count() {
	slices.SortFunc(o.samples, func(a, b sample) int { return a.began.Compare(b.began) })
	for _, s := range o.samples {
		if suffered[s.rule].ID == "closed" {
			o.countUnits(s)
		}
		if s.began.Before(o.struck) {
			continue
		}
		o.decisions++
		o.longest = max(o.longest, s.took)
		if s.unavailable && o.known == 0 {
			o.known = s.began.Sub(o.struck)
		}
		if s.unavailable {
			o.open = append(o.open, s.took)
		} else if o.known == 0 {
			o.first = append(o.first, s.took)
		}
		o.judge(s)
	}
	slices.Sort(o.first)
	slices.Sort(o.open)
}

// countUnits is about a call of the closed rule.
func (o *outcome) countUnits(s sample) {
	switch {
	case s.ok:
		o.sure++
		if o.recovered == 0 && s.began.After(o.back) {
			o.recovered = s.began.Add(s.took).Sub(o.back)
		}
	case !s.unavailable:
		o.unsure++
	}
}

// judge notes decisions that do not go by their rule's policy.
func (o *outcome) judge(s sample) {
	switch id := suffered[s.rule].ID; {
	case id == "closed" && s.degraded && s.ok:
		o.wrong = append(o.wrong, "a rule that fails closed let a call pass")
	case id == "open" && !s.ok:
		o.wrong = append(o.wrong, "a rule that fails open refused a call")
	case id == "local" && s.storeError:
		o.wrong = append(o.wrong, "a rule that fails local had no share")
	case id == "local" && s.ok && s.degraded:
		o.local++
	}
}

// What may be late on a machine that does other things: most decisions, and the slowest of
// all.
const margin, rareMargin = 200 * time.Millisecond, 2 * time.Second

// check compares what callers saw with what they were promised.
func (o *outcome) check(t *testing.T) {
	t.Helper()
	if len(o.wrong) > 0 {
		t.Errorf("%d decisions against the policy, the first: %s", len(o.wrong), o.wrong[0])
	}
	wait := cmp.Or(o.wait, 20*time.Millisecond)
	if p99 := quantile(o.first, 0.99); p99 > wait+margin || o.longest > wait+rareMargin {
		t.Errorf("P-153 P-160 before the fault was known p99 was %v; the longest decision took %v", p99, o.longest)
	}
	if o.most > 64+40 {
		t.Errorf("%d more goroutines, of which 64 are the callers", o.most)
	}
	if o.survived {
		if o.known > 0 || len(o.log) > 0 {
			t.Errorf("callers were told no after %v; the log: %q", o.known, o.log)
		}
		return
	}
	if o.known == 0 || quantile(o.open, 0.5) > time.Millisecond {
		t.Errorf("known after %v, and then a decision took %v", o.known, quantile(o.open, 0.5))
	}
	share := suffered[2].Limits[0].Share(nodes)
	if most := share.Burst + int64(time.Since(o.struck).Seconds()+1)*share.Max*int64(limit.Second)/int64(share.Per); int64(o.local) > most {
		t.Errorf("P-157 the share let %d pass, want at most %d", o.local, most)
	}
	if n := len(o.log); n%2 != 0 || n > 20 {
		t.Errorf("the log has %d lines, want one for each change:\n%s", n, strings.Join(o.log, "\n"))
	}
}

// checkBooks compares what the server says was taken with what callers were told, and
// returns how many units and slots it has lost. Only a server that forgets may lose any: a
// slot stays held if it forgets the release.
func (o *outcome) checkBooks(t *testing.T, c *sluice.Controller) (units, slots int64) {
	t.Helper()
	debited := suffered[0].Limits[0].Capacity() - remaining(t, c, 0)
	if debited > o.sure+o.unsure {
		t.Errorf("P-128 %d units were debited for %d grants and %d calls without an answer", debited, o.sure, o.unsure)
	}
	units = max(0, o.sure-debited)
	if units > 0 && !o.forgets {
		t.Errorf("%d of %d units were not debited", units, o.sure)
	}
	slots = 64
	for end := time.Now().Add(3 * time.Second); slots > 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		slots = 64 - remaining(t, c, 3)
	}
	if slots > 0 && !o.forgets || slots > 16 {
		t.Errorf("%d slots of 16 callers are held by nobody", slots)
	}
	return units, slots
}

// remaining is how many units of a rule are there, as the server says.
func remaining(t *testing.T, c *sluice.Controller, rule int) int64 {
	t.Helper()
	var x *sluice.Explanation
	eventually(t, 3*time.Second, "the server says what is left", func() (ok bool) {
		var err error
		if x, err = c.Check(context.Background(), sluice.Call{Kind: suffered[rule].ID}); err != nil {
			t.Fatal(err)
		}
		return x.Refusal == nil || x.Refusal.Reason != sluice.ReasonStore
	})
	return x.Rules[rule].Limits[0].Level.Remaining
}

// quantile returns the q-th of sorted waits, zero if there are none.
func quantile(waits []time.Duration, q float64) time.Duration {
	if len(waits) == 0 {
		return 0
	}
	return waits[int(float64(len(waits)-1)*q)]
}
