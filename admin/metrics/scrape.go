package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/admin/tally"
)

// A scrape is the collector of everything that is counted elsewhere: it reads the tally
// and asks the sources when Prometheus asks it.
type scrape struct {
	Sources
	decisions, requests, remaining, used     *prometheus.Desc
	inflight, queue, keys, keysAll, overflow *prometheus.Desc
	bytes, records, storeErrors              *prometheus.Desc
	degraded, breaker, leased, leases, build *prometheus.Desc
}

func newScrape(s Sources) *scrape {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	}
	return &scrape{
		Sources:     s,
		decisions:   desc("decisions_total", "Calls that matched a rule, each with exactly one outcome. A call that another rule refused is refused_elsewhere, never allowed.", "rule", "outcome"),
		requests:    desc("requests_total", "Requests at the gate, each once, by tier and kind of key.", "tier", "key_type", "status"),
		remaining:   desc("tokens_remaining", "The least that the latest requests of the tier had left under their tightest rate. Each key has its own state, so this is a sample, not a sum.", "tier"),
		used:        desc("ratio_used", "Share of a limit that was in use when a call was decided: who is near it, without saying who.", "rule"),
		inflight:    desc("inflight", "Calls that hold a slot.", "rule"),
		queue:       desc("queue_depth", "Callers that stand in line.", "rule"),
		keys:        desc("keys", "Cells that are kept for a rule.", "rule"),
		keysAll:     desc("store_keys", "Cells that are kept for all rules.", "store"),
		overflow:    desc("keys_overflow_total", "Calls that shared an overflow cell because the store was full."),
		bytes:       desc("state_bytes", "Memory that the state takes.", "store"),
		storeErrors: desc("store_errors_total", "Decisions the store did not answer: refused, or degraded (made without it).", "store", "kind"),
		records:     desc("store_records", "Calls with an ID that are remembered.", "store"),
		degraded:    desc("store_degraded", "1 while the store does not answer and rules decide by onStoreError.", "store"),
		breaker:     desc("store_breaker_state", "1 while the store is not asked because it kept failing.", "store"),
		leased:      desc("lease_keys", "Keys of which units are taken ahead of need."),
		leases:      desc("lease_decisions_total", "Decisions about rules with a lease: made with units taken ahead, or asked of the store.", "by"),
		build:       desc("build_info", "1, with the version.", "version", "goversion"),
	}
}

// Describe implements [prometheus.Collector].
func (s *scrape) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		s.decisions, s.requests, s.remaining, s.used, s.inflight, s.queue, s.keys,
		s.keysAll, s.overflow, s.bytes, s.records, s.storeErrors, s.degraded, s.breaker,
		s.leased, s.leases, s.build,
	} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (s *scrape) Collect(out chan<- prometheus.Metric) {
	rules := s.Tally.Rules()
	for _, r := range append(rules[:len(rules):len(rules)], s.Tally.OtherRule()) {
		counts := r.Counts()
		for o := tally.Allowed; o < tally.Outcomes; o++ {
			out <- count(s.decisions, float64(counts[o]), r.ID, o.String())
		}
		out <- usedHistogram(s.used, r)
	}
	for _, t := range s.Tally.Tiers() {
		s.collectTier(out, t)
	}
	s.collectGauges(out, rules)
	s.collectStore(out)
	out <- level(s.build, 1, s.Version, runtime.Version())
}

func usedHistogram(d *prometheus.Desc, r *tally.Rule) prometheus.Metric {
	counts, sum := r.Used()
	buckets := make(map[float64]uint64, len(counts))
	var total uint64
	for i, n := range counts {
		total += n
		buckets[tally.UsedBounds[i]] = total
	}
	return prometheus.MustNewConstHistogram(d, total, sum, buckets, r.ID)
}

func (s *scrape) collectTier(out chan<- prometheus.Metric, t *tally.Tier) {
	for key, name := range tally.KeyTypes {
		for st := range tally.Statuses {
			if n := t.Requests(key, st); n > 0 {
				out <- count(s.requests, float64(n), t.Name, name, st.String())
			}
		}
	}
	if n, ok := t.Remaining(); ok {
		out <- level(s.remaining, float64(n), t.Name)
	}
}

func (s *scrape) collectGauges(out chan<- prometheus.Metric, rules []*tally.Rule) {
	waiting, held := s.Waiting(), s.Held()
	for _, r := range rules {
		out <- level(s.inflight, float64(held[r.ID]), r.ID)
		out <- level(s.queue, float64(waiting[r.ID]), r.ID)
	}
}

func (s *scrape) collectStore(out chan<- prometheus.Metric) {
	st := s.Store()
	if st.KeysByRule != nil {
		for _, r := range s.Tally.Rules() {
			out <- level(s.keys, float64(st.KeysByRule[r.ID]), r.ID)
		}
	}
	refused, degraded := s.Tally.StoreErrors()
	out <- count(s.storeErrors, float64(refused), st.Backend, "refused")
	out <- count(s.storeErrors, float64(degraded), st.Backend, "degraded")
	out <- level(s.keysAll, float64(st.Keys), st.Backend)
	out <- count(s.overflow, float64(st.Overflow))
	if st.Bytes > 0 {
		out <- level(s.bytes, float64(st.Bytes), st.Backend)
	}
	out <- level(s.records, float64(st.Records), st.Backend)
	out <- level(s.degraded, flag(st.Degraded), st.Backend)
	out <- level(s.breaker, flag(st.Breaker), st.Backend)
	if l := st.Leases; l != nil {
		out <- level(s.leased, float64(l.Keys))
		out <- count(s.leases, float64(l.Spent), "process")
		out <- count(s.leases, float64(l.Asked), "store")
	}
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

func count(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func level(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}
