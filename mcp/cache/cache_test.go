package cache

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const answer = `{"content":[{"type":"text","text":"22 degrees"}],"structuredContent":{"celsius":22}}`

// ask is a call of one caller with these arguments.
func ask(arguments string) Call {
	params := `{"name":"weather","arguments":` + arguments + `}`
	return Call{Slot: "weather", Tool: "weather", Scope: Subject("user:ann"), Params: json.RawMessage(params)}
}

func TestMissThenHit(t *testing.T) {
	c := New(Options{})
	k := c.Key(ask(`{"city":"Bern"}`))
	if _, ok := c.Get(k); ok {
		t.Fatal("an empty cache has a result")
	}
	if !c.Put(k, json.RawMessage(answer), time.Minute) {
		t.Fatal("a plain result is not kept")
	}
	got, ok := c.Get(k)
	if !ok || string(got) != answer {
		t.Errorf("got %s, %v; want %s", got, ok, answer)
	}
	want := Stats{Hits: 1, Misses: 1, Stored: 1, Entries: 1, Bytes: len(answer) + overhead}
	if got := c.Stats(); got != want {
		t.Errorf("stats: got %+v, want %+v", got, want)
	}
}

func TestResultsAreCopied(t *testing.T) {
	c := New(Options{})
	k := c.Key(ask(`{}`))
	result := []byte(answer)
	c.Put(k, result, time.Minute)
	clear(result)
	if got, _ := c.Get(k); string(got) != answer {
		t.Errorf("the frame's buffer was used again, and the kept result is now %q", got)
	}
}

func TestTimeToLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{})
		k := c.Key(ask(`{}`))
		c.Put(k, json.RawMessage(answer), time.Minute)
		time.Sleep(time.Minute - time.Nanosecond)
		if _, ok := c.Get(k); !ok {
			t.Error("it has gone before its time")
		}
		time.Sleep(time.Nanosecond)
		if _, ok := c.Get(k); ok {
			t.Error("it is there after its time")
		}
		if s := c.Stats(); s.Expired != 1 || s.Entries != 0 || s.Bytes != 0 {
			t.Errorf("after its time: %+v", s)
		}
		c.Put(k, json.RawMessage(answer), time.Second)
		time.Sleep(500 * time.Millisecond)
		c.Put(k, json.RawMessage(answer), time.Second)
		time.Sleep(700 * time.Millisecond)
		if _, ok := c.Get(k); !ok {
			t.Error("a result that was put again lives by the first one's time")
		}
	})
}

func TestM094WhatIsKept(t *testing.T) {
	for _, x := range []struct {
		name, result, want string // want empty: not kept
	}{
		{"plain", answer, answer},
		{"M-094 _meta is left out", `{"_meta":{"progressToken":"brk-1"},"content":[]}`, `{"content":[]}`},
		{"M-094 _meta last", `{"content":[] , "_meta":{}}`, `{"content":[]}`},
		{"M-094 _meta twice", `{"_meta":1,"content":[],"_meta":{"a":1}}`, ""},
		{"complete", `{"resultType":"complete","content":[]}`, `{"resultType":"complete","content":[]}`},
		{"numbers and order stay", `{"structuredContent":{"b":1.0,"a":9007199254740993}}`, `{"structuredContent":{"b":1.0,"a":9007199254740993}}`},
		{"no error", `{"isError":false,"content":[]}`, `{"isError":false,"content":[]}`},
		{"M-094 isError", `{"isError":true,"content":[]}`, ""},
		{"M-094 isError of another type", `{"isError":1,"content":[]}`, ""},
		{"M-094 isError null", `{"isError":null,"content":[]}`, ""},
		{"M-094 task", `{"task":{"taskId":"1","status":"working"}}`, ""},
		{"M-094 task of the extension", `{"resultType":"task","taskId":"1"}`, ""},
		{"M-094 input required", `{"resultType":"input_required","inputRequests":{}}`, ""},
		{"M-094 input requests without a type", `{"inputRequests":{}}`, ""},
		{"M-094 state of a request", `{"requestState":"x"}`, ""},
		{"M-094 a type that nobody knows", `{"resultType":"later"}`, ""},
		{"M-094 resource link", `{"content":[{"type":"text","text":""},{"type":"resource_link","uri":"https://x/?sig=1"}]}`, ""},
		{"embedded resource", `{"content":[{"type":"resource","resource":{"uri":"a:b","text":"c"}}]}`, `{"content":[{"type":"resource","resource":{"uri":"a:b","text":"c"}}]}`},
		{"M-094 content that is no list", `{"content":{"type":"resource_link"}}`, ""},
		{"no object", `[]`, ""},
		{"null", `null`, ""},
		{"no JSON", `{`, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := New(Options{})
			k := c.Key(ask(`{}`))
			if got := c.Put(k, json.RawMessage(x.result), time.Minute); got != (x.want != "") {
				t.Fatalf("kept: %v", got)
			}
			got, _ := c.Get(k)
			if string(got) != x.want {
				t.Errorf("got %s, want %s", got, x.want)
			}
			if s := c.Stats(); s.Stored+s.Refused != 1 {
				t.Errorf("stats: %+v", s)
			}
		})
	}
	t.Run("no time to live", func(t *testing.T) {
		c := New(Options{})
		k := c.Key(ask(`{}`))
		if c.Put(k, json.RawMessage(answer), 0) || c.Put(k, json.RawMessage(answer), -1) {
			t.Error("a result is kept for no time")
		}
	})
}

