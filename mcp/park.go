package mcp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// A tool of the newest revision may answer that it needs more input. The client then calls
// it again under a new id, with the provider's opaque state. That is one call in the eyes
// of every rule: the first keeps its slots, and the second goes on with its admission. The
// state comes back through the client, so the broker puts its own around it and signs it.

// parkLife is how long a call waits for its input. After that the next one is a new call.
const parkLife = 10 * time.Minute

const maxParked = 10_000

// parking keeps the admissions of calls that wait for input.
type parking struct {
	secret []byte
	mu     sync.Mutex
	by     map[string]*call
}

// parkedState is what the client carries to and fro.
type parkedState struct {
	Call  string          `json:"c"`
	Slot  string          `json:"s"`
	Who   string          `json:"w"`
	Tool  string          `json:"t"`
	State json.RawMessage `json:"p,omitempty"` // the provider's own
	Until int64           `json:"u"`           // Unix seconds
}

func (p *parking) seal(s parkedState) string {
	text, _ := json.Marshal(s)
	return base64.RawURLEncoding.EncodeToString(append(p.sign(text), text...))
}

func (p *parking) sign(text []byte) []byte {
	h := hmac.New(sha256.New, p.secret)
	h.Write(text)
	return h.Sum(nil)
}

func (p *parking) open(sealed string) (s parkedState, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil || len(raw) < sha256.Size || !hmac.Equal(raw[:sha256.Size], p.sign(raw[sha256.Size:])) {
		return s, false
	}
	return s, json.Unmarshal(raw[sha256.Size:], &s) == nil
}

// parks reports whether m asks the client for input. The call is answered then, and keeps
// what it holds. The caller holds c.mu.
func (c *call) parks(m *jsonrpc.Message) bool {
	if c.request.Method != "tools/call" || m.Err != nil || resultType(m) != "input_required" || !c.modern() {
		return false
	}
	p := &c.b.parking
	room := p.put(c)
	if !room { // the client comes back with a new call
		c.release()
	}
	inner, _ := jsonrpc.Lookup(m.Result, "requestState")
	until := time.Now().Add(parkLife)
	sealed, _ := json.Marshal(p.seal(parkedState{c.name, c.slot.name, c.caller.Identity(), c.toolName(), inner, until.Unix()}))
	answer, status := c.inbound(m)
	c.answer(answer.Edit(jsonrpc.Set(sealed, "result", "requestState")), status, audit.Completed)
	if !room {
		c.note(audit.Event{Action: audit.Complete, Outcome: audit.Completed, Allowed: true})
		return true
	}
	c.parked = true
	c.timer = time.AfterFunc(parkLife, c.unclaimed)
	c.shed()
	return true
}

// unclaimed ends a call whose client has not come back with the input. The provider does
// not work on it: it has answered.
func (c *call) unclaimed() {
	if c.b.parking.take(c.name) == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.release() {
		c.note(audit.Event{Action: audit.Complete, Outcome: audit.TimedOut, Reason: "no-input"})
	}
}

// put parks a call, unless too many are.
func (p *parking) put(c *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.by) >= maxParked {
		return false
	}
	p.by[c.name] = c
	return true
}

func (p *parking) take(id string) *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.by[id]
	delete(p.by, id)
	return c
}

// unpark goes on with the admission of an earlier call, if c brings the input that one
// asked for. It reports whether it does, and false for ok if it has answered c: a state
// that the broker has not sealed, or for another caller, is worth nothing.
func (c *call) unpark() (again, ok bool) {
	raw, has := c.request.Param("requestState")
	if !has || !c.modern() {
		return false, true
	}
	var sealed string
	_ = json.Unmarshal(raw, &sealed)
	p := &c.b.parking
	s, valid := p.open(sealed)
	if !valid || s.Slot != c.slot.name || s.Who != c.caller.Identity() || s.Tool != c.toolName() {
		c.failCode(codeInvalidParams, okStatus, "requestState is not what the tool's last answer carried")
		return false, false
	}
	c.learn(func() { c.request = c.request.Edit(requestState(s.State)) })
	if time.Now().Unix() > s.Until {
		return false, true
	}
	first := p.take(s.Call)
	if first == nil {
		return false, true
	}
	return c.inherit(first), true
}

// requestState makes a provider's own state, nil for none, that of a request.
func requestState(state json.RawMessage) jsonrpc.Edit {
	if state == nil {
		return jsonrpc.Delete("params", "requestState")
	}
	return jsonrpc.Set(state, "params", "requestState")
}

// inherit takes over what a parked call holds. It reports false if that has ended.
func (c *call) inherit(first *call) bool {
	first.mu.Lock()
	admission, since, held := first.admission, first.since, !first.ended
	if held {
		first.timer.Stop()
		first.admission, first.ended = sluice.Admission{}, true
		c.b.calls.hand(first.name, c)
	}
	first.mu.Unlock()
	if !held {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended { // cancelled meanwhile
		admission.Release()
		c.b.calls.remove(c)
		return true
	}
	c.admission, c.admitted, c.since = admission, true, since
	c.watchHolds()
	return true
}
