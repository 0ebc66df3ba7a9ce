package hazelcast

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/hazelcast/hazelcast-go-client/predicate"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

const (
	scanPortion = 512 // values that are read at a time
	resetWidth  = 32  // cells that are reset at the same time
)

// Scan implements sluice.Store. It asks for all keys of the group first, then for their
// values in portions.
func (s *Store) Scan(ctx context.Context, group uint64) iter.Seq2[ledger.Entry, error] {
	return func(yield func(ledger.Entry, error) bool) {
		keys, err := s.cellKeys(ctx, group)
		if err == nil {
			err = s.visit(ctx, keys, func(key string, st state, now limit.Micros) bool {
				a := st.cell
				if a == nil || a.limit.Idle(&a.cell, now) {
					return true
				}
				k, _ := parseCell(key)
				return yield(ledger.Entry{Key: k, Limit: a.limit, Level: a.limit.Level(&a.cell, now)}, nil)
			})
		}
		if err != nil {
			yield(ledger.Entry{}, fmt.Errorf("hazelcast: looking at the cells: %w", err))
		}
	}
}

// Recorded implements sluice.Recorder. A map does not count them.
func (s *Store) Recorded() (n int, ok bool) { return 0, false }

// Records implements sluice.Recorder. It asks for the keys of all records first, then for
// their values in portions.
func (s *Store) Records(ctx context.Context) iter.Seq2[ledger.Remembered, error] {
	return func(yield func(ledger.Remembered, error) bool) {
		keys, err := s.recordKeys(ctx)
		if err == nil {
			err = s.visit(ctx, keys, func(key string, st state, now limit.Micros) bool {
				if st.record == nil || !st.record.Live() || st.useless(now, s.retention) {
					return true
				}
				return yield(ledger.Remembered{ID: parseRecord(key), Record: *st.record, Now: now}, nil)
			})
		}
		if err != nil {
			yield(ledger.Remembered{}, fmt.Errorf("hazelcast: looking at the records: %w", err))
		}
	}
}

// visit calls see with what the map has under keys, portion by portion, until see says that
// it is enough.
func (s *Store) visit(ctx context.Context, keys []string, see func(key string, st state, now limit.Micros) bool) error {
	for portion := range slices.Chunk(keys, scanPortion) {
		found, err := s.look(ctx, portion)
		if err != nil {
			return err
		}
		now := s.clock.now()
		for key, e := range found {
			if !see(key, e.value.state, now) {
				return nil
			}
		}
	}
	return nil
}

// recordKeys returns the keys of all records.
func (s *Store) recordKeys(ctx context.Context) ([]string, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	return s.keys(ctx, "r%")
}

// cellKeys returns the keys of the cells of a group, or of all.
func (s *Store) cellKeys(ctx context.Context, group uint64) ([]string, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	all, err := s.keys(ctx, pattern(group))
	return slices.DeleteFunc(all, func(key string) bool {
		k, ok := parseCell(key)
		return !ok || group != 0 && k.Group != group
	}), err
}

// keys returns the keys of the map that are like pattern.
func (s *Store) keys(ctx context.Context, pattern string) ([]string, error) {
	all, err := s.books.GetKeySetWithPredicate(ctx, predicate.Like("__key", pattern))
	keys := make([]string, 0, len(all))
	for _, k := range all {
		if key, ok := k.(string); ok && len(key) == keyLen && key[0] != 'p' {
			keys = append(keys, key)
		}
	}
	return keys, err
}

// look reads entries as they are, once.
func (s *Store) look(ctx context.Context, keys []string) (map[string]*entry, error) {
	asked := make([]any, len(keys))
	for i, k := range keys {
		asked[i] = k
	}
	answer, err := s.getAll(ctx, asked)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*entry, len(answer))
	for key, raw := range answer {
		found[key] = &entry{value: &value{}}
		if err := found[key].fill(raw); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// reset carries out a Reset: each cell by a pass of its own.
func (s *Store) reset(ctx context.Context, cmd *ledger.Command, res *ledger.Result) error {
	res.Start(s.clock.now())
	group := cmd.Group
	if cmd.All {
		group = 0
	}
	keys, err := s.cellKeys(ctx, group)
	if err != nil {
		return fmt.Errorf("hazelcast: resetting the cells: %w", err)
	}
	if !cmd.All && group == 0 {
		keys = shared(keys)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	turns := make(chan struct{}, resetWidth)
	for _, key := range keys {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			r := &request{keys: []string{key}, cmds: []ledger.Command{{Op: ledger.Reset, At: res.At}}, done: make(chan struct{})}
			one := s.send(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			if one != nil {
				err = one
				return
			}
			res.Count += r.res[0].Count
		})
	}
	wg.Wait()
	return err
}

// shared returns the keys of those cells that belong to no caller.
func shared(keys []string) []string {
	var list []string
	for _, key := range keys {
		if k, _ := parseCell(key); k.Group == 0 {
			list = append(list, key)
		}
	}
	return list
}
