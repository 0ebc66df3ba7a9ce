package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
)

func TestBrokerMetrics(t *testing.T) {
	m := newMetrics(func() *sluice.Policy { return testPolicy() })
	m.BrokerNames([]string{"files", "plant"}, []string{"writes"})
	now := BrokerState{CacheHits: 5, CacheMisses: 6, Lost: 4, Slots: []BrokerSlot{
		{Name: "files", Provider: true, Connected: true, Clients: 3, Calls: map[string]int{"running": 2, "abandoned": 1}, Held: 4},
		{Name: "plant", Provider: true},
		{Name: "_all", Clients: 7},
	}}
	m.Broker(func() BrokerState { return now })
	m.BrokerEvent(BrokerEvent{Slot: "files", Action: "admit", Outcome: "dispatched"})
	m.BrokerEvent(BrokerEvent{Slot: "files", Action: "complete", Outcome: "completed", Ended: true, Took: 1500 * time.Millisecond})
	for range 2 {
		m.BrokerEvent(BrokerEvent{Slot: "files", Action: "admit", Outcome: "refused", Rule: "writes", Reason: "limit-exceeded", Refused: true})
	}
	m.BrokerEvent(BrokerEvent{Slot: "plant", Action: "reserve", Outcome: "refused", Reason: "no-budget-policy", Refused: true})
	m.BrokerEvent(BrokerEvent{Slot: "plant", Action: "timeout", Outcome: "released", Reason: "max-hold"})
	got := scraped(t, m)
	for series, want := range map[string]float64{
		"mcp_events_total{action=admit,outcome=dispatched,slot=files}":   1,
		"mcp_events_total{action=admit,outcome=refused,slot=files}":      2,
		"mcp_events_total{action=complete,outcome=completed,slot=files}": 1,
		"mcp_events_total{action=reserve,outcome=refused,slot=plant}":    1,
		"mcp_refusals_total{reason=limit-exceeded,rule=writes}":          2,
		"mcp_refusals_total{reason=no-budget-policy,rule=}":              1,
		"mcp_call_seconds{outcome=completed} count":                      1,
		"mcp_call_seconds{outcome=completed} sum":                        1.5,
		"mcp_provider_connected{slot=files}":                             1,
		"mcp_provider_connected{slot=plant}":                             0,
		"mcp_clients{slot=files}":                                        3,
		"mcp_clients{slot=_all}":                                         7,
		"mcp_calls{slot=files,state=running}":                            2,
		"mcp_calls{slot=files,state=abandoned}":                          1,
		"mcp_slots_held{slot=files}":                                     4,
		"mcp_cache_total{result=hit}":                                    5,
		"mcp_cache_total{result=miss}":                                   6,
		"mcp_audit_lost_total{}":                                         4,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("C-W22 %s is %v (there: %v), want %v", series, v, ok, want)
		}
	}
	if _, ok := got["mcp_refusals_total{reason=max-hold,rule=}"]; ok {
		t.Error("a slot that came back is no refusal")
	}
	if _, ok := got["mcp_provider_connected{slot=_all}"]; ok {
		t.Error("_all has no provider")
	}
}

// TestBrokerNamesMakeFewSeries has providers and callers choose every text that they can.
func TestBrokerNamesMakeFewSeries(t *testing.T) {
	m := newMetrics(func() *sluice.Policy { return testPolicy() })
	var now BrokerState
	m.Broker(func() BrokerState { return now })
	made := func(from int) int {
		now.Slots = nil
		for i := from; i < from+1000; i++ {
			slot := fmt.Sprint("slot", i)
			now.Slots = append(now.Slots, BrokerSlot{Name: slot, Provider: true, Connected: i%2 == 0, Clients: 1})
			m.BrokerEvent(BrokerEvent{Slot: slot, Action: "admit", Outcome: "refused", Rule: fmt.Sprint("rule", i), Reason: "limit-exceeded", Refused: true})
			m.BrokerEvent(BrokerEvent{Slot: "x\n{}", Action: fmt.Sprint("a", i), Outcome: fmt.Sprint("o", i), Reason: fmt.Sprint("r", i), Refused: true})
		}
		return len(scraped(t, m))
	}
	first := made(0)
	if second := made(1000); second > first {
		t.Errorf("C-W22 a thousand more names make %d series of %d", second, first)
	}
	got := scraped(t, m)
	if n := got["mcp_refusals_total{reason=limit-exceeded,rule=other}"]; n != 2000 {
		t.Errorf("C-W22 %v refusals of rules that nobody has named", n)
	}
	if got["mcp_clients{slot=other}"] != 1000 || got["mcp_provider_connected{slot=other}"] != 0 {
		t.Errorf("C-W22 the other slots have %v clients", got["mcp_clients{slot=other}"])
	}
	m.BrokerNames([]string{"slot1999"}, []string{"rule1"})
	m.BrokerEvent(BrokerEvent{Slot: "slot1999", Action: "admit", Outcome: "refused", Rule: "rule1", Reason: "limit-exceeded", Refused: true})
	if got = scraped(t, m); got["mcp_refusals_total{reason=limit-exceeded,rule=rule1}"] != 1 || got["mcp_clients{slot=slot1999}"] != 1 {
		t.Error("C-W22 names of the configuration come too late")
	}
	for series := range got {
		if strings.Contains(series, "\n") {
			t.Errorf("C-W22 the series %q", series)
		}
	}
}
