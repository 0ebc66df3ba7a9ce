package redis

import (
	"context"
	"testing"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// TestDeathInCluster lets a process fall silent that holds slots on every master.
func TestDeathInCluster(t *testing.T) {
	cluster := redistest.Cluster(t)
	o := Options{URI: cluster.URI(), Wait: 5 * time.Second, Silence: 600 * time.Millisecond}
	dead, alive := openFor(t, o), openFor(t, o)
	dead.stopRounds()
	const groups, each = 60, 2
	slot := func(group uint64) []ledger.Command {
		steps := make([]ledger.Step, each) // of which the second has a slot of its own
		for i := range steps {
			steps[i] = ledger.Step{Key: ledger.Key{Group: group + uint64(i)*1000, Cell: 1}, Limit: limit.Slots(1), N: 1}
		}
		return []ledger.Command{{Steps: steps}}
	}
	take := func(s *Store, group uint64) ledger.Status {
		t.Helper()
		res := make([]ledger.Result, 1)
		if err := s.Apply(context.Background(), slot(group), res); err != nil {
			t.Fatal(err)
		}
		return res[0].Status
	}
	for group := range uint64(groups) {
		if status := take(dead, group+1); status != ledger.Done {
			t.Fatalf("a free slot: %v", status)
		}
	}
	t.Run("P-091 its slots come back on every master", func(t *testing.T) {
		deadline := time.Now().Add(20 * time.Second)
		for group := range uint64(groups) {
			for take(alive, group+1) != ledger.Done {
				if time.Now().After(deadline) {
					t.Fatalf("the slots of group %d stay held", group+1)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
	})
	t.Run("and are held by who took them", func(t *testing.T) {
		time.Sleep(2 * o.Silence)
		for group := range uint64(groups) {
			if status := take(alive, group+1); status != ledger.Refused {
				t.Fatalf("the slots of group %d are free again: %v", group+1, status)
			}
		}
	})
}
