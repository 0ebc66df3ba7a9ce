package redis

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

func TestNodes(t *testing.T) {
	group := redistest.Cluster(t)
	s := openFor(t, Options{URI: group.URI(), Wait: 5 * time.Second})
	t.Run("P-132 a key is in the slot in which the Cluster has it", func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for range 50 {
			id, key := ledger.ID{Hi: r.Uint64(), Lo: r.Uint64()}, ledger.Key{Group: r.Uint64(), Cell: r.Uint64()}
			for _, name := range []string{s.recordKey(id), s.cellKey(key), s.besideKey(key.Group, id)} {
				if got, want := int(slotOf(name)), group.Slot(name); got != want {
					t.Errorf("%s: slot %d, want %d", name, got, want)
				}
			}
			if slotOf(s.cellKey(key)) != slotOfGroup(key.Group) || slotOf(s.besideKey(key.Group, id)) != slotOfGroup(key.Group) {
				t.Errorf("%+v: not all about a group is in its slot", key)
			}
		}
	})
	t.Run("every master serves slots, and no replica does", func(t *testing.T) {
		if n := len(s.nodes.masters()); n != 3 {
			t.Errorf("%d masters", n)
		}
		for _, n := range s.nodes.masters() {
			for _, replica := range group.Nodes[3:] {
				if n.addr == replica.Addr {
					t.Errorf("%s is a replica", n.addr)
				}
			}
		}
	})
	t.Run("the URI is asked when no node that is known answers", func(t *testing.T) {
		s.nodes.mu.Lock()
		s.nodes.byAddr = map[string]*node{"127.0.0.1:1": s.nodes.open("127.0.0.1:1")}
		for slot := range s.nodes.slots {
			s.nodes.slots[slot].Store(s.nodes.byAddr["127.0.0.1:1"])
		}
		s.nodes.mu.Unlock()
		for range 2 { // another refresh may have been under way
			if err := s.nodes.refresh(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(s.nodes.masters()); n != 3 {
			t.Errorf("%d masters", n)
		}
		if err := s.Apply(context.Background(), []ledger.Command{{}}, make([]ledger.Result, 1)); err != nil {
			t.Error(err)
		}
	})
}
