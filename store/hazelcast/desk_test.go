package hazelcast

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestDesk lets many requests of few keys through a desk: no two passes under way have a
// key in common, every request is in one pass, and requests of a key keep their order.
func TestDesk(t *testing.T) {
	const keys, callers, each = 12, 16, 400
	var mu sync.Mutex
	busy := make(map[string]bool)
	seen := make(map[*request]int)
	var passes int
	d := desk{slots: make(map[string]slot)}
	d.run = func(p *pass) {
		mu.Lock()
		passes++
		for _, k := range p.keys {
			if busy[k] {
				t.Errorf("two passes work on %s", k)
			}
			busy[k] = true
		}
		if len(p.requests) > maxTogether+callers {
			t.Errorf("%d requests in one pass", len(p.requests))
		}
		mu.Unlock()
		time.Sleep(rand.N(50 * time.Microsecond))
		var again []*request
		mu.Lock()
		for _, k := range p.keys {
			delete(busy, k)
		}
		for _, r := range p.requests {
			if seen[r]++; seen[r] == 1 && len(r.keys) == 1 && rand.IntN(20) == 0 {
				r.want("k0") // was found to be about more keys
				again = append(again, r)
				continue
			}
			close(r.done)
		}
		mu.Unlock()
		d.end(p, again)
	}
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				r := &request{done: make(chan struct{})}
				for range 1 + rand.IntN(4) {
					r.want(fmt.Sprint("k", rand.IntN(keys)))
				}
				if !d.submit(r) {
					t.Error("a request was turned away")
					return
				}
				<-r.done
			}
		})
	}
	wg.Wait()
	d.close(time.Second)
	if len(d.slots) != 0 || d.queued != 0 {
		t.Errorf("%d keys and %d requests are left", len(d.slots), d.queued)
	}
	if len(seen) != callers*each || passes >= callers*each {
		t.Errorf("%d requests in %d passes", len(seen), passes)
	}
	if d.submit(&request{}) {
		t.Error("a closed desk takes a request")
	}
}

func TestDeskIsBounded(t *testing.T) {
	hold := make(chan struct{})
	d := desk{slots: make(map[string]slot)}
	d.run = func(p *pass) {
		<-hold
		if len(p.requests) > maxTogether {
			t.Errorf("%d requests in one pass", len(p.requests))
		}
		d.end(p, nil)
	}
	taken := 0
	for d.submit(&request{keys: []string{"k"}}) {
		taken++
	}
	if taken != maxQueued+1 {
		t.Errorf("%d requests were taken, want %d and the one under way", taken, maxQueued)
	}
	close(hold)
	d.idle.Wait()
	if d.queued != 0 || len(d.slots) != 0 {
		t.Errorf("%d requests and %d keys are left", d.queued, len(d.slots))
	}
}
