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
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/resource"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/cache"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/mcp/protocol"
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
	maxSlots         = 1000
)

// HTTP statuses that answers go out with.
const (
	okStatus         = 200
	acceptedStatus   = 202
	badRequestStatus = 400
	notFoundStatus   = 404
)

const (
	codeInvalidRequest = jsonrpc.InvalidRequest
	codeInvalidParams  = jsonrpc.InvalidParams
)

// Options of a broker. What can be changed while it runs is taken over by [Broker.Reload].
type Options struct {
	// Slots are the providers' places. A provider may also dial into one that is not
	// listed, if the policy lets it serve there.
	Slots []Slot
	// Policy says who may do what. Nil lets everybody do everything, knows no provider and
	// no operator.
	Policy *policy.Policy
	// Table says how errors look in each era. Nil is the default.
	Table *protocol.Table
	// Limits is set if there is a limits block, even one without rules: it makes batches
	// with tools refused, and lists the tool that releases calls.
	Limits bool
	// Requirements are the rules that want reservations; Order are the block's rules, in
	// configuration order.
	Requirements []Requirement
	Order        []string
	// StartWithin is how long after a reservation its work may begin, by rule. A rule that is not
	// listed lets it begin as long as its window, and a minute at most.
	StartWithin map[string]time.Duration
	// Methods is set if a rule is about requests other than calls of tools.
	Methods bool
	// ForwardCancel are rules whose slots stay held after a cancellation, of which the
	// provider is told all the same.
	ForwardCancel []string
	// Takeover says when a provider may take a slot that its other connection holds.
	Takeover TakeoverMode
	// DialledTimeout is the RequestTimeout of slots that nobody has configured.
	DialledTimeout time.Duration
	// ListTimeout bounds how long a provider may take to list its tools; what the others
	// have is shown without it. It has to be shorter than a slot's ConnectTimeout, or one that
	// lists nothing is never connected. Zero is 5 s.
	ListTimeout time.Duration
	// MaxName is the longest name of a tool in _all. Zero is 128. A longer one is cut, and
	// ends in a digest of the whole.
	MaxName int

	// What follows cannot be changed while the broker runs.

	// Name and Version are what the broker calls itself.
	Name, Version string
	// Secret signs what clients carry for the broker, and names reservations. Nil draws
	// one: then nobody can go on after a restart.
	Secret []byte
	// CacheBytes bounds the results that are kept. Zero is 64 MiB.
	CacheBytes int
	// Grace is how long Close waits for calls that are under way.
	Grace time.Duration
	// Durable says that the controller's store outlives the process, for diagnosis.
	Durable bool
	// StoreFault says why the controller's store does not take what has to be kept, empty if it
	// does: a disk that is full can be read all the same. Nil is a store that does not say.
	StoreFault func() string
	// Audit hears of everything that is done. It must not block. Nil is nobody.
	Audit func(audit.Event)
	// Logger gets what operators should know. Nil is silence.
	Logger *slog.Logger
}

// A Broker is safe for concurrent use.
type Broker struct {
	ctl      *sluice.Controller
	log      *slog.Logger
	process  string
	number   atomic.Uint64
	info     map[string]string
	infoJSON json.RawMessage
	audit    func(audit.Event)
	grace    time.Duration
	started  time.Time
	durable  bool
	fault    func() string

	ctx      context.Context
	cancel   context.CancelFunc
	stopping chan struct{}
	running  sync.WaitGroup

	options      atomic.Pointer[Options]
	reloading    sync.Mutex
	telling      *time.Timer // runs while the clients of _all are about to be told; on mu
	mu           sync.RWMutex
	slots        map[string]*slot
	calls        calls
	sessions     sessions
	tasks        tasks
	owners       owners
	parking      parking
	callers      callers
	awaited      awaited
	declarations policy.Declarations
	secret       []byte
	cache        *cache.Cache
	recent       recent // events
	holdTimes    atomic.Pointer[holdTimes]
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

// slotName is what a slot may be called: it is part of paths, of names of tools and of
// rules. Names with a leading underscore are the broker's own.
var slotName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// Reload takes over new options at once. Slots whose mark stays keep their connections;
// calls that are under way go on. On an error nothing has changed.
func (b *Broker) Reload(o Options) error {
	seen := map[string]bool{}
	for i := range o.Slots {
		s := &o.Slots[i]
		if !slotName.MatchString(s.Name) || seen[s.Name] {
			return fmt.Errorf("mcp: %q is not the name of a slot, or the second of that name: 1 to 128 of letters, digits and ._-, the first a letter or digit", s.Name)
		}
		seen[s.Name] = true
	}
	o.Requirements = slices.Clone(o.Requirements)
	for i := range o.Requirements {
		r := &o.Requirements[i]
		if r.Resource == "" {
			continue
		}
		var err error
		if r.pattern, err = resource.Parse(r.Resource); err != nil {
			return fmt.Errorf("mcp: rule %s: %w", r.Rule, err)
		}
	}
	if o.Table == nil {
		o.Table = protocol.Default()
	}
	b.reloading.Lock()
	defer b.reloading.Unlock()
	b.options.Store(&o)
	b.mu.Lock()
	var gone []*slot
	var changed []func()
	for name, sl := range b.slots {
		if sl.builtin == nil && !sl.all && !seen[name] && (sl.dials() || !b.mayStay(sl)) {
			gone = append(gone, sl)
			delete(b.slots, name)
		}
	}
	for i := range o.Slots {
		s := o.Slots[i]
		switch old := b.slots[s.Name]; {
		case old == nil:
			b.slots[s.Name] = b.place(s)
		case s.Dialer == nil && !old.dials() && !b.mayStay(old):
			old.options.Store(&s)
			changed = append(changed, old.end)
		case old.conf().Mark == s.Mark && old.dials() == (s.Dialer != nil):
			old.options.Store(&s)
		default:
			changed = append(changed, func() { old.end(); old.start(&s) }) // its clients stay
		}
	}
	b.mu.Unlock()
	for _, sl := range gone {
		sl.end()
		sl.tried(errEnded)
	}
	for _, restart := range changed {
		restart()
	}
	time.AfterFunc(settleTime, func() { b.sessions.eachAll((*Session).toolsMayHaveChanged) }) // once who was called again is back
	return nil
}

// place makes a slot, or takes the one of that name again whose clients have stayed.
func (b *Broker) place(o Slot) *slot {
	sl := b.sessions.slotNamed(o.Name)
	if sl == nil {
		return b.newSlot(o)
	}
	sl.start(&o)
	return sl
}

// mayStay reports whether the provider that has dialled into a slot may still be there.
func (b *Broker) mayStay(sl *slot) bool {
	k := sl.taken()
	return k != nil && b.mayServe(k.provider, sl.name)
}

// mayServe reports whether a provider that has been let in may serve a slot under the policy in
// force, which need not be the one that has let it in.
func (b *Broker) mayServe(who *policy.Principal, slot string) bool {
	p := b.settings().Policy
	now, known := p.Now(who)
	return known && p.MayServe(now, slot)
}

func (b *Broker) settings() *Options { return b.options.Load() }

// forwardsCancel reports whether a provider is told of a cancellation although rules go on
// holding the call's slots.
func (o *Options) forwardsCancel(held []string) bool {
	for _, rule := range held {
		for _, f := range o.ForwardCancel {
			if f == baseRule(rule) {
				return true
			}
		}
	}
	return false
}

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
