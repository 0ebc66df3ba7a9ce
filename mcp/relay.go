package mcp

import (
	"encoding/json"
	"strings"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// A relayed is a question of a provider's on its way to a client: for a model's words, for
// the user's, for the client's roots. The time in which the client thinks is the call's,
// and the call holds its slots meanwhile.
type relayed struct {
	conn *conn
	id   jsonrpc.ID // the provider's
	call *call
}

// questions are what may be relayed, and the capability that a client must have declared.
var questions = map[string]string{
	"sampling/createMessage": "sampling",
	"elicitation/create":     "elicitation",
	"roots/list":             "roots",
}

// asked takes a request of the provider's. What cannot be relayed is answered at once: a
// question that nobody will ever answer would hold the call for ever.
func (k *conn) asked(m *jsonrpc.Message, of jsonrpc.ID) {
	switch {
	case m.Method == "ping":
		k.respond(jsonrpc.NewResult(m.ID, struct{}{}))
	case strings.HasPrefix(m.Method, "broker/"):
		go func() { k.notify(k.slot.b.providerAsks(k, m)) }()
	case questions[m.Method] != "":
		k.relay(m, of)
	default:
		k.refuse(m.ID, jsonrpc.MethodNotFound, "Method not found")
	}
}

func (k *conn) refuse(id jsonrpc.ID, code int64, text string) {
	k.respond(jsonrpc.NewError(id, &jsonrpc.Error{Code: code, Message: text}))
}

// relay passes a question on to the client whose call it is about.
func (k *conn) relay(m *jsonrpc.Message, of jsonrpc.ID) {
	c, _ := k.waiting(of).(*call)
	if c == nil && (k.link.Shared() || of.IsZero()) {
		c = k.only()
	}
	if c == nil {
		k.refuse(m.ID, jsonrpc.MethodNotFound, "The broker cannot tell which of several calls the question is about, or none is under way")
		return
	}
	s := c.session
	if !s.can(questions[m.Method]) {
		k.refuse(m.ID, jsonrpc.MethodNotFound, "The client has not declared the capability "+questions[m.Method])
		return
	}
	id := k.slot.b.nextID()
	s.mu.Lock()
	if s.closed || len(s.questions) >= maxQuestions {
		s.mu.Unlock()
		k.refuse(m.ID, jsonrpc.MethodNotFound, "The client cannot be asked")
		return
	}
	s.questions[id] = &relayed{k, m.ID, c}
	s.mu.Unlock()
	if !c.tell(m.Edit(jsonrpc.SetID(id))) {
		s.answerFor(id)
		k.refuse(m.ID, jsonrpc.InternalError, "The call has ended")
	}
}

// answerFor takes the question that a client answers.
func (s *Session) answerFor(id jsonrpc.ID) *relayed {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.questions[id]
	delete(s.questions, id)
	return q
}

// responded takes a client's answer to a question.
func (s *Session) responded(m *jsonrpc.Message) {
	if q := s.answerFor(m.ID); q != nil {
		q.conn.notify(m.Edit(jsonrpc.SetID(q.id)))
	}
}

// dropQuestions answers what the provider has asked about a call that is over.
func (s *Session) dropQuestions(c *call) {
	s.mu.Lock()
	var over []*relayed
	for id, q := range s.questions {
		if q.call == c {
			over = append(over, q)
			delete(s.questions, id)
		}
	}
	s.mu.Unlock()
	for _, q := range over {
		q.refuse("the call has ended")
	}
}

func (q *relayed) refuse(why string) {
	q.conn.refuse(q.id, jsonrpc.InternalError, "No answer: "+why)
}

// notification takes a notification of the provider's to whom it concerns.
func (k *conn) notification(m *jsonrpc.Message, of jsonrpc.ID) {
	switch m.Method {
	case "notifications/progress":
		raw, _ := m.Param("progressToken")
		if w := k.waiting(jsonrpc.RawID(raw)); w != nil {
			w.step(m)
		}
	case "notifications/tools/list_changed":
		k.slot.changed(k)
	case "notifications/prompts/list_changed", "notifications/resources/list_changed":
		k.slot.b.sessions.listChanged(k.slot, m)
	case "notifications/resources/updated":
		k.slot.updated(m)
	case "notifications/tasks/status":
		k.slot.b.tasks.status(k.slot, m)
	case "notifications/message":
		k.logged(m, of)
	case "notifications/cancelled":
		k.withdraw(m)
	default:
		k.pass(m, of)
	}
}

// pass tells the client of the call on whose stream a notification came. What belongs to
// no call goes nowhere: it would be told to everybody.
func (k *conn) pass(m *jsonrpc.Message, of jsonrpc.ID) bool {
	w := k.waiting(of)
	return w != nil && w.tell(m)
}

// logged passes a log message on to those who want its level.
func (k *conn) logged(m *jsonrpc.Message, of jsonrpc.ID) {
	raw, _ := m.Param("level")
	var level string
	_ = json.Unmarshal(raw, &level)
	c, _ := k.waiting(of).(*call)
	if c == nil && k.link.Shared() {
		c = k.only()
	}
	if c != nil {
		if c.session.wants(level) {
			c.tell(m)
		}
		return
	}
	k.slot.b.sessions.each(k.slot, func(s *Session) {
		if s.asksForLogs() && s.wants(level) {
			s.push(m)
		}
	})
}

// withdraw is a provider that no longer wants an answer to its question.
func (k *conn) withdraw(m *jsonrpc.Message) {
	raw, _ := m.Param("requestId")
	theirs := jsonrpc.RawID(raw)
	k.slot.b.sessions.each(k.slot, func(s *Session) {
		s.mu.Lock()
		var ours jsonrpc.ID
		var asked *call
		for id, q := range s.questions {
			if q.conn == k && q.id == theirs {
				ours, asked = id, q.call
				delete(s.questions, id)
			}
		}
		s.mu.Unlock()
		if asked != nil {
			asked.tell(m.Edit(jsonrpc.Set(ours.Raw(), "params", "requestId")))
		}
	})
}

// asksForLogs reports whether the client has set a level: only then does it hear what
// belongs to no call of its own.
func (s *Session) asksForLogs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level != ""
}
