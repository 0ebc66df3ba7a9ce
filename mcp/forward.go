package mcp

import (
	"encoding/json"
	"errors"
	"strconv"

	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// forward passes a request on to the slot's provider, if the policy allows it.
func (s *Session) forward(c *call) {
	if !c.plainSlot() || !c.allowed("") {
		return
	}
	k := s.provider(c)
	if k == nil || !c.admitMethod() {
		return
	}
	c.dispatch(k)
}

// provider returns the provider that the call is for, or answers the call with its absence.
func (s *Session) provider(c *call) *conn {
	k := c.slot.await(c.ctx)
	if k == nil {
		c.fail(protocol.Unavailable, audit.Failed, c.slot.absent(), reason{Reason: "provider-absent"})
	}
	return k
}

// dispatch sends the request to the provider.
func (c *call) dispatch(k *conn) {
	c.mu.Lock()
	if c.answered { // cancelled, and nobody works on it yet
		c.release()
		c.mu.Unlock()
		return
	}
	c.conn, c.sent = k, true
	if c.upstream.IsZero() {
		c.upstream = c.id
	}
	if c.timer == nil {
		c.arm()
	}
	out := c.outbound(k)
	if !c.resent && c.rounds == 0 { // it was admitted once
		c.note(audit.Event{Action: audit.Admit, Outcome: audit.Dispatched, Allowed: true})
	}
	c.mu.Unlock()
	// What still waits for room when nobody wants it any more has not left.
	if err := k.send(c.ctx, out, c); err != nil {
		c.lost(link.Failure{Err: err, NotRun: errors.Is(err, link.ErrNotSent), SessionGone: errors.Is(err, errGone)})
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told { // which may have overtaken it
		k.link.Cancel(out.ID, "cancelled")
	}
}

// resend sends a request again, once, whose connection was given up before it left, or which
// the provider refused because it had forgotten the session: that proves that it was not run.
func (b *Broker) resend(c *call) {
	c.conn.renew()
	k := c.slot.await(c.ctx)
	if k == nil {
		c.lost(link.Failure{Err: errRenew, NotRun: true})
		return
	}
	if missing := c.unreserved(k); missing != nil && c.who.Kind == KindTool { // it may not have declared itself yet
		c.unsupported(missing)
		return
	}
	c.dispatch(k)
}

// outbound is the request as the provider gets it: with an id and a progress token of the
// broker's, and without what was said to the broker alone. The caller holds c.mu.
func (c *call) outbound(k *conn) link.Outgoing {
	m := protocol.Strip(c.request)
	edits := []jsonrpc.Edit{jsonrpc.SetID(c.upstream)}
	if c.token != nil {
		edits = append(edits, jsonrpc.Set(c.upstream.Raw(), "params", "_meta", protocol.MetaProgress))
	}
	if protocol.EraOf(k.hello.version) == protocol.Modern {
		edits = append(edits, c.introduce(k)...)
	}
	if raw := c.b.callers.issue(c, k); raw != nil {
		edits = append(edits, jsonrpc.Set(raw, "params", "_meta", protocol.MetaCaller))
	}
	return link.Outgoing{Message: m.Edit(edits...), Version: k.hello.version, Header: k.slot.headers(c.request)}
}

// introduce says on a request of the revision without sessions who asks and what it can
// do. What a client of an older revision can be asked, the broker asks it; see input.go.
func (c *call) introduce(k *conn) []jsonrpc.Edit {
	version, _ := json.Marshal(k.hello.version)
	var capabilities json.RawMessage
	info := c.b.infoJSON
	var edits []jsonrpc.Edit
	if c.modern() {
		capabilities, _ = c.request.Param("_meta", protocol.MetaCapabilities)
		if c.session.slot.all { // where nobody could ask for a task
			capabilities = jsonrpc.DeleteIn(capabilities, "extensions", tasksExtension)
		}
		if own, ok := c.request.Param("_meta", protocol.MetaClientInfo); ok {
			info = own
		}
		if level, ok := c.request.Param("_meta", protocol.MetaLogLevel); ok {
			edits = append(edits, jsonrpc.Set(level, "params", "_meta", protocol.MetaLogLevel))
		}
	} else {
		capabilities = c.session.answers()
		if level := c.session.logLevel(); level != "" {
			edits = append(edits, jsonrpc.Set(jsonrpc.Encode(level), "params", "_meta", protocol.MetaLogLevel))
		}
	}
	return append(edits,
		jsonrpc.Set(version, "params", "_meta", protocol.MetaVersion),
		jsonrpc.Set(capabilities, "params", "_meta", protocol.MetaCapabilities),
		jsonrpc.Set(info, "params", "_meta", protocol.MetaClientInfo))
}

// inbound is the provider's answer as the client gets it: with the client's id, and in the
// form of the client's revision.
func (c *call) inbound(m *jsonrpc.Message) (*jsonrpc.Message, int) {
	m = m.Edit(jsonrpc.SetID(c.request.ID))
	modern := c.modern()
	if m.Err != nil {
		return c.inboundError(m)
	}
	kind := resultType(m)
	switch {
	case modern:
		m = c.dress(m)
	case kind == "complete":
		m = m.Edit(c.undress()...)
	case kind != "":
		e, status := c.b.settings().Table.Error(protocol.Unavailable, c.version,
			"The provider's answer, \""+clip(kind)+"\", needs protocol revision "+protocol.V20260728, reason{Reason: "unsupported-result"})
		return jsonrpc.NewError(c.request.ID, e), status
	}
	return m, okStatus
}

// inboundError passes an error on, with a code that means the same in the client's revision.
func (c *call) inboundError(m *jsonrpc.Message) (*jsonrpc.Message, int) {
	f := m.Fault()
	if f == nil {
		return m, okStatus
	}
	c.session.mustVisit(f)
	code, status := protocol.Passed(f.Code, c.conn.hello.version, c.version)
	if code != f.Code {
		m = m.Edit(jsonrpc.Set(json.RawMessage(strconv.FormatInt(code, 10)), "error", "code"))
	}
	return m, status
}

// tasksExtension is what a client declares that can wait for tasks (SEP-2663).
const tasksExtension = "io.modelcontextprotocol/tasks"

// cacheable are the methods whose results say for how long they hold.
var cacheable = map[string]bool{"tools/list": true, "prompts/list": true, "resources/list": true,
	"resources/templates/list": true, "resources/read": true, "server/discover": true}

// dress gives a result what the newest revision asks for and an older provider has not
// said.
func (c *call) dress(m *jsonrpc.Message) *jsonrpc.Message {
	if m.Result == nil || !c.modern() {
		return m
	}
	var edits []jsonrpc.Edit
	add := func(member, value string) {
		if _, ok := jsonrpc.Lookup(m.Result, member); !ok {
			edits = append(edits, jsonrpc.Set(json.RawMessage(value), "result", member))
		}
	}
	add("resultType", `"complete"`)
	if cacheable[c.request.Method] {
		add("ttlMs", "0")
		add("cacheScope", `"private"`)
	}
	if len(edits) == 0 {
		return m
	}
	return m.Edit(edits...)
}

// undress takes from a result what only the newest revision knows.
func (c *call) undress() []jsonrpc.Edit {
	edits := []jsonrpc.Edit{jsonrpc.Delete("result", "resultType")}
	if cacheable[c.request.Method] {
		edits = append(edits, jsonrpc.Delete("result", "ttlMs"), jsonrpc.Delete("result", "cacheScope"))
	}
	return edits
}

func (c *call) modern() bool { return protocol.EraOf(c.version) == protocol.Modern }

// resultType is what kind of result m has, empty before the revision that has kinds.
func resultType(m *jsonrpc.Message) string {
	raw, ok := jsonrpc.Lookup(m.Result, "resultType")
	kind, isText := jsonrpc.Text(raw)
	if ok && !isText && string(raw) != "null" {
		return "?"
	}
	return kind
}
