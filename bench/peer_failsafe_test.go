package bench

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
)

// failsafe-go has no keys: a sync.Map of limiters stands around it, which on one
// hot key is the fastest container of those tried.
func init() {
	enter(contestant{
		name:     "failsafe.syncmap",
		windowed: true,
		keyed: func(_ testing.TB, q quota) worker {
			var limiters sync.Map
			return shared(func(key string) bool {
				l, ok := limiters.Load(key)
				if !ok {
					l, _ = limiters.LoadOrStore(key, ratelimiter.NewBursty[any](uint(q.n), q.per))
				}
				return l.(ratelimiter.RateLimiter[any]).TryAcquirePermit()
			})
		},
		pace: func(_ testing.TB, perSecond int) func(context.Context) error {
			return ratelimiter.NewSmooth[any](uint(perSecond), time.Second).AcquirePermit
		},
		slots: func(_ testing.TB, n int64) func() func() bool {
			gate := bulkhead.New[any](uint(n))
			return func() func() bool {
				return func() bool {
					ok := gate.TryAcquirePermit()
					if ok {
						gate.ReleasePermit()
					}
					return ok
				}
			}
		},
	})
}
