// Package metrics shows what sluice does to Prometheus, under sluice_ratelimit_….
//
// Label values are rule IDs, tiers and providers of the policy, and words of a fixed or
// bounded set; whatever else turns up is "other". No caller can create a series. The
// counters outlive a reload, because they belong to the process and not to a policy.
package metrics

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/admin/tally"
)

const namespace = "sluice_ratelimit"

// Buckets of the two histograms of time, in seconds.
var (
	waitBuckets     = []float64{.001, .005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	decisionBuckets = []float64{100e-9, 250e-9, 500e-9, 1e-6, 2.5e-6, 5e-6, 10e-6, 50e-6, 250e-6, 1e-3, 5e-3, 25e-3, .1, .5}
)

// Sources is where gauges come from at the time of a scrape. All fields are required.
type Sources struct {
	Tally   *tally.Tally
	Waiting func() map[string]int // callers in line, by rule
	Held    func() map[string]int // calls that hold slots, by rule
	Store   func() Store
	Version string
}

// Store is what the store says of itself.
type Store struct {
	Backend    string
	Keys       int64            // cells of all rules
	KeysByRule map[string]int64 // nil if the store does not count them apart
	Overflow   int64            // calls that shared an overflow cell, ever
	Bytes      int64            // memory of the state; 0 is unknown
	Records    int64            // calls with an ID that are remembered
	Degraded   bool             // the store does not answer
	Breaker    bool             // the store is not asked for the moment
	Leases     *Leases          // nil if nothing is taken ahead
}

// Leases are the figures of units that are taken ahead from the store.
type Leases struct {
	Keys  int64  // that have units ahead
	Spent uint64 // decisions that needed no question, ever
	Asked uint64 // decisions that asked although they may be leased, ever
}

// Metrics is a registry and the instruments that are written when something happens.
// Use [New]. All methods are safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	tally    *tally.Tally
	timed    func() prometheus.Observer // of the store, which stays the same

	requests  *prometheus.CounterVec
	auth      *prometheus.CounterVec
	fallback  *prometheus.CounterVec
	wait      *prometheus.HistogramVec
	decision  *prometheus.HistogramVec
	tpm, rpm  *prometheus.GaugeVec
	reloadOK  prometheus.Gauge
	reloadAt  prometheus.Gauge
	config    *prometheus.GaugeVec
	llm       llmMetrics
	broker    brokerMetrics
	listeners words
	kinds     words
	reasons   words
}

// New returns Metrics over s.
func New(s Sources) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(), tally: s.Tally,
		requests: counters("http_responses_total", "Requests that were answered, by listener, class of status (1xx to 5xx) and final outcome.", "listener", "class", "outcome"),
		auth:     counters("auth_failures_total", "Requests with a credential that failed, by kind of failure.", "kind"),
		fallback: counters("client_ip_fallback_total", "Requests of trusted proxies whose header did not lead to the client, by reason; the last trusted hop was taken for it.", "reason"),
		wait:     histograms("wait_time_seconds", "Time that callers stood in line, whatever came of it, by the first matching rule that has a queue.", waitBuckets, "rule"),
		decision: histograms("decision_seconds", "Time of decisions that nobody waited for, by store: a sample of one in 64.", decisionBuckets, "store"),
		tpm:      gauges("llm_tpm_usage", "LLM tokens in use of the provider's tightest token limit, as the last decision saw it.", "provider"),
		rpm:      gauges("llm_rpm_usage", "LLM requests in use of the provider's tightest request limit, as the last decision saw it.", "provider"),
		reloadOK: gauge("config_last_reload_successful", "1 if the last load of the configuration succeeded, 0 if it failed and an older one is in force."),
		reloadAt: gauge("config_last_reload_timestamp_seconds", "When the configuration in force was loaded, in Unix seconds."),
		llm:      newLLMMetrics(),
		broker:   newBrokerMetrics(),
		config:   gauges("config_info", "1, with the hash of the configuration in force.", "hash"),
	}
	m.timed = sync.OnceValue(func() prometheus.Observer { return m.decision.WithLabelValues(s.Store().Backend) })
	m.registry.MustRegister(
		m.requests, m.auth, m.fallback, m.wait, m.decision, m.tpm, m.rpm, m.reloadOK, m.reloadAt, m.config,
		newScrape(s), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.registry.MustRegister(append(m.llm.all(), m.broker.all()...)...)
	return m
}

// Handler answers a scrape.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, MaxRequestsInFlight: 4})
}

// Request counts an answered request of a listener. outcome is a word of the gate's own,
// "allowed", "refused", "rejected", "bypassed" or "failed".
func (m *Metrics) Request(listener string, status int, outcome string) {
	m.requests.WithLabelValues(m.listeners.known(listener), class(status), m.reasons.known(outcome)).Inc()
}

// AuthFailure counts a request with a credential that failed, by kind: "unknown_key",
// "expired", "signature".
func (m *Metrics) AuthFailure(kind string) { m.auth.WithLabelValues(m.kinds.known(kind)).Inc() }

// ClientIPFallback counts a request whose client could not be read from the header of a
// trusted proxy.
func (m *Metrics) ClientIPFallback(reason string) {
	m.fallback.WithLabelValues(m.reasons.known(reason)).Inc()
}

// Decision notes how long a decision took.
func (m *Metrics) Decision(d time.Duration) { m.timed().Observe(d.Seconds()) }

// Wait notes how long a caller stood in line at rule.
func (m *Metrics) Wait(rule string, d time.Duration) {
	m.wait.WithLabelValues(*m.tally.RuleName(rule)).Observe(d.Seconds())
}

// LLM notes how much of its limits a provider has in use, from the levels of a decision
// of kind "llm-attempt".
func (m *Metrics) LLM(e *sluice.Event) {
	provider := m.tally.ProviderName(e.Call.Provider)
	if used, ok := mostUsed(e.Levels, sluice.Tokens); ok {
		m.tpm.WithLabelValues(provider).Set(float64(used))
	}
	if used, ok := mostUsed(e.Levels, sluice.Calls); ok {
		m.rpm.WithLabelValues(provider).Set(float64(used))
	}
}

// mostUsed returns what is in use of the enforced rate over unit with the least share left.
func mostUsed(levels []sluice.Level, unit sluice.Unit) (used int64, ok bool) {
	share := 2.0
	for i := range levels {
		l := &levels[i]
		is := l.Unit == unit || l.Unit == "" && unit == sluice.Calls
		if !is || l.Shadow || l.Window == 0 || l.Limit <= 0 {
			continue
		}
		if left := float64(l.Remaining) / float64(l.Limit); left < share {
			share, used, ok = left, l.Limit-l.Remaining, true
		}
	}
	return used, ok
}

// Loaded notes a load of the configuration. If err is nil, the one with that hash is in
// force since at.
func (m *Metrics) Loaded(hash string, at time.Time, err error) {
	if err != nil {
		m.reloadOK.Set(0)
		return
	}
	m.reloadOK.Set(1)
	m.reloadAt.Set(float64(at.UnixMilli()) / 1000)
	m.config.Reset() // one series, whatever the number of reloads
	m.config.WithLabelValues(hash).Set(1)
}

func class(status int) string {
	if status < 100 || status > 599 {
		return tally.Other
	}
	return string(rune('0'+status/100)) + "xx"
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}
