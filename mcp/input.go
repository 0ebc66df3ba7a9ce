package mcp

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// A provider of the newest revision asks for input by answering that it needs some, and is
// then asked again. A client of an older revision does not know such answers, but can be
// asked: the broker puts the questions to it one by one, and repeats the call itself. To
// every rule that is one call, which holds its slots all the while.

// maxRounds is how often a provider may ask for input about one call.
const maxRounds = 10

// An inquiry is one such answer: what the provider wants to know before it goes on.
type inquiry struct {
	call  *call
	state json.RawMessage // the provider's own, nil if it has none
	names []string        // of what it wants, in its order
	asked []*jsonrpc.Message

	mu      sync.Mutex
	answers map[string]json.RawMessage
}

// inquires reports whether m asks for input that the client can be asked for, and then asks
// it. The caller holds c.mu.
func (c *call) inquires(m *jsonrpc.Message) bool {
	if c.modern() || m.Err != nil || resultType(m) != "input_required" || c.rounds >= maxRounds {
		return false
	}
	q := newInquiry(c, m)
	if q == nil {
		return false
	}
	c.rounds++
	c.sent = false // the provider does not work on it meanwhile
	go q.ask()
	return true
}

// newInquiry reads what m asks for. It returns nil if the client cannot be asked all of it.
func newInquiry(c *call, m *jsonrpc.Message) *inquiry {
	q := &inquiry{call: c, answers: map[string]json.RawMessage{}}
	q.state, _ = jsonrpc.Lookup(m.Result, "requestState")
	wanted, _ := jsonrpc.Lookup(m.Result, "inputRequests")
	for name, raw := range jsonrpc.Members(wanted) {
		var r struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		if json.Unmarshal(raw, &r) != nil || questions[r.Method] == "" || len(q.names) >= maxQuestions || slices.Contains(q.names, name) {
			return nil
		}
		var params any
		if r.Params != nil {
			params = r.Params
		}
		ask := jsonrpc.NewRequest(c.id, r.Method, params) // another id for each comes later
		if !c.session.takes(ask) {
			return nil
		}
		q.names, q.asked = append(q.names, name), append(q.asked, ask)
	}
	return q
}

// ask puts all questions to the client. An answer that asks nothing wants the call again.
func (q *inquiry) ask() {
	for i, m := range q.asked {
		if problem := q.call.put(m, inputAsker{q, q.names[i]}); problem != "" {
			q.fail(problem)
			return
		}
	}
	if len(q.asked) == 0 {
		q.resume()
	}
}

// resume repeats the call with the answers.
func (q *inquiry) resume() {
	given := json.RawMessage(`{}`)
	for _, name := range q.names {
		given = jsonrpc.SetIn(given, q.answers[name], name)
	}
	c := q.call
	c.mu.Lock()
	c.request = c.request.Edit(jsonrpc.Set(given, "params", "inputResponses"), requestState(q.state))
	c.upstream = c.b.nextID()
	c.mu.Unlock()
	k := c.slot.await(c.ctx)
	if k == nil {
		c.lost(link.Failure{Err: errClosed, NotRun: true})
		return
	}
	c.dispatch(k)
}

// fail ends the call, which the provider does not work on.
func (q *inquiry) fail(why string) {
	q.call.fail(protocol.Unavailable, audit.Failed, "The tool needs input that the client did not give: "+why, reason{Reason: "no-input"})
}

// An inputAsker is one question of an inquiry.
type inputAsker struct {
	inquiry *inquiry
	name    string
}

func (a inputAsker) answered(m *jsonrpc.Message) {
	if m.Err != nil {
		go a.inquiry.fail("it answered with an error")
		return
	}
	q := a.inquiry
	q.mu.Lock()
	q.answers[a.name] = m.Result
	all := len(q.answers) == len(q.names)
	q.mu.Unlock()
	if all {
		go q.resume()
	}
}

func (a inputAsker) refused(why string)        { go a.inquiry.fail(why) }
func (a inputAsker) progress(*jsonrpc.Message) {} // the provider does not wait
