package bench

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/store/file"
	"github.com/sluicegate/sluice/store/lease"
	"github.com/sluicegate/sluice/store/memory"
	"github.com/sluicegate/sluice/store/redis"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// openOn starts an engine over books with the given rules. Those who share books share a
// secret.
func openOn(tb testing.TB, books sluice.Store, rules ...sluice.Rule) *sluice.Controller {
	options := sluice.Options{KeySecret: []byte("a secret of no less than 32 bytes")}
	if own, ok := books.(interface{ KeySecret() []byte }); ok {
		options.KeySecret = own.KeySecret()
	}
	ctl := must(sluice.Open(&sluice.Policy{Rules: rules}, books, options))
	tb.Cleanup(func() {
		if err := ctl.Close(); err != nil {
			tb.Error(err)
		}
	})
	return ctl
}

// percent of a limit may be given up by rules of stores that lease.
const percent = 10

// inRedis is a store in the server. It waits for longer than by default: a machine that is
// busy with other things is no server that is down.
func inRedis(tb testing.TB, server *redistest.Server, prefix string) *redis.Store {
	s := must(redis.Open(context.Background(), redis.Options{URI: "redis://" + server.Addr, Prefix: prefix, Wait: 5 * time.Second}))
	tb.Cleanup(func() { s.Close() })
	return s
}

func init() {
	for _, row := range []struct {
		name      string
		elsewhere bool
		books     func(testing.TB, *redistest.Server) sluice.Store
	}{
		{"sluice", false, func(tb testing.TB, server *redistest.Server) sluice.Store { return inRedis(tb, server, "exact:") }},
		{"sluice.leased", false, func(tb testing.TB, server *redistest.Server) sluice.Store {
			return lease.New(inRedis(tb, server, "leased:"))
		}},
		{"sluice.memory", true, func(testing.TB, *redistest.Server) sluice.Store { return memory.New(memory.Options{}) }},
		{"sluice.file", true, func(tb testing.TB, _ *redistest.Server) sluice.Store {
			s := must(file.Open(filepath.Join(tb.TempDir(), "ledger"), file.Options{}))
			tb.Cleanup(func() { s.Close() })
			return s
		}},
	} {
		enter(contestant{
			name: row.name, elsewhere: row.elsewhere,
			remote: func(tb testing.TB, server *redistest.Server, q quota) worker {
				rule := sluice.Rule{ID: "one", GroupBy: []sluice.Dimension{sluice.Subject}, Limits: bucket(q), Lease: percent}
				return decide(openOn(tb, row.books(tb, server), rule))
			},
		})
	}
}
