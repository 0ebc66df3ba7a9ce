// Package cache keeps results of tools for a while, so that the same question from the
// same caller need not reach the provider again.
//
// A tool is cached only where an operator has said so, with a time to live. Who calls a
// tool asks the cache after permission and validation and before admission: a hit takes
// no slot and counts against no limit (M-003). What may be kept is decided here, see
// [Cache.Put]; whether a tool may be cached at all, and who shares its results, is the
// caller's to decide.
//
// Calls that ask for the same thing at the same time all go to the provider. To let one
// of them ask for the others would make slots, budgets and the audit of many calls hang
// on one, and one caller's cancellation end another caller's call.
package cache

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// Bounds that hold where [Options] names none.
const (
	defaultBytes      = 64 << 20
	defaultEntryBytes = 1 << 20
)

// overhead is about what an entry takes beside its result: the key in the map and in the
// list, and their pointers. It also bounds the number of entries.
const overhead = 256

// Options bound a cache. The zero value is usable.
type Options struct {
	// MaxBytes bounds what all entries take together. Zero is 64 MiB.
	MaxBytes int
	// MaxEntryBytes bounds one result; a larger one is not kept. Zero is 1 MiB. It is
	// never more than MaxBytes.
	MaxEntryBytes int
}

// A Cache keeps results until their time is over, the slot is dropped, or others that
// were used more lately need the room. It is safe for concurrent use. Use [New].
type Cache struct {
	secret     [32]byte // of this process: who can read the memory's keys still cannot guess arguments
	most       int
	mostResult int

	mu    sync.Mutex
	lru   *simplelru.LRU[digest, entry]
	drops map[string]uint64 // how often each slot was dropped
	stats Stats
}

type entry struct {
	slot   string
	result json.RawMessage
	until  time.Time
}

func (e entry) size() int { return len(e.result) + overhead }

// Stats are what a cache has done since it was made, and what it holds.
type Stats struct {
	Hits    uint64
	Misses  uint64
	Stored  uint64
	Refused uint64 // results that may not be kept, were too large or came after a drop
	Evicted uint64 // entries that made room
	Expired uint64 // entries whose time was over when they were asked for
	Dropped uint64 // entries of a slot that was dropped
	Entries int
	Bytes   int
}

// New returns an empty cache.
func New(o Options) *Cache {
	c := &Cache{most: o.MaxBytes, mostResult: o.MaxEntryBytes, drops: map[string]uint64{}}
	if c.most <= 0 {
		c.most = defaultBytes
	}
	if c.mostResult <= 0 {
		c.mostResult = defaultEntryBytes
	}
	c.mostResult = min(c.mostResult, c.most-overhead)
	rand.Read(c.secret[:]) // never fails
	// The number of entries is bounded by their bytes, see overhead.
	lru, err := simplelru.NewLRU(c.most, func(_ digest, e entry) { c.stats.Bytes -= e.size() })
	if err != nil {
		panic("cache: " + err.Error()) // only a size below 1
	}
	c.lru = lru
	return c
}

// Get returns the result that was kept under k. Callers share it: nobody may change its
// bytes. The zero Key has none.
func (c *Cache) Get(k Key) (json.RawMessage, bool) {
	if k.IsZero() {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.lru.Get(k.digest)
	if ok && time.Now().Before(e.until) {
		c.stats.Hits++
		return e.result, true
	}
	if ok {
		c.lru.Remove(k.digest)
		c.stats.Expired++
	}
	c.stats.Misses++
	return nil, false
}

// Put keeps the result of a call for ttl, without its "_meta", and reports whether it
// did. It does not keep (M-094)
//   - a result with isError, a task, a question for input, or a resultType other than
//     "complete";
//   - one with a resource link, which may stop working before the entry does;
//   - one that is too large, or no object;
//   - one whose key was made before the slot was last dropped: it may be the answer of
//     the provider as it was;
//   - anything under the zero Key or for a ttl that is not positive.
//
// The result is copied. Errors of JSON-RPC are no results and never come here.
func (c *Cache) Put(k Key, result json.RawMessage, ttl time.Duration) bool {
	if k.IsZero() || ttl <= 0 {
		return false
	}
	kept, ok := keepable(result)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !ok || len(kept) > c.mostResult || k.drops != c.drops[k.slot] {
		c.stats.Refused++
		return false
	}
	e := entry{slot: k.slot, result: kept, until: time.Now().Add(ttl)}
	c.lru.Remove(k.digest) // replacing in place would not tell the old one's size
	for c.stats.Bytes+e.size() > c.most {
		c.lru.RemoveOldest()
		c.stats.Evicted++
	}
	c.lru.Add(k.digest, e)
	c.stats.Bytes += e.size()
	c.stats.Stored++
	return true
}

// Drop forgets all results of a slot, and those that are on their way: results of calls
// whose keys were made before. It is for a provider that has come back, or whose tools
// have changed. It looks at every entry.
func (c *Cache) Drop(slot string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops[slot]++
	for _, d := range c.lru.Keys() {
		if e, _ := c.lru.Peek(d); e.slot == slot {
			c.lru.Remove(d)
			c.stats.Dropped++
		}
	}
}

// Stats returns what the cache has done so far, and what it holds.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Entries = c.lru.Len()
	return s
}

// unkept are members of a result that is not the end of a call.
var unkept = []string{"task", "taskId", "inputRequests", "requestState"}

// keepable returns a result as it may be kept, and whether it may.
func keepable(result json.RawMessage) (json.RawMessage, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(result, &members) != nil || members == nil {
		return nil, false
	}
	for _, name := range unkept {
		if _, ok := members[name]; ok {
			return nil, false
		}
	}
	if v, ok := members["isError"]; ok && string(v) != "false" {
		return nil, false
	}
	if v, ok := members["resultType"]; ok && string(v) != `"complete"` {
		return nil, false
	}
	if v, ok := members["content"]; ok && links(v) {
		return nil, false
	}
	kept := jsonrpc.DeleteIn(result, "_meta")
	if _, again := jsonrpc.Lookup(kept, "_meta"); again {
		return nil, false // it was there twice
	}
	return bytes.Clone(kept), true
}

// links reports whether content has a resource link, or is none that can be read.
func links(content json.RawMessage) bool {
	var blocks []struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(content, &blocks) != nil {
		return true
	}
	for _, b := range blocks {
		if b.Type == "resource_link" {
			return true
		}
	}
	return false
}
