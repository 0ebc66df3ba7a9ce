package metrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
)

func TestBrokerMetrics(t *testing.T) {
	m := newMetrics(func() *sluice.Policy { return testPolicy() })
	m.Broker(func() BrokerState { return BrokerState{Providers: 3, Connected: 2, Lost: 4} })
	m.BrokerEvent(BrokerEvent{Action: "admit", Outcome: "dispatched"})
	m.BrokerEvent(BrokerEvent{Action: "complete", Outcome: "completed", Ended: true, Took: 1500 * time.Millisecond})
	m.BrokerEvent(BrokerEvent{Action: "admit", Outcome: "refused", Reason: "limit-exceeded"})
	m.BrokerEvent(BrokerEvent{Action: "admit", Outcome: "refused", Reason: "limit-exceeded"})
	got := scraped(t, m)
	for series, want := range map[string]float64{
		"mcp_events_total{action=admit,outcome=dispatched}":   1,
		"mcp_events_total{action=admit,outcome=refused}":      2,
		"mcp_events_total{action=complete,outcome=completed}": 1,
		"mcp_refusals_total{reason=limit-exceeded}":           2,
		"mcp_call_seconds{outcome=completed} count":           1,
		"mcp_call_seconds{outcome=completed} sum":             1.5,
		"mcp_providers{}":           3,
		"mcp_providers_connected{}": 2,
		"mcp_audit_lost_total{}":    4,
	} {
		if got[series] != want {
			t.Errorf("C-W22 %s is %v, want %v", series, got[series], want)
		}
	}
	for i := range 1000 {
		m.BrokerEvent(BrokerEvent{Action: fmt.Sprint("a", i), Outcome: fmt.Sprint("o", i), Reason: fmt.Sprint("r", i)})
	}
	if n := len(scraped(t, m)); n > 2000 {
		t.Errorf("C-W22 words that nobody knows make %d series", n)
	}
}
