package bench

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
)

// golimiterOf stretches the free quota to an hour: this version refills too little
// above the square root of the interval in ns (sethvargo/go-limiter#29), and a row
// that refuses what it should grant would not be comparable.
func golimiterOf(q quota) limiter.Store {
	if q == free {
		q.per = time.Hour
	}
	return must(memorystore.New(&memorystore.Config{Tokens: uint64(q.n), Interval: q.per}))
}

func init() {
	enter(contestant{
		name:     "go-limiter",
		windowed: true,
		keyed: func(tb testing.TB, q quota) worker {
			store, ctx := golimiterOf(q), context.Background()
			tb.Cleanup(func() { store.Close(ctx) })
			return shared(func(key string) bool {
				_, _, _, ok, err := store.Take(ctx, key)
				return ok && err == nil
			})
		},
		guard: func(q quota, next http.Handler) http.Handler {
			return must(httplimit.NewMiddleware(golimiterOf(q), httplimit.IPKeyFunc())).Handle(next)
		},
	})
}
