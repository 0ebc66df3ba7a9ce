package bench

import (
	"context"
	"net/http"
	"testing"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

func ululeOf(q quota) *limiter.Limiter {
	return limiter.New(memory.NewStore(), limiter.Rate{Period: q.per, Limit: q.n})
}

func init() {
	enter(contestant{
		name:     "ulule",
		windowed: true,
		keyed: func(_ testing.TB, q quota) worker {
			l, ctx := ululeOf(q), context.Background()
			return shared(func(key string) bool {
				c, err := l.Get(ctx, key)
				return err == nil && !c.Reached
			})
		},
		guard: func(q quota, next http.Handler) http.Handler {
			return stdlib.NewMiddleware(ululeOf(q)).Handler(next)
		},
	})
}
