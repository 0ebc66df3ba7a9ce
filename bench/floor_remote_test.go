package bench

import (
	"context"
	"strconv"
	"testing"

	"github.com/redis/rueidis"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// gcraScript is the least that a limiter does in Redis: one key, one time, one step.
// KEYS[1] is the key, ARGV are the microseconds between two units and how many may come
// at once.
const gcraScript = `local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local every, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local full = tonumber(redis.call('GET', KEYS[1]) or now)
if full < now then full = now end
full = full + every
if full - now > every * burst then return 0 end
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000))
return 1`

func init() {
	// floor.gcra sends the script by the client that sluice uses, one call a decision,
	// pipelined as the client does by itself.
	enter(contestant{
		name: "floor.gcra",
		remote: func(tb testing.TB, server *redistest.Server, q quota) worker {
			client := must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true}))
			tb.Cleanup(client.Close)
			script, ctx := rueidis.NewLuaScript(gcraScript), context.Background()
			args := []string{strconv.FormatInt(q.every().Microseconds(), 10), strconv.FormatInt(q.burst, 10)}
			return shared(func(key string) bool {
				n, err := script.Exec(ctx, client, []string{"gcra:" + key}, args).ToInt64()
				return err == nil && n == 1
			})
		},
	})
}
