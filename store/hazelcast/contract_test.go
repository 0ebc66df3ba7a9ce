package hazelcast_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/store/hazelcast"
	"github.com/sluicegate/sluice/store/hazelcast/hazelcasttest"
	"github.com/sluicegate/sluice/store/storetest"
)

var maps atomic.Int64

// options lead to a new map on the cluster of m.
func options(m *hazelcasttest.Member) hazelcast.Options {
	return hazelcast.Options{
		Addresses: []string{m.Addr}, Cluster: m.Cluster, Wait: 5 * time.Second,
		Map: fmt.Sprint("books-", maps.Add(1)),
	}
}

// open returns a store.
func open(t testing.TB, o hazelcast.Options) *hazelcast.Store {
	t.Helper()
	s, err := hazelcast.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	member := hazelcasttest.Start(t, 1)[0]
	storetest.Run(t, func(t *testing.T) sluice.Store { return open(t, options(member)) })
}
