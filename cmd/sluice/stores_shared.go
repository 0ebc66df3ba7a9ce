package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/sluicegate/sluice/admin"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/store/lease"
	"github.com/sluicegate/sluice/store/memory"
	"github.com/sluicegate/sluice/store/redis"
)

// startWait bounds how long a start waits for a store on the network. Whoever starts
// sluice starts it again.
const startWait = 10 * time.Second

func openRedis(s *config.Store, log *slog.Logger) (books, error) {
	o, err := redisOptions(s.Redis, log)
	if err != nil {
		return books{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	store, err := redis.Open(ctx, o)
	if err != nil {
		return books{}, err
	}
	b := books{Store: store, secret: []byte(s.Redis.KeySecret.Reveal()), stats: func() admin.Stats { return redisStats(store.Stats()) }}
	b.lease()
	b.share(s.Redis.Processes)
	return b, nil
}

func redisOptions(r *config.RedisStore, log *slog.Logger) (redis.Options, error) {
	o := redis.Options{URI: r.URI.Reveal(), Prefix: r.Prefix, Wait: r.Wait, Retention: r.Retention, Silence: r.Silence, AskAlways: !r.RepeatRefusals, Logger: log}
	if r.TLS == nil {
		return o, nil
	}
	var err error
	if o.TLS, err = clientTLS(r.TLS); err != nil {
		return o, fmt.Errorf("store.redis.tls: %w", err)
	}
	return o, nil
}

func redisStats(st redis.Stats) admin.Stats {
	s := admin.Stats{
		Backend: "redis", Keys: st.Keys, Hits: st.Hits, Misses: st.Misses, Evictions: st.Evictions, Bytes: st.Bytes,
	}
	if st.Failure != nil {
		s.Degraded, s.BreakerOpen, s.Fault = true, true, st.Failure.Error()
	}
	return s
}

// lease lets rules with a lease take units ahead from a store that processes share.
func (b *books) lease() {
	leases, stats := lease.New(b.Store), b.stats
	b.Store, b.stats = leases, func() admin.Stats {
		st, of := stats(), leases.Stats()
		st.Leases = &admin.LeaseStats{Keys: int64(of.Keys), Spent: of.Spent, Asked: of.Asked}
		return st
	}
}

// share gives the process its shares, if it is known how many processes there are.
func (b *books) share(processes *int64) {
	if processes != nil {
		b.processes, b.shares = int(*processes), memory.New(memory.Options{})
	}
}

// clientTLS are the certificates with which a store is spoken to.
func clientTLS(t *config.ClientTLS) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, err
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New(t.CAFile + " holds no certificate in PEM")
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("the certificate %s: %w", t.CertFile, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
