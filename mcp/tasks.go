package mcp

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// A task is work that goes on after a call of a tool has been answered with the task's id.
// The call's slots are held until the task is seen to have ended, or has outlived its time.
type task struct {
	id       string
	slot     *slot
	identity string
	call     *call
	timer    *time.Timer // ends it when its time is over

	pause time.Duration // between looks at it
	next  *time.Timer   // the next look
	seen  time.Time     // when somebody last looked
}

// taskGrace is what a task may live on beyond the time that its provider gave it, and
// taskLife is that time where it gave none.
const (
	taskGrace = 10 * time.Second
	taskLife  = time.Hour
	maxTasks  = 10_000
)

// tasks are those that have not been seen to end, and who may ask for them.
type tasks struct {
	mu sync.Mutex
	by map[taskKey]*task
}

type taskKey struct {
	slot *slot
	id   string
}

// taskState is what results and notifications say of a task.
type taskState struct {
	TaskID string `json:"taskId"`
	Status string `json:"status"`
	TTL    *int64 `json:"ttl"`
	TTLMs  *int64 `json:"ttlMs"`
	// Poll and PollMs are how often the provider wants to be asked, in milliseconds.
	Poll   int64 `json:"pollInterval"`
	PollMs int64 `json:"pollIntervalMs"`
}

// created reads the task that an answer to a call of a tool creates. In 2025-11-25 it stands
// in a member of its own; since then the kind of the result says what it is.
func created(m *jsonrpc.Message) (taskState, bool) {
	if resultType(m) == "task" {
		return stateOf(m.Result)
	}
	inner, _ := jsonrpc.Lookup(m.Result, "task")
	return stateOf(inner)
}

// stateOf reads what a result or a notification says of a task.
func stateOf(raw json.RawMessage) (taskState, bool) {
	var t taskState
	if _, ok := jsonrpc.Lookup(raw, "taskId"); !ok {
		return t, false // most answers, of which some are large
	}
	return t, json.Unmarshal(raw, &t) == nil && t.TaskID != "" && t.Status != ""
}

func (t *taskState) over() bool {
	return t.Status == "completed" || t.Status == "failed" || t.Status == "cancelled"
}

func (t *taskState) life() time.Duration {
	for _, ms := range []*int64{t.TTLMs, t.TTL} {
		if ms != nil && *ms >= 0 && *ms < int64(24*time.Hour/time.Millisecond) {
			return time.Duration(*ms)*time.Millisecond + taskGrace
		}
	}
	return taskLife
}

// watch looks at an answer: it may name a new task, with which the call's work goes on, or
// say that one has ended. It reports whether the call's work goes on.
func (ts *tasks) watch(c *call, m *jsonrpc.Message) (goesOn bool) {
	if m.Err != nil {
		return false
	}
	switch c.request.Method {
	case "tools/call":
		t, ok := created(m)
		return ok && !t.over() && ts.begin(c, t)
	case "tasks/result":
		ts.over(c.slot, taskOf(c))
	case "tasks/get", "tasks/cancel", "tasks/update":
		if t, ok := stateOf(m.Result); ok {
			ts.saw(c.slot, t)
		}
	}
	return false
}

// begin notes a task. More than a bound are noted only of calls that hold slots, whose number
// rules bound: the work goes on, and nothing else would say when it ends. The caller holds c.mu.
func (ts *tasks) begin(c *call, state taskState) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	key := taskKey{c.slot, state.TaskID}
	if ts.by[key] != nil || len(ts.by) >= maxTasks && !c.holds() {
		return false
	}
	t := &task{id: state.TaskID, slot: c.slot, identity: c.caller.Identity(), call: c}
	t.timer = time.AfterFunc(state.life(), func() { ts.over(t.slot, t.id) })
	t.pause, t.seen = state.pause(), time.Now()
	t.next = time.AfterFunc(t.pause, func() { ts.poll(t) })
	ts.by[key] = t
	c.task = t.id
	return true
}

// over ends a task's hold on slots. Its owner may still ask for it until its time is over.
func (ts *tasks) over(sl *slot, id string) {
	ts.mu.Lock()
	t := ts.by[taskKey{sl, id}]
	delete(ts.by, taskKey{sl, id})
	ts.mu.Unlock()
	if t == nil {
		return
	}
	t.timer.Stop()
	t.next.Stop()
	c := t.call
	// Not in the caller's goroutine: it may hold another call's lock.
	c.b.running.Go(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.release() {
			c.note(audit.Event{Action: audit.Complete, Outcome: audit.Completed, Allowed: true})
		}
	})
	c.b.owners.keep(sl, id, t.identity)
}

// owner returns whose task it is.
func (ts *tasks) owner(sl *slot, id string) (string, bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.by[taskKey{sl, id}]; t != nil {
		return t.identity, true
	}
	return "", false
}

// status takes a provider's word about a task, and tells its owner.
func (ts *tasks) status(sl *slot, m *jsonrpc.Message) {
	t, ok := stateOf(m.Params)
	if !ok {
		return
	}
	identity, ok := sl.b.ownerOf(sl, t.TaskID)
	ts.saw(sl, t)
	if !ok {
		return
	}
	sl.b.sessions.each(sl, func(s *Session) {
		if s.caller().Identity() == identity {
			s.push(m)
		}
	})
}

func taskOf(c *call) string {
	raw, _ := c.request.Param("taskId")
	var id string
	_ = json.Unmarshal(raw, &id)
	return id
}

// aboutTask passes a question about a task on, if the task is the caller's. Somebody
// else's is as unknown as one that never was.
func (s *Session) aboutTask(c *call) {
	if !c.plainSlot() || !c.allowed("") {
		return
	}
	if identity, ok := s.b.ownerOf(s.slot, taskOf(c)); !ok || identity != s.caller().Identity() {
		c.failWith(protocol.UnknownTool, audit.Event{Action: audit.Admit, Outcome: audit.Invalid, Reason: "unknown-task"}, "Unknown task", nil)
		return
	}
	if k := s.provider(c); k != nil {
		c.dispatch(k)
	}
}

// listTasks lists the caller's own among the provider's.
func (s *Session) listTasks(c *call) {
	if !c.plainSlot() || !c.allowed("") {
		return
	}
	c.filter = func(m *jsonrpc.Message) *jsonrpc.Message {
		return keepOnly(m, "tasks", func(raw json.RawMessage) bool {
			t, ok := stateOf(raw)
			identity, known := s.b.ownerOf(s.slot, t.TaskID)
			return ok && known && identity == s.caller().Identity()
		})
	}
	if k := s.provider(c); k != nil {
		c.dispatch(k)
	}
}

// ownerOf returns whose a task is that goes on, or that has ended a while ago.
func (b *Broker) ownerOf(sl *slot, id string) (string, bool) {
	if identity, ok := b.tasks.owner(sl, id); ok {
		return identity, true
	}
	return b.owners.of(sl, id)
}

// owners remembers for a while whose a task was that has ended.
type owners struct {
	mu    sync.Mutex
	by    map[taskKey]string
	order []taskKey
}

func (o *owners) init() { o.by = map[taskKey]string{} }

func (o *owners) keep(sl *slot, id, identity string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := taskKey{sl, id}
	if _, known := o.by[key]; !known {
		o.order = append(o.order, key)
	}
	o.by[key] = identity
	if len(o.order) > maxTasks {
		delete(o.by, o.order[0])
		o.order = slices.Delete(o.order, 0, 1)
	}
}

func (o *owners) of(sl *slot, id string) (string, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	identity, ok := o.by[taskKey{sl, id}]
	return identity, ok
}
