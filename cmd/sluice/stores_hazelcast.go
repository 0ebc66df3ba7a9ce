package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sluicegate/sluice/admin"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/store/hazelcast"
)

func openHazelcast(s *config.Store, log *slog.Logger) (books, error) {
	o, err := hazelcastOptions(s.Hazelcast, log)
	if err != nil {
		return books{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	store, err := hazelcast.Open(ctx, o)
	if err != nil {
		return books{}, err
	}
	b := books{Store: store, secret: []byte(s.Hazelcast.KeySecret.Reveal()), stats: func() admin.Stats { return hazelcastStats(store.Stats()) }}
	b.lease()
	b.share(s.Hazelcast.Processes)
	return b, nil
}

func hazelcastOptions(h *config.HazelcastStore, log *slog.Logger) (hazelcast.Options, error) {
	o := hazelcast.Options{
		Addresses: h.Addresses, Cluster: h.Cluster, User: h.User, Password: h.Password.Reveal(), Map: h.Map,
		Wait: h.Wait, Retention: h.Retention, Logger: log,
	}
	if h.TLS == nil {
		return o, nil
	}
	var err error
	if o.TLS, err = clientTLS(h.TLS); err != nil {
		return o, fmt.Errorf("store.hazelcast.tls: %w", err)
	}
	return o, nil
}

func hazelcastStats(st hazelcast.Stats) admin.Stats {
	s := admin.Stats{Backend: "hazelcast"}
	if st.Failure != nil {
		s.Degraded, s.BreakerOpen, s.Fault = true, true, st.Failure.Error()
	}
	return s
}
