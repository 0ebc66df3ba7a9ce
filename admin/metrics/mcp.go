package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// brokerMetrics are the instruments of the MCP broker.
type brokerMetrics struct {
	events  *prometheus.CounterVec
	reasons *prometheus.CounterVec
	took    *prometheus.HistogramVec
	does    words // actions and outcomes
	says    words // reasons
}

func newBrokerMetrics() brokerMetrics {
	return brokerMetrics{
		events:  counters("mcp_events_total", "What was done about calls, reservations and slots, by action and how it went.", "action", "outcome"),
		reasons: counters("mcp_refusals_total", "Calls and reservations that were not let through, by reason.", "reason"),
		took:    histograms("mcp_call_seconds", "Time from the arrival of a call to the end of its work, by how it went.", waitBuckets, "outcome"),
	}
}

func (b *brokerMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{b.events, b.reasons, b.took}
}

// A BrokerEvent is one thing that the broker did. Action, Outcome and Reason are words of the
// broker's own, Reason empty if there is none.
type BrokerEvent struct {
	Action, Outcome, Reason string
	// Ended is set for the end of a call's work, which has taken Took.
	Ended bool
	Took  time.Duration
}

// BrokerEvent notes an event.
func (m *Metrics) BrokerEvent(e BrokerEvent) {
	outcome := m.broker.does.known(e.Outcome)
	m.broker.events.WithLabelValues(m.broker.does.known(e.Action), outcome).Inc()
	if e.Reason != "" {
		m.broker.reasons.WithLabelValues(m.broker.says.known(e.Reason)).Inc()
	}
	if e.Ended {
		m.broker.took.WithLabelValues(outcome).Observe(e.Took.Seconds())
	}
}

// BrokerState is what the broker says of itself when it is asked.
type BrokerState struct {
	Providers, Connected int   // slots, and those whose provider is there
	Lost                 int64 // events that are missing in the audit file, ever
}

// Broker has the state of a broker scraped. It is called once at most.
func (m *Metrics) Broker(state func() BrokerState) {
	gauge := func(name, help string, of func(BrokerState) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, func() float64 { return of(state()) })
	}
	m.registry.MustRegister(
		gauge("mcp_providers", "Slots of providers.", func(s BrokerState) float64 { return float64(s.Providers) }),
		gauge("mcp_providers_connected", "Slots whose provider is connected.", func(s BrokerState) float64 { return float64(s.Connected) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Name: "mcp_audit_lost_total",
			Help: "Events that are missing in the audit file: they came faster than the disk takes them, or it refused."}, func() float64 { return float64(state().Lost) }),
	)
}
