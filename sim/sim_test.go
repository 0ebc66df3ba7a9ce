package sim

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

var (
	seedFlag = flag.Uint64("seed", 0, "play this seed and no other; 0 draws one")
	runsFlag = flag.Uint64("runs", 40, "how many seeds to play")
)

const steps = 300

func TestSim(t *testing.T) {
	first, runs := *seedFlag, *runsFlag
	if first == 0 {
		first = rand.Uint64N(1e9) + 1
	} else {
		runs = 1
	}
	for seed := first; seed < first+runs; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Logf("again: go test ./sim -run TestSim -seed=%d", seed)
			play(t, seed)
		})
	}
}

// TestSameSeedSameHistory holds the simulation to its promise.
func TestSameSeedSameHistory(t *testing.T) {
	for seed := range uint64(5) {
		a, b := strings.Split(play(t, seed), "\n"), strings.Split(play(t, seed), "\n")
		for i := range a {
			if i >= len(b) || a[i] != b[i] {
				t.Errorf("seed %d has two histories, from line %d on:\n%s\n%s", seed, i, a[i], b[min(i, len(b)-1)])
				break
			}
		}
	}
}

// A player is one call and what became of it.
type player struct {
	name     int
	call     sluice.Call
	cancel   context.CancelFunc
	answered bool
	at       time.Duration // of the answer
	checked  bool
	replayed bool
	adm      sluice.Admission
	err      error
	taken    []*debit
	settled  bool
}

func (p *player) holds() bool { return p.answered && p.err == nil }

// A scene is one run.
type scene struct {
	*testing.T
	world
	ctl    *sluice.Controller
	shapes []shape
	start  time.Time

	mu      sync.Mutex // of answers, for callers that are answered together
	answers []*player

	clock   time.Duration // of the model
	model   model
	players []*player // that wait or hold something, in the order they came
	byID    map[string]*player
	history strings.Builder
}

// play runs one seed on one processor, so that goroutines take their turns the same way
// each time, and returns what happened.
func play(t *testing.T, seed uint64) (history string) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, world: world{rand.New(rand.NewPCG(seed, seed))}, start: time.Now(), byID: map[string]*player{}}
		s.shapes = s.world.shapes()
		policy := s.policy(s.shapes)
		store := memory.New(memory.Options{})
		defer store.Close()
		var err error
		if s.ctl, err = sluice.Open(policy, store, sluice.Options{}); err != nil {
			t.Fatal(err)
		}
		s.model = model{rules: policy.Rules, cells: map[string]*cell{}, now: func() time.Duration { return s.clock }}
		s.note("rules:%s", text(policy.Rules))
		for step := 0; step < steps && !t.Failed(); step++ {
			s.act(step)
			s.rest()
		}
		s.end()
		if t.Failed() {
			t.Logf("the history of seed %d:\n%s", seed, s.history.String())
		}
		history = s.history.String()
	})
	return history
}

func (s *scene) now() time.Duration { return time.Since(s.start) }

// note writes a line of history.
func (s *scene) note(format string, args ...any) {
	fmt.Fprintf(&s.history, "%v ", s.clock)
	fmt.Fprintf(&s.history, format+"\n", args...)
}

// answer notes the decision about p, in its caller's goroutine.
func (s *scene) answer(p *player, adm sluice.Admission, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.adm, p.err, p.at = adm, err, s.now()
	p.replayed = adm.Replayed()
	s.answers = append(s.answers, p)
}

// enterAnswers tells the model of all decisions since the last step, in the order of
// their instants. Of one instant those who came first are first: in which order the
// callers' goroutines woke up is nobody's business.
func (s *scene) enterAnswers() {
	slices.SortFunc(s.answers, func(a, b *player) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.name, b.name))
	})
	for _, p := range s.answers {
		s.clock = p.at
		p.answered = true
		s.note("%d is answered: %v", p.name, p.err)
		if p.err != nil {
			s.expected(p)
		} else if !p.replayed {
			taken, broken := s.model.admit(&p.call)
			if broken != "" {
				s.Errorf("%v: %d was admitted although %s", p.at, p.name, broken)
			}
			p.taken = taken
			if p.call.ID != "" {
				s.byID[p.call.ID] = p
			}
		}
	}
	for _, p := range s.answers {
		if first := s.byID[p.call.ID]; p.err == nil && p.replayed && first != nil {
			s.clock = p.at
			s.model.holdAgain(first.taken)
		}
	}
	s.answers, s.clock = s.answers[:0], s.now()
}

