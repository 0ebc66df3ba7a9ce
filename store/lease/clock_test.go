package lease

import (
	"testing"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A lease ends by whichever clock says so first: the monotonic one stands still in a
// machine that is suspended, and the wall clock may be set back.
func TestBothClocks(t *testing.T) {
	const second = 1_000_000_000
	asked := instant{steady: 5 * second, wall: 1_700_000_000 * second}
	for _, c := range []struct {
		name         string
		steady, wall int64 // nanoseconds after it was asked for
		want         bool
	}{
		{"at once", 0, 0, true},
		{"just in time", second - 1, second - 1, true},
		{"over", second, second, false},
		{"the machine was suspended", 1000, 3600 * second, false},
		{"the wall clock was set back", 2 * second, -3600 * second, false},
		{"the wall clock was set back, and it is early", second / 2, -3600 * second, true},
	} {
		s := &seat{key: ledger.Key{Cell: 1}, part: 20, span: limit.Second, began: asked}
		s.put(lot{left: 5, size: 5, at: 9, until: asked.plus(limit.Second)})
		s.turn(instant{asked.steady + c.steady, asked.wall + c.wall})
		if got := s.left() == 5; got != c.want {
			t.Errorf("%s: may be spent: %t", c.name, got)
		}
	}
}
