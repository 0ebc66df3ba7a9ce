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

// TestLateTake lets a take of a process that has died arrive after its slots were given back,
// as a key may that moves from one server to another meanwhile.
func TestLateTake(t *testing.T) {
	server := redistest.Start(t)
	ctx, o := context.Background(), Options{URI: "redis://" + server.Addr, Wait: 5 * time.Second}
	dead, alive := openFor(t, o), openFor(t, o)
	apply := func(s *Store, op ledger.Op, cell uint64) ledger.Status {
		t.Helper()
		cmds := []ledger.Command{{Op: op, Steps: []ledger.Step{{Key: ledger.Key{Cell: cell}, Limit: limit.Slots(1), N: 1}}}}
		res := make([]ledger.Result, 1)
		if err := s.Apply(ctx, cmds, res); err != nil {
			t.Fatal(err)
		}
		return res[0].Status
	}
	known := func() bool { return server.Do("HEXISTS", dead.processesKey(), dead.owner.name) == ":1" }
	count := func() string {
		counts, err := alive.count(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return counts[dead.owner.name]
	}
	for cell := range uint64(2) {
		if status := apply(dead, ledger.Take, cell); status != ledger.Done {
			t.Fatalf("a free slot: %v", status)
		}
		if !known() {
			t.Fatal("P-103 the process is forgotten, and what it holds with it")
		}
		if err := alive.sweep(ctx, dead.owner.name, count()); err != nil {
			t.Fatal(err)
		}
		if status := apply(alive, ledger.Peek, cell); status != ledger.Done {
			t.Errorf("P-103 a sweep leaves the slot held: %v", status)
		}
	}
	if err := alive.sweep(ctx, dead.owner.name, count()); err != nil {
		t.Fatal(err)
	}
	if known() {
		t.Error("it is looked for, for ever")
	}
}

// TestCountMoves is about the hash of processes, which may be on another node than is known.
func TestCountMoves(t *testing.T) {
	cluster := redistest.Cluster(t)
	s := openFor(t, Options{URI: cluster.URI(), Wait: 5 * time.Second})
	slot := s.slotOf([]string{s.processesKey()})
	here := s.nodes.of(slot)
	for _, other := range s.nodes.masters() {
		s.nodes.slots[slot].Store(other)
		if counts, err := s.count(context.Background()); err != nil || counts[s.owner.name] == "" {
			t.Errorf("asked at %s: %v, %v", other.addr, counts, err)
		}
		if at := s.nodes.of(slot); at.addr != here.addr {
			t.Errorf("it is looked for at %s still", at.addr)
		}
	}
}
