package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/llm"
	"github.com/sluicegate/sluice/llm/llmtest"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// A crowd asks three replicas of the gateway for more than two providers give.
type crowd struct {
	seed      uint64
	minute    time.Duration // what counts as a minute for the providers
	guard     time.Duration // by which it is longer for the gateway
	span      time.Duration // how long they ask; the first provider dies in the middle
	least     float64       // of its limit that a provider has to be used
	gates     []string
	providers []*llmtest.Provider
	whole     atomic.Int64 // answers that came to their end
	left      atomic.Int64 // clients that hung up
	refused   atomic.Int64
	cut       atomic.Int64
}

const (
	crowdCallers = 200
	crowdTokens  = 100_000 // a minute, at each provider
	crowdBurst   = 5_000   // of these at once
	crowdSlots   = 60
)

// crowdFile is the configuration of the replicas. The window is the limit. It is a little longer
// than the providers' minute: what is taken here comes to them later, and not all equally late.
// The bucket spreads over the minute what would all come at its beginning.
const crowdFile = `
listen: {llm: "127.0.0.1:1", admin: "127.0.0.1:2"}
observability: {logLevel: error}
store:
  backend: redis
  redis: {uri: %q, keySecret: "${CROWD_SECRET}", silence: 3s, wait: 1s, processes: 3}
llm:
  anonymous: true
  queueTimeoutMs: 0
  providers:
    first: {baseUrl: %q, keys: ["${CROWD_SECRET}"], maxConcurrentCalls: %d}
    second: {baseUrl: %q, keys: ["${CROWD_SECRET}"], maxConcurrentCalls: %[3]d}
  models:
    "*": {targets: [{provider: first}, {provider: second}]}
rules:
  - id: tpm
    match: {kind: llm-attempt}
    groupBy: [provider]
    queue: {}
    limits:
      - {name: any-minute, window: %[5]d/%[6]dms, unit: tokens}
      - {name: evenly, bucket: %[5]d/%[6]dms burst %[7]d, unit: tokens}
`

// TestNeverOverTokens is the acceptance of the gateway: 200 callers, three processes on one
// Redis, mixed sizes, all streamed; one client in ten hangs up, one attempt in twenty meets a
// 429, and one of two providers dies. What the providers count is never more than the limit in
// any minute, and little less. ACCEPTANCE=full lets a minute be one; else it is six seconds, of
// which what is reserved for a moment, and what a busy machine delays, is ten times as much.
func TestNeverOverTokens(t *testing.T) {
	c := &crowd{seed: seed(t), minute: 6 * time.Second, guard: 500 * time.Millisecond, span: 20 * time.Second, least: 0.8}
	if os.Getenv("ACCEPTANCE") == "full" {
		c.minute, c.span, c.least = time.Minute, 4*time.Minute, 0.95
	}
	t.Logf("SEED=%d; a minute is %v", c.seed, c.minute)
	t.Setenv("CROWD_SECRET", "the same in all of the three replicas")
	var servers []*httptest.Server
	for i := range uint64(2) {
		c.providers = append(c.providers, llmtest.New(llmtest.Options{Plan: c.plan(i)}))
		servers = append(servers, httptest.NewServer(c.providers[i]))
		t.Cleanup(servers[i].Close)
	}
	file := filepath.Join(t.TempDir(), "crowd.yaml")
	text := fmt.Sprintf(crowdFile, "redis://"+redistest.Start(t).Addr, servers[0].URL+"/v1", crowdSlots, servers[1].URL+"/v1",
		crowdTokens, (c.minute + c.guard).Milliseconds(), crowdBurst)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		gate, admin := freeAddress(t), freeAddress(t)
		cmd := exec.Command("sluice", "serve", "--config", file, "--set", "listen.llm="+gate, "--set", "listen.admin="+admin)
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
		background(t, cmd, "http://"+admin+"/actuator/health")
		c.gates = append(c.gates, "http://"+gate)
	}
	began := time.Now()
	died := make(chan time.Time, 1)
	time.AfterFunc(c.span/2, func() {
		died <- time.Now()
		servers[0].CloseClientConnections()
		servers[0].Close()
	})
	c.ask(t)
	ended := time.Now()
	c.print(t)
	c.check(t, 0, began.Add(c.minute), <-died)
	c.check(t, 1, began.Add(c.minute), ended)
	nothingLeft(t, file, c.minute+c.guard)
}

func seed(t *testing.T) uint64 {
	if n, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		return n
	}
	return uint64(time.Now().UnixNano())
}

