package mcp

import (
	"sync"

	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/policy"
)

// A provider may have declared capabilities whose results it promises to report. What it
// was allowed of these is awaited until broker/audit/result says what came of it. What it
// reserves is not: the ledger knows what came of that.

// awaited are the decisions whose results have not been reported, by their ids.
type awaited struct {
	mu    sync.Mutex
	by    map[string]awaitedResult
	order []string
}

type awaitedResult struct{ provider, slot, capability string }

// maxAwaited bounds them; of more the oldest are given up.
const maxAwaited = 10_000

func (w *awaited) add(id string, r awaitedResult) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = map[string]awaitedResult{}
	}
	w.by[id] = r
	w.order = append(w.order, id)
	if len(w.order) > maxAwaited {
		delete(w.by, w.order[0])
		w.order = w.order[1:]
	}
}

// take returns what was awaited of a provider under an id, once.
func (w *awaited) take(id, provider, slot string) (awaitedResult, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.by[id]
	if !ok || r.provider != provider || r.slot != slot {
		return awaitedResult{}, false
	}
	delete(w.by, id)
	return r, true
}

func (w *awaited) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.by)
}

// await notes that the result of what was decided has been promised.
func (b *Broker) await(k *conn, a *policy.Answer) {
	if a.ResultRequired && a.Effect() != "deny" {
		b.awaited.add(a.ID(), awaitedResult{k.provider.ID, k.slot.name, a.Capability})
	}
}

// reported takes a provider's word for what came of something that it was allowed.
func (b *Broker) reported(k *conn, m *jsonrpc.Message) (any, *jsonrpc.Error) {
	var q struct {
		DecisionID    string `json:"decisionId"`
		Result        string `json:"result"`
		CorrelationID string `json:"correlationId"`
	}
	if e := readParams(m.Params, &q, "decisionId", "result", "correlationId"); e != nil {
		return nil, e
	}
	if results[q.Result] == 0 {
		return nil, invalidParams(`result is "success", "failure" or "refused"`, nil)
	}
	r, ok := b.awaited.take(q.DecisionID, k.provider.ID, k.slot.name)
	if !ok {
		return nil, invalidParams("No result of this decision is awaited from the provider here", nil)
	}
	b.note(audit.Event{Action: audit.Result, Outcome: audit.Completed, Allowed: true, Slot: k.slot.name, DecisionID: q.DecisionID,
		Identity: k.providerName(), Capability: r.capability, Result: q.Result})
	return map[string]bool{"recorded": true}, nil
}
