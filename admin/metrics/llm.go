package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// errorBuckets are of what was used ÷ what was estimated.
var errorBuckets = []float64{.25, .5, .7, .8, .9, .95, 1, 1.05, 1.1, 1.2, 1.3, 1.5, 2, 4}

// llmMetrics are the instruments of calls to language models.
type llmMetrics struct {
	attempts  *prometheus.CounterVec
	tokens    *prometheus.CounterVec
	wait      *prometheus.HistogramVec
	took      *prometheus.HistogramVec
	estimate  *prometheus.HistogramVec
	failovers *prometheus.CounterVec
	answers   *prometheus.CounterVec
	models    labels
}

func newLLMMetrics() llmMetrics {
	return llmMetrics{
		attempts:  counters("llm_attempts_total", "Requests as they were sent to providers, by what the answer meant.", "provider", "model", "class"),
		tokens:    counters("llm_tokens_total", "Tokens by the provider's own count: reserved before attempts, settled after them, and refunded.", "provider", "model", "kind"),
		wait:      histograms("llm_wait_seconds", "Time that attempts stood in line for a provider.", waitBuckets, "provider"),
		took:      histograms("llm_attempt_seconds", "Time from the start of an attempt to the end of its answer.", waitBuckets, "provider"),
		estimate:  histograms("llm_estimate_ratio", "Input that was used, divided by what was estimated.", errorBuckets, "provider", "model"),
		failovers: counters("llm_failovers_total", "Attempts that went elsewhere than the one before, by operation.", "operation"),
		answers:   counters("llm_responses_total", "Requests that were answered, by operation, class of status and why they were refused.", "operation", "class", "refused"),
	}
}

func (l *llmMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{l.attempts, l.tokens, l.wait, l.took, l.estimate, l.failovers, l.answers}
}

// An LLMAttempt is what is noted of a request that was sent to a provider. Tokens are as the
// provider counts them; Input is zero if the provider did not say.
type LLMAttempt struct {
	Provider, Model, Class              string
	Waited, Took                        time.Duration
	Reserved, Settled, Estimated, Input int64
}

// Attempted notes an attempt.
func (m *Metrics) Attempted(a LLMAttempt) {
	provider, model := m.tally.ProviderName(a.Provider), m.llm.models.known(a.Model)
	m.llm.attempts.WithLabelValues(provider, model, m.reasons.known(a.Class)).Inc()
	m.llm.wait.WithLabelValues(provider).Observe(a.Waited.Seconds())
	m.llm.took.WithLabelValues(provider).Observe(a.Took.Seconds())
	m.llm.tokens.WithLabelValues(provider, model, "reserved").Add(float64(a.Reserved))
	m.llm.tokens.WithLabelValues(provider, model, "settled").Add(float64(a.Settled))
	m.llm.tokens.WithLabelValues(provider, model, "refunded").Add(float64(max(0, a.Reserved-a.Settled)))
	if a.Input > 0 && a.Estimated > 0 {
		m.llm.estimate.WithLabelValues(provider, model).Observe(float64(a.Input) / float64(a.Estimated))
	}
}

// ModelAnswered notes a request that has ended. refused is empty if it was admitted.
func (m *Metrics) ModelAnswered(operation string, status, failovers int, refused string) {
	if refused == "" {
		refused = "none"
	}
	if failovers > 0 {
		m.llm.failovers.WithLabelValues(m.reasons.known(operation)).Add(float64(failovers))
	}
	m.llm.answers.WithLabelValues(m.reasons.known(operation), class(status), m.reasons.known(refused)).Inc()
}

// labels bounds a label whose values are names of models: the first that come are known, as
// they are, everything else is Other. A model's name has dots, colons and slashes.
type labels struct{ words }

func (l *labels) known(s string) string { return l.words.knownIf(s, modelLike) }

// modelLike reports whether s is 1 to 80 printing characters of ASCII without quotes.
func modelLike(s string) bool {
	if s == "" || len(s) > 80 {
		return false
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
