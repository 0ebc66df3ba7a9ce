package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/admin/tally"
)

// slotsMost is how many slots have labels of their own beside those of the configuration:
// providers that dial in choose their slots, within what the policy lets them.
const slotsMost = 100

// brokerMetrics are the instruments of the MCP broker.
type brokerMetrics struct {
	events   *prometheus.CounterVec
	refusals *prometheus.CounterVec
	took     *prometheus.HistogramVec
	actions  words
	outcomes words
	reasons  words
	slots    words
	rules    words
}

func newBrokerMetrics() brokerMetrics {
	return brokerMetrics{
		events:   counters("mcp_events_total", "What was done about calls, reservations and slots, by action and how it went.", "slot", "action", "outcome"),
		refusals: counters("mcp_refusals_total", "Calls and reservations that were not let through, by reason and the rule that refused, empty if none did.", "rule", "reason"),
		took:     histograms("mcp_call_seconds", "Time from the arrival of a call to the end of its work, by how it went.", waitBuckets, "outcome"),
		slots:    words{most: slotsMost},
		rules:    words{most: -1},
	}
}

func (b *brokerMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{b.events, b.refusals, b.took}
}

// BrokerNames makes names of the configuration known as labels, for good: slots, and rules of
// the limits block.
func (m *Metrics) BrokerNames(slots, rules []string) {
	m.broker.slots.keep(slots)
	m.broker.rules.keep(rules)
}

func (b *brokerMetrics) slot(name string) string { return b.slots.knownIf(name, modelLike) }

// A BrokerEvent is one thing that the broker did. Action, Outcome and Reason are words of the
// broker's own; Rule and Reason are empty if there is none.
type BrokerEvent struct {
	Slot, Action, Outcome, Reason, Rule string
	// Refused is set if a call or a reservation was not let through.
	Refused bool
	// Ended is set for the end of a call's work, which has taken Took.
	Ended bool
	Took  time.Duration
}

// BrokerEvent notes an event.
func (m *Metrics) BrokerEvent(e BrokerEvent) {
	b := &m.broker
	outcome := b.outcomes.known(e.Outcome)
	b.events.WithLabelValues(b.slot(e.Slot), b.actions.known(e.Action), outcome).Inc()
	if e.Refused {
		rule := ""
		if e.Rule != "" {
			rule = b.rules.knownIf(e.Rule, modelLike)
		}
		b.refusals.WithLabelValues(rule, b.reasons.known(e.Reason)).Inc()
	}
	if e.Ended {
		b.took.WithLabelValues(outcome).Observe(e.Took.Seconds())
	}
}

// BrokerState is what the broker says of itself when it is asked.
type BrokerState struct {
	Slots                  []BrokerSlot
	CacheHits, CacheMisses uint64 // ever
	Lost                   int64  // events that are missing in the audit file, ever
}

// A BrokerSlot is how busy a slot is.
type BrokerSlot struct {
	Name string
	// Provider is set if a provider belongs there, Connected if it is there.
	Provider, Connected bool
	Clients             int
	Calls               map[string]int // by state
	Held                int            // slots of rules that its calls hold
}

// A brokerScrape is the collector of what the broker is asked for.
type brokerScrape struct {
	state                            func() BrokerState
	label                            func(slot string) string
	connected, clients, calls, slots *prometheus.Desc
	cache, lost                      *prometheus.Desc
}

// Broker has the state of a broker scraped. It is called once at most.
func (m *Metrics) Broker(state func() BrokerState) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_mcp_"+name, help, labels, nil)
	}
	m.registry.MustRegister(&brokerScrape{
		state: state, label: m.broker.slot,
		connected: desc("provider_connected", "1 while the slot's provider is connected.", "slot"),
		clients:   desc("clients", "Clients at a slot.", "slot"),
		calls:     desc("calls", "Calls of a slot that are under way or hold slots of rules, by state.", "slot", "state"),
		slots:     desc("slots_held", "Slots of concurrency rules that a slot's calls hold.", "slot"),
		cache:     desc("cache_total", "Calls of tools whose results may be kept, by what the cache had.", "result"),
		lost:      desc("audit_lost_total", "Events that are missing in the audit file: they came faster than the disk takes them, or it refused."),
	})
}

// Describe implements [prometheus.Collector].
func (s *brokerScrape) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.connected, s.clients, s.calls, s.slots, s.cache, s.lost} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (s *brokerScrape) Collect(out chan<- prometheus.Metric) {
	now := s.state()
	others := BrokerSlot{Name: tally.Other, Calls: map[string]int{}}
	for i := range now.Slots {
		if slot := &now.Slots[i]; s.label(slot.Name) == slot.Name {
			s.collect(out, slot)
		} else {
			others.add(slot)
		}
	}
	if others.Provider {
		s.collect(out, &others)
	}
	out <- count(s.cache, float64(now.CacheHits), "hit")
	out <- count(s.cache, float64(now.CacheMisses), "miss")
	out <- count(s.lost, float64(now.Lost))
}

// add counts a slot among those that have no label of their own. They are connected if all
// are.
func (b *BrokerSlot) add(other *BrokerSlot) {
	b.Connected = other.Connected && (b.Connected || !b.Provider)
	b.Provider = true
	b.Clients, b.Held = b.Clients+other.Clients, b.Held+other.Held
	for state, n := range other.Calls {
		b.Calls[state] += n
	}
}

func (s *brokerScrape) collect(out chan<- prometheus.Metric, slot *BrokerSlot) {
	if slot.Provider {
		out <- level(s.connected, flag(slot.Connected), slot.Name)
	}
	out <- level(s.clients, float64(slot.Clients), slot.Name)
	for state, n := range slot.Calls {
		out <- level(s.calls, float64(n), slot.Name, state)
	}
	out <- level(s.slots, float64(slot.Held), slot.Name)
}
