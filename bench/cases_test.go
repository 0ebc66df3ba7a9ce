package bench

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/httprate"
	"github.com/sluicegate/sluice/limit"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"
)

// TestCases plays cases whose right answer is known on sluice and on others, and logs
// what they answered: go test -run TestCases -v. It fails if ours is wrong; the others'
// figures stand in the README.
func TestCases(t *testing.T) {
	for _, c := range []struct {
		name  string
		right int
		play  func(asker) int
		rows  map[string]func(*testing.T) asker
	}{
		{"P-001 1/s burst 10, 1000 times asked at 10 s and at 5 s in turn", 10, outOfOrder,
			map[string]func(*testing.T) asker{"sluice": bucketAsked(1, 10), "x/time": xtimeAsked(1, 10)}},
		{"P-026 30/s burst 1, 1000 calls 33 333 333 ns apart", 1000, paced,
			map[string]func(*testing.T) asker{"sluice": bucketAsked(30, 1), "x/time": xtimeAsked(30, 1)}},
		{"P-041 5 in a second, 9 asked within 60 ms across the edge of one", 5, acrossTheEdge,
			map[string]func(*testing.T) asker{"sluice": windowOf5, "httprate": httprateOf5, "ulule": ululeOf5()}},
	} {
		for name, row := range c.rows {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					got := c.play(row(t))
					t.Logf("%s admits %d; %d is right", name, got, c.right)
					if name == "sluice" && got != c.right {
						t.Errorf("sluice admits %d, want %d", got, c.right)
					}
				})
			})
		}
	}
}

// An asker decides about one key at a time since the start. Those that read the clock
// themselves are asked at that time.
type asker func(at time.Duration) bool

func outOfOrder(ask asker) (n int) {
	for range 1000 {
		for _, at := range []time.Duration{10 * time.Second, 5 * time.Second} {
			if ask(at) {
				n++
			}
		}
	}
	return n
}

func paced(ask asker) (n int) {
	for i := range time.Duration(1000) {
		if ask(i * 33_333_333) {
			n++
		}
	}
	return n
}

// acrossTheEdge counts what is admitted in any one second. The first call opens the
// window of limiters that count from there.
func acrossTheEdge(ask asker) (n int) {
	ask(0)
	for range 4 {
		if ask(960 * time.Millisecond) {
			n++
		}
	}
	for range 5 {
		if ask(1020 * time.Millisecond) {
			n++
		}
	}
	return n
}

func bucketAsked(perSecond, burst int64) func(*testing.T) asker {
	l, c := limit.Bucket(perSecond, limit.Second, burst), limit.Cell{}
	return func(*testing.T) asker {
		return func(at time.Duration) bool {
			return l.Take(&c, limit.Second+limit.Micros(at/time.Microsecond), 1).OK
		}
	}
}

func xtimeAsked(perSecond rate.Limit, burst int) func(*testing.T) asker {
	l := rate.NewLimiter(perSecond, burst)
	return func(*testing.T) asker {
		start := time.Now()
		return func(at time.Duration) bool { return l.AllowN(start.Add(at), 1) }
	}
}

func windowOf5(*testing.T) asker {
	l, c := limit.Window(5, limit.Second), limit.Cell{}
	return func(at time.Duration) bool {
		return l.Take(&c, limit.Second+limit.Micros(at/time.Microsecond), 1).OK
	}
}

// until makes a limiter that reads the clock one that is asked at a time.
func until(ask func() bool) asker {
	start := time.Now()
	return func(at time.Duration) bool {
		time.Sleep(time.Until(start.Add(at)))
		return ask()
	}
}

func httprateOf5(*testing.T) asker {
	h := httprate.LimitBy(5, time.Second, httprate.Key("one"))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return until(func() bool {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w.Code == http.StatusOK
	})
}

// ululeOf5 makes its store outside of the bubble, because the goroutine that cleans it up
// ends when it is collected.
func ululeOf5() func(*testing.T) asker {
	l := limiter.New(memory.NewStore(), limiter.Rate{Period: time.Second, Limit: 5})
	return func(t *testing.T) asker {
		return until(func() bool {
			c, err := l.Get(t.Context(), "one")
			return err == nil && !c.Reached
		})
	}
}
