package admin

import (
	"time"

	"github.com/sluicegate/sluice/admin/metrics"
)

// Stats is what a store says of itself. Zero fields are unknown, or nothing yet.
type Stats struct {
	Backend     string // "in-memory", "file", "redis", "hazelcast"
	Keys        int64  // cells that are kept
	MaxKeys     int64  // the bound on them; 0 is none
	Hits        int64  // decisions that found their cell
	Misses      int64  // decisions that made one
	Evictions   int64  // idle cells that were forgotten
	Overflow    int64  // decisions that shared an overflow cell
	Bytes       int64  // memory of the state
	TTL         time.Duration
	Records     int64            // calls with an ID that are remembered
	KeysByRule  map[string]int64 // nil if they are not counted apart
	Degraded    bool             // the store does not answer; rules decide by OnStoreError
	BreakerOpen bool             // and it is not asked for the moment
	Fault       string           // why it does not answer, for operators
	Leases      *LeaseStats      // nil if nothing is taken ahead
}

// LeaseStats are the figures of units that are taken ahead from a store that processes share.
type LeaseStats struct {
	Keys  int64  // that have units ahead
	Spent uint64 // decisions that needed no question
	Asked uint64 // decisions that asked although they may be leased
}

func (s Stats) metrics() metrics.Store {
	return metrics.Store{
		Leases:  (*metrics.Leases)(s.Leases),
		Backend: s.Backend, Keys: s.Keys, KeysByRule: s.KeysByRule,
		Overflow: s.Overflow, Bytes: s.Bytes, Records: s.Records, Degraded: s.Degraded, Breaker: s.BreakerOpen,
	}
}

// Summary is the part of the configuration that the status shows.
type Summary struct {
	Enabled           bool
	DefaultTier       string
	Tiers             map[string]Tier
	Endpoints         []Endpoint
	LLMEnabled        bool
	ChannelsEnabled   bool
	ConnectorsEnabled bool
}

// A Tier is the rate of one class of callers.
type Tier struct {
	RequestsPerSecond float64 `json:"requestsPerSecond"`
	BurstCapacity     int64   `json:"burstCapacity"`
}

// An Endpoint is the rate of the paths that a pattern matches.
type Endpoint struct {
	PathPattern       string  `json:"pathPattern"`
	RequestsPerMinute float64 `json:"requestsPerMinute"`
	BurstCapacity     int64   `json:"burstCapacity"`
}
