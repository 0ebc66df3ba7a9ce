package hazelcast_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/store/hazelcast"
	"github.com/sluicegate/sluice/store/hazelcast/hazelcasttest"
	"github.com/sluicegate/sluice/store/storetest"
)

// several are Stores of one map, as several processes have them: each command goes to the
// next one.
type several struct {
	stores []*hazelcast.Store
	turn   atomic.Uint64
}

func (p *several) next() *hazelcast.Store {
	return p.stores[p.turn.Add(1)%uint64(len(p.stores))]
}

func (p *several) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	return p.next().Apply(ctx, cmds, res)
}

func (p *several) Scan(ctx context.Context, group uint64) iter.Seq2[ledger.Entry, error] {
	return p.next().Scan(ctx, group)
}

func (p *several) Close() error {
	var errs []error
	for _, s := range p.stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

func TestProcessesOfOneMap(t *testing.T) {
	member := hazelcasttest.Start(t, 1)[0]
	storetest.RunConcurrent(t, func(t *testing.T) sluice.Store {
		o := options(member)
		o.Wait *= 5
		p := &several{}
		for range 3 {
			p.stores = append(p.stores, open(t, o))
		}
		return p
	})
}
