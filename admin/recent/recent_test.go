package recent

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
)

const size = 256

func refused(subject string) *sluice.Event {
	return &sluice.Event{
		Call: &sluice.Call{Subject: subject, Kind: "http", Method: "GET", Route: "r"}, Outcome: sluice.Refused,
		Refusal: &sluice.Refusal{Reason: sluice.ReasonRate, Rule: "a", RetryAfter: time.Second},
	}
}

func TestWhatIsKept(t *testing.T) {
	shadow := []sluice.RuleOutcome{{Rule: "a"}, {Rule: "s", Shadow: true, Refused: true}}
	for _, c := range []struct {
		name  string
		event sluice.Event
		want  string
	}{
		{"admitted is not worth a line", sluice.Event{}, ""},
		{"refused", *refused("x"), "refused rate a"},
		{"I-092 a shadow refusal", sluice.Event{Rules: shadow}, "shadow_refused  s"},
		{"degraded", sluice.Event{Degraded: true}, "degraded  "},
		{"cancelled", sluice.Event{Outcome: sluice.Cancelled}, "cancelled  "},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := New(8)
			c.event.Call = &sluice.Call{}
			r.Add(&c.event)
			got := ""
			for _, e := range r.Since(0, 10) {
				got += fmt.Sprintf("%s %s %s", e.Outcome, e.Reason, e.Rule)
			}
			if got != c.want {
				t.Errorf("kept %q, want %q", got, c.want)
			}
		})
	}
}

func TestAFloodIsSampledAndCounted(t *testing.T) {
	r := New(size)
	for second := range 10 {
		for i := range 10 * PerSecond {
			r.Add(refused(fmt.Sprint(second, ".", i)))
		}
		r.Tick()
	}
	all := r.Since(0, 10*size)
	if len(all) != size || all[0].Subject != fmt.Sprint("9.", PerSecond-1) {
		t.Errorf("kept %d, the newest of %q; want %d and the last of the sample", len(all), all[0].Subject, size)
	}
	if got := r.Skipped(); got != 9*10*PerSecond {
		t.Errorf("skipped %d, want %d", got, 9*10*PerSecond)
	}
	if got := r.Since(all[3].Seq, 10); len(got) != 3 || got[2].Seq != all[2].Seq {
		t.Errorf("since the fourth newest there are %d, want 3", len(got))
	}
}

func TestNoneAreKeptOfNone(t *testing.T) {
	r := New(0)
	r.Add(refused("x"))
	if n := len(r.Since(0, 10)); n != 0 || r.Skipped() != 0 {
		t.Errorf("%d are kept and %d skipped, want nothing of either", n, r.Skipped())
	}
}

func TestCallersTextIsCut(t *testing.T) {
	r := New(size)
	r.Add(refused(strings.Repeat("x", 10_000)))
	if n := len(r.Since(0, 1)[0].Subject); n != textMax {
		t.Errorf("%d bytes of a name are kept, want %d", n, textMax)
	}
}

func TestConcurrentUse(t *testing.T) {
	r := New(size)
	var wg sync.WaitGroup
	const callers, each = 8, 500
	for range callers {
		wg.Go(func() {
			for range each {
				r.Add(refused("x"))
				r.Since(0, 5)
			}
		})
	}
	wg.Wait()
	if n := len(r.Since(0, size)); n != PerSecond || r.Skipped() != callers*each-PerSecond {
		t.Errorf("kept %d and skipped %d, want %d and the rest", n, r.Skipped(), PerSecond)
	}
}
