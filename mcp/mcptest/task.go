package mcptest

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// A task is a call that was answered before it was done.
type task struct {
	id, key string
	made    string
	modern  bool
	done    chan struct{}

	mu     sync.Mutex
	status string
}

func startTask(c *Call) error {
	c.p.mu.Lock()
	c.p.n++
	t := &task{id: fmt.Sprintf("task-%d", c.p.n), key: c.args.Key, made: time.Now().UTC().Format(time.RFC3339), modern: c.modern, status: "working", done: make(chan struct{})}
	c.p.tasks[t.id], c.p.tasks[t.key] = t, t
	c.p.mu.Unlock()
	if c.modern {
		answer := t.state()
		answer["resultType"] = "task"
		return c.Result(answer)
	}
	return c.Result(map[string]any{"task": t.state()})
}

// finish ends a task; false, if it has ended before.
func (t *task) finish(status string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status != "working" {
		return false
	}
	t.status = status
	close(t.done)
	return true
}

// state is a task in the words of its era.
func (t *task) state() map[string]any {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := map[string]any{"taskId": t.id, "status": t.status, "createdAt": t.made, "lastUpdatedAt": t.made}
	if !t.modern {
		state["ttl"] = 60_000
		return state
	}
	state["ttlMs"] = 60_000
	if t.status == "completed" {
		state["result"] = t.result()
	}
	return state
}

func (t *task) result() map[string]any {
	return map[string]any{"content": []any{map[string]any{"type": "text", "text": "done"}}}
}

// tasks answers the requests about tasks.
func (l *Line) tasks(f *Frame, out sender) {
	var q struct{ TaskID string }
	_ = json.Unmarshal(f.Params, &q) // then there is no such task
	l.p.mu.Lock()
	t := l.p.tasks[q.TaskID]
	l.p.mu.Unlock()
	if t == nil {
		_ = out.Send(message{ID: f.ID, Error: &Error{Code: -32602, Message: "Unknown task"}}.frame())
		return
	}
	if f.Method == "tasks/cancel" {
		t.finish("cancelled")
	}
	answer := t.state()
	switch {
	case t.modern && f.Method == "tasks/cancel":
		answer = map[string]any{"resultType": "complete"}
	case t.modern:
		answer["resultType"] = "complete"
	case f.Method == "tasks/result":
		select {
		case <-t.done:
		case <-l.p.closed:
		}
		answer = t.result()
		answer["_meta"] = map[string]any{"io.modelcontextprotocol/related-task": map[string]any{"taskId": t.id}}
	}
	_ = out.Send(message{ID: f.ID, Result: answer}.frame())
}
