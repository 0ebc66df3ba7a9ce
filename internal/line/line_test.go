package line_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicegate/sluice/internal/line"
)

type (
	queue  = line.Line[string]
	waiter = line.Waiter[string]
)

// serve takes n heads out of l and returns their names.
func serve(l *queue, n int) []string {
	var got []string
	for range n {
		h := l.Head()
		got = append(got, h.Value)
		l.Remove(h, true)
	}
	return got
}

func push(l *queue, ticket uint64, flow string, share int64) *waiter {
	w := &waiter{Value: fmt.Sprintf("%s%d", flow, ticket), Ticket: ticket}
	l.Push(w, flow, share)
	return w
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("served %q, want %q", got, want)
	}
}

func TestOneFlowIsFirstComeFirstServed(t *testing.T) {
	t.Run("A-6 in order of arrival", func(t *testing.T) {
		var l queue
		for i := range uint64(3) {
			push(&l, i, "", 1)
		}
		want(t, serve(&l, 3), "0", "1", "2")
		if l.Head() != nil || l.Len() != 0 {
			t.Error("the line is not empty")
		}
	})
	t.Run("who moves here keeps the place of its ticket", func(t *testing.T) {
		var l queue
		for _, ticket := range []uint64{5, 9, 7, 1} {
			push(&l, ticket, "", 1)
		}
		want(t, serve(&l, 4), "1", "5", "7", "9")
	})
	t.Run("A-15 who leaves lets the others move up", func(t *testing.T) {
		var l queue
		a, b, c := push(&l, 1, "", 1), push(&l, 2, "", 1), push(&l, 3, "", 1)
		if !l.Remove(b, false) || l.Remove(b, false) {
			t.Error("one removal of a waiter must succeed, and only one")
		}
		l.Remove(a, false)
		if l.Head() != c || l.Len() != 1 {
			t.Errorf("head %v of %d, want the third of 1", l.Head(), l.Len())
		}
	})
}

func TestFlowsTakeTurns(t *testing.T) {
	t.Run("P-112 a late flow does not wait for an early one's backlog", func(t *testing.T) {
		var l queue
		for i := range uint64(6) {
			push(&l, i, "a", 1)
		}
		want(t, serve(&l, 2), "a0", "a1")
		push(&l, 6, "b", 1)
		push(&l, 7, "b", 1)
		want(t, serve(&l, 5), "a2", "b6", "a3", "b7", "a4")
	})
	t.Run("a share of two is two turns", func(t *testing.T) {
		var l queue
		for i := range uint64(6) {
			push(&l, i, "a", 2)
			push(&l, i, "b", 1)
		}
		var a int
		for _, name := range serve(&l, 6) {
			if name[0] == 'a' {
				a++
			}
		}
		if a != 4 {
			t.Errorf("%d of 6 turns, want 4", a)
		}
	})
	t.Run("A-W17 who comes back after every turn starves nobody", func(t *testing.T) {
		var l queue
		for i := range uint64(10) {
			push(&l, i, "patient", 1)
		}
		patient := 0
		for i := range uint64(10) {
			eager := push(&l, 100+i, "eager", 1)
			for h := l.Head(); h != eager; h = l.Head() {
				l.Remove(h, true)
				patient++
			}
			l.Remove(eager, true)
		}
		if patient < 9 {
			t.Errorf("10 turns of a flow that always comes back leave %d to the other, want 9 or 10", patient)
		}
	})
	t.Run("leaving without a turn costs none and gains none", func(t *testing.T) {
		var l queue
		a := push(&l, 1, "a", 1)
		push(&l, 2, "b", 1)
		l.Remove(a, false)
		push(&l, 3, "a", 1)
		want(t, serve(&l, 2), "b2", "a3")
	})
}

func TestAhead(t *testing.T) {
	var l queue
	if l.Ahead(100) || l.Oldest() != 0 {
		t.Error("nobody is ahead in an empty line")
	}
	first := push(&l, 4, "a", 1)
	push(&l, 8, "b", 1)
	for ticket, ahead := range map[uint64]bool{3: false, 4: false, 5: true, 9: true} {
		if l.Ahead(ticket) != ahead {
			t.Errorf("Ahead(%d) = %v", ticket, !ahead)
		}
	}
	if l.Oldest() != 4 {
		t.Errorf("the oldest ticket is %d, want 4", l.Oldest())
	}
	l.Remove(first, false)
	if l.Ahead(5) || !l.Ahead(9) {
		t.Error("who has left is still ahead, or who stays is not")
	}
	if l.LenOf("a") != 0 || l.LenOf("b") != 1 || l.LenOf("c") != 0 {
		t.Errorf("LenOf a, b, c = %d, %d, %d", l.LenOf("a"), l.LenOf("b"), l.LenOf("c"))
	}
}

