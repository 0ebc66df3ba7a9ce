// Package mcp is a broker between MCP clients and MCP servers: it decides which calls may
// start, passes them on byte for byte, and knows what holds what until the work has ended.
//
// A provider has a [Slot], whether the broker calls it or it dials in. A client has a
// [Session] at a slot. Each of its requests is a call, from its arrival until nobody works
// on it any more; see call.go, which is the place to begin reading.
//
// The transports are packages of their own: mcp/front for clients, mcp/link for providers.
package mcp

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/cache"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/policy"
)

// Errors of a Broker.
var (
	ErrNoSlot   = errors.New("mcp: there is no such slot")
	ErrStopping = errors.New("mcp: the broker is stopping")
)

var errClosed = errors.New("mcp: the connection has ended")

// The broker's own slots.
const (
	AllSlot    = policy.AllSlot    // the tools of all providers
	BrokerSlot = policy.BrokerSlot // the broker's own
)

// Bounds of what one client may have under way.
const (
	maxUnderWay      = 1000
	maxQuestions     = 100
	maxSubscriptions = 1000
	maxURI           = 8 << 10 // bytes of what a client subscribes to
)

// maxSlots bounds the slots, those that providers dial into included.
const maxSlots = 1000

// HTTP statuses that answers go out with.
const (
	okStatus         = 200
	acceptedStatus   = 202
	badRequestStatus = 400
)

const (
	codeInvalidRequest = jsonrpc.InvalidRequest
	codeInvalidParams  = jsonrpc.InvalidParams
)

// A Broker is safe for concurrent use.
type Broker struct {
	// What never changes.
	ctl      *sluice.Controller
	log      *slog.Logger
	process  string // a UUID of its own, which its ids have in them
	info     map[string]string
	infoJSON json.RawMessage // the same
	audit    func(audit.Event)
	grace    time.Duration
	started  time.Time
	durable  bool
	fault    func() string
	secret   []byte

	ctx      context.Context // until the connections end
	cancel   context.CancelFunc
	stopping chan struct{} // closed when Close begins
	running  sync.WaitGroup

	reloading sync.Mutex // held by one Reload at a time
	options   atomic.Pointer[Options]
	holdTimes atomic.Pointer[holdTimes]
	number    atomic.Uint64 // of the latest id

	mu      sync.RWMutex
	slots   map[string]*slot
	telling *time.Timer // runs while the clients of _all are about to be told

	// Tables with locks of their own.
	calls        calls
	sessions     sessions
	tasks        tasks
	owners       owners
	parking      parking
	callers      callers
	awaited      awaited
	declarations policy.Declarations
	cache        *cache.Cache
	recent       recent // events
	refusals     recent // those of calls that were not let through, which many others would wash away
}

// New makes a broker and starts to connect its providers. Closing it does not close ctl.
func New(ctl *sluice.Controller, o Options) (*Broker, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Name == "" {
		o.Name, o.Version = "sluice", "dev"
	}
	if o.Secret == nil {
		o.Secret = []byte(rand.Text())
	}
	if o.StoreFault == nil {
		o.StoreFault = func() string { return "" }
	}
	b := &Broker{ctl: ctl, started: time.Now(), durable: o.Durable, fault: o.StoreFault, log: o.Logger, process: newUUID(), audit: o.Audit, grace: o.Grace,
		secret: o.Secret, info: map[string]string{"name": o.Name, "version": o.Version}, stopping: make(chan struct{}), slots: map[string]*slot{}}
	b.infoJSON, _ = json.Marshal(b.info)
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.calls.by, b.tasks.by, b.sessions.by = map[string]*call{}, map[taskKey]*task{}, map[*slot]map[*Session]bool{}
	b.parking = parking{secret: o.Secret, by: map[string]*call{}}
	b.owners.init()
	b.callers.init()
	b.cache = cache.New(cache.Options{MaxBytes: o.CacheBytes})
	b.slots[AllSlot] = &slot{b: b, name: AllSlot, all: true}
	b.slots[AllSlot].options.Store(&Slot{Name: AllSlot})
	b.slots[BrokerSlot] = b.newBuiltin()
	if err := b.Reload(o); err != nil {
		b.cancel()
		return nil, err
	}
	b.running.Go(b.sweep)
	return b, nil
}

func (b *Broker) settings() *Options { return b.options.Load() }

// slotNamed returns a slot that clients may connect to.
func (b *Broker) slotNamed(name string) *slot {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.slots[name]
}

// dialledSlot returns the slot that a provider wants to dial into, made if the policy lets
// it serve there.
func (b *Broker) dialledSlot(name string, who *policy.Principal) *slot {
	b.mu.Lock()
	defer b.mu.Unlock()
	sl := b.slots[name]
	switch {
	case sl != nil && sl.builtin == nil && !sl.all && !sl.dials():
	case sl != nil || !slotName.MatchString(name) || len(b.slots) >= maxSlots:
		return nil
	}
	if !b.mayServe(who, name) {
		return nil
	}
	if sl == nil {
		sl = b.place(Slot{Name: name, RequestTimeout: b.settings().DialledTimeout})
		b.slots[name] = sl
	}
	return sl
}

// providers are the slots of providers, by name.
func (b *Broker) providers() []*slot {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var list []*slot
	for _, sl := range b.slots {
		if sl.builtin == nil && !sl.all {
			list = append(list, sl)
		}
	}
	sortSlots(list)
	return list
}

// nextID is the id of a request of this process: no record of an earlier one can be taken
// for it.
func (b *Broker) nextID() jsonrpc.ID {
	return jsonrpc.StringID("brk-" + b.process + "-" + strconv.FormatUint(b.number.Add(1), 10))
}

// newUUID draws a UUID of version 4 (RFC 9562, 5.4).
func newUUID() string {
	var u [16]byte
	_, _ = rand.Read(u[:])
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Close stops the broker: it takes no more sessions, waits for calls that are under way as
// long as the grace and ctx allow, and ends the connections. Calls that hold slots by then
// stay in the ledger, where an operator finds them.
func (b *Broker) Close(ctx context.Context) {
	if !b.sessions.stop() {
		return
	}
	close(b.stopping)
	within, cancel := context.WithTimeout(ctx, b.grace)
	defer cancel()
	b.calls.drain(within)
	b.cancel()
	for _, sl := range b.providers() {
		sl.end()
	}
	b.running.Wait()
}

// note tells the audit, and keeps what went wrong lately for diagnosis.
func (b *Broker) note(e audit.Event) {
	e.Time = time.Now()
	b.recent.add(&e)
	switch e.Outcome {
	case audit.Denied, audit.Invalid, audit.Refused, audit.Dropped:
		b.refusals.add(&e)
	}
	if b.audit != nil {
		b.audit(e)
	}
}

func pick[T any](yes bool, a, b T) T {
	if yes {
		return a
	}
	return b
}

// clip bounds a text of others' in a message of ours.
func clip(s string) string {
	if len(s) > 64 {
		s = s[:64]
	}
	return strconv.Quote(s)[1 : len(strconv.Quote(s))-1]
}
