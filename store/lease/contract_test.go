package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/store/lease"
	"github.com/sluicegate/sluice/store/memory"
	"github.com/sluicegate/sluice/store/redis"
	"github.com/sluicegate/sluice/store/redis/redistest"
	"github.com/sluicegate/sluice/store/storetest"
)

var (
	_ sluice.Lessor   = (*lease.Store)(nil)
	_ sluice.Waker    = (*lease.Store)(nil)
	_ sluice.Recorder = (*lease.Store)(nil)
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) sluice.Store { return lease.New(memory.New(memory.Options{})) })
}

func TestContractOverRedis(t *testing.T) {
	server := redistest.Start(t)
	storetest.Run(t, func(t *testing.T) sluice.Store {
		server.Flush()
		return lease.New(openRedis(t, server, time.Second))
	})
}

func openRedis(t testing.TB, server *redistest.Server, wait time.Duration) *redis.Store {
	t.Helper()
	s, err := redis.Open(context.Background(), redis.Options{URI: "redis://" + server.Addr, Wait: wait})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// do carries out one command.
func do(t testing.TB, s sluice.Store, cmd ledger.Command) ledger.Result {
	t.Helper()
	cmds, res := []ledger.Command{cmd}, make([]ledger.Result, 1)
	if err := s.Apply(context.Background(), cmds, res); err != nil {
		t.Fatal(err)
	}
	return res[0]
}
