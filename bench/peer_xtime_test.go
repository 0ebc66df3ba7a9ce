package bench

import (
	"context"
	"sync"
	"testing"

	"golang.org/x/time/rate"
)

func xtimeOf(q quota) *rate.Limiter {
	return rate.NewLimiter(rate.Every(q.per)*rate.Limit(q.n), int(q.burst))
}

// golang.org/x/time/rate has no keys: the usual map of limiters stands around it.
func init() {
	enter(contestant{
		name: "xtime.map",
		keyed: func(_ testing.TB, q quota) worker {
			var mu sync.Mutex
			limiters := map[string]*rate.Limiter{}
			return shared(func(key string) bool {
				mu.Lock()
				l := limiters[key]
				if l == nil {
					l = xtimeOf(q)
					limiters[key] = l
				}
				mu.Unlock()
				return l.Allow()
			})
		},
		pace: func(_ testing.TB, perSecond int) func(context.Context) error {
			return rate.NewLimiter(rate.Limit(perSecond), 1).Wait
		},
	})
}
