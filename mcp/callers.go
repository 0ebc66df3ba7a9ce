package mcp

import (
	"crypto/rand"
	"encoding/json"
	"regexp"
	"sync"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// callers are references to the callers of requests under way. A provider that has declared
// what it serves gets one with each request, and asks by it about that caller; what it says
// of a caller otherwise is worth nothing.
type callers struct {
	mu sync.Mutex
	by map[string]*call
}

// A callerReference is what stands in a request's _meta.
type callerReference struct {
	Ref           string `json:"ref"`
	CorrelationID string `json:"correlationId"`
	TraceID       string `json:"traceId,omitempty"`
}

// referenceLife bounds a reference where requests have no deadline.
const referenceLife = 10 * time.Minute

func (r *callers) init() { r.by = map[string]*call{} }

// issue makes a reference to c's caller for the provider at the other end of k, nil if that
// has declared nothing. The caller holds c.mu.
func (r *callers) issue(c *call, k *conn) json.RawMessage {
	if k.declared.Load() == nil {
		return nil
	}
	ref := callerReference{Ref: "cr_" + rand.Text(), CorrelationID: c.correlation, TraceID: traceOf(c.request)}
	text, err := json.Marshal(ref)
	if err != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, c.reference)
	r.by[ref.Ref] = c
	c.reference = ref.Ref
	return text
}

// revoke ends c's reference.
func (r *callers) revoke(c *call) {
	if c.reference == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, c.reference)
}

// of returns the call that a reference of the provider at the other end of k stands for:
// one that is under way there. A reference of another provider's is none.
func (r *callers) of(ref string, k *conn) *call {
	r.mu.Lock()
	c := r.by[ref]
	r.mu.Unlock()
	if c == nil || c.slot != k.slot {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	life := c.timeout()
	if life == 0 {
		life = referenceLife
	}
	if c.answered || c.conn == nil || c.conn.provider == nil || c.conn.provider.ID != k.provider.ID || time.Since(c.start) > life {
		return nil
	}
	return c
}

// traceParent is version 00 of the W3C's Trace Context, 3.2.
var traceParent = regexp.MustCompile(`^"00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}"$`)

// traceOf returns the trace that a request belongs to.
func traceOf(m *jsonrpc.Message) string {
	raw, _ := m.Param("_meta", "traceparent")
	if found := traceParent.FindSubmatch(raw); found != nil {
		return string(found[1])
	}
	return ""
}
