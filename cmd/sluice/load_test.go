package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// served runs a program in this process until the test ends. It returns where the gate
// and the administration listen.
func served(t *testing.T, file string) (gate, admin string) {
	t.Helper()
	return servedAt(t, "gate", file)
}

// servedAt is served, of another surface than the gate.
func servedAt(t *testing.T, surface, file string) (at, admin string) {
	t.Helper()
	at, admin = freeAddress(t), freeAddress(t)
	var out, log bytes.Buffer // a file each: nobody serialises two who write to one
	p := &program{
		source:  source{files: []string{file}, set: []string{"listen." + surface + "=" + at, "listen.admin=" + admin}},
		streams: streams{&out, &log},
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the program ends with %v", err)
		}
		if t.Failed() {
			t.Logf("the program says:\n%s%s", &out, &log)
		}
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if text, err := ask("GET", "http://"+admin+"/actuator/health", http.Header{}); err == nil && strings.Contains(text, "UP") {
			return "http://" + at, "http://" + admin
		}
		if time.Now().After(deadline) {
			t.Fatal("the program does not get ready")
		}
	}
}

// A site writes the configuration of the test anew.
type site struct{ path string }

// write replaces the file as a whole, so that no reader sees half of it.
func (s site) write(t *testing.T, narrow string) {
	t.Helper()
	text := fmt.Sprintf(`
upstreams: [{name: demo, url: "demo:"}]
identity: {preAuth: 1000000/s}
headers: legacy-epoch
defaultTier: anonymous
tiers: {anonymous: 1000000/s}
endpoints:
  - {pathPattern: /counted, limit: 1/d burst 1000, replace: true}
  - {pathPattern: /spent, limit: 10/d, replace: true}
  - {pathPattern: /narrow, limit: %s, replace: true}
`, narrow)
	if err := os.WriteFile(s.path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.path+".new", s.path); err != nil {
		t.Fatal(err)
	}
}

// TestReloadUnderLoad changes limits a hundred times while requests come. No request
// fails, no counter is reset, and a lowered limit holds for the very next request.
// RELOAD_RATE sets the requests a second; the figure of the issue is 10000.
func TestReloadUnderLoad(t *testing.T) {
	rate := 500
	if text := os.Getenv("RELOAD_RATE"); text != "" {
		var err error
		if rate, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	s := site{filepath.Join(t.TempDir(), "sluice.yaml")}
	s.write(t, "1000/d")
	gate, admin := served(t, s.path)
	status := func(path string) int { return get(t, gate+path).StatusCode }
	for range 20 {
		status("/narrow")
		status("/spent")
	}

	attacker := vegeta.NewAttacker(vegeta.MaxWorkers(64), vegeta.Timeout(10*time.Second))
	target := vegeta.NewStaticTargeter(vegeta.Target{Method: "GET", URL: gate + "/load"})
	results := attacker.Attack(target, vegeta.Rate{Freq: rate, Per: time.Second}, 0, "load")
	var m vegeta.Metrics
	const reloads = 100
	for i := range reloads {
		for range rate / 20 { // so many requests come between two reloads
			m.Add(<-results)
		}
		narrow, want := "5/d", http.StatusTooManyRequests
		if i%2 == 1 {
			narrow, want = "1000/d", http.StatusOK
		}
		s.write(t, narrow)
		if res := post(t, admin+"/actuator/reload"); res.StatusCode != http.StatusOK {
			t.Fatalf("reload %d answers %s", i, res.Status)
		}
		if got := status("/narrow"); got != want {
			t.Errorf("I-117 after reload %d to %s the next request gets %d, want %d", i, narrow, got, want)
		}
		if got := status("/spent"); got != http.StatusTooManyRequests {
			t.Errorf("I-116 after reload %d a spent limit answers %d, want 429", i, got)
		}
		left, want := get(t, gate+"/counted").Header.Get("X-RateLimit-Remaining"), 1000-1-i
		if left != strconv.Itoa(want) {
			t.Errorf("after reload %d a counter has %s left, want %d", i, left, want)
		}
	}
	attacker.Stop()
	for r := range results {
		m.Add(r)
	}
	m.Close()
	if m.Success < 1 {
		t.Errorf("of %d requests %.4f %% failed: %v, %v", m.Requests, 100*(1-m.Success), m.StatusCodes, m.Errors)
	}
	t.Logf("%d requests at %.0f/s (%.0f/s asked) over %d reloads in %v; p50 %v, p99 %v, max %v", m.Requests, m.Throughput, float64(rate),
		reloads, m.Duration.Round(time.Millisecond), m.Latencies.P50, m.Latencies.P99, m.Latencies.Max)
}

func get(t *testing.T, url string) *http.Response  { t.Helper(); return do(t, http.MethodGet, url) }
func post(t *testing.T, url string) *http.Response { t.Helper(); return do(t, http.MethodPost, url) }

// do sends a request and reads the whole answer.
func do(t *testing.T, method, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return res
}

// TestReloadMovesAListener opens the new address before it closes the old one, lets
// connections go on, and keeps everything as it was if the new address is taken.
func TestReloadMovesAListener(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	write := func(gate string) {
		text := fmt.Sprintf("listen: {gate: %q}\nupstreams: [{name: demo, url: \"demo:\"}]\n", gate)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second, admin := freeAddress(t), freeAddress(t), freeAddress(t)
	write(first)
	p := &program{source: source{files: []string{path}, set: []string{"listen.admin=" + admin}}, streams: streams{&bytes.Buffer{}, &bytes.Buffer{}}}
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, f := range p.fronts {
		p.accept(f, f.listener)
	}
	get(t, "http://"+first)

	squatter, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	write(squatter.Addr().String())
	if err := p.Reload("the test"); err == nil || !strings.Contains(err.Error(), "another process does already") {
		t.Errorf("a reload to a taken address returns %v", err)
	}
	get(t, "http://"+first)

	write(second)
	if err := p.Reload("the test"); err != nil {
		t.Fatal(err)
	}
	get(t, "http://"+second)
	if res := get(t, "http://"+first); res.StatusCode != http.StatusOK { // on the connection that is there
		t.Errorf("a connection that was accepted before the move gets %s", res.Status)
	}
	http.DefaultClient.CloseIdleConnections()
	if _, err := ask("GET", "http://"+first, http.Header{}); err == nil {
		t.Error("the old address still accepts connections")
	}
}
