package bench

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// open starts an engine over the memory store with the given rules.
func open(tb testing.TB, rules ...sluice.Rule) *sluice.Controller {
	ctl := must(sluice.Open(&sluice.Policy{Rules: rules}, memory.New(memory.Options{}), sluice.Options{}))
	tb.Cleanup(func() {
		if err := ctl.Close(); err != nil {
			tb.Error(err)
		}
	})
	return ctl
}

func bucket(q quota) []sluice.Limit {
	return []sluice.Limit{{Limit: limit.Bucket(q.n, limit.MicrosOf(q.per), q.burst)}}
}

// decide is a worker that asks for one call of each subject, as a surface does: the
// memory of a decision is kept from call to call.
func decide(ctl *sluice.Controller) worker {
	return func() func(string) bool {
		ctx, call, d := context.Background(), &sluice.Call{Kind: "bench"}, new(sluice.Decision)
		return func(subject string) bool {
			call.Subject = subject
			ok, err := ctl.Try(ctx, call, d)
			return ok && err == nil
		}
	}
}

func init() {
	enter(contestant{
		name: "sluice",
		keyed: func(tb testing.TB, q quota) worker {
			return decide(open(tb, sluice.Rule{ID: "one", GroupBy: []sluice.Dimension{sluice.Subject}, Limits: bucket(q)}))
		},
		slots: slots,
		// A limit.Pace is never early and never catches up: between turns that are closer
		// than the millisecond for which an idle process sleeps at least, it falls behind.
		// A rate that high is a bucket with a burst of a few milliseconds.
		lead: lead,
		pace: func(tb testing.TB, perSecond int) func(context.Context) error {
			ctl := open(tb, sluice.Rule{
				ID:     "pace",
				Limits: []sluice.Limit{{Limit: limit.Bucket(int64(perSecond), limit.Second, int64(lead(perSecond)))}},
				Queue:  &sluice.Queue{},
			})
			return func(ctx context.Context) error {
				admission, err := ctl.Admit(ctx, sluice.Call{Kind: "bench"})
				if err == nil {
					admission.Release()
				}
				return err
			}
		},
	})
}

// lead is five milliseconds of the rate.
func lead(perSecond int) int { return perSecond / 200 }

func slots(tb testing.TB, n int64) func() func() bool {
	ctl := open(tb, sluice.Rule{ID: "slots", Limits: []sluice.Limit{{Limit: limit.Slots(n)}}})
	return func() func() bool {
		ctx, call, d := context.Background(), &sluice.Call{Kind: "bench"}, new(sluice.Decision)
		return func() bool {
			ok, err := ctl.Try(ctx, call, d)
			if !ok || err != nil {
				return false
			}
			d.Admission().Release()
			return true
		}
	}
}

// BenchmarkRules/<workload>/<mode>/<n> is one decision over n rules, all or none,
// each with a bucket of its own. No peer does this; n = 1 is the base.
func BenchmarkRules(b *testing.B) {
	groups := [][]sluice.Dimension{{sluice.Subject}, {sluice.Subject, sluice.Kind}, {sluice.Kind}, nil}
	var entered []contestant
	for _, n := range []int{1, 2, 4} {
		entered = append(entered, contestant{
			name: fmt.Sprint(n),
			keyed: func(tb testing.TB, q quota) worker {
				var rules []sluice.Rule
				for i, by := range groups[:n] {
					rules = append(rules, sluice.Rule{ID: fmt.Sprintf("rule-%d", i), GroupBy: by, Limits: bucket(q)})
				}
				return decide(open(tb, rules...))
			},
		})
	}
	for _, w := range workloads[:2] {
		b.Run(w.name, func(b *testing.B) {
			b.Run("serial", func(b *testing.B) { w.run(b, entered, 0) })
			b.Run("par", func(b *testing.B) { w.run(b, entered, 1) })
		})
	}
}

// BenchmarkFlood is a caller that never came before, each time: what an attacker
// with endless keys costs, and what it leaves behind. keys-MB is live memory at the
// end. Run with -benchtime 5000000x.
func BenchmarkFlood(b *testing.B) {
	before := liveBytes()
	ctl := open(b, sluice.Rule{ID: "flood", GroupBy: []sluice.Dimension{sluice.Subject}, Limits: bucket(slow)})
	ctx, call, d := context.Background(), &sluice.Call{}, new(sluice.Decision)
	name := make([]byte, 0, 32)
	start := time.Now()
	for i := range b.N {
		name = fmt.Appendf(name[:0], "flood-%d", i)
		call.Subject = string(name)
		if _, err := ctl.Try(ctx, call, d); err != nil && !errors.As(err, new(*sluice.Refusal)) {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(b.N), "ns/op")
	b.ReportMetric(float64(liveBytes()-before)/1e6, "keys-MB")
}
