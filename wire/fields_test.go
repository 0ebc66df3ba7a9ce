package wire

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/sluicegate/sluice"
	algorithm "github.com/sluicegate/sluice/limit"
)

// The levels that tests tell about.
var (
	tier   = sluice.Level{Rule: "tier", Kind: algorithm.KindBucket, Unit: sluice.Calls, Limit: 20, Window: 2 * time.Second, Remaining: 19, Next: 100 * time.Millisecond, Full: 100 * time.Millisecond}
	burst  = sluice.Level{Rule: "burst", Kind: algorithm.KindWindow, Unit: sluice.Calls, Limit: 100, Window: time.Minute, Next: 7 * time.Second, Full: time.Minute, Refused: true}
	daily  = sluice.Level{Rule: "daily", Kind: algorithm.KindWindow, Unit: sluice.Calls, Limit: 1000, Window: 24 * time.Hour, Remaining: 812, Next: 40211 * time.Second, Full: 23 * time.Hour}
	inside = sluice.Level{Rule: "slots", Kind: algorithm.KindSlots, Unit: sluice.Calls, Limit: 5, Remaining: 2}
	tokens = sluice.Level{Rule: "tpm", Kind: algorithm.KindBucket, Unit: sluice.Tokens, Limit: 1000, Window: time.Minute, Remaining: 3, Next: time.Millisecond}
	octets = sluice.Level{Rule: "body", Kind: algorithm.KindWindow, Unit: sluice.Bytes, Limit: 1 << 20, Window: time.Hour, Remaining: 1 << 19}
)

// full returns a level with nothing used.
func full(l sluice.Level) sluice.Level {
	l.Remaining, l.Next, l.Full, l.Refused = l.Limit, 0, 0, false
	return l
}

// refused returns a level that has refused and has n units again in next.
func refused(l sluice.Level, next time.Duration) sluice.Level {
	l.Remaining, l.Next, l.Full, l.Refused = 0, next, next+l.Window, true
	return l
}

func shadow(l sluice.Level) sluice.Level { l.Shadow = true; return l }

