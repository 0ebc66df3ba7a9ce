package bench

import (
	"context"
	"testing"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// goRedis is a client with a connection for each of as many callers as there will be.
func goRedis(tb testing.TB, server *redistest.Server) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 256})
	tb.Cleanup(func() { client.Close() })
	return client
}

func init() {
	enter(contestant{
		name: "redis_rate",
		remote: func(tb testing.TB, server *redistest.Server, q quota) worker {
			l, ctx := redis_rate.NewLimiter(goRedis(tb, server)), context.Background()
			limit := redis_rate.Limit{Rate: int(q.n), Period: q.per, Burst: int(q.burst)}
			return shared(func(key string) bool {
				r, err := l.Allow(ctx, key, limit)
				return err == nil && r.Allowed == 1
			})
		},
	})
}
