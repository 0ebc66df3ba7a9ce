package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/admin/metrics"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/mcp"
	"github.com/sluicegate/sluice/mcp/audit"
)

// brokerPath is where the administration shows the broker.
const brokerPath = "/actuator/mcp"

// lookingAround bounds how long a diagnosis may take.
const lookingAround = 20 * time.Second

// diagnosis shows how the broker is, and what holds what. The query selects calls and
// reservations, by the names of the tool broker_diagnose.
func (s *mcpServer) diagnosis(w http.ResponseWriter, r *http.Request) {
	q, err := brokerQuery(r.URL.Query())
	if err != nil {
		badRequest(w, "This cannot be looked for.", err)
		return
	}
	q.Label = s.label
	ctx, cancel := context.WithTimeout(r.Context(), lookingAround)
	defer cancel()
	d := s.broker.Diagnose(ctx, q)
	if s.journal != nil && s.journal.Lost() > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("%d events are missing in the audit: they came faster than the disk takes them, or it refused.", s.journal.Lost()))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = writeJSON(w, d) // whoever asked has gone if it fails
}

// brokerQuery reads what is asked for.
func brokerQuery(v url.Values) (q mcp.Query, err error) {
	q = mcp.Query{Slot: v.Get("slot"), Capability: v.Get("capability"), Rule: v.Get("rule"), Identity: v.Get("identity"), State: mcp.State(v.Get("state"))}
	if states := []mcp.State{"", mcp.Waiting, mcp.Running, mcp.Awaiting, mcp.Task, mcp.Abandoned, mcp.Earlier}; !slices.Contains(states, q.State) {
		return q, fmt.Errorf("state is %s, %s, %s, %s, %s or %s", mcp.Waiting, mcp.Running, mcp.Awaiting, mcp.Task, mcp.Abandoned, mcp.Earlier)
	}
	for name, to := range map[string]*int{"offset": &q.Offset, "limit": &q.Limit} {
		if text := v.Get(name); text != "" {
			if *to, err = strconv.Atoi(text); err != nil || *to < 0 {
				return q, fmt.Errorf("%s is a whole number, not below zero", name)
			}
		}
	}
	return q, nil
}

// brokerNames are the slots and rules of the file. A rule of the limits block may be several of
// the engine's, X and X:rate; they are reported as X.
func brokerNames(c *config.Config, o *mcp.Options) (slots, rules []string) {
	slots = []string{mcp.AllSlot, mcp.BrokerSlot}
	for i := range o.Slots {
		slots = append(slots, o.Slots[i].Name)
	}
	for i := range c.Policy().Rules {
		id, _, _ := strings.Cut(c.Policy().Rules[i].ID, ":")
		rules = append(rules, id)
	}
	return slots, rules
}

// told feeds the metrics with what the broker does: this is the one place where they hear of it.
func (s *mcpServer) told(e *audit.Event) {
	refused := e.Outcome == audit.Refused || e.Outcome == audit.Denied || e.Outcome == audit.Invalid || e.Outcome == audit.Dropped
	s.metrics.BrokerEvent(metrics.BrokerEvent{Slot: e.Slot, Action: string(e.Action), Outcome: string(e.Outcome), Rule: e.Rule, Reason: e.Reason,
		Refused: refused, Ended: e.Action == audit.Complete, Took: milliseconds(e.DurationMs)})
}

// state is what the metrics show of the broker, nothing if it does not listen.
func (s *mcpServer) state() (now metrics.BrokerState) {
	if s.journal != nil {
		now.Lost = s.journal.Lost()
	}
	if !s.listens.Load() {
		return now
	}
	for _, l := range s.broker.Loads() {
		slot := metrics.BrokerSlot{Name: l.Slot, Provider: l.Provider, Connected: l.Connected, Clients: l.Clients, Held: l.Held, Calls: map[string]int{}}
		for state, n := range l.Calls {
			slot.Calls[string(state)] = n
		}
		now.Slots = append(now.Slots, slot)
	}
	stats := s.broker.CacheStats()
	now.CacheHits, now.CacheMisses = stats.Hits, stats.Misses
	return now
}
