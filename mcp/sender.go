package mcp

import (
	"net/http"

	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/policy"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// A Sender is an [Exchange] of a transport on which each message shows credentials of its
// own. A session vouches for nobody: what its caller may do is what the latest token says,
// which may be less than when the session began.
type Sender interface {
	// Caller is who sends the message; it has the identity of the session's caller, and is
	// never nil.
	Caller() *policy.Caller
	// Correlation is the caller's own id for what it does; empty gives the message a new one.
	Correlation() string
	// Params are the headers that repeat arguments of a tool, as they came. Nil is a
	// transport or an era without them.
	Params() http.Header
}

// caller is whose session it is, as the latest message has shown.
func (s *Session) caller() *policy.Caller { return s.who.Load() }

// from notes who sends the call's message.
func (c *call) from(s *Session, x Exchange) {
	c.caller, c.correlation = s.caller(), s.o.Correlation
	if from, ok := x.(Sender); ok {
		c.caller, c.params = from.Caller(), from.Params()
		s.who.Store(c.caller)
		if id := from.Correlation(); id != "" {
			c.correlation = id
		}
	}
	if c.correlation == "" {
		c.correlation = newUUID()
	}
}

// repeats reports whether the headers that repeat arguments say what the arguments say, and
// answers the call if they do not: others on the way have decided by them.
func (c *call) repeats(t *tool) bool {
	if c.params == nil {
		return true
	}
	s, problem := t.compiled()
	if s == nil || problem != nil {
		return true
	}
	list, _ := s.Headers() // a tool whose annotations break the rules asks for none
	arguments, _ := c.request.Param("arguments")
	for _, p := range list {
		sent := c.params.Values(p.Name)
		text := ""
		if len(sent) > 0 {
			text = sent[0]
		}
		text, err := protocol.DecodeHeader(text)
		if err != nil || len(sent) > 1 || !p.Matches(text, len(sent) > 0, arguments) {
			c.failWith(protocol.HeaderMismatch, audit.Event{Action: audit.Admit, Outcome: audit.Invalid, Reason: "header-mismatch"},
				"Header mismatch: "+p.Name+" is not what the arguments say", nil)
			return false
		}
	}
	return true
}

// RefuseBatch is told of a batch that holds calls of tools, of which nothing would tell when
// they end. It notes one refusal for each call, and returns the errors of all its requests.
// It returns nil, and has noted nothing, if batches may be taken apart here: limits are off,
// and they are legal in the session's revision. Banned says that they are not; then the batch
// gets the one error that it is no request.
func (s *Session) RefuseBatch(items []*jsonrpc.Message, banned bool) (refusals [][]byte) {
	if !banned && !s.b.settings().Limits {
		return nil
	}
	for _, m := range items {
		if m.Method == "tools/call" {
			s.b.note(audit.Event{Action: audit.Admit, Outcome: audit.Refused, Slot: s.slot.name, Method: m.Method,
				Reason: "untracked-batch", Identity: s.caller().Identity(), CorrelationID: s.o.Correlation})
		}
		if m.Kind == jsonrpc.Request {
			e, _ := s.b.settings().Table.Error(protocol.Refused, s.Version(), "Tool admission refused: calls in a batch cannot be tracked; send each by itself",
				reason{Reason: "untracked-batch"})
			refusals = append(refusals, jsonrpc.NewError(m.ID, e).Raw)
		}
	}
	return refusals
}
