package limit_test

import (
	"math/rand/v2"
	"testing"

	"github.com/sluicegate/sluice/limit"
)

func TestShare(t *testing.T) {
	for _, c := range []struct {
		name string
		of   limit.Limit
		n    int64
		want limit.Limit
	}{
		{"one process has all", limit.Bucket(100, limit.Second, 100), 1, limit.Bucket(100, limit.Second, 100)},
		{"P-157 a quarter of a rate", limit.Bucket(100, limit.Second, 100), 4, limit.Bucket(25, limit.Second, 25)},
		{"P-146 three a second among five is not nothing", limit.Bucket(3, limit.Second, 3), 5, limit.Bucket(3, 5*limit.Second, 1)},
		{"a pace", limit.Pace(limit.Second), 3, limit.Pace(3 * limit.Second)},
		{"a window", limit.Window(100, limit.Minute), 3, limit.Window(33, limit.Minute)},
		{"a window of less than one each", limit.Window(3, limit.Minute), 5, limit.Window(1, 2*limit.Minute)},
		{"slots", limit.Slots(10), 4, limit.Slots(2)},
		{"slots of less than one each", limit.Slots(2), 5, limit.Slots(1)},
		{"zero stays zero", limit.Slots(0), 5, limit.Slots(0)},
		{"a burst of zero stays zero", limit.Bucket(5, limit.Second, 0), 5, limit.Bucket(5, 5*limit.Second, 0)},
		{"a cooldown is for all", limit.Cooldown(limit.Minute), 5, limit.Cooldown(limit.Minute)},
		{"the longest window", limit.Window(1, limit.MaxCredits), 5, limit.Window(1, limit.MaxCredits)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.of.Share(c.n); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
	t.Run("shares can be counted with", func(t *testing.T) {
		rounds(t, 200, func(t *testing.T, r *rand.Rand) {
			l := anyLimit(r)
			if s := l.Share(1 + r.Int64N(50)); s.Kind != limit.KindBucket && s.Validate() != nil {
				t.Errorf("%+v became %+v: %v", l, s, s.Validate())
			}
		})
	})
}
