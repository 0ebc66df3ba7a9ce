package hazelcast_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/hazelcast"
	"github.com/sluicegate/sluice/store/hazelcast/hazelcasttest"
)

// slow is how much longer than it should a step may take on a busy machine.
const slow = time.Second

func cell(n uint64, l limit.Limit) ledger.Step {
	return ledger.Step{Key: ledger.Key{Group: 1 << 32, Cell: n}, Limit: l, N: 1}
}

// do carries out one command.
func do(s *hazelcast.Store, op ledger.Op, steps ...ledger.Step) (ledger.Result, error) {
	res := make([]ledger.Result, 1)
	err := s.Apply(context.Background(), []ledger.Command{{Op: op, Steps: steps, Levels: op == ledger.Peek}}, res)
	return res[0], err
}

// used says how many units of the cell of step are in use, as soon as it is told.
func used(t *testing.T, s *hazelcast.Store, step ledger.Step) int64 {
	t.Helper()
	step.N = 0
	for deadline := time.Now().Add(time.Minute); ; {
		res, err := do(s, ledger.Peek, step)
		if err == nil {
			return res.Levels[0].Max - res.Levels[0].Left
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody says what is used: %v", err)
		}
	}
}

// eventually waits until ok says so.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %s", within, what)
		}
	}
}

// lines counts the lines of a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), "\n")
}

func TestSilentMember(t *testing.T) {
	member := hazelcasttest.Start(t, 1)[0]
	var log lines
	o := options(member)
	o.Wait, o.Logger = 50*time.Millisecond, slog.New(slog.NewTextHandler(&log, nil))
	s := open(t, o)
	defer s.Close()
	slot, other := cell(1, limit.Slots(100)), cell(2, limit.Slots(100))
	for taken := 0; taken < 10; {
		// A member that has just started is slow. What failed is given back.
		if res, err := do(s, ledger.Take, slot, other); err == nil && res.Status == ledger.Done {
			taken++
		}
	}
	eventually(t, 5*time.Second, "what failed is not given back", func() bool { return used(t, s, slot) == 10 })
	log.clear()
	member.Pause()
	defer member.Resume()

	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			began := time.Now()
			_, err := do(s, ledger.Take, slot, other)
			if took := time.Since(began); took > o.Wait+slow {
				t.Errorf("a take waited %v", took)
			}
			if !errors.Is(err, hazelcast.ErrWait) && !errors.Is(err, hazelcast.ErrUnavailable) {
				t.Errorf("told %v", err)
			}
		})
	}
	wg.Wait()
	eventually(t, time.Second, "the breaker is not open", func() bool {
		_, err := do(s, ledger.Take, cell(3, limit.Slots(1)))
		return errors.Is(err, hazelcast.ErrUnavailable)
	})
	began := time.Now()
	const asked = 1000
	for range asked {
		if _, err := do(s, ledger.Take, slot); !errors.Is(err, hazelcast.ErrUnavailable) {
			t.Fatalf("told %v", err)
		}
	}
	if each := time.Since(began) / asked; each > time.Millisecond {
		t.Errorf("%v for a call while the breaker is open", each)
	}
	for range 4 {
		if _, err := do(s, ledger.Release, slot, other); err != nil {
			t.Errorf("a release was told %v", err)
		}
	}

	member.Resume()
	eventually(t, time.Second+slow, "it does not answer again", func() bool {
		res, err := do(s, ledger.Take, cell(4, limit.Slots(1<<40)))
		return err == nil && res.Status == ledger.Done
	})
	for _, step := range []ledger.Step{slot, other} {
		eventually(t, 2*time.Second, "slots were lost or made", func() bool { return used(t, s, step) == 6 })
	}
	if n := log.count(); n != 2 {
		t.Errorf("%d lines of log for two changes of state", n)
	}
}

// TestMemberDies is about what is lost, which is nothing. How long a cluster takes to move
// its partitions is its own affair.
func TestMemberDies(t *testing.T) {
	members := hazelcasttest.Start(t, 2)
	o := options(members[0])
	o.Addresses = []string{members[0].Addr, members[1].Addr}
	s := open(t, o)
	defer s.Close()
	const cells = 40 // over all partitions, so on both members
	var confirmed [cells]atomic.Int64
	pair := func(i int) []ledger.Step {
		return []ledger.Step{cell(uint64(i), limit.Slots(1<<40)), cell(uint64(cells+i), limit.Window(1<<30, limit.Day))}
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range cells {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if res, err := do(s, ledger.Take, pair(i)...); err == nil && res.Status == ledger.Done {
					confirmed[i].Add(1)
				}
			}
		})
	}
	total := func() (n int64) {
		for i := range cells {
			n += confirmed[i].Load()
		}
		return n
	}
	eventually(t, time.Minute, "nothing is taken", func() bool { return total() > 20*cells })
	members[1].Kill()
	before := total()
	eventually(t, time.Minute, "nothing is taken after one of two members died", func() bool { return total() > before+20*cells })
	close(stop)
	wg.Wait()
	for i := range cells {
		for _, step := range pair(i) {
			want := confirmed[i].Load()
			eventually(t, 5*time.Second, "what was confirmed is not what is used", func() bool { return used(t, s, step) == want })
		}
	}
}
