package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/store/redis"
	"github.com/sluicegate/sluice/store/redis/redistest"
	"github.com/sluicegate/sluice/store/storetest"
)

// open returns an empty store on a server.
func open(t testing.TB, o redis.Options) *redis.Store {
	t.Helper()
	s, err := redis.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// contract runs the contract of a store on what uri leads to. It repeats refusals from
// its first call on.
func contract(t *testing.T, server *redistest.Server, uri string) {
	storetest.Run(t, func(t *testing.T) sluice.Store {
		server.Flush()
		s := open(t, redis.Options{URI: uri, Wait: time.Second})
		hears(t, s)
		return s
	})
}

func TestContractOfOneThatAsksAlways(t *testing.T) {
	server := redistest.Start(t)
	storetest.Run(t, func(t *testing.T) sluice.Store {
		server.Flush()
		return open(t, redis.Options{URI: "redis://" + server.Addr, Wait: time.Second, AskAlways: true})
	})
}

func TestContract(t *testing.T) {
	server := redistest.Start(t)
	contract(t, server, "redis://"+server.Addr)
}

func TestContractBySentinel(t *testing.T) {
	server := redistest.Start(t)
	sentinel := redistest.Sentinel(t, server)
	contract(t, server, "redis://"+sentinel.Addr+"?master_set=books")
}
