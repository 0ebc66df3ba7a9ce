package memory

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// make returns the slot of step's key and its shard, filling one if need be. When there
// is no room for another key it turns to a shared cell and puts that cell's key into
// the step.
func (s *Store) make(step *ledger.Step) (*shard, *slot) {
	sh := s.shardOf(step.Key)
	if sl := s.insert(sh, step, false); sl != nil {
		return sh, sl
	}
	step.Key = poolKey(step)
	sh = s.shardOf(step.Key)
	if sl := sh.table.Load().find(step.Key); sl != nil {
		return sh, sl
	}
	return sh, s.insert(sh, step, true)
}

// shared is make for a Peek, which fills nothing: it returns no slot for a key that would
// be given one.
func (s *Store) shared(step *ledger.Step) (*shard, *slot) {
	sh := s.shardOf(step.Key)
	sh.mu.Lock()
	full := sh.filled >= sh.bound
	sh.mu.Unlock()
	if !full {
		return sh, nil
	}
	key := poolKey(step)
	pool := s.shardOf(key)
	sl := pool.table.Load().find(key)
	if sl == nil {
		return sh, nil
	}
	step.Key = key
	return pool, sl
}

// poolKey is the key of the shared cell for a key that found no room.
func poolKey(step *ledger.Step) ledger.Key {
	h := step.Pool ^ (step.Key.Cell>>shardBits%poolCells+1)*0x9e3779b97f4a7c15
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 32
	return ledger.Key{Group: poolGroup, Cell: h}
}

// poolGroup is the group of shared cells; no caller's hash leads to a reset of them.
const poolGroup = ^uint64(0)

// insert fills a slot for step's key, unless somebody has meanwhile. It returns nil if
// the shard has no room; a shared cell (pool) always finds room.
func (s *Store) insert(sh *shard, step *ledger.Step, pool bool) *slot {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sl := sh.table.Load().find(step.Key); sl != nil {
		return sl
	}
	number, ok := s.limits.number(step.Limit)
	if !s.makeRoom(sh) && !pool {
		sh.overflowed++
		return nil
	}
	if !ok {
		number = 0 // any known limit; the first use converts
	}
	word := int64(0)
	if l := s.limits.at(number); !l.Narrow() {
		word = int64(sh.wide.alloc()) << wordShift
	}
	sh.filled++
	sh.inserted++
	s.sweeper.wake(s)
	return sh.table.Load().fill(step.Key.Cell, metaOf(step.Key.Group, number), word)
}

// makeRoom makes sure that the table has a free slot, and reports whether another key
// may have it. The caller holds the shard's mutex.
//
// Below the bound a full table grows and forgets nothing: a key that is in use may well
// be idle at this instant. At the bound everything idle is forgotten. What that is short
// of a quarter is turned away before the shard is searched again, because the search
// costs as much as that many insertions.
func (s *Store) makeRoom(sh *shard) bool {
	t := sh.table.Load()
	switch {
	case sh.filled < sh.bound:
		if t.full(sh.filled) {
			s.rebuild(sh, false)
		}
		return true
	case sh.spare > 0:
		sh.spare--
	default:
		s.rebuild(sh, true)
		room := sh.bound - sh.filled
		sh.spare = max(0, max(1, sh.filled/4)-room)
		if room > 0 {
			return true
		}
	}
	if t := sh.table.Load(); t.full(sh.filled) {
		s.rebuild(sh, false) // shared cells may go beyond the bound
	}
	return false
}

// rebuild moves the cells to a table of the right size, and forgets the idle ones if so
// told. Decisions about the shard wait meanwhile: about ten nanoseconds a slot. The
// caller holds the shard's mutex.
func (s *Store) rebuild(sh *shard, forget bool) {
	old, now := sh.table.Load(), s.now()
	kept := 0
	for i := range old.slots {
		if sl := &old.slots[i]; sl.meta.Load() != 0 {
			w, _ := sl.lock()
			sl.word.Store(w | wordMoved)
			if !forget || !s.idle(sh, sl, w, now) {
				kept++
			}
		}
	}
	next := &table{slots: make([]slot, slotsFor(kept+1))}
	for i := range old.slots {
		sl := &old.slots[i]
		meta := sl.meta.Load()
		if meta == 0 {
			continue
		}
		w := sl.word.Load() &^ wordMoved
		if forget && s.idle(sh, sl, w, now) {
			s.drop(sh, meta, w)
			continue
		}
		next.fill(sl.cell.Load(), meta, w)
	}
	sh.forgotten += uint64(sh.filled - kept)
	sh.filled = kept
	sh.table.Store(next)
}

