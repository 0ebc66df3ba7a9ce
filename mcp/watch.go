package mcp

import (
	"context"
	"time"
)

// A task of which nobody hears holds its slots until its time is over, which is long. Where
// the client does not ask how it stands, the broker does.

// Bounds of how often it asks.
const (
	shortestPoll = 5 * time.Second
	longestPoll  = time.Minute
)

// pause is how long the provider wants to be left alone between two questions, within bounds.
func (t *taskState) pause() time.Duration {
	ms := min(max(t.Poll, t.PollMs, 0), int64(longestPoll/time.Millisecond))
	return max(time.Duration(ms)*time.Millisecond, shortestPoll)
}

// saw takes what a provider says of a task, whoever has asked.
func (ts *tasks) saw(sl *slot, state taskState) {
	ts.mu.Lock()
	if t := ts.by[taskKey{sl, state.TaskID}]; t != nil {
		t.seen = time.Now()
	}
	ts.mu.Unlock()
	if state.over() {
		ts.over(sl, state.TaskID)
	}
}

// poll asks the provider how a task stands, unless somebody has just heard of it.
func (ts *tasks) poll(t *task) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.by[taskKey{t.slot, t.id}] != t {
		return
	}
	wait := t.pause - time.Since(t.seen)
	if k := t.slot.connection(); wait <= 0 {
		wait = t.pause
		if k != nil {
			t.slot.b.running.Go(func() { ts.look(k, t) })
		}
	}
	t.next.Reset(wait)
}

// look asks once. Of a provider that does not answer, or knows no such task, nothing is
// learnt: the task may go on.
func (ts *tasks) look(k *conn, t *task) {
	ctx, cancel := context.WithTimeout(t.slot.b.ctx, listTime)
	defer cancel()
	params := map[string]any{"taskId": t.id}
	if meta := k.ourMeta(); meta != nil {
		params["_meta"] = meta
	}
	m, err := k.ask(ctx, "tasks/get", params)
	if err != nil || m.Err != nil {
		return
	}
	if state, ok := stateOf(m.Result); ok && state.TaskID == t.id {
		ts.saw(t.slot, state)
	}
}
