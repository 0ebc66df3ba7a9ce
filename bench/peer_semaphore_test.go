package bench

import (
	"testing"

	"golang.org/x/sync/semaphore"
)

func init() {
	enter(contestant{
		name: "xsync.semaphore",
		slots: func(_ testing.TB, n int64) func() func() bool {
			s := semaphore.NewWeighted(n)
			return func() func() bool {
				return func() bool {
					ok := s.TryAcquire(1)
					if ok {
						s.Release(1)
					}
					return ok
				}
			}
		},
	})
}
