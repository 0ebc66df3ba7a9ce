package bench

import (
	"bytes"
	"context"
	"hash/maphash"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	_ "unsafe" // for linkname
)

// The floors do the least that a correct answer takes and nothing else: no expiry,
// no rules, and but for floor.fields no headers. Ratios in the table are against them.

// clock is the runtime's own monotonic clock, in ns: the cheapest exact one there is,
// some 5 ns below time.Since.
//
//go:linkname clock runtime.nanotime
func clock() int64

// gcra decides by the time at which the key would be full again.
type gcra struct{ step, depth int64 }

func gcraOf(q quota) gcra {
	step := int64(q.every())
	return gcra{step, step * q.burst}
}

func (g gcra) take(full, now int64) (int64, bool) {
	next := max(full, now) + g.step
	if next-now > g.depth {
		return full, false
	}
	return next, true
}

const shards = 64

type mutexShard struct {
	mu   sync.Mutex
	full map[string]int64
	_    [48]byte // each shard on its own cache line
}

type mutexFloor struct {
	gcra
	seed   maphash.Seed
	shards [shards]mutexShard
}

func newMutexFloor(q quota) *mutexFloor {
	f := &mutexFloor{gcra: gcraOf(q), seed: maphash.MakeSeed()}
	for i := range f.shards {
		f.shards[i].full = map[string]int64{}
	}
	return f
}

func (f *mutexFloor) allow(key string) bool {
	s := &f.shards[maphash.String(f.seed, key)%shards]
	now := clock()
	s.mu.Lock()
	next, ok := f.take(s.full[key], now)
	if ok {
		s.full[key] = next
	}
	s.mu.Unlock()
	return ok
}

// flatFloor is how fast a keyed decision can be at all: a table of fixed size
// without pointers, and one compare-and-swap.
type flatFloor struct {
	gcra
	seed  maphash.Seed
	cells []flatCell
}

type flatCell struct{ hash, full atomic.Int64 }

func (f *flatFloor) allow(key string) bool {
	h := int64(maphash.String(f.seed, key) | 1) // zero is a free cell
	mask := int64(len(f.cells) - 1)
	for i := h >> 8 & mask; ; i = (i + 1) & mask {
		c := &f.cells[i]
		switch c.hash.Load() {
		case h:
			return f.swap(&c.full)
		case 0:
			if c.hash.CompareAndSwap(0, h) || c.hash.Load() == h {
				return f.swap(&c.full)
			}
		}
	}
}

func (f *flatFloor) swap(full *atomic.Int64) bool {
	now := clock()
	for {
		old := full.Load()
		next, ok := f.take(old, now)
		if !ok {
			return false
		}
		if full.CompareAndSwap(old, next) {
			return true
		}
	}
}

// handoff is the floor of a gate: a mutex, a count and a line of waiters that get
// a slot handed over rather than race for it.
type handoff struct {
	mu   sync.Mutex
	free int64
	line []chan struct{}
}

func (h *handoff) try() bool {
	h.mu.Lock()
	ok := h.free > 0 && len(h.line) == 0
	if ok {
		h.free--
	}
	h.mu.Unlock()
	return ok
}

func (h *handoff) release() {
	h.mu.Lock()
	if len(h.line) == 0 {
		h.free++
	} else {
		close(h.line[0])
		h.line = h.line[1:]
	}
	h.mu.Unlock()
}

// sleeper is the floor of waiting: each caller takes its turn with one addition
// and sleeps until then.
func sleeper(perSecond int) func(context.Context) error {
	start, gap := time.Now(), int64(time.Second)/int64(perSecond)
	var next atomic.Int64
	return func(context.Context) error {
		turn := time.Duration(next.Add(gap) - gap)
		time.Sleep(turn - time.Since(start))
		return nil
	}
}

// addressOf is the client address as peers take it: without the port.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// Answers as long as sluice's and with the same fields, which nobody has to make: what
// net/http takes for them, whoever decides.
type field struct {
	name   string
	values []string
}

var (
	quotaFields = []field{
		{"X-Ratelimit-Limit", []string{"1000000000"}},
		{"X-Ratelimit-Remaining", []string{"1000000000"}},
		{"X-Ratelimit-Reset", []string{"1795991569"}},
		{"Ratelimit", []string{`"tier-anonymous";r=1000000000`}},
		{"Ratelimit-Policy", []string{`"tier-anonymous";q=1000000000;w=1`}},
	}
	refusalFields = append([]field{
		{"Cache-Control", []string{"no-store"}},
		{"Content-Type", []string{"application/problem+json"}},
		{"Retry-After", []string{"3600"}},
	}, quotaFields...)
	problem = bytes.Repeat([]byte{' '}, 325)
)

func setAll(h http.Header, fields []field) {
	for i := range fields {
		h[fields[i].name] = fields[i].values
	}
}

func init() {
	enter(contestant{
		name:  "floor.sharded+mutex",
		keyed: func(_ testing.TB, q quota) worker { return shared(newMutexFloor(q).allow) },
		guard: func(q quota, next http.Handler) http.Handler {
			f := newMutexFloor(q)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !f.allow(addressOf(r)) {
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				next.ServeHTTP(w, r)
			})
		},
	})
	enter(contestant{
		name: "floor.fields",
		guard: func(q quota, next http.Handler) http.Handler {
			f := newMutexFloor(q)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if f.allow(addressOf(r)) {
					setAll(w.Header(), quotaFields)
					next.ServeHTTP(w, r)
					return
				}
				setAll(w.Header(), refusalFields)
				w.WriteHeader(http.StatusTooManyRequests)
				w.Write(problem) // a client that has gone is no concern of a benchmark
			})
		},
	})
	enter(contestant{
		name: "floor.flat+cas",
		keyed: func(_ testing.TB, q quota) worker {
			f := &flatFloor{gcra: gcraOf(q), seed: maphash.MakeSeed(), cells: make([]flatCell, 1<<21)}
			return shared(f.allow)
		},
	})
	enter(contestant{
		name: "floor.fifo-handoff",
		slots: func(_ testing.TB, n int64) func() func() bool {
			h := &handoff{free: n}
			return func() func() bool {
				return func() bool {
					ok := h.try()
					if ok {
						h.release()
					}
					return ok
				}
			}
		},
	})
	enter(contestant{
		name: "floor.sleep-own-slot",
		pace: func(_ testing.TB, perSecond int) func(context.Context) error { return sleeper(perSecond) },
	})
	enter(contestant{
		name:  "floor.bare",
		guard: func(_ quota, next http.Handler) http.Handler { return next },
	})
}
