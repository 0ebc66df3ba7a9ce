package redis

import (
	"context"
	"time"

	"github.com/sluicegate/sluice/internal/breaker"
)

// startBreaker lets n's breaker probe n, and tell when it opens and closes.
func (s *Store) startBreaker(n *node) {
	log := s.log
	if n.addr != "" {
		log = log.With("server", n.addr)
	}
	probe := func(ctx context.Context) error {
		if err := s.probe(ctx, n); isDown(err) {
			return err
		}
		return nil
	}
	n.breaker.Start(probe, func(err error) {
		log.Error("redis: the server does not answer; calls are decided by their rules' onStoreError", "error", err)
	}, func(d time.Duration) {
		log.Info("redis: the server answers again, or another does in its place", "after", d.Round(time.Millisecond))
	})
}

// note counts the end of a script call.
func (n *node) note(err error) {
	if isDown(err) && !isTryAgain(err) {
		n.breaker.Failed(err)
	} else {
		n.breaker.Answered()
	}
}

// While a server does not answer, other things than the breaker try it as often as that does,
// and as long.
const (
	probeEvery = breaker.ProbeEvery
	probeWait  = breaker.ProbeWait
)
