package redis_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/redis"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// TestCellsEndInTime takes as soon as it can again and again: a cell that Redis forgets
// before it is full lets the next call pass too early.
func TestCellsEndInTime(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URI: "redis://" + server.Addr, Wait: time.Second, AskAlways: true})
	defer s.Close()
	for name, l := range map[string]limit.Limit{
		"P-130 a pace":   limit.Pace(2 * limit.Millisecond),
		"P-130 a bucket": limit.Bucket(1, 2*limit.Millisecond, 1),
		"P-130 a window": limit.Window(1, 2*limit.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			var last limit.Micros
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
				res, err := do(s, take(l, uint64(l.Kind), 1))
				if err != nil {
					t.Fatal(err)
				}
				if res.Status != ledger.Done {
					continue
				}
				if gap := res.At - last; gap < l.Per-1 { // a bucket may be a microsecond early
					t.Fatalf("two passed within %d µs of %v", gap, l)
				}
				last = res.At
			}
		})
	}
}
