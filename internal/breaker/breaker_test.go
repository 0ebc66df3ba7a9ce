package breaker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/internal/breaker"
)

var errDown = errors.New("down")

// A server answers probes as it is told, and counts what the breaker says.
type server struct {
	breaker.Breaker
	down           atomic.Bool
	probes         atomic.Int32
	opened, closed atomic.Int32
	lasted         time.Duration
}

func newServer() *server {
	s := &server{}
	s.Start(func(ctx context.Context) error {
		s.probes.Add(1)
		if s.down.Load() {
			<-ctx.Done()
			return errDown
		}
		return nil
	}, func(error) { s.opened.Add(1) }, func(d time.Duration) {
		s.lasted = d
		s.closed.Add(1)
	})
	return s
}

func (s *server) fail(n int) {
	for range n {
		s.Failed(errDown)
	}
}

func TestBreaker(t *testing.T) {
	inBubble := func(name string, check func(*testing.T, *server)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				defer s.Stop()
				check(t, s)
			})
		})
	}
	inBubble("it opens after three failures in a row", func(t *testing.T, s *server) {
		s.fail(2)
		s.Answered()
		s.fail(2)
		if s.IsOpen() || s.Failure() != nil || s.opened.Load() != 0 {
			t.Error("an answer in between does not count")
		}
		s.fail(1)
		if !s.IsOpen() || s.Failure() != errDown || s.opened.Load() != 1 {
			t.Errorf("open %v, because of %v", s.IsOpen(), s.Failure())
		}
	})
	inBubble("P-160 a probe closes it, and no caller is let try", func(t *testing.T, s *server) {
		s.down.Store(true)
		s.fail(3)
		time.Sleep(10 * (breaker.ProbeEvery + breaker.ProbeWait))
		s.Answered() // of a question that was sent before
		if !s.IsOpen() || s.probes.Load() < 9 || s.probes.Load() > 10 {
			t.Errorf("open %v after %d probes", s.IsOpen(), s.probes.Load())
		}
		s.down.Store(false)
		time.Sleep(breaker.ProbeEvery + breaker.ProbeWait)
		synctest.Wait()
		if s.IsOpen() || s.Failure() != nil || s.closed.Load() != 1 || s.lasted < 6*time.Second {
			t.Errorf("open %v, closed %d times, after %v", s.IsOpen(), s.closed.Load(), s.lasted)
		}
		s.fail(2)
		if s.IsOpen() {
			t.Error("it counts failures of before")
		}
	})
	inBubble("each change is told once, however many fail", func(t *testing.T, s *server) {
		for round := range int32(3) {
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() { s.fail(10) })
			}
			all.Wait()
			time.Sleep(2 * breaker.ProbeEvery)
			if s.opened.Load() != round+1 || s.closed.Load() != round+1 {
				t.Errorf("round %d: opened %d times, closed %d times", round, s.opened.Load(), s.closed.Load())
			}
		}
	})
	inBubble("after Stop nothing is probed, and it opens no more", func(t *testing.T, s *server) {
		s.down.Store(true)
		s.fail(3)
		time.Sleep(breaker.ProbeEvery + breaker.ProbeWait/2)
		s.Stop()
		probes := s.probes.Load()
		s.fail(10)
		time.Sleep(time.Minute)
		if s.probes.Load() != probes || s.opened.Load() != 1 || s.closed.Load() != 0 {
			t.Errorf("%d probes more, opened %d times, closed %d times", s.probes.Load()-probes, s.opened.Load(), s.closed.Load())
		}
		never := newServer()
		never.Stop()
		never.fail(10)
		if never.IsOpen() {
			t.Error("it opens after Stop")
		}
	})
}
