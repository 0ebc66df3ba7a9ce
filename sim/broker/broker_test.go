package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/mcp/mcptest"
	"github.com/sluicegate/sluice/mcp/provider"
	"github.com/sluicegate/sluice/store/file"
)

const (
	goroutines  = 64
	patience    = 30 * time.Second // of a caller, for an answer
	startWithin = 100 * time.Millisecond
)

// A bound is how many operations may begin in any window, of all callers or of each.
type bound struct {
	most   int
	window time.Duration
	each   bool
}

// The callers ask for more than the first lets, and alice for more than the second.
var bounds = []bound{{300, 900 * time.Millisecond, false}, {320, 1900 * time.Millisecond, true}}

func TestKilledBroker(t *testing.T) {
	total, seed := 2400, seed(t)
	if os.Getenv("ACCEPTANCE") == "full" {
		total = 10_000
	}
	t.Logf("SEED=%d", seed)
	b := newBroker(t, total)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var killing sync.WaitGroup
	b.start()
	killing.Go(func() { b.killAgainAndAgain(ctx) })
	t.Cleanup(func() {
		stop()
		killing.Wait()
		b.kill() // if the test has failed before
	})

	plant := &plant{settled: map[string]string{}}
	p, err := provider.Dial(t.Context(), plant.options(b))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	crowd := &crowd{b: b, t: t, seed: seed, ended: make(chan struct{})}
	crowd.run()
	took := time.Since(began)
	stop()
	killing.Wait()
	p.Close()
	b.stop()

	books := readBooks(t, b.ledger)
	plant.check(t, total, books, b.names)
	t.Logf("%d kills in %.1f s; %d calls, %d of them without an answer but for a closed connection; %d reserved, %d begun, %d settled, %d expired",
		b.kills, took.Seconds(), crowd.calls.Load(), crowd.cut.Load(), len(books), len(plant.begun), books.settled(), len(books)-books.settled())
	if b.kills < 3 {
		t.Errorf("the broker was killed %d times; that proves little", b.kills)
	}
}

// seed is the one of the environment, or a fresh one.
func seed(t *testing.T) uint64 {
	s := os.Getenv("SEED")
	if s == "" {
		return rand.Uint64N(1e9)
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("SEED: %v", err)
	}
	return n
}

// A crowd is the callers.
type crowd struct {
	b          *broker
	t          *testing.T
	seed       uint64
	calls, cut atomic.Int64
	once       sync.Once
	ended      chan struct{} // when nothing is left of the whole run's budget
}

func (c *crowd) run() {
	var group sync.WaitGroup
	for i := range goroutines {
		key := c.b.keys[0]
		if i%4 == 0 {
			key = c.b.keys[1]
		}
		group.Go(func() { c.caller(key, rand.New(rand.NewPCG(c.seed, uint64(i)))) })
	}
	group.Wait()
}

// caller calls the tool, with one to four operations, until the budget is used up.
func (c *crowd) caller(key string, r *rand.Rand) {
	pause := time.NewTimer(0)
	for n := 1; ; n++ {
		select {
		case <-c.ended:
			return
		case <-pause.C:
		}
		text := c.call(key, n, fmt.Sprintf(`{"operations":%d,"ms":%d}`, 1+r.IntN(4), r.IntN(5)))
		if strings.Contains(text, "by rule run: limit-exceeded") {
			c.once.Do(func() { close(c.ended) })
		}
		pause.Reset(time.Duration(r.IntN(40)) * time.Millisecond)
	}
}

