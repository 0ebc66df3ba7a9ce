package sluice_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// A shared store stands for one that other processes use too: what the test does to it
// directly is done by another process.
type shared struct {
	*memory.Store

	mu      sync.Mutex
	freed   func(ledger.Key)
	heard   func(bool)
	asked   []time.Time                 // when a head asked that wants to be told
	watched map[ledger.Key]time.Time    // until when it wants to be
	answer  func(cmds []ledger.Command) // called before such a head is answered
}

func newShared() *shared {
	return &shared{Store: memory.New(memory.Options{}), watched: make(map[ledger.Key]time.Time)}
}

func (s *shared) Watch(freed func(ledger.Key), heard func(bool)) func() {
	s.freed, s.heard = freed, heard
	return func() { s.freed, s.heard = nil, nil }
}

func (s *shared) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	err := s.Store.Apply(ctx, cmds, res)
	if cmds[0].Op != ledger.Take || cmds[0].Watch == 0 {
		return err
	}
	s.mu.Lock()
	s.asked = append(s.asked, time.Now())
	for i, out := range res[0].Outcomes {
		if !out.OK {
			s.watched[cmds[0].Steps[i].Key] = time.Now().Add((out.Wait + cmds[0].Watch).Duration())
		}
	}
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		answer(cmds)
	}
	return err
}

// asks returns when heads have asked since the last call.
func (s *shared) asks() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// cells returns the cells that somebody wants to be told of now.
func (s *shared) cells() (keys []ledger.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, until := range s.watched {
		if time.Now().Before(until) {
			keys = append(keys, k)
		}
	}
	return keys
}

// steal takes a slot of each subject in another process, and returns how it gives one
// back.
func (s *shared) steal(t *testing.T, c *sluice.Controller, subjects int) (release func(subject int)) {
	var held []sluice.Admission
	other, err := sluice.Open(c.Policy(), s.Store, sluice.Options{KeySecret: secret})
	if err != nil {
		t.Fatal(err)
	}
	for i := range subjects {
		a, err := other.Admit(background, sluice.Call{Subject: strconv.Itoa(i)})
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, a)
	}
	return func(subject int) { held[subject].Release() }
}

var secret = []byte("sixteen bytes or more")

// waker returns a controller whose store is shared, and callers of some subjects who wait
// for slots that another process holds.
func waker(t *testing.T, subjects int) (*shared, *sluice.Controller, func(int), []*caller) {
	t.Helper()
	s := newShared()
	rule := each(queued(one("r", limit.Slots(1)), sluice.Queue{}), sluice.Subject)
	c, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{rule}}, s, sluice.Options{KeySecret: secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	release := s.steal(t, c, subjects)
	var all []*caller
	for i := range subjects {
		all = append(all, send(background, c, sluice.Call{Subject: strconv.Itoa(i)}))
	}
	synctest.Wait()
	return s, c, release, all
}

func TestToldOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, release, x := waker(t, 2)
		s.heard(true)
		sleepUntil(second)
		cells := s.cells()
		if len(cells) != 2 {
			t.Fatalf("they want to be told of %v", cells)
		}
		release(0)
		s.asks()
		s.freed(ledger.Key{Group: 1, Cell: 1})
		synctest.Wait()
		if n := len(s.asks()); n != 0 {
			t.Errorf("P-106 %d asked for a cell of nobody", n)
		}
		for _, k := range cells {
			s.freed(k)
		}
		synctest.Wait()
		wantAt(t, x[:1], second)
		if !x[1].waiting() {
			t.Error("a slot that is held was given away")
		}
		if n := len(s.asks()); n != 2 {
			t.Errorf("two heads asked %d times", n)
		}
	})
}

func TestToldBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, release, x := waker(t, 1)
		s.heard(true)
		sleepUntil(second)
		var once sync.Once
		s.answer = func(cmds []ledger.Command) {
			once.Do(func() { // refused, then released, then told of it, all before the answer
				release(0)
				s.freed(cmds[0].Steps[0].Key)
			})
		}
		at := clock()
		s.freed(s.cells()[0]) // it asks
		synctest.Wait()
		wantAt(t, x, at)
	})
}

func TestMessagesGetLost(t *testing.T) {
	for _, told := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, _, release, x := waker(t, 1)
			s.heard(told)
			sleepUntil(10 * second)
			asks := s.asks()
			every := asks[len(asks)-1].Sub(asks[len(asks)-2])
			most := map[bool]time.Duration{false: 200 * time.Millisecond, true: 2 * second}[told]
			if every > most || every < most*7/8 {
				t.Errorf("told %v: it asks every %v, want %v or a little less", told, every, most)
			}
			if len(s.cells()) != 1 {
				t.Error("the mark does not last until it asks again")
			}
			release(0)
			sleepUntil(clock() + most)
			if !x[0].admitted() {
				t.Errorf("told %v: after %v it has not asked", told, most)
			}
		})
	}
}

func TestHeardAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lines = 3000
		s, _, release, x := waker(t, lines)
		s.heard(true)
		sleepUntil(30 * second)
		began := clock()
		s.heard(false)
		s.asks()
		synctest.Wait()
		if n := len(s.asks()); n != 0 {
			t.Errorf("%d heads ask a store that has just lost its server", n)
		}
		release(7)
		s.heard(true)
		sleepUntil(began + 600*time.Millisecond) // 3000 at 5000 a second
		asks := s.asks()
		if n := len(asks); n < lines || n > lines*13/10 { // and some whose timer fired
			t.Errorf("%d lines asked %d times", lines, n)
		}
		if !x[7].admitted() {
			t.Error("P-106 a slot that came back unheard was not found")
		}
		slices.SortFunc(asks, time.Time.Compare)
		for i := 200; i < len(asks); i++ {
			if d := asks[i].Sub(asks[i-200]); d < 15*time.Millisecond {
				t.Fatalf("200 asked within %v", d)
			}
		}
	})
}

func TestDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c, _, x := waker(t, 1)
		c.Close()
		synctest.Wait()
		if s.freed != nil {
			t.Error("a closed controller listens")
		}
		if x[0].waiting() || x[0].err != sluice.ErrClosed {
			t.Errorf("told %v", x[0].err)
		}
	})
}
