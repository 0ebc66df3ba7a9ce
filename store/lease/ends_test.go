package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/lease"
)

func TestWhenItEnds(t *testing.T) {
	inBubble(t, "nobody is refused whom the books would admit", func(t *testing.T, b *books) {
		for i, l := range []limit.Limit{limit.Window(400, limit.Second), limit.Bucket(400, limit.Second, 400)} {
			st, s := []*lease.Store{lease.New(b), lease.New(b), lease.New(b)}, hot(t, l)
			s.key.Cell += uint64(i)
			refused := 0
			for n := range 20_000 {
				for units := int64(1); units <= 3; units += 2 {
					res, _ := s.take(t, st[n%3], units)
					if res.Status == ledger.Done {
						continue
					}
					refused++
					step := s.step(units)
					if do(t, b, ledger.Command{Op: ledger.Peek, Steps: []ledger.Step{step}}).Status == ledger.Done {
						t.Fatalf("%v: call %d was refused", l, n)
					}
					if w := res.Outcomes[0]; len(res.Outcomes) != 1 || w.Never || w.Wait <= 0 {
						t.Fatalf("%v: told %+v", l, res.Outcomes)
					}
				}
				time.Sleep(time.Millisecond)
			}
			if refused == 0 {
				t.Errorf("%v: nobody was refused", l)
			}
		}
	})
	inBubble(t, "P-008 waiting for as long as a refusal says passes", func(t *testing.T, b *books) {
		st, s := lease.New(b), hot(t, limit.Window(400, limit.Second))
		for {
			res, _ := s.take(t, st, 1)
			if res.Status == ledger.Done {
				continue
			}
			time.Sleep(res.Outcomes[0].Wait.Duration() - time.Microsecond)
			if res, _ := s.take(t, st, 1); res.Status != ledger.Refused {
				t.Error("passed before its time")
			}
			time.Sleep(time.Microsecond)
			s.spend(t, st, 1)
			return
		}
	})
	inBubble(t, "P-142 two nodes pass a limit of one once", func(t *testing.T, b *books) {
		st := []*lease.Store{lease.New(b), lease.New(b)}
		e := limit.Lease{Limit: limit.Window(1, 31*limit.Second), For: limit.Second, Part: 1}
		s, passed := &scene{lease: e, key: ledger.Key{Cell: 7}}, 0
		for n := range 30 {
			if res, _ := s.take(t, st[n%2], 1); res.Status == ledger.Done {
				passed++
			}
			time.Sleep(time.Second)
		}
		if passed != 1 {
			t.Errorf("%d passed", passed)
		}
	})
	inBubble(t, "P-144 what is left passes, and no more", func(t *testing.T, b *books) {
		one, two := lease.New(b), lease.New(b)
		e := limit.Lease{Limit: limit.Window(10, 61*limit.Second), For: limit.Second, Part: 1}
		s := &scene{lease: e, key: ledger.Key{Cell: 7}}
		s.spend(t, one, 1)
		if res, _ := s.take(t, two, 8); res.Status != ledger.Done {
			t.Fatal("eight of ten did not pass")
		}
		if res, _ := s.take(t, one, 1); res.Status != ledger.Done || res.Levels[0].Left != 0 {
			t.Errorf("the tenth: %+v", res)
		}
		if res, _ := s.take(t, one, 1); res.Status != ledger.Refused {
			t.Error("an eleventh passed")
		}
	})
	inBubble(t, "P-145 what was spent while the store was away is counted when it is back", func(t *testing.T, b *books) {
		st, s := lease.New(b), hot(t, limit.Window(60_000, limit.Minute))
		s.spend(t, st, 5000)
		b.away.Store(true)
		ahead := st.Stats().Ahead
		if n := s.spend(t, st, 100); n != 100 || ahead < 100 {
			t.Errorf("%d of 100 were ahead, of %d", n, ahead)
		}
		steps := []ledger.Step{s.step(1)}
		for st.Stats().Ahead > 0 {
			s.spend(t, st, 1)
			ahead--
		}
		if err := st.Apply(context.Background(), []ledger.Command{{Steps: steps}}, make([]ledger.Result, 1)); !errors.Is(err, errAway) {
			t.Errorf("with nothing ahead: %v", err)
		}
		time.Sleep(time.Second)
		b.away.Store(false)
		if used := s.used(t, b); used < 5100+ahead-100 {
			t.Errorf("%d are debited", used)
		}
		s.spend(t, st, 1)
	})
	inBubble(t, "P-148 a process that dies takes along what it had ahead, until the window is over", func(t *testing.T, b *books) {
		dead, s := lease.New(b), hot(t, limit.Window(1000, 10*limit.Second))
		s.spend(t, dead, 600)
		lost := dead.Stats().Ahead
		if lost == 0 || lost > s.lease.Ahead {
			t.Fatalf("%d ahead, at most %d were promised", lost, s.lease.Ahead)
		}
		next, passed := lease.New(b), int64(600)
		for {
			if res, _ := s.take(t, next, 1); res.Status != ledger.Done {
				break
			}
			passed++
		}
		if passed < 1000-lost-next.Stats().Ahead {
			t.Errorf("%d passed in all, %d were lost", passed, lost)
		}
		time.Sleep(10*time.Second + s.lease.For.Duration())
		if used := s.used(t, b); used != 0 {
			t.Errorf("%d are still debited", used)
		}
	})
	inBubble(t, "P-085 a change of the limit drops what is ahead", func(t *testing.T, b *books) {
		st, s, less := lease.New(b), hot(t, perMinute), hot(t, limit.Window(600, limit.Minute))
		s.spend(t, st, 550)
		less.key = s.key
		passed := 0
		for range 100 {
			if res, _ := less.take(t, st, 1); res.Status == ledger.Done {
				passed++
			}
		}
		if passed > 50 || st.Stats().Ahead != 0 {
			t.Errorf("%d more passed, %d are ahead", passed, st.Stats().Ahead)
		}
	})
	for _, reset := range []ledger.Command{{Op: ledger.Reset, All: true}, {Op: ledger.Reset, Group: 7 << 32}} {
		inBubble(t, "P-147 a reset drops what is ahead, and what is asked for meanwhile", func(t *testing.T, b *books) {
			st, s, other := lease.New(b), hot(t, perMinute), hot(t, perMinute)
			other.key = ledger.Key{Group: 8 << 32, Cell: 8}
			s.spend(t, st, 500)
			both := st.Stats().Ahead
			other.spend(t, st, 500)
			kept := st.Stats().Ahead - both
			b.answered = func() {
				b.answered = nil
				b.resetting = func() { // in the middle of it
					b.resetting = nil
					if n := s.spend(t, st, 200); n != 0 {
						t.Errorf("%d units that had been ahead were spent", n)
					}
				}
				do(t, st, reset)
			}
			for b.answered != nil {
				s.spend(t, st, 1)
			}
			if reset.All {
				kept = 0
			}
			if ahead := st.Stats().Ahead; ahead != kept {
				t.Errorf("%d are ahead after the reset, want %d", ahead, kept)
			}
			if res, _ := s.take(t, st, 6000); res.Status != ledger.Done {
				t.Errorf("the limit is not full: %+v", res)
			}
		})
	}
}