// A naive line is a slice that is searched for everything.
type naive struct {
	all   []*waiter
	flow  map[*waiter]string
	flows map[string]*naiveFlow
	clock float64
	turns int
}

type naiveFlow struct {
	finish, share float64
	turn          int
}

func (n *naive) push(w *waiter, flow string, share int64) {
	if !slices.ContainsFunc(n.all, func(o *waiter) bool { return n.flow[o] == flow }) {
		n.turns++
		n.flows[flow] = &naiveFlow{finish: n.clock + 1/float64(share), turn: n.turns}
	}
	n.flows[flow].share = float64(share)
	n.all, n.flow[w] = append(n.all, w), flow
}

func (n *naive) head() *waiter {
	if len(n.all) == 0 {
		return nil
	}
	return slices.MinFunc(n.all, func(a, b *waiter) int {
		f, g := n.flows[n.flow[a]], n.flows[n.flow[b]]
		return cmp.Or(cmp.Compare(f.finish, g.finish), cmp.Compare(f.turn, g.turn), cmp.Compare(a.Ticket, b.Ticket))
	})
}

func (n *naive) remove(w *waiter, served bool) {
	if f := n.flows[n.flow[w]]; served {
		n.turns++
		n.clock, f.turn = f.finish, n.turns
		f.finish += 1 / f.share
	}
	n.all = slices.DeleteFunc(n.all, func(o *waiter) bool { return o == w })
}

// TestAgainstNaiveLine plays random arrivals, turns and departures on both.
func TestAgainstNaiveLine(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var l queue
		n := &naive{flow: map[*waiter]string{}, flows: map[string]*naiveFlow{}}
		flows := 1 + rnd.IntN(6)
		for step := range uint64(300) {
			switch k := rnd.IntN(10); {
			case k < 5:
				flow, share := fmt.Sprint(rnd.IntN(flows)), 1+rnd.Int64N(3)
				w := &waiter{Ticket: step}
				if rnd.IntN(5) == 0 { // it comes from another line, with an older ticket
					w.Ticket = rnd.Uint64N(step + 1)
				}
				if slices.ContainsFunc(n.all, func(o *waiter) bool { return o.Ticket == w.Ticket }) {
					continue
				}
				l.Push(w, flow, share)
				n.push(w, flow, share)
			case len(n.all) == 0:
			case k < 8:
				w, served := n.head(), rnd.IntN(4) > 0
				l.Remove(w, served)
				n.remove(w, served)
			default:
				w := n.all[rnd.IntN(len(n.all))]
				l.Remove(w, false)
				n.remove(w, false)
			}
			if l.Head() != n.head() || l.Len() != len(n.all) {
				t.Fatalf("seed %d, step %d: head %v of %d, the naive line has %v of %d",
					seed, step, l.Head(), l.Len(), n.head(), len(n.all))
			}
			ticket := rnd.Uint64N(step + 2)
			ahead := slices.ContainsFunc(n.all, func(o *waiter) bool { return o.Ticket < ticket })
			if l.Ahead(ticket) != ahead {
				t.Fatalf("seed %d, step %d: Ahead(%d) = %v", seed, step, ticket, !ahead)
			}
		}
	}
}

// TestSharesHold checks what fairness means: while all flows have waiters, none is more
// than one turn away from its share.
func TestSharesHold(t *testing.T) {
	shares := map[string]int64{"a": 1, "b": 2, "c": 5}
	var l queue
	var ticket uint64
	got := map[string]float64{}
	for turn := 1; turn <= 800; turn++ {
		for flow, share := range shares {
			for l.LenOf(flow) < 2 {
				ticket++
				w := &waiter{Value: flow, Ticket: ticket}
				l.Push(w, flow, share)
			}
		}
		h := l.Head()
		got[h.Value]++
		l.Remove(h, true)
		for flow, share := range shares {
			if due := float64(turn) * float64(share) / 8; got[flow] < due-2 || got[flow] > due+2 {
				t.Fatalf("after %d turns %s had %v, its share is %v", turn, flow, got[flow], due)
			}
		}
	}
}

func BenchmarkManyFlows(b *testing.B) {
	var l queue
	for i := range uint64(10_000) {
		push(&l, i, fmt.Sprint(i), 1)
	}
	ticket := uint64(10_000)
	b.ReportAllocs()
	for b.Loop() {
		h := l.Head()
		l.Remove(h, true)
		ticket++
		h.Ticket = ticket
		l.Push(h, h.Value, 1)
	}
}
