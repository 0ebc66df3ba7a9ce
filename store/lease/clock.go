package lease

import (
	"time"

	"github.com/sluicegate/sluice/limit"
)

// An instant is a time by both clocks of the machine. The monotonic one stands still while
// the machine is suspended; the wall clock goes on, but may be set.
type instant struct{ steady, wall int64 } // nanoseconds

func (s *Store) now() instant {
	t := time.Now()
	return instant{int64(t.Sub(s.began)), t.UnixNano()}
}

// before reports whether neither clock has reached u.
func (t instant) before(u instant) bool { return t.steady < u.steady && t.wall < u.wall }

func (t instant) plus(d limit.Micros) instant {
	return instant{t.steady + int64(d)*1000, t.wall + int64(d)*1000}
}

// since is how long after u t is, by the monotonic clock.
func (t instant) since(u instant) limit.Micros { return limit.Micros((t.steady - u.steady) / 1000) }
