package hazelcast

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sluicegate/sluice/limit"
)

// A member says no time, but the numbers of a FlakeIdGenerator contain the cluster's: the
// master member's, in milliseconds since 2018, above 22 bits.
// https://docs.hazelcast.com/hazelcast/5.3/data-structures/flake-id-generator
const (
	flakeBits  = 22
	flakeEpoch = 1_514_764_800_000
)

const (
	syncEvery = 500 * time.Millisecond
	drift     = 5000                // two clocks drift apart by less than one part of so many
	maxBack   = limit.Second        // a step back that is waited out
	maxApart  = 30 * 24 * time.Hour // from this machine's clock, at the start
)

// A clock tells the cluster's time between one question and the next. An answer bounds the
// difference to this process's own clock from both sides: the cluster said a millisecond
// after it was asked, and before it was heard. Bounds of several answers together are
// narrower than a millisecond. The clock goes by the lower one, and so is never ahead of
// the cluster.
type clock struct {
	mu    sync.Mutex
	start time.Time
	low   limit.Micros // the least difference, at asked
	high  limit.Micros
	asked limit.Micros
	last  limit.Micros
}

func (c *clock) own() limit.Micros { return limit.Micros(time.Since(c.start).Microseconds()) }

// now returns the cluster's time. It never goes back, but for a step of the cluster's
// clock that is too long to stand still for.
func (c *clock) now() limit.Micros { return c.after(0) }

// after is now, but not before a time that another process has told: a process whose
// clock is a moment behind is carried forward.
func (c *clock) after(t limit.Micros) limit.Micros {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, c.own()+c.low)
	if t-c.last < maxBack {
		c.last = max(c.last, t)
	}
	return c.last
}

// ask asks once for the time.
func (c *clock) ask(ctx context.Context, next func(context.Context) (int64, error)) error {
	before := c.own()
	id, err := next(ctx)
	if err != nil {
		return err
	}
	c.learn(before, c.own(), limit.Micros(id>>flakeBits+flakeEpoch)*1000)
	return nil
}

// learn takes in that the cluster said told between two times of the process's own.
func (c *clock) learn(before, after, told limit.Micros) {
	c.mu.Lock()
	defer c.mu.Unlock()
	low, high := told-after, told+1000-before
	wider := (after - c.asked) / drift
	kept, most := c.low-wider, c.high+wider
	if c.asked != 0 && kept <= high && low <= most {
		low, high = max(low, kept), min(high, most)
	}
	c.low, c.high, c.asked = low, high, after
	if now := after + low; c.last > now+maxBack {
		c.last = now
	}
}

var errClock = errors.New("hazelcast: the cluster's time is more than 30 days from this machine's; set the clocks, and leave the FlakeIdGenerator of the store's map as it is by default")

// check reports whether the numbers can be times.
func (c *clock) check() error {
	apart := time.Until(time.UnixMicro(int64(c.now())))
	if apart > maxApart || apart < -maxApart {
		return errClock
	}
	return nil
}

// keep asks again and again, until ctx ends.
func (c *clock) keep(ctx context.Context, wait time.Duration, next func(context.Context) (int64, error)) {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		one, cancel := context.WithTimeout(ctx, wait)
		_ = c.ask(one, next) // a silent member is the breaker's business
		cancel()
	}
}
