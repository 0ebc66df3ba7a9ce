package storetest

import (
	"sync"
	"testing"
	"time"

	sluice "github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// RunWaker checks that stores are what a [sluice.Waker] promises to be. Each call of open
// returns two stores of the same empty books, as two processes have them.
func RunWaker(t *testing.T, open func(t *testing.T) (here, there sluice.Store)) {
	for _, c := range wakerCases {
		t.Run(c.name, func(t *testing.T) {
			here, there := open(t)
			t.Cleanup(func() {
				for _, s := range []sluice.Store{here, there} {
					if err := s.Close(); err != nil {
						t.Errorf("close: %v", err)
					}
				}
			})
			c.check(watchStore(t, here), &client{T: t, store: there})
		})
	}
}

type wakerCase struct {
	name  string
	check func(here *watcher, there *client)
}

// A watcher is a client who is told.
type watcher struct {
	client
	told chan ledger.Key
	stop func()
}

// watchStore returns a watcher whose store hears.
func watchStore(t *testing.T, s sluice.Store) *watcher {
	t.Helper()
	w := &watcher{client: client{T: t, store: s}, told: make(chan ledger.Key, 1000)}
	hears := make(chan struct{})
	var once sync.Once
	w.stop = s.(sluice.Waker).Watch(func(k ledger.Key) { w.told <- k }, func(works bool) {
		if works {
			once.Do(func() { close(hears) })
		}
	})
	t.Cleanup(w.stop)
	select {
	case <-hears:
	case <-time.After(10 * time.Second):
		t.Fatal("it does not say that it hears")
	}
	return w
}

// hear fails the test unless the watcher is told of these cells, in this order, and of no
// other before.
func (w *watcher) hear(keys ...ledger.Key) {
	w.Helper()
	for _, want := range keys {
		select {
		case k := <-w.told:
			if k != want {
				w.Errorf("told of %+v, want %+v", k, want)
			}
		case <-time.After(10 * time.Second):
			w.Fatalf("not told of %+v", want)
		}
	}
}

// watched is a Take that is refused and wants to be told.
func watched(steps ...ledger.Step) ledger.Command {
	cmd := take(steps...)
	cmd.Watch = limit.Minute
	return cmd
}

// silence fails the test if the watcher has been told anything. The message about a last
// cell has come after any other that could come.
func (w *watcher) silence(there *client) {
	w.Helper()
	last := step(999, limit.Slots(1), 1)
	there.want(ledger.Done, take(last))
	w.want(ledger.Refused, watched(last))
	there.want(ledger.Done, release(last))
	w.hear(last.Key)
}

// wakerCases are about what is told, and what not.
var wakerCases = []wakerCase{
	{"P-106 whatever gives back is told", func(here *watcher, there *client) {
		for i, l := range every {
			gives := []ledger.Op{ledger.Void, ledger.Settle, ledger.Reset}
			if l.OnRelease() {
				gives = []ledger.Op{ledger.Void, ledger.Release, ledger.Free}
			}
			for j, op := range gives {
				s := step(uint64(10*i+j), l, 5)
				grant := take(s)
				grant.At = there.want(ledger.Done, grant).At
				here.want(ledger.Refused, watched(s))
				grant.Op = op
				switch op {
				case ledger.Settle:
					grant.Used = []int64{1}
				case ledger.Reset:
					grant = ledger.Command{Op: op, Group: s.Key.Group}
				}
				there.want(ledger.Done, grant)
				here.hear(s.Key)
				if op == ledger.Settle {
					s.N = 4
				}
				here.want(ledger.Done, take(s))
			}
		}
	}},
	{"only the cells that refuse are told of", func(here *watcher, there *client) {
		full, part := step(1, limit.Slots(5), 5), step(2, limit.Slots(5), 1)
		there.want(ledger.Done, take(full))
		there.want(ledger.Done, take(part))
		here.want(ledger.Refused, watched(part, full))
		there.want(ledger.Done, release(part))
		there.want(ledger.Done, release(full))
		here.hear(full.Key)
		here.silence(there)
	}},
	{"who did not ask is not told, nor who can never pass", func(here *watcher, there *client) {
		for i, l := range every {
			s := step(uint64(i), l, 5)
			grant := take(s)
			grant.At = there.want(ledger.Done, grant).At
			here.want(ledger.Refused, take(s))
			peek := watched(s)
			peek.Op = ledger.Peek
			here.want(ledger.Refused, peek)
			s.N = 6
			here.want(ledger.Refused, watched(s))
			grant.Op = ledger.Void
			there.want(ledger.Done, grant)
		}
		here.silence(there)
	}},
	{"once told is told, until refused again", func(here *watcher, there *client) {
		s := step(1, limit.Slots(2), 2)
		one := s
		one.N = 1
		for range 3 {
			there.want(ledger.Done, take(one))
			there.want(ledger.Done, take(one))
			here.want(ledger.Refused, watched(s))
			here.want(ledger.Refused, watched(one))
			there.want(ledger.Done, release(one))
			here.hear(s.Key)
			there.want(ledger.Done, release(one))
		}
		here.silence(there)
	}},
	{"one's own give-backs are told too, and after stop nothing is", func(here *watcher, there *client) {
		s := step(1, limit.Slots(1), 1)
		here.want(ledger.Done, take(s))
		here.want(ledger.Refused, watched(s))
		here.want(ledger.Done, release(s))
		here.hear(s.Key)
		here.stop()
		other := watchStore(here.T, here.store)
		here.want(ledger.Done, take(s))
		here.want(ledger.Refused, watched(s))
		here.want(ledger.Done, release(s))
		other.hear(s.Key)
		if n := len(here.told); n != 0 {
			here.Errorf("told %d times after stop", n)
		}
	}},
}
