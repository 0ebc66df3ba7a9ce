package bench

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/sluicegate/sluice/store/redis/redistest"
)

// A quota is what a row is told to enforce: n units every per, at most burst at once.
type quota struct {
	n     int64
	per   time.Duration
	burst int64
}

// Every peer gets the same quotas, so that none is cheaper by configuration.
var (
	free  = quota{1_000_000_000, time.Second, 1_000_000_000} // grants every decision
	spent = quota{1, time.Hour, 1}                           // refuses all but the first
	slow  = quota{100, time.Hour, 100}                       // keeps a touched key busy for 36 s
	deep  = quota{1, time.Second, 1_000_000_000}             // grants every decision, and keeps each key busy
)

// every returns the time between two units.
func (q quota) every() time.Duration { return q.per / time.Duration(q.n) }

// A contestant is one row: a limiter, or a floor. It fills in what it can do and
// leaves the rest nil.
type contestant struct {
	name string

	// keyed returns a limiter by key; each goroutine asks through its own worker,
	// which reports whether one unit was granted.
	keyed func(testing.TB, quota) worker

	unkeyed  bool // keyed ignores its key: only workloads of one key apply
	blocks   bool // waits rather than refuses: no refusal to measure
	windowed bool // counts in fixed windows: its accuracy is another question

	// remote is keyed with books that several processes can share: in that server, if the
	// row keeps them there.
	remote func(testing.TB, *redistest.Server, quota) worker
	// elsewhere: the books of remote are not in the server.
	elsewhere bool

	// slots returns a worker that takes one of n slots and gives it back.
	slots func(tb testing.TB, n int64) func() func() bool

	// pace returns a function that waits for the caller's turn.
	pace func(tb testing.TB, perSecond int) func(context.Context) error
	// lead is how many calls pace lets go at once at the start; zero is one.
	lead func(perSecond int) int

	// guard is net/http middleware that limits by client address.
	guard func(quota, http.Handler) http.Handler

	// proxy is a limiting reverse proxy. Nil is guard in front of the bare one.
	proxy func(quota, *url.URL) http.Handler
}

// A worker makes one goroutine's way to ask.
type worker func() func(key string) bool

// shared is the worker of a limiter without memory per goroutine.
func shared(allow func(key string) bool) worker {
	return func() func(string) bool { return allow }
}

var contestants []contestant

// enter adds a row. Each file of a peer calls it once for each way to use the peer.
func enter(c contestant) { contestants = append(contestants, c) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