func mustNew(t testing.TB, o Options) *Writer {
	t.Helper()
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// now has a fraction, so that every rounding shows.
var now = time.Unix(1700000000, 400_000_000)

func check(t *testing.T, h http.Header, want map[string]string) {
	t.Helper()
	for name, value := range want {
		switch got := h.Values(name); {
		case value == "" && len(got) > 0:
			t.Errorf("%s: %q, want none", name, got)
		case value != "" && !slices.Equal(got, []string{value}):
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
}

func TestAnnotate(t *testing.T) {
	only := func(f Family) Options { return Options{Families: []Family{f}} }
	tests := []struct {
		name   string
		o      Options
		levels []sluice.Level
		want   map[string]string
	}{
		{"B-14 headers on success", Options{}, []sluice.Level{tier}, map[string]string{
			"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "19", "X-RateLimit-Reset": "1700000001",
			"RateLimit": `"tier";r=19;t=1`, "RateLimit-Policy": `"tier";q=20;w=2`, "Retry-After": "",
		}},
		{"B-W23 reset of a full limit is now", Options{}, []sluice.Level{full(daily)}, map[string]string{
			"X-RateLimit-Reset": "1700000001", "RateLimit": `"daily";r=1000`,
		}},
		{"B-W23 reset is when the limit is whole", Options{}, []sluice.Level{daily}, map[string]string{
			"X-RateLimit-Reset": "1700082801",
		}},
		{"legacy delta", only(LegacyDelta), []sluice.Level{daily}, map[string]string{
			"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "812", "X-RateLimit-Reset": "82800", "RateLimit": "",
		}},
		{"draft 6", only(Draft6), []sluice.Level{tier, daily}, map[string]string{
			"RateLimit-Limit": "20", "RateLimit-Remaining": "19", "RateLimit-Reset": "1",
			"RateLimit-Policy": "20;w=2, 1000;w=86400", "RateLimit": "",
		}},
		{"draft 7", only(Draft7), []sluice.Level{tier, daily}, map[string]string{
			"RateLimit": "limit=20, remaining=19, reset=1", "RateLimit-Policy": "20;w=2, 1000;w=86400",
		}},
		{"draft 7, slots have no reset", only(Draft7), []sluice.Level{inside}, map[string]string{
			"RateLimit": "limit=5, remaining=2", "RateLimit-Policy": "5",
		}},
		{"I-074 all limits, and the tightest for legacy", Options{}, []sluice.Level{daily, tier}, map[string]string{
			"RateLimit": `"daily";r=812;t=40211, "tier";r=19;t=1`, "RateLimit-Policy": `"daily";q=1000;w=86400, "tier";q=20;w=2`,
			"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "19",
		}},
		{"7.4 slots", Options{}, []sluice.Level{inside}, map[string]string{
			"RateLimit": `"slots";r=2`, "RateLimit-Policy": `"slots";q=5;qu="concurrent-requests"`,
			"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "2", "X-RateLimit-Reset": "",
		}},
		{"slots and tokens are not the tightest", Options{}, []sluice.Level{inside, tokens, daily}, map[string]string{
			"X-RateLimit-Limit": "1000", "RateLimit-Policy": `"slots";q=5;qu="concurrent-requests", "tpm";q=1000;qu="tokens";w=60, "daily";q=1000;w=86400`,
		}},
		{"bytes", only(Draft10), []sluice.Level{octets}, map[string]string{
			"RateLimit-Policy": `"body";q=1048576;qu="content-bytes";w=3600`, "RateLimit": `"body";r=524288`,
		}},
		{"a window below a second has no w, a bucket one", only(Draft10), []sluice.Level{
			{Rule: "w", Kind: algorithm.KindWindow, Limit: 5, Window: 500 * time.Millisecond},
			{Rule: "b", Kind: algorithm.KindBucket, Limit: 5, Window: 500 * time.Millisecond},
			{Rule: "p", Kind: algorithm.KindPace, Limit: 1, Window: 1500 * time.Millisecond},
		}, map[string]string{"RateLimit-Policy": `"w";q=5, "b";q=5;w=1, "p";q=1;w=2`}},
		{"two limits of one rule", only(Draft10), []sluice.Level{
			{Rule: "r", Name: "bucket", Kind: algorithm.KindBucket, Limit: 5, Window: time.Second},
			{Rule: "r", Name: "slots", Kind: algorithm.KindSlots, Limit: 2},
		}, map[string]string{"RateLimit": `"r:bucket";r=0, "r:slots";r=0`}},
		{"cooldowns are not told", Options{}, []sluice.Level{{Rule: "c", Kind: algorithm.KindCooldown, Limit: 1}}, map[string]string{
			"RateLimit": "", "X-RateLimit-Limit": "",
		}},
		{"I-092 shadow rules are not told", Options{}, []sluice.Level{shadow(daily), tier}, map[string]string{
			"RateLimit": `"tier";r=19;t=1`, "X-RateLimit-Limit": "20",
		}},
		{"no levels", Options{}, nil, map[string]string{"RateLimit": "", "X-RateLimit-Limit": ""}},
		{"none", Options{Families: []Family{}}, []sluice.Level{tier}, map[string]string{"RateLimit": "", "X-RateLimit-Limit": ""}},
		{"near, and not", Options{When: Near}, []sluice.Level{tier, daily}, map[string]string{"RateLimit": ""}},
		{"near", Options{When: Near}, []sluice.Level{tier, {Rule: "n", Kind: algorithm.KindBucket, Limit: 30, Remaining: 3}},
			map[string]string{"X-RateLimit-Limit": "30"}},
		{"near in the shadow", Options{When: Near}, []sluice.Level{tier, shadow(refused(daily, 1))}, map[string]string{"RateLimit": ""}},
		{"3.12 refused, and not", Options{When: Refused}, []sluice.Level{burst}, map[string]string{"RateLimit": ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			mustNew(t, tt.o).Annotate(h, tt.levels, now)
			check(t, h, tt.want)
		})
	}
}

func TestStructuredFieldsParse(t *testing.T) {
	odd := sluice.Level{Rule: `a"b\c`, Name: "é", Kind: algorithm.KindBucket, Unit: "töken", Limit: 1 << 62, Window: 1<<63 - 1, Remaining: 1 << 62}
	levels := []sluice.Level{tier, burst, daily, inside, tokens, octets, odd}
	for _, f := range []Family{Draft6, Draft7, Draft10} {
		h := http.Header{}
		mustNew(t, Options{Families: []Family{f}}).Annotate(h, levels, now)
		policies, err := httpsfv.UnmarshalList(h["Ratelimit-Policy"])
		if err != nil || len(policies) != len(levels) {
			t.Errorf("%v: policies %q: %v", f, h["Ratelimit-Policy"], err)
		}
		switch f {
		case Draft7:
			if d, err := httpsfv.UnmarshalDictionary(h["Ratelimit"]); err != nil || len(d.Names()) != 3 {
				t.Errorf("%v: %q: %v", f, h["Ratelimit"], err)
			}
		case Draft10:
			list, err := httpsfv.UnmarshalList(h["Ratelimit"])
			if err != nil || len(list) != len(levels) {
				t.Fatalf("%v: %q: %v", f, h["Ratelimit"], err)
			}
			for i, member := range list {
				item := member.(httpsfv.Item)
				r, _ := item.Params.Get("r")
				if want := min(levels[i].Remaining, maxInteger); r != want {
					t.Errorf("r of %v is %v, want %d", item.Value, r, want)
				}
			}
			if name := list[6].(httpsfv.Item).Value; name != `a"b\c` {
				t.Errorf("7.4 name %q", name)
			}
		}
	}
}

func TestFamilies(t *testing.T) {
	for f := range families {
		if got, err := ParseFamily(f.String()); got != f || err != nil {
			t.Errorf("%v: %v, %v", f, got, err)
		}
	}
	if _, err := ParseFamily("draft-8"); err == nil || !strings.Contains(err.Error(), "draft-7, draft-10") {
		t.Errorf("%v", err)
	}
	if got := families.String(); got != "family(5)" {
		t.Errorf("%s", got)
	}
	for _, pair := range [][2]Family{
		{LegacyEpoch, LegacyDelta}, {Draft6, Draft10}, {Draft6, Draft7}, {Draft7, Draft10}, {Draft10, Draft10}, {LegacyEpoch, families},
	} {
		if _, err := New(Options{Families: pair[:]}); err == nil || !strings.HasPrefix(err.Error(), "wire: ") {
			t.Errorf("%v together: %v", pair, err)
		}
	}
	w := mustNew(t, Options{Families: []Family{LegacyDelta, Draft6}})
	h := http.Header{}
	w.setFields(h, report{levels: []sluice.Level{burst}, now: now, refused: true, wait: 7 * time.Second})
	want := append(w.Fields(), "Retry-After")
	slices.Sort(want)
	var got []string
	for name := range h {
		got = append(got, name)
		if http.CanonicalHeaderKey(name) != name {
			t.Errorf("%s is not canonical", name)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("fields %v, want %v", got, want)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, o := range []Options{
		{Status: map[sluice.Reason]int{sluice.ReasonRate: 200}},
		{CORS: CORS{Origins: []string{"*"}, Credentials: true}},
	} {
		if _, err := New(o); err == nil || !strings.HasPrefix(err.Error(), "wire: ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// refuse returns the answer of the Writer to a GET with header h.
func refuse(t testing.TB, o Options, h http.Header, ref *sluice.Refusal) *http.Response {
	t.Helper()
	r := httptest.NewRequest("GET", "http://example.com/a/b?secret=1", nil)
	if h != nil {
		r.Header = h
	}
	rec := httptest.NewRecorder()
	mustNew(t, o).Refuse(rec, r, ref)
	return rec.Result()
}

func rate(wait time.Duration, levels ...sluice.Level) *sluice.Refusal {
	ref := &sluice.Refusal{Reason: sluice.ReasonRate, RetryAfter: wait, Levels: levels}
	for _, l := range levels {
		if l.Refused {
			ref.Violated = append(ref.Violated, l.Rule)
		}
	}
	if len(ref.Violated) > 0 {
		ref.Rule = ref.Violated[0]
	}
	return ref
}

func TestRetryAfter(t *testing.T) {
	tests := []struct {
		name string
		ref  sluice.Refusal
		want string
	}{
		{"7.3 I-069 race", sluice.Refusal{Reason: sluice.ReasonRate}, "1"},
		{"7.3 1 ms", sluice.Refusal{Reason: sluice.ReasonRate, RetryAfter: time.Millisecond}, "1"},
		{"7.3 999 ms", sluice.Refusal{Reason: sluice.ReasonRate, RetryAfter: 999 * time.Millisecond}, "1"},
		{"7.3 1 s", sluice.Refusal{Reason: sluice.ReasonRate, RetryAfter: time.Second}, "1"},
		{"7.3 1.001 s", sluice.Refusal{Reason: sluice.ReasonRate, RetryAfter: 1001 * time.Millisecond}, "2"},
		{"7.3 59 s", sluice.Refusal{Reason: sluice.ReasonRate, RetryAfter: 59 * time.Second}, "59"},
		{"7.3 59.0001 s", sluice.Refusal{Reason: sluice.ReasonRate, RetryAfter: 59*time.Second + 100*time.Microsecond}, "60"},
		{"7.3 never", sluice.Refusal{Reason: sluice.ReasonDenied, Permanent: true, RetryAfter: time.Second}, ""},
		{"I-066 seconds", sluice.Refusal{Reason: sluice.ReasonRate, RetryAfter: time.Minute}, "60"},
		{"I-068 P-032 no fraction", sluice.Refusal{Reason: sluice.ReasonRate, RetryAfter: 493 * time.Millisecond}, "1"},
		{"I-070 what is left of the window", sluice.Refusal{Reason: sluice.ReasonRate, RetryAfter: 10 * time.Second}, "10"},
		{"P-030 up", sluice.Refusal{Reason: sluice.ReasonRate, RetryAfter: 600 * time.Millisecond}, "1"},
		{"P-033 what is left", sluice.Refusal{Reason: sluice.ReasonRate, RetryAfter: 40 * time.Second}, "40"},
		{"slots", sluice.Refusal{Reason: sluice.ReasonConcurrency}, "1"},
		{"queue", sluice.Refusal{Reason: sluice.ReasonQueueFull}, "1"},
		{"too large", sluice.Refusal{Reason: sluice.ReasonTooLarge}, ""},
		{"invalid", sluice.Refusal{Reason: sluice.ReasonInvalid}, ""},
		{"without overflow", sluice.Refusal{Reason: sluice.ReasonRate, RetryAfter: 1<<63 - 1}, "9223372037"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check(t, refuse(t, Options{}, nil, &tt.ref).Header, map[string]string{"Retry-After": tt.want})
		})
	}
}

func TestRetryAfterGrammar(t *testing.T) {
	grammar := regexp.MustCompile(`^[1-9][0-9]*$`)
	err := quick.Check(func(wait int64) bool {
		wait &= 1<<63 - 1
		got := refuse(t, Options{}, nil, rate(time.Duration(wait))).Header.Get("Retry-After")
		n, err := strconv.ParseInt(got, 10, 64)
		return grammar.MatchString(got) && err == nil && (n == 1 || n-1 < (wait+1e9-1)/1e9 || wait > 1<<62)
	}, nil)
	if err != nil {
		t.Errorf("P-032: %v", err)
	}
}

func TestStoreFailureSpreadsCallers(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		seen[refuse(t, Options{}, nil, &sluice.Refusal{Reason: sluice.ReasonStore}).Header.Get("Retry-After")] = true
	}
	if len(seen) != 5 || !seen["1"] || !seen["5"] {
		t.Errorf("I-126: waits %v, want 1 to 5", seen)
	}
}

func TestRefusalFields(t *testing.T) {
	passing := full(daily)
	passing.Remaining, passing.Next = 5, 3600*time.Second
	tests := []struct {
		name string
		ref  *sluice.Refusal
		want map[string]string
	}{
		{"I-076 fields of both, the wait of the one that refused", rate(7*time.Second, tier, burst), map[string]string{
			"RateLimit": `"tier";r=19, "burst";r=0;t=7`, "RateLimit-Policy": `"tier";q=20;w=2, "burst";q=100;w=60`,
			"Retry-After": "7", "X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "0",
		}},
		{"I-077 P-031 the longest of those that refused", rate(40*time.Second, refused(tier, 3*time.Second), refused(burst, 40*time.Second), passing), map[string]string{
			"Retry-After": "40", "RateLimit": `"tier";r=0;t=3, "burst";r=0;t=40, "daily";r=5`, "X-RateLimit-Limit": "100",
		}},
		{"refused with some left", rate(3*time.Second, sluice.Level{Rule: "x", Kind: algorithm.KindBucket, Limit: 9, Remaining: 2, Next: time.Second, Refused: true}),
			map[string]string{"RateLimit": `"x";r=2;t=1`, "X-RateLimit-Remaining": "2"}},
		{"slots", &sluice.Refusal{Reason: sluice.ReasonConcurrency, Rule: "slots", Levels: []sluice.Level{tier, refused(inside, 0)}}, map[string]string{
			"Retry-After": "1", "X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "0", "RateLimit": `"tier";r=19, "slots";r=0`,
		}},
		{"for good", &sluice.Refusal{Reason: sluice.ReasonDenied, Permanent: true, Levels: []sluice.Level{{Rule: "z", Kind: algorithm.KindBucket, Refused: true}}}, map[string]string{
			"Retry-After": "", "X-RateLimit-Limit": "0", "X-RateLimit-Reset": "", "RateLimit": `"z";r=0`,
		}},
		{"2.8 a failed store has no fields", &sluice.Refusal{Reason: sluice.ReasonStore}, map[string]string{
			"RateLimit": "", "X-RateLimit-Remaining": "", "X-RateLimit-Degraded": "",
		}},
		{"P-040 but for that it failed", &sluice.Refusal{Reason: sluice.ReasonStore, Degraded: true}, map[string]string{
			"RateLimit": "", "X-RateLimit-Remaining": "", "X-RateLimit-Degraded": "true",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check(t, refuse(t, Options{}, nil, tt.ref).Header, tt.want)
		})
	}
}

func TestDegraded(t *testing.T) {
	ref := &sluice.Refusal{Reason: sluice.ReasonStore, Rule: "far", Degraded: true}
	t.Run("P-040 in every body", func(t *testing.T) {
		body, err := io.ReadAll(refuse(t, Options{}, nil, ref).Body)
		if err != nil || !strings.Contains(string(body), `,"degraded":true}`) {
			t.Errorf("%s, %v", body, err)
		}
		if got := refuseRPC(t, RPC{Read: true, IDs: []json.RawMessage{[]byte("1")}}, ref).Body.String(); !strings.Contains(got, `,"degraded":true}}}`) {
			t.Errorf("%s", got)
		}
	})
	t.Run("nothing where there are no fields", func(t *testing.T) {
		h := http.Header{}
		mustNew(t, Options{Families: []Family{}}).MarkDegraded(h)
		if len(h) > 0 {
			t.Errorf("%v", h)
		}
	})
}

func TestEpochRoundsUp(t *testing.T) {
	h := http.Header{}
	mustNew(t, Options{}).setFields(h, report{levels: []sluice.Level{burst}, now: now, refused: true, wait: 5 * time.Second})
	check(t, h, map[string]string{"X-RateLimit-Reset": "1700000006", "Retry-After": "5"}) // I-073, 7.3
}

func TestFieldsAreWrittenOnce(t *testing.T) {
	w := mustNew(t, Options{})
	rec := httptest.NewRecorder()
	rec.Header().Add("RateLimit", "of somebody else")
	w.Annotate(rec.Header(), []sluice.Level{tier}, now)
	w.Annotate(rec.Header(), []sluice.Level{tier}, now)
	w.Refuse(rec, httptest.NewRequest("GET", "/", nil), rate(time.Second, burst))
	for name, values := range rec.Header() {
		if len(values) != 1 {
			t.Errorf("I-072: %s has %q", name, values)
		}
	}
}

// TestOverTheWire has net/http's client and clock judge a refusal of a real server.
func TestOverTheWire(t *testing.T) {
	w := mustNew(t, Options{})
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.Refuse(rw, r, rate(2500*time.Millisecond, refused(tier, 2500*time.Millisecond)))
	}))
	defer srv.Close()
	res, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	date, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		t.Fatalf("I-073: Date: %v", err)
	}
	reset, err := strconv.ParseInt(res.Header.Get("X-RateLimit-Reset"), 10, 64)
	if d := reset - date.Unix(); err != nil || d < 3 || d > 4 {
		t.Errorf("B-15: reset is %d s after Date, want 3 or 4 for a wait of 2.5 s", d)
	}
	if res.StatusCode != 429 || res.Header.Get("Retry-After") != "3" || res.Header.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("B-15: %s %v", res.Status, res.Header)
	}
}