// settle returns when the rebuild that is under way, if one is, is over.
func (sh *shard) settle() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
}

func (s *Store) drop(sh *shard, meta uint64, word int64) {
	if !s.limits.at(numberOf(meta)).Narrow() {
		sh.wide.release(int32(word >> wordShift))
	}
}

// idle reports whether the cell of a slot is as good as new. The caller has locked it.
func (s *Store) idle(sh *shard, sl *slot, word int64, now limit.Micros) bool {
	l := s.limits.at(numberOf(sl.meta.Load()))
	if l.Narrow() {
		c := l.Unpack(word>>wordShift, now)
		return l.Idle(&c, now)
	}
	return l.Idle(sh.wide.at(int32(word>>wordShift)), now)
}

// each calls f with every filled slot of the shard, locked, and its word; f returns the
// word to unlock it with.
func (sh *shard) each(f func(sl *slot, word int64) int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t := sh.table.Load()
	for i := range t.slots {
		if sl := &t.slots[i]; sl.meta.Load() != 0 {
			w, _ := sl.lock()
			sl.word.Store(f(sl, w))
		}
	}
}

// entries returns the cells of group, or all if group is zero, that are not idle.
func (s *Store) entries(sh *shard, group uint64) []ledger.Entry {
	var list []ledger.Entry
	now := s.now()
	sh.each(func(sl *slot, w int64) int64 {
		meta := sl.meta.Load()
		if group != 0 && !sameGroup(meta, group) || s.idle(sh, sl, w, now) {
			return w
		}
		l := s.limits.at(numberOf(meta))
		c := new(limit.Cell)
		if l.Narrow() {
			*c = l.Unpack(w>>wordShift, now)
		} else {
			c = sh.wide.at(int32(w >> wordShift))
		}
		list = append(list, ledger.Entry{
			Key:   ledger.Key{Group: meta >> groupShift << groupShift, Cell: sl.cell.Load()},
			Limit: l,
			Level: l.Level(c, now),
		})
		return w
	})
	return list
}

// reset makes cells full. What is held stays held.
func (s *Store) reset(cmd *ledger.Command, res *ledger.Result) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.each(func(sl *slot, w int64) int64 {
			meta := sl.meta.Load()
			if !cmd.All && !sameGroup(meta, cmd.Group) {
				return w
			}
			l := s.limits.at(numberOf(meta))
			if l.OnRelease() || s.idle(sh, sl, w, res.At) {
				return w
			}
			res.Count++
			if l.Narrow() {
				return w & wordEpoch
			}
			*sh.wide.at(int32(w >> wordShift)) = limit.Cell{}
			return w
		})
	}
}

// A sweeper looks through the shards now and then, so that a store that is no longer
// used gives its memory back. It runs only while there are cells.
type sweeper struct {
	running atomic.Bool
	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
	next    int // shard to look at; only sweep uses it
}

const (
	sweepEvery  = 250 * time.Millisecond
	sweepShards = numShards / 16 // four seconds for all of them
)

func (w *sweeper) wake(s *Store) {
	if w.running.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || !w.running.CompareAndSwap(false, true) {
		return
	}
	w.timer = time.AfterFunc(sweepEvery, func() { w.sweep(s) })
}

func (w *sweeper) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// sweep rebuilds a few shards if half of their cells are idle, and goes to sleep when
// a whole round has found nothing at all.
func (w *sweeper) sweep(s *Store) {
	for range sweepShards {
		s.shrink(&s.shards[w.next])
		w.next = (w.next + 1) % numShards
	}
	w.running.Store(false) // before counting: an insert from here on wakes it again
	if s.Stats().Cells == 0 || !w.running.CompareAndSwap(false, true) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.timer.Reset(sweepEvery)
	}
}

// shrink rebuilds sh if that halves it.
func (s *Store) shrink(sh *shard) {
	idle, now := 0, s.now()
	sh.each(func(sl *slot, word int64) int64 {
		if s.idle(sh, sl, word, now) {
			idle++
		}
		return word
	})
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if idle > 0 && idle*2 >= sh.filled {
		s.rebuild(sh, true)
	}
}
