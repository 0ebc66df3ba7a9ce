package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/admin/tally"
)

// events opens the stream and returns a function that reads its next event.
func (w *world) events(ctx context.Context) (next func() (name string, s snapshot), status int) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", w.url+"/api/v1/stream", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return func() (name string, s snapshot) {
		for lines.Scan() && lines.Text() != "" {
			if rest, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = rest
			}
			if rest, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(rest), &s); err != nil {
					w.t.Error(err)
				}
			}
		}
		return name, s
	}, resp.StatusCode
}

func TestStream(t *testing.T) {
	w := newWorld(t, nil)
	w.exhaust("ip:203.0.113.9")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	next, _ := w.events(ctx)
	name, first := next()
	if name != "snapshot" || len(first.Series) != 300 || len(first.Rules) != 2 || len(first.Rules[0].Spark) != 60 {
		t.Fatalf("the first event is %q with %d seconds", name, len(first.Series))
	}
	if len(first.Recent) != 2 || first.Recent[0].Subject != "ip:203.0.113.9" || first.Recent[0].Rule != "tier-standard" {
		t.Errorf("recent decisions are %+v", first.Recent)
	}
	go w.admin.Run(ctx)
	w.call("ip:203.0.113.9")
	name, tick := next()
	if name != "tick" || len(tick.Series) != 1 || len(tick.Rules[0].Spark) != 1 {
		t.Fatalf("the second event is %q with %d seconds, want a tick with one", name, len(tick.Series))
	}
	if tick.Series[0][4] == 0 || tick.Outcomes[4] != "refused" || len(tick.Talkers) != 1 {
		t.Errorf("the tick has %v and %v", tick.Series, tick.Talkers)
	}
	if _, later := next(); len(later.Recent) != 0 {
		t.Errorf("a decision is sent twice: %+v", later.Recent)
	}
	cancel()
}

func TestStreamsAreBounded(t *testing.T) {
	w := newWorld(t, func(_ *world, o *Options) { o.MaxStreams = 2 })
	for i, want := range []int{200, 200, 503} {
		if _, got := w.events(t.Context()); got != want {
			t.Errorf("stream %d got %d, want %d", i+1, got, want)
		}
	}
	w.want(503, "Close one", "GET", "/api/v1/stream", "")
	w.want(200, `"talkers":[`, "GET", "/api/v1/snapshot", "")
}

func TestStreamsEndWithRun(t *testing.T) {
	w := newWorld(t, nil)
	next, _ := w.events(t.Context())
	next()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.admin.Run(ctx)
	if name, _ := next(); name != "" {
		t.Errorf("after Run has ended the stream sends %q", name)
	}
	if _, status := w.events(t.Context()); status != 503 {
		t.Errorf("a new stream gets %d, want 503", status)
	}
}

func TestASlowPageHoldsUpNobody(t *testing.T) {
	var h hub
	h.max = 2
	slow, leave, _ := h.join()
	defer leave()
	for range 10 {
		done := make(chan bool)
		go func() {
			h.send(func(seq, _ uint64) ([]byte, uint64) { return []byte{byte(seq)}, 0 })
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatal("send waits for a page that does not read")
		}
	}
	if len(slow) != cap(slow) {
		t.Errorf("the slow page has %d events", len(slow))
	}
}

func TestObserveWhileEverythingReads(t *testing.T) {
	tr := newTraffic()
	a, err := New(tr.options())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for c := range 4 {
		wg.Go(func() {
			mine := newTraffic()
			for s := range 10 {
				mine.second(a, 121+s)
			}
			if c == 0 {
				a.tally.Sample(time.Now())
				a.talkers.Tick()
				a.recent.Tick()
			}
		})
	}
	for _, path := range []string{"/metrics", "/api/v1/snapshot", "/actuator/ratelimits"} {
		wg.Go(func() {
			for range 5 {
				r := httptest.NewRequest("GET", "http://localhost"+path, nil)
				r.RemoteAddr = "127.0.0.1:1"
				w := httptest.NewRecorder()
				a.Handler().ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					t.Errorf("%s: %d %s", path, w.Code, w.Body)
				}
			}
		})
	}
	wg.Wait()
	want := countsOf(t, tr, 4)
	if got := a.tally.Overall(); got != want {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// countsOf returns what times the same ten seconds of traffic count, one after the other.
func countsOf(t *testing.T, tr *traffic, times int) tally.Counts {
	t.Helper()
	a, err := New(tr.options())
	if err != nil {
		t.Fatal(err)
	}
	for range times {
		alone := newTraffic()
		for s := range 10 {
			alone.second(a, 121+s)
		}
	}
	return a.tally.Overall()
}

func TestLabels(t *testing.T) {
	for _, c := range []struct{ identity, plain, masked string }{
		{"apikey:7f3a1c9e04d2b86fa1530c97e2d84b6f", "apikey:7f3a1c9e…", "apikey:7f3a1c9e…"},
		{"ip:203.0.113.9", "ip:203.0.113.9", "ip:203.0.113.×"},
		{"ip:2001:db8:1:2::/64", "ip:2001:db8:1:2::/64", "ip:2001:db8:×"},
		{"ip:unix", "ip:unix", "ip:×"},
		{"user:grace", "user:grace", "user:gr…"},
		{"plain", "plain", "pl…"},
		{"user:a\nb\x00", `user:a\nb\x00`, `user:a\n…`},
		{"user:\u202eevil", `user:\u202eevil`, `user:\u202ee…`},
		{"user:\xff", `user:\xff`, `user:\xff…`},
		{`user:"<img src=x onerror=alert(1)>`, `user:"<img src=x onerror=alert(1)>`, `user:"<…`},
	} {
		var a Admin
		if got := a.Label(c.identity); got != c.plain {
			t.Errorf("%q is shown as %q, want %q", c.identity, got, c.plain)
		}
		a.opts.Mask = true
		if got := a.Label(c.identity); got != c.masked {
			t.Errorf("%q is masked as %q, want %q", c.identity, got, c.masked)
		}
	}
}

func TestMaskedTalkersHaveNoKey(t *testing.T) {
	w := newWorld(t, func(_ *world, o *Options) { o.Mask = true })
	w.exhaust("ip:203.0.113.9")
	_, text := w.ask("GET", "/api/v1/snapshot", "")
	if strings.Contains(text, "203.0.113.9") || !strings.Contains(text, "203.0.113.×") {
		t.Errorf("the page is told more than it may show: %s", text)
	}
}

// What would let text become markup or script, or fetch from elsewhere.
var dangerous = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|javascript:| style="| on[a-z]+="|https?://`)

func TestPageMakesNoMarkupOfText(t *testing.T) {
	for path, file := range assets {
		text := strings.ReplaceAll(string(file.body), "http://www.w3.org/2000/svg", "")
		if found := dangerous.FindString(text); found != "" {
			t.Errorf("%s has %q", path, found)
		}
	}
}

func TestPageFilesAreCachedByTag(t *testing.T) {
	w := newWorld(t, nil)
	resp, body := w.ask("GET", "/app.js", "")
	if resp.Header.Get("Content-Type") != "text/javascript; charset=utf-8" || body == "" {
		t.Errorf("app.js is %s", resp.Header)
	}
	w.want(304, "", "GET", "/app.js", "", "If-None-Match: "+resp.Header.Get("ETag"))
}
