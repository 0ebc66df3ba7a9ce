package mcp

import (
	"encoding/json"
	"strings"

	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// handler returns what the broker does itself about a method, nil for those that are the
// provider's business and pass through.
func handler(method string) func(*Session, *call) {
	switch method {
	case "initialize":
		return (*Session).initialize
	case "ping":
		return (*Session).ping
	case "server/discover":
		return (*Session).discover
	case "logging/setLevel":
		return (*Session).setLevel
	case "tools/list":
		return (*Session).listTools
	case "tools/call":
		return (*Session).callTool
	case "resources/subscribe":
		return (*Session).subscribe
	case "resources/unsubscribe":
		return (*Session).unsubscribe
	case "subscriptions/listen":
		return (*Session).listen
	case "tasks/list":
		return (*Session).listTasks
	case "tasks/get", "tasks/result", "tasks/cancel", "tasks/update":
		return (*Session).aboutTask
	}
	if strings.HasPrefix(method, "notifications/") || strings.HasPrefix(method, "broker/") {
		return (*Session).unknown // what providers ask the broker is no business of clients
	}
	return nil
}

// eraOf are the methods that one era alone has: sessions, and what hangs on them, are gone
// from 2026-07-28 on.
var eraOf = map[string]protocol.Era{"initialize": protocol.Legacy, "ping": protocol.Legacy, "logging/setLevel": protocol.Legacy,
	"resources/subscribe": protocol.Legacy, "resources/unsubscribe": protocol.Legacy, "tasks/list": protocol.Legacy,
	"tasks/result": protocol.Legacy, "subscriptions/listen": protocol.Modern, "tasks/update": protocol.Modern}

// known are the methods that an audit may name: any other is the client's text.
var known = map[string]bool{"initialize": true, "ping": true, "server/discover": true, "logging/setLevel": true,
	"tools/list": true, "tools/call": true, "prompts/list": true, "prompts/get": true, "resources/list": true,
	"resources/read": true, "resources/templates/list": true, "resources/subscribe": true, "resources/unsubscribe": true,
	"completion/complete": true, "subscriptions/listen": true, "tasks/list": true, "tasks/get": true, "tasks/result": true,
	"tasks/cancel": true, "tasks/update": true}

// unknown answers a request for something that is none.
func (s *Session) unknown(c *call) {
	c.fail(protocol.UnknownMethod, audit.Invalid, "Method not found", nil)
}

func (s *Session) ping(c *call) {
	c.result(struct{}{}, audit.Completed)
}

// initialize opens the session. The provider has been initialized long ago, by the broker;
// what it said then is what the client hears.
func (s *Session) initialize(c *call) {
	var p struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
	}
	if err := json.Unmarshal(c.request.Params, &p); err != nil || p.ProtocolVersion == "" {
		c.failCode(codeInvalidParams, badRequestStatus, "initialize needs protocolVersion, capabilities and clientInfo")
		return
	}
	h, ok := s.hello(c)
	if !ok {
		return
	}
	version := protocol.Negotiate(p.ProtocolVersion)
	s.mu.Lock()
	again := s.version != ""
	if !again {
		s.version, s.capabilities = version, p.Capabilities
	}
	s.mu.Unlock()
	if again {
		c.failCode(codeInvalidRequest, badRequestStatus, "The session has been initialized already")
		return
	}
	s.look()
	c.learn(func() { c.version = version })
	info := h.info
	if !isObject(info) { // which clients of these revisions insist on
		info = s.b.infoJSON
	}
	c.result(initialized{version, h.offered(), info, text(h.instructions)}, audit.Completed)
}

// isObject reports whether a value is one with members.
func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// text returns a value that is a text, or nothing.
func text(raw json.RawMessage) json.RawMessage {
	if len(raw) > 0 && raw[0] == '"' {
		return raw
	}
	return nil
}

type initialized struct {
	ProtocolVersion string          `json:"protocolVersion"`
	Capabilities    json.RawMessage `json:"capabilities"`
	ServerInfo      json.RawMessage `json:"serverInfo"`
	Instructions    json.RawMessage `json:"instructions,omitempty"`
}

// hello returns what the slot's provider has said of itself, or answers the call with why
// there is none.
func (s *Session) hello(c *call) (hello, bool) {
	if s.slot.all || s.slot.builtin != nil {
		return s.b.hello(s.slot), true
	}
	k := s.provider(c)
	if k == nil {
		return hello{}, false
	}
	return k.hello, true
}

// offered are the capabilities that a client hears of. Changes of lists are told by the
// broker, whether the provider tells them or not: it may have been replaced.
func (h *hello) offered() json.RawMessage {
	raw := h.capabilities
	if !isObject(raw) {
		return json.RawMessage(`{}`)
	}
	if h.has("tools") {
		raw = jsonrpc.SetIn(raw, json.RawMessage("true"), "tools", "listChanged")
	}
	return raw
}

type discovered struct {
	ResultType        string                     `json:"resultType"`
	SupportedVersions []string                   `json:"supportedVersions"`
	Capabilities      json.RawMessage            `json:"capabilities"`
	Instructions      json.RawMessage            `json:"instructions,omitempty"`
	TTLMs             int                        `json:"ttlMs"`
	CacheScope        string                     `json:"cacheScope"`
	Meta              map[string]json.RawMessage `json:"_meta,omitempty"`
}

// discover says what the slot is. It is never the provider's own answer: which revisions
// are spoken here is the broker's business.
func (s *Session) discover(c *call) {
	h, ok := s.hello(c)
	if !ok {
		return
	}
	d := discovered{ResultType: "complete", SupportedVersions: protocol.Versions(), Capabilities: h.offered(), Instructions: text(h.instructions), CacheScope: "private"}
	if isObject(h.info) {
		d.Meta = map[string]json.RawMessage{protocol.MetaServerInfo: h.info}
	}
	c.result(d, audit.Completed)
}

// setLevel keeps the level for this client, and asks the provider for the most talkative
// that any of its clients wants.
func (s *Session) setLevel(c *call) {
	raw, _ := c.request.Param("level")
	var level string
	if json.Unmarshal(raw, &level) != nil || severity(level) < 0 {
		c.failCode(codeInvalidParams, okStatus, "level is one of debug, info, notice, warning, error, critical, alert and emergency")
		return
	}
	if !c.plainSlot() || !c.allowed("") {
		return
	}
	k := s.provider(c)
	if k == nil {
		return
	}
	s.mu.Lock()
	s.level = level
	s.mu.Unlock()
	if protocol.EraOf(k.hello.version) == protocol.Modern { // which hears of it with each call
		c.result(struct{}{}, audit.Completed)
		return
	}
	most := s.b.sessions.mostTalkative(s.slot)
	text, _ := json.Marshal(most)
	c.learn(func() { c.request = c.request.Edit(jsonrpc.Set(text, "params", "level")) })
	if c.admitMethod() {
		c.dispatch(k)
	}
}

// levels of log messages, the most talkative first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

func severity(level string) int {
	for i, l := range levels {
		if l == level {
			return i
		}
	}
	return -1
}

// wants reports whether the client wants to see a log message of a level.
func (s *Session) wants(level string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level == "" || severity(level) >= severity(s.level)
}
