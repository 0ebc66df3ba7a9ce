package memory

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A slot is one cell of a table: 24 bytes without a pointer, so that a million of them
// cost the garbage collector nothing.
//
// A slot is filled once, under its shard's mutex, and never emptied: cells that nobody
// needs are left behind when the shard is rebuilt. All later changes go through word.
type slot struct {
	// cell is Key.Cell.
	cell atomic.Uint64
	// meta is 39 bits of Key.Group, 24 bits of limit number, and 1 so that a filled slot
	// is never zero. It is stored last when a slot is filled, and changed only while word
	// is locked.
	meta atomic.Uint64
	// word is the state, above three bits of bookkeeping.
	word atomic.Int64
}

const (
	wordLocked = 1 << iota // somebody is changing the slot
	wordMoved              // the slot's content is in the shard's next table
	wordEpoch              // flips when meta changes, so that a compare-and-swap notices
	wordShift  = 3

	groupShift = 25
	limitShift = 1
	limitMask  = 1<<24 - 1
)

func metaOf(group uint64, number uint32) uint64 {
	return group>>groupShift<<groupShift | uint64(number)<<limitShift | 1
}

func sameGroup(meta, group uint64) bool { return meta>>groupShift == group>>groupShift }

func numberOf(meta uint64) uint32 { return uint32(meta>>limitShift) & limitMask }

// A table is the slots of one shard: open addressing, linear probing.
type table struct{ slots []slot }

// start is where the probe for key begins. Shards are chosen by the low bits of the
// hash, positions by the high ones.
func (t *table) start(cell uint64) int {
	hi, _ := bits.Mul64(cell, uint64(len(t.slots)))
	return int(hi)
}

// find returns the slot of key, or nil if the table has none.
func (t *table) find(key ledger.Key) *slot {
	for i := t.start(key.Cell); ; {
		s := &t.slots[i]
		meta := s.meta.Load()
		if meta == 0 {
			return nil
		}
		if s.cell.Load() == key.Cell && sameGroup(meta, key.Group) {
			return s
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
}

// fill puts a new key into a free slot. The caller holds the shard's mutex and has made
// sure that there is one.
func (t *table) fill(cell, meta uint64, word int64) *slot {
	for i := t.start(cell); ; {
		s := &t.slots[i]
		if s.meta.Load() == 0 {
			s.cell.Store(cell)
			s.word.Store(word)
			s.meta.Store(meta)
			return s
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
}

// lock takes the slot's lock bit and returns the word as it was. It reports false if
// the slot has moved to another table.
func (s *slot) lock() (int64, bool) {
	for n := 0; ; n++ {
		w := s.word.Load()
		if w&wordMoved != 0 {
			return 0, false
		}
		if w&wordLocked == 0 && s.word.CompareAndSwap(w, w|wordLocked) {
			return w, true
		}
		pause(n)
	}
}

// pause lets the holder of a lock bit finish. Lock bits are held for tens of
// nanoseconds, so it spins first; it yields in case the holder has lost its processor.
func pause(n int) {
	if n < 16 {
		for range 8 << min(n, 3) {
			spinHint.Load()
		}
		return
	}
	runtime.Gosched()
}

var spinHint atomic.Uint32

// A shard is a part of the store with its own table.
type shard struct {
	table atomic.Pointer[table]
	_     [56]byte // readers of table share no line with holders of mu

	mu     sync.Mutex // filling and rebuilding; never held while waiting for anything but lock bits
	filled int        // filled slots of table
	bound  int        // most slots to fill for keys of their own
	spare  int        // keys to turn away before the next rebuild is tried; see makeRoom
	wide   arena

	inserted, forgotten, overflowed uint64
	_                               [64]byte
}

const (
	minSlots = 16
	// A table is rebuilt when it is four fifths full, into one that is about half full:
	// 24 bytes a slot come to 30 to 45 bytes a key.
	fullNum, fullDen = 4, 5
)

func slotsFor(keys int) int { return max(minSlots, keys*16/9) }

func (t *table) full(filled int) bool { return filled*fullDen >= len(t.slots)*fullNum }

// An arena holds the cells that do not fit a word. A cell is used only by the holder of
// its slot's lock bit; mu guards the list of free ones.
type arena struct {
	chunks atomic.Pointer[[]*chunk]
	mu     sync.Mutex
	free   []int32
	used   int32
}

type chunk [64]limit.Cell

func (a *arena) at(i int32) *limit.Cell {
	return &(*a.chunks.Load())[i/int32(len(chunk{}))][i%int32(len(chunk{}))]
}

// alloc returns the number of a zero cell.
func (a *arena) alloc() int32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k := len(a.free); k > 0 {
		i := a.free[k-1]
		a.free = a.free[:k-1]
		return i
	}
	var chunks []*chunk
	if p := a.chunks.Load(); p != nil {
		chunks = *p
	}
	if int(a.used) == len(chunks)*len(chunk{}) {
		grown := append(chunks[:len(chunks):len(chunks)], new(chunk))
		a.chunks.Store(&grown)
	}
	a.used++
	return a.used - 1
}

func (a *arena) release(i int32) {
	*a.at(i) = limit.Cell{}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = append(a.free, i)
	if len(a.free) == int(a.used) { // nobody holds any: give the memory back
		a.chunks.Store(nil)
		a.free, a.used = nil, 0
	}
}