// expected checks that a caller who may not go ahead was told so, and not of a mishap.
func (s *scene) expected(p *player) {
	_, refused := errors.AsType[*sluice.Refusal](p.err)
	if !refused && !errors.Is(p.err, context.Canceled) && !errors.Is(p.err, context.DeadlineExceeded) {
		s.Errorf("%d was told %v", p.name, p.err)
	}
}

// justified checks a refusal that was given at once, with nobody in line.
func (s *scene) justified(p *player, refusal *sluice.Refusal) {
	for _, id := range refusal.Violated {
		r := s.model.rule(id)
		if surely, _ := s.model.fits(r, &p.call); surely || r.Shadow {
			s.Errorf("%d was refused by %s, which has room or is a shadow: %v", p.name, id, refusal)
		}
	}
	if len(refusal.Violated) == 0 {
		s.Errorf("%d was refused by nobody: %v", p.name, refusal)
	}
}

// rest waits until nobody moves and checks what has to hold then.
func (s *scene) rest() {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enterAnswers()
	s.players = slices.DeleteFunc(s.players, func(p *player) bool { return p.answered && p.err != nil })
	for _, kind := range []string{"http", "llm"} {
		for _, subject := range []string{"alice", "bob", "eve"} {
			for _, tenant := range []string{"t1", "t2"} {
				s.compare(sluice.Call{Kind: kind, Subject: subject, Tenant: tenant})
			}
		}
	}
	s.nobodyOvertaken()
	s.nobodyForgotten()
}

// nobodyOvertaken checks that of equal callers none was admitted while an earlier one
// was still waiting.
func (s *scene) nobodyOvertaken() {
	for i, p := range s.players {
		if !p.answered || p.checked || p.replayed {
			continue
		}
		p.checked = true
		for _, o := range s.players[:i] {
			equal := o.call.Kind == p.call.Kind && o.call.Subject == p.call.Subject && o.call.Tenant == p.call.Tenant
			if equal && (!o.answered || o.at > p.at) {
				s.Errorf("%v: %d has overtaken %d", s.now(), p.name, o.name)
			}
		}
	}
}

// compare holds the levels that the engine tells against the model's.
func (s *scene) compare(call sluice.Call) {
	e, err := s.ctl.Check(context.Background(), call)
	if err != nil {
		s.Fatal(err)
	}
	for i, x := range e.Rules {
		r := &s.model.rules[i]
		if x.Matched != about(r, &call) {
			s.Errorf("%s is about %+v: %v", r.ID, call, x.Matched)
		}
		if !x.Matched {
			continue
		}
		l, c := r.Limits[0].Limit, s.model.cellOf(r, &call)
		got, want, off := float64(x.Limits[0].Level.Remaining), max(0, s.model.free(r, c)), 0.0
		switch {
		case l.Kind == limit.KindBucket:
			want, off = min(math.Floor(want+1e-6), float64(l.Burst)), 1
		case l.Kind == limit.KindPace && s.model.nearly(r, c):
			off = 1
		}
		if math.Abs(got-want) > off {
			s.Errorf("%v: %v units are left of %s (%v) for %s, want %v", s.now(), got, r.ID, l, x.Key, want)
		}
	}
}

// nobodyForgotten checks that whoever came first could not go ahead. Under fair lines the
// first to come need not be next, unless nobody else waits.
func (s *scene) nobodyForgotten() {
	var waiting []*player
	for _, p := range s.players {
		if !p.answered {
			waiting = append(waiting, p)
		}
	}
	fair := slices.ContainsFunc(s.shapes, func(x shape) bool { return x.fair })
	if len(waiting) == 0 || fair && len(waiting) > 1 {
		return
	}
	p := waiting[0]
	for i := range s.model.rules {
		r := &s.model.rules[i]
		if surely, _ := s.model.fits(r, &p.call); about(r, &p.call) && !r.Shadow && !surely {
			return
		}
	}
	s.Errorf("%v: %d is kept waiting although all limits have room", s.now(), p.name)
}

// end lets everybody finish: whoever waits gets a turn or is turned away, and nothing
// stays taken.
func (s *scene) end() {
	for range 2000 {
		p := s.one((*player).holds)
		left := len(s.players)
		switch {
		case s.Failed():
			for _, p := range s.players {
				p.cancel()
			}
			return
		case left == 0:
			for _, c := range s.model.cells {
				if len(c.held) > 0 {
					s.Error("the model has lost a slot")
				}
			}
			s.rest()
			return
		case p != nil:
			s.finish(p)
		default:
			time.Sleep(10 * time.Second)
		}
		s.rest()
	}
	s.Errorf("%d callers never leave", len(s.players))
}
