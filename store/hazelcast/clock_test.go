package hazelcast

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/limit"
)

// tell lets c ask a cluster whose clock is ahead of ours by ahead, with an answer that
// takes up to a millisecond each way.
func tell(c *clock, ahead limit.Micros) {
	before := c.own()
	time.Sleep(rand.N(time.Millisecond))
	told := (c.own() + ahead) / 1000 * 1000
	time.Sleep(rand.N(time.Millisecond))
	c.learn(before, c.own(), told)
}

func TestClock(t *testing.T) {
	const ahead = 1_700_000_000_000_123
	t.Run("it is not ahead, at most 2 ms behind, and hardly ever more than 1.5 ms", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := clock{start: time.Now()}
			far := 0 // by one answer alone, one time in eight
			for i := range 1000 {
				tell(&c, ahead)
				behind := c.own() + ahead - c.now()
				if behind < 0 || behind > 2000 {
					t.Fatalf("after %d answers it is %d µs behind", i+1, behind)
				}
				if behind > 1500 {
					far++
				}
				time.Sleep(syncEvery)
			}
			if far > 20 {
				t.Errorf("it was more than 1.5 ms behind after %d answers of 1000", far)
			}
		})
	})
	t.Run("P-001 it does not go back by a little, and follows a clock that was set", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := clock{start: time.Now()}
			tell(&c, ahead)
			was := c.now()
			tell(&c, ahead-limit.Second/2)
			if now := c.now(); now < was {
				t.Errorf("it went back by %d µs", was-now)
			}
			time.Sleep(time.Second)
			if behind := c.own() + ahead - limit.Second/2 - c.now(); behind < 0 || behind > 3000 {
				t.Errorf("it is %d µs behind after a small step back", behind)
			}
			for _, step := range []limit.Micros{-limit.Hour, limit.Hour} {
				tell(&c, ahead+step)
				if behind := c.own() + ahead + step - c.now(); behind < 0 || behind > 3000 {
					t.Errorf("it is %d µs behind after a step of %d", behind, step)
				}
			}
		})
	})
	t.Run("it is carried forward to what another process has told, if that can be", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := clock{start: time.Now()}
			tell(&c, ahead)
			near := c.now() + 500
			if c.after(near) != near || c.now() != near {
				t.Error("it is not carried forward")
			}
			if far := near + limit.Hour; c.after(far) != near {
				t.Error("it believes a time that cannot be")
			}
		})
	})
}
