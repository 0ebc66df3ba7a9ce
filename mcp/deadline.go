package mcp

import (
	"time"

	"github.com/sluicegate/sluice/mcp/audit"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// timeouts are how long the call may take, without progress and with it.
func (c *call) timeouts() (after, most time.Duration) {
	o := c.slot.conf()
	if t, ok := o.ToolTimeouts[c.tool.nameOr("")]; ok {
		return t.Request, t.MaxRequest
	}
	return o.RequestTimeout, o.MaxRequest
}

func (c *call) timeout() time.Duration {
	after, _ := c.timeouts()
	return after
}

// arm starts the deadline. The caller holds c.mu.
func (c *call) arm() {
	after, most := c.timeouts()
	if after == 0 {
		return
	}
	c.due, c.latest = time.Now().Add(after), time.Now().Add(max(most, after))
	c.timer = time.AfterFunc(after, c.expire)
}

// extend moves the deadline on, but not beyond the hard one. The caller holds c.mu.
func (c *call) extend() {
	if after, most := c.timeouts(); c.timer != nil && most > 0 {
		left := min(after, time.Until(c.latest))
		c.due = time.Now().Add(left)
		c.timer.Reset(left)
	}
}

// expire is the deadline.
func (c *call) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered || c.ended {
		return
	}
	limit := c.timeout().Milliseconds()
	c.stop(audit.Timeout, audit.TimedOut)
	c.refuse(protocol.Unavailable, audit.TimedOut, c.slot.lateText(limit), reason{Reason: "provider-timeout"})
}

// watchDeadline has the deadline still do what rules say, to a call whose client is told before
// it that the provider has gone. The caller holds c.mu.
func (c *call) watchDeadline() {
	if !c.due.IsZero() {
		c.lapsing = time.AfterFunc(time.Until(c.due), c.lapse)
	}
}

// lapse is the deadline of such a call.
func (c *call) lapse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if released := c.giveUp(); len(released) > 0 {
		c.note(audit.Event{Action: audit.Timeout, Outcome: audit.TimedOut, ReleasedRules: released})
	}
	if len(c.kept) == 0 {
		c.release()
	}
}
