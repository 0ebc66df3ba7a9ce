package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sluicegate/sluice/admin/metrics"
	"github.com/sluicegate/sluice/mcp"
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
		http.Error(w, err.Error(), http.StatusBadRequest)
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
	for name, to := range map[string]*int{"offset": &q.Offset, "limit": &q.Limit} {
		if text := v.Get(name); text != "" {
			if *to, err = strconv.Atoi(text); err != nil || *to < 0 {
				return q, fmt.Errorf("%s is a whole number, not below zero", name)
			}
		}
	}
	return q, nil
}

// state is what the metrics show of the broker.
func (s *mcpServer) state() (now metrics.BrokerState) {
	for _, p := range s.broker.Providers() {
		now.Providers++
		if p.Connected {
			now.Connected++
		}
	}
	if s.journal != nil {
		now.Lost = s.journal.Lost()
	}
	return now
}
