package hazelcast

import (
	"context"
	"errors"
	"time"
)

// startBreaker lets the breaker probe the cluster, and tell when it opens and closes.
func (s *Store) startBreaker() {
	s.breaker.Start(s.probe, func(err error) {
		s.log.Error("hazelcast: the cluster does not answer; calls are decided by their rules' onStoreError", "error", err)
	}, func(d time.Duration) {
		s.log.Info("hazelcast: the cluster answers again", "after", d.Round(time.Millisecond))
	})
}

// note counts the end of an operation.
func (s *Store) note(err error) {
	switch {
	case err == nil:
		s.breaker.Answered()
	case !errors.Is(err, context.Canceled): // else the store is closed
		s.breaker.Failed(err)
	}
}
