package bench

import (
	"context"
	"net/http"
	"testing"

	"github.com/sluicegate/sluice/store/redis/redistest"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/throttled/throttled/v2/store/memstore"
)

func throttledOf(q quota, books throttled.GCRAStoreCtx) *throttled.GCRARateLimiterCtx {
	l := must(throttled.NewGCRARateLimiterCtx(books, throttled.RateQuota{
		MaxRate:  throttled.PerDuration(int(q.n), q.per),
		MaxBurst: int(q.burst - 1), // counts what comes on top of the first
	}))
	// By default the tenth lost race is an error, which is no decision.
	l.SetMaxCASAttemptsLimit(1 << 30)
	return l
}

func throttledAsked(l *throttled.GCRARateLimiterCtx) worker {
	ctx := context.Background()
	return shared(func(key string) bool {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited
	})
}

type byAddress struct{}

func (byAddress) Key(r *http.Request) string { return addressOf(r) }

func init() {
	enter(contestant{
		name: "throttled",
		keyed: func(_ testing.TB, q quota) worker {
			return throttledAsked(throttledOf(q, must(memstore.NewCtx(0))))
		},
		remote: func(tb testing.TB, server *redistest.Server, q quota) worker {
			return throttledAsked(throttledOf(q, must(goredisstore.NewCtx(goRedis(tb, server), "throttled:"))))
		},
		guard: func(q quota, next http.Handler) http.Handler {
			l := throttled.HTTPRateLimiterCtx{RateLimiter: throttledOf(q, must(memstore.NewCtx(0))), VaryBy: byAddress{}}
			return l.RateLimit(next)
		},
	})
}