func TestM094Bounds(t *testing.T) {
	result := func(n int) json.RawMessage { return json.RawMessage(`{"x":"` + strings.Repeat("y", n-8) + `"}`) }
	t.Run("M-094 one result", func(t *testing.T) {
		c := New(Options{MaxEntryBytes: 100})
		k := c.Key(ask(`{}`))
		if c.Put(k, result(101), time.Minute) {
			t.Error("101 bytes are kept, want at most 100")
		}
		if !c.Put(k, result(100), time.Minute) {
			t.Error("100 bytes are not kept")
		}
	})
	t.Run("a result as large as the cache", func(t *testing.T) {
		c := New(Options{MaxBytes: 1000})
		k := c.Key(ask(`{}`))
		if c.Put(k, result(1000-overhead+1), time.Minute) {
			t.Error("more than there is room for is kept")
		}
		if !c.Put(k, result(1000-overhead), time.Minute) {
			t.Error("as much as there is room for is not kept")
		}
	})
	t.Run("a cache with no room at all", func(t *testing.T) {
		c := New(Options{MaxBytes: 1})
		if c.Put(c.Key(ask(`{}`)), json.RawMessage(`{}`), time.Minute) {
			t.Error("something is kept in one byte")
		}
	})
	t.Run("M-094 all together, the longest unused first", func(t *testing.T) {
		c := New(Options{MaxBytes: 3 * (100 + overhead)})
		var keys []Key
		for i := range 4 {
			keys = append(keys, c.Key(ask(fmt.Sprintf(`{"i":%d}`, i))))
		}
		for _, k := range keys[:3] {
			c.Put(k, result(100), time.Minute)
		}
		c.Get(keys[0])
		c.Put(keys[3], result(100), time.Minute)
		for i, want := range []bool{true, false, true, true} {
			if _, ok := c.Get(keys[i]); ok != want {
				t.Errorf("entry %d is there: %v, want %v", i, ok, want)
			}
		}
		if s := c.Stats(); s.Evicted != 1 || s.Bytes != 3*(100+overhead) {
			t.Errorf("stats: %+v", s)
		}
	})
}

// TestBytesAreCounted does at random what can be done, and counts again what is there.
func TestBytesAreCounted(t *testing.T) {
	const seed = 94
	r := rand.New(rand.NewPCG(seed, 0))
	c := New(Options{MaxBytes: 20_000, MaxEntryBytes: 3000})
	for step := range 20_000 {
		x := ask(fmt.Sprintf(`{"i":%d}`, r.IntN(60)))
		x.Slot = fmt.Sprint("slot", r.IntN(4))
		k := c.Key(x)
		switch r.IntN(40) {
		case 0:
			c.Drop(x.Slot)
		case 1, 2, 3, 4, 5, 6, 7, 8, 9:
			c.Get(k)
		default:
			c.Put(k, json.RawMessage(`{"x":"`+strings.Repeat("y", r.IntN(3500))+`"}`), time.Minute)
		}
		bytes := 0
		for _, e := range c.lru.Values() {
			bytes += e.size()
		}
		if s := c.Stats(); s.Bytes != bytes || bytes > 20_000 {
			t.Fatalf("seed %d, step %d: counted %d, there are %d bytes, want at most 20000", seed, step, s.Bytes, bytes)
		}
	}
	if s := c.Stats(); s.Evicted == 0 || s.Dropped == 0 || s.Hits == 0 || s.Refused == 0 {
		t.Errorf("seed %d: something never happened: %+v", seed, s)
	}
}

func TestM094Drop(t *testing.T) {
	c := New(Options{})
	mine, other := ask(`{}`), ask(`{}`)
	other.Slot = "other"
	k, ko := c.Key(mine), c.Key(other)
	c.Put(k, json.RawMessage(answer), time.Minute)
	c.Put(ko, json.RawMessage(answer), time.Minute)
	c.Drop("weather")
	if _, ok := c.Get(k); ok {
		t.Error("M-094 a result outlives the provider's list_changed")
	}
	if _, ok := c.Get(ko); !ok {
		t.Error("a drop of one slot takes another's results")
	}
	if c.Put(k, json.RawMessage(answer), time.Minute) {
		t.Error("M-094 an answer to a call that began before the drop is kept")
	}
	if !c.Put(ko, json.RawMessage(answer), time.Minute) {
		t.Error("a drop of one slot keeps another's results out")
	}
	if !c.Put(c.Key(mine), json.RawMessage(answer), time.Minute) {
		t.Error("nothing is kept after a drop")
	}
	if s := c.Stats(); s.Dropped != 1 || s.Entries != 2 {
		t.Errorf("stats: %+v", s)
	}
}

func TestConcurrentUse(t *testing.T) {
	c := New(Options{MaxBytes: 10_000})
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 2000 {
				k := c.Key(ask(fmt.Sprintf(`{"i":%d}`, i%50)))
				if got, ok := c.Get(k); ok && string(got) != answer {
					t.Errorf("got %s", got)
				} else if !ok {
					c.Put(k, json.RawMessage(answer), time.Minute)
				}
				if worker == 0 && i%100 == 0 {
					c.Drop("weather")
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkHit(b *testing.B) {
	c := New(Options{})
	call := ask(`{"city":"Bern","units":"metric","days":3,"details":{"wind":true,"rain":true}}`)
	c.Put(c.Key(call), json.RawMessage(answer), time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := c.Get(c.Key(call)); !ok {
			b.Fatal("missed")
		}
	}
}

func BenchmarkHitParallel(b *testing.B) {
	c := New(Options{})
	k := c.Key(ask(`{"city":"Bern"}`))
	c.Put(k, json.RawMessage(answer), time.Hour)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.Get(k)
		}
	})
}
