package talkers

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

func TestRatesOfTheBusiest(t *testing.T) {
	rule := "tier-standard"
	for _, seconds := range []int{1, 10, 300} {
		t.Run(fmt.Sprint(seconds, " s"), func(t *testing.T) {
			ta := New()
			for range seconds {
				for i := range 40 {
					ta.Count("user:loud", nil)
					if i%4 == 0 {
						ta.Count("user:wild", &rule)
					}
				}
				ta.Count("user:quiet", nil)
				ta.Tick()
			}
			top := ta.Top(3)
			if len(top) != 3 {
				t.Fatalf("top is %v, want three", top)
			}
			for i, want := range []Talker{{"user:loud", false, 40, 0, ""}, {"user:wild", false, 10, 10, rule}, {"user:quiet", false, 1, 0, ""}} {
				got := top[i]
				near := got.Rate/want.Rate > 0.97 && got.Rate/want.Rate < 1.03
				if got.Name != want.Name || got.Rule != want.Rule || !near || got.Refused > 0 && got.Refused != got.Rate {
					t.Errorf("place %d is %+v, want about %+v", i+1, got, want)
				}
			}
		})
	}
}

func TestAFloodOfNamesHidesNobody(t *testing.T) {
	ta := New()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		for range 10_000 {
			ta.Count(fmt.Sprintf("ip:%d", rng.Uint64()), nil)
		}
		for i := range 50 {
			for range 100 + i*10 {
				ta.Count(fmt.Sprintf("user:%02d", i), nil)
			}
		}
		ta.Tick()
	}
	found := map[string]float64{}
	for _, v := range ta.Top(100) {
		found[v.Name] = v.Rate
	}
	for i := range 50 {
		name, truth := fmt.Sprintf("user:%02d", i), float64(100+i*10)
		if rate := found[name]; rate > truth*1.03 || rate < truth*0.7 {
			t.Errorf("%s called %v times a second and is shown with %.1f", name, truth, rate)
		}
	}
}

func TestTheSilentFadeAway(t *testing.T) {
	ta := New()
	for range 1000 {
		ta.Count("user:gone", nil)
	}
	for range 64 * 12 {
		ta.Tick()
	}
	if top := ta.Top(10); len(top) != 0 {
		t.Errorf("after twelve time constants %v is still there", top)
	}
}

func TestLongNames(t *testing.T) {
	ta := New()
	name := fmt.Sprintf("user:%0*d", NameMax, 7)
	ta.Count(name, nil)
	top := ta.Top(1)
	if len(top) != 1 || !top[0].Truncated || top[0].Name != name[:NameMax] {
		t.Errorf("a long name is shown as %+v", top)
	}
	ta.Count("", nil)
	if n := len(ta.Top(9)); n != 1 {
		t.Errorf("a call without a name made %d entries, want 1", n)
	}
}

func TestCountDoesNotAllocate(t *testing.T) {
	ta := New()
	names := make([]string, 4096) // more than there are seats in most sets
	for i := range names {
		names[i] = fmt.Sprint("ip:", i)
	}
	i := 0
	if n := testing.AllocsPerRun(50_000, func() { ta.Count(names[i%len(names)], nil); i++ }); n != 0 {
		t.Errorf("Count allocates %v times", n)
	}
}

func TestConcurrentUse(t *testing.T) {
	ta := New()
	const callers, each = 8, 4000
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				ta.Count("user:shared", nil)
				ta.Count(fmt.Sprint("ip:", c, ".", i), nil)
				if c == 0 && i%500 == 0 {
					ta.Top(10)
				}
			}
		})
	}
	wg.Wait()
	ta.Tick()
	const want = callers * each
	if top := ta.Top(1); top[0].Name != "user:shared" || top[0].Rate < want*0.98 || top[0].Rate > want*1.02 {
		t.Errorf("the busiest is %+v, want user:shared with %d", top[0], want)
	}
}
