package memory

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// together runs f(0) to f(n-1) at the same time.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

func key(cell uint64) ledger.Key { return ledger.Key{Group: cell * 0x9e3779b97f4a7c15, Cell: cell} }

// taker takes steps, with memory that it uses again.
type taker struct {
	s    *Store
	cmds [1]ledger.Command
	res  [1]ledger.Result
}

func (k *taker) do(cmd ledger.Command) *ledger.Result {
	k.cmds[0] = cmd
	if err := k.s.Apply(nil, k.cmds[:], k.res[:]); err != nil {
		panic(err)
	}
	return &k.res[0]
}

func (k *taker) take(steps ...ledger.Step) bool {
	return k.do(ledger.Command{Steps: steps}).Status == ledger.Done
}

// Whoever read the clock a moment before others took is not refused what is there.
func TestExactlyTheBurstPasses(t *testing.T) {
	for _, steps := range []uint64{1, 3} {
		s := New(Options{})
		for k := range uint64(2000) {
			var passed atomic.Int64
			together(8, func(int) {
				me := taker{s: s}
				for range 2 {
					var list []ledger.Step
					for i := range steps {
						list = append(list, ledger.Step{Key: key(k*8 + i + 1), Limit: limit.Bucket(1000, 1000*limit.Hour, 16), N: 1})
					}
					if me.take(list...) {
						passed.Add(1)
					}
				}
			})
			if n := passed.Load(); n != 16 {
				t.Fatalf("%d limits, key %d: %d of 16 passed, and 16 are there", steps, k, n)
			}
		}
	}
}