// call makes one call and waits for its answer, or for the end of its connection.
func (c *crowd) call(key string, n int, arguments string) string {
	c.calls.Add(1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ask := mcptest.Ask{Header: []string{"X-API-Key: " + key}, Body: string(mcptest.CallTool(strconv.Itoa(n), "run", arguments, "_meta", mcptest.Meta))}.Modern("tools/call", "run")
	reply, err := ask.Send(ctx, "http://"+c.b.address+"/plant/mcp")
	if err == nil {
		defer reply.Close()
		var f *mcptest.Frame
		if f, _, err = reply.Answer(); err == nil {
			if string(f.ID) != strconv.Itoa(n) {
				c.t.Errorf("the answer to %d is %s", n, f.Raw)
			}
			return string(f.Raw)
		}
	}
	if ctx.Err() != nil {
		c.t.Errorf("a call was lost: no answer, and no end of its connection, in %v: %v", patience, err)
	}
	c.cut.Add(1)
	return ""
}

// A plant is the provider, with a backend that counts for itself.
type plant struct {
	mu      sync.Mutex
	begun   []operation
	settled map[string]string // by reservation
}

// An operation is native work that has begun.
type operation struct {
	at          time.Time
	caller      string
	reservation string
}

var errLate = errors.New("the grant has expired")

func (p *plant) options(b *broker) provider.Options {
	return provider.Options{URL: "ws://" + b.address, Slot: "plant", Secret: secret, FirstPause: 20 * time.Millisecond, LongestPause: 200 * time.Millisecond,
		Handler:     &provider.Server{Name: "plant", Version: "1", Tools: []provider.Tool{{Name: "run", Run: p.run}}},
		Declaration: &provider.Declaration{Version: "1", Domain: "plant", Namespace: "/plant", Capabilities: []string{"plant.run"}, BudgetUnits: []string{"op"}}}
}

// run is the tool: it does operations one after the other, each within a budget of its own.
func (p *plant) run(ctx context.Context, q *provider.Request) (*provider.Result, error) {
	var in struct{ Operations, MS int }
	if err := q.Bind(&in); err != nil {
		return nil, err
	}
	caller, ok := q.Caller()
	if !ok {
		return nil, errors.New("the broker does not say who calls")
	}
	for range in.Operations {
		query := provider.Query{Caller: caller, Capability: "plant.run", Resource: "valve:1", Path: "/plant/valve/1", Unit: "op", Quantity: 1}
		id := ""
		err := provider.FromContext(ctx).WithBudget(ctx, query, func(_ context.Context, g *provider.Grant) error {
			id = g.ReservationID
			return p.operate(g, time.Duration(in.MS)*time.Millisecond)
		})
		switch {
		case err == nil:
			p.note(id, provider.Success)
		case errors.Is(err, errLate):
		default:
			return nil, err
		}
	}
	return provider.Text("done"), nil
}

// operate begins native work if the grant still lets it, and counts it at that instant.
func (p *plant) operate(g *provider.Grant, takes time.Duration) error {
	p.mu.Lock()
	now := time.Now()
	valid := g.Valid(now)
	if valid {
		p.begun = append(p.begun, operation{at: now, reservation: g.ReservationID})
	}
	p.mu.Unlock()
	if !valid {
		return errLate
	}
	time.Sleep(takes)
	return nil
}

func (p *plant) note(reservation, result string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settled[reservation] = result
}

// check holds what the backend has counted to the rules and to the ledger.
func (p *plant) check(t *testing.T, total int, books books, names map[string]string) {
	t.Helper()
	if len(books) != total {
		t.Errorf("the ledger has %d reservations, the rule over the run lets %d", len(books), total)
	}
	for i := range p.begun {
		o := &p.begun[i]
		r, ok := books[o.reservation]
		if !ok {
			t.Errorf("an operation began with a reservation that the ledger does not know: %s", o.reservation)
			continue
		}
		o.caller = names[r.identity]
	}
	for id, result := range p.settled {
		if r := books[id]; r.result != result {
			t.Errorf("%s is settled as %q in the ledger; the provider was told %q", id, r.result, result)
		}
	}
	for id, r := range books {
		if r.result == "" && !r.expired {
			t.Errorf("reservation %s is neither settled nor expired", id)
		}
	}
	slices.SortFunc(p.begun, func(a, b operation) int { return a.at.Compare(b.at) })
	for _, rule := range bounds {
		for who, list := range p.by(rule.each) {
			if most, at := densest(list, rule.window); most > rule.most {
				t.Errorf("%d operations of %q began in %v, at most %d may: from %v on", most, who, rule.window, rule.most, at)
			} else {
				t.Logf("at most %d of %d operations of %q in any %v", most, rule.most, cmp.Or(who, "all"), rule.window)
			}
		}
	}
}

// by are the instants at which operations began, of each caller or of all.
func (p *plant) by(each bool) map[string][]time.Time {
	list := map[string][]time.Time{}
	for _, o := range p.begun {
		who := ""
		if each {
			who = o.caller
		}
		list[who] = append(list[who], o.at)
	}
	return list
}

// densest returns how many of some sorted instants lie in a window at most, and where that
// begins. One that ends exactly where another begins is in the next.
func densest(list []time.Time, window time.Duration) (most int, from time.Time) {
	first := 0
	for i, at := range list {
		for at.Sub(list[first]) >= window {
			first++
		}
		if n := i - first + 1; n > most {
			most, from = n, list[first]
		}
	}
	return most, from
}

// books are the reservations in the ledger, by their ids.
type books map[string]reservation

type reservation struct {
	identity string
	result   string // empty until it is settled
	expired  bool
}

func (b books) settled() (n int) {
	for _, r := range b {
		if r.result != "" {
			n++
		}
	}
	return n
}

// outcomes are the results as the broker keeps them.
var outcomes = map[uint8]string{1: "success", 2: "failure", 3: "refused"}

// readBooks reads the ledger of a broker that has ended.
func readBooks(t *testing.T, path string) books {
	t.Helper()
	time.Sleep(startWithin) // so that what is not settled has expired
	store, err := file.Open(path, file.Options{MaxRecords: maxRecords})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	found := books{}
	for r, err := range store.Records(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		var note struct{ ReservationID, Identity string }
		if json.Unmarshal(r.Note, &note) == nil && note.ReservationID != "" {
			found[note.ReservationID] = reservation{note.Identity, resultOf(&r.Record), r.Expires <= r.Now}
		}
	}
	return found
}

func resultOf(r *ledger.Record) string {
	if !r.Settled {
		return ""
	}
	return outcomes[r.Outcome]
}

func TestDensest(t *testing.T) {
	at := func(ms ...int) (list []time.Time) {
		for _, n := range ms {
			list = append(list, time.UnixMilli(int64(n)))
		}
		return list
	}
	for _, c := range []struct {
		list []time.Time
		want int
	}{{nil, 0}, {at(0), 1}, {at(0, 99), 2}, {at(0, 100), 1}, {at(0, 50, 100, 149), 3}, {at(0, 0, 0, 500), 3}} {
		if got, _ := densest(c.list, 100*time.Millisecond); got != c.want {
			t.Errorf("%v: %d, want %d", c.list, got, c.want)
		}
	}
}

// write writes a file of the broker's.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