// plan is what a provider does: it streams most of what was asked for within a fiftieth of a
// minute, and refuses one request in twenty.
func (c *crowd) plan(provider uint64) func(*llmtest.Request) llmtest.Plan {
	return func(q *llmtest.Request) llmtest.Plan {
		r := rand.New(rand.NewPCG(c.seed+provider, uint64(q.N)))
		if r.IntN(20) == 0 {
			return llmtest.Plan{Status: http.StatusTooManyRequests, RetryAfter: c.minute / 100}
		}
		return llmtest.Plan{Output: q.Output * (80 + r.Int64N(21)) / 100, Chunks: 10, Between: c.minute / 500}
	}
}

// ask lets the callers loose until their time is up, and returns when all have ended.
func (c *crowd) ask(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), c.span)
	defer cancel()
	var all sync.WaitGroup
	for i := range crowdCallers {
		r := rand.New(rand.NewPCG(c.seed, 1000+uint64(i)))
		all.Go(func() {
			for ctx.Err() == nil {
				c.once(ctx, r, c.gates[i%len(c.gates)])
			}
		})
	}
	all.Wait()
}

// once asks once, and leaves in the middle of one answer in ten.
func (c *crowd) once(ctx context.Context, r *rand.Rand, gate string) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	body := fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":%d,"messages":[{"role":"user","content":%q}]}`,
		50+r.IntN(600), strings.Repeat("the quick brown fox ", 5+r.IntN(150)))
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, gate+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return // the time is up
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		c.refused.Add(1)
		ms, _ := strconv.Atoi(a.Header.Get("Retry-After-Ms")) // without one it is asked again at once
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
		case <-ctx.Done():
		}
		return
	}
	lines := bufio.NewScanner(a.Body)
	if r.IntN(10) == 0 {
		for range 8 {
			lines.Scan()
		}
		c.left.Add(1)
		return
	}
	done := false
	for lines.Scan() {
		done = done || lines.Text() == "data: [DONE]"
	}
	if done {
		c.whole.Add(1)
	} else if ctx.Err() == nil {
		c.cut.Add(1)
	}
}

func (c *crowd) print(t *testing.T) {
	t.Logf("%d answers whole, %d clients hung up, %d answers cut as their provider died, %d refusals", c.whole.Load(), c.left.Load(), c.cut.Load(), c.refused.Load())
	if c.whole.Load() == 0 || c.left.Load() == 0 {
		t.Error("nothing was asked")
	}
}

// check compares what a provider has counted with its limit: in any minute, and on average
// between two instants.
func (c *crowd) check(t *testing.T, provider int, from, to time.Time) {
	most, sum, limited := c.providers[provider].MostTokens(c.minute), int64(0), 0
	for _, s := range c.providers[provider].Served() {
		if s.Status == http.StatusTooManyRequests {
			limited++
		}
		if !s.Began.Before(from) && s.Began.Before(to) {
			sum += s.Input + s.Output
		}
	}
	peak := float64(most) / crowdTokens
	mean := float64(sum) / crowdTokens / (float64(to.Sub(from)) / float64(c.minute))
	t.Logf("provider %d: %d requests, %d of them refused with 429; tokens ÷ limit: at most %.4f in any minute, %.4f on average", provider+1,
		c.providers[provider].Requests(), limited, peak, mean)
	if peak > 1 {
		t.Errorf("provider %d has served %d tokens within %v, and its limit is %d", provider+1, most, c.minute, crowdTokens)
	}
	if mean < c.least {
		t.Errorf("provider %d was used to %.3f of its limit, want %.2f", provider+1, mean, c.least)
	}
}

// nothingLeft waits for a minute to pass, and looks with a process of its own whether every
// limit is whole again: no slot is held, and no token is taken or reserved.
func nothingLeft(t *testing.T, file string, minute time.Duration) {
	t.Helper()
	source := source{files: []string{file}}
	c, err := source.loadAloud(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	books, err := openStore(&c.Store, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer books.Close()
	control, err := sluice.Open(c.Policy(), books.Store, sluice.Options{KeySecret: books.secret})
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	free := func() (all bool, what string) {
		all = true
		for _, name := range []string{"first", "second"} {
			e, err := control.Check(t.Context(), sluice.Call{Kind: llm.KindAttempt, Provider: name, Credential: "key-1"})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range e.Rules {
				for _, l := range r.Limits {
					all = all && l.Level.Remaining >= l.Level.Limit
					what += fmt.Sprintf("%s %s %s: %d of %d\n", name, r.Rule, l.Level.Name, l.Level.Remaining, l.Level.Limit)
				}
			}
		}
		return all, what
	}
	for deadline := time.Now().Add(minute + patience); ; time.Sleep(50 * time.Millisecond) {
		all, what := free()
		if all {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("something is taken still:\n%s", what)
		}
	}
}
