package mcp

import (
	"encoding/json"
	"strings"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// A relayed is a question on its way to a client: for a model's words, for the user's, for
// the client's roots. The time in which the client thinks is the call's, and the call holds
// its slots meanwhile.
type relayed struct {
	call  *call
	from  asker
	token json.RawMessage // of whoever asks, for progress; nil if it wants none
}

// An asker wants a client's answer. Its methods do not wait, and take no lock of a call's.
type asker interface {
	answered(m *jsonrpc.Message)
	refused(why string)
	progress(m *jsonrpc.Message)
}

// A providerAsker is a provider that has asked by a request of its own.
type providerAsker struct {
	conn *conn
	id   jsonrpc.ID // the provider's
}

func (a providerAsker) answered(m *jsonrpc.Message) { a.conn.respond(m.Edit(jsonrpc.SetID(a.id))) }
func (a providerAsker) progress(m *jsonrpc.Message) { a.conn.notify(m) }
func (a providerAsker) refused(why string) {
	a.conn.refuse(a.id, jsonrpc.InternalError, "No answer: "+why)
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
		k.attend(func() *jsonrpc.Message { return jsonrpc.NewResult(m.ID, struct{}{}) })
	case strings.HasPrefix(m.Method, "broker/"):
		k.attend(func() *jsonrpc.Message { return k.slot.b.providerAsks(k, m) })
	case questions[m.Method] != "":
		k.relay(m, of)
	default:
		k.attend(func() *jsonrpc.Message { return refusal(m.ID, jsonrpc.MethodNotFound, "Method not found") })
	}
}

// maxAsked is how many requests of one provider are being answered at once.
const maxAsked = 256

// attend answers a request of the provider's while others are heard. A provider that asks and
// asks is heard again when some of its answers have left, or have waited for their time: one
// that reads none of them would fill the memory with them.
func (k *conn) attend(answer func() *jsonrpc.Message) {
	select {
	case k.asking <- struct{}{}:
	case <-k.done:
		return
	}
	go func() {
		k.notify(answer())
		<-k.asking
	}()
}

func refusal(id jsonrpc.ID, code int64, text string) *jsonrpc.Message {
	return jsonrpc.NewError(id, &jsonrpc.Error{Code: code, Message: text})
}

func (k *conn) refuse(id jsonrpc.ID, code int64, text string) {
	k.respond(refusal(id, code, text))
}

// relay passes a question on to the client whose call it is about.
func (k *conn) relay(m *jsonrpc.Message, of jsonrpc.ID) {
	c, _ := k.waiting(of).(*call)
	if c == nil && (k.link.Shared() || of.IsZero()) {
		c = k.only()
	}
	problem := "The broker cannot tell which of several calls the question is about, or none is under way"
	if c != nil {
		problem = c.put(m, providerAsker{k, m.ID})
	}
	if problem != "" {
		k.attend(func() *jsonrpc.Message { return refusal(m.ID, jsonrpc.MethodNotFound, problem) })
	}
}

// put asks the call's client a question. It returns why that cannot be done, or nothing.
func (c *call) put(m *jsonrpc.Message, from asker) (problem string) {
	s := c.session
	if !s.takes(m) {
		return "The client has not declared the capability that " + m.Method + " needs"
	}
	id := c.b.nextID()
	edits := []jsonrpc.Edit{jsonrpc.SetID(id)}
	token, wants := m.Param("_meta", protocol.MetaProgress)
	if wants {
		edits = append(edits, jsonrpc.Set(id.Raw(), "params", "_meta", protocol.MetaProgress))
	}
	s.mu.Lock()
	if s.closed || len(s.questions) >= maxQuestions {
		s.mu.Unlock()
		return "The client cannot be asked"
	}
	s.questions[id] = &relayed{c, from, token}
	s.sentTo(m.Params)
	s.mu.Unlock()
	if !c.tell(m.Edit(edits...)) && s.answerFor(id) != nil {
		return "The call has ended"
	}
	return ""
}

// takes reports whether the client has said that it can answer such a question.
func (s *Session) takes(m *jsonrpc.Message) bool {
	s.mu.Lock()
	can, ok := jsonrpc.Lookup(s.capabilities, questions[m.Method])
	s.mu.Unlock()
	if !ok || m.Method != "elicitation/create" {
		return ok
	}
	mode, _ := m.Param("mode")
	_, url := jsonrpc.Lookup(can, "url")
	_, form := jsonrpc.Lookup(can, "form")
	if string(mode) == `"url"` {
		return url
	}
	return form || !url // before 2025-11-25 there was nothing but forms to declare
}

// answers are the capabilities of the client that are about questions.
func (s *Session) answers() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := json.RawMessage(`{}`)
	for _, name := range []string{"elicitation", "roots", "sampling"} {
		if can, ok := jsonrpc.Lookup(s.capabilities, name); ok {
			all = jsonrpc.SetIn(all, can, name)
		}
	}
	return all
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
		q.from.answered(m)
	}
}

// progressed takes a client's word of how far it is with a question that it was asked.
func (s *Session) progressed(m *jsonrpc.Message) {
	token, _ := m.Param(protocol.MetaProgress)
	s.mu.Lock()
	q := s.questions[jsonrpc.RawID(token)]
	s.mu.Unlock()
	if q != nil && q.token != nil {
		q.from.progress(protocol.Strip(m).Edit(jsonrpc.Set(q.token, "params", protocol.MetaProgress)))
	}
}

// dropQuestions tells who has asked about a call that it is over.
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
		q.from.refused("the call has ended")
	}
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
		k.slot.b.sessions.listChanged(k.slot, protocol.Strip(m))
	case "notifications/resources/updated":
		k.slot.updated(m)
	case "notifications/tasks/status":
		k.slot.b.tasks.status(k.slot, m)
	case "notifications/message":
		k.logged(m, of)
	case "notifications/cancelled":
		k.withdraw(m)
	case "notifications/elicitation/complete":
		k.elicited(m)
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
		if c.wantsLog(level) {
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

// wantsLog reports whether the call's client wants to see a log message of a level. One of
// the newest revision says so in each request, or gets none.
func (c *call) wantsLog(level string) bool {
	if !c.modern() {
		return c.session.wants(level)
	}
	c.mu.Lock()
	raw, _ := c.request.Param("_meta", protocol.MetaLogLevel)
	c.mu.Unlock()
	var least string
	return json.Unmarshal(raw, &least) == nil && severity(least) >= 0 && severity(level) >= severity(least)
}

// withdraw is a provider that no longer wants an answer to its question. The client may be
// at the provider's slot or in _all.
func (k *conn) withdraw(m *jsonrpc.Message) {
	raw, _ := m.Param("requestId")
	from := providerAsker{k, jsonrpc.RawID(raw)}
	k.slot.b.sessions.eachAll(func(s *Session) {
		s.mu.Lock()
		var ours jsonrpc.ID
		var asked *call
		for id, q := range s.questions {
			if q.from == asker(from) {
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
func (s *Session) asksForLogs() bool { return s.logLevel() != "" }

func (s *Session) logLevel() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}
