package redis_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/redis"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

func TestStats(t *testing.T) {
	const bound = 100 << 20
	server := redistest.Start(t, "--maxmemory", fmt.Sprint(bound), "--maxmemory-policy", "allkeys-lru")
	log := &journal{}
	s := open(t, redis.Options{
		URI: "redis://" + server.Addr, Wait: time.Second, Silence: silence, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	defer s.Close()
	t.Run("B-58 what the server says", func(t *testing.T) {
		before := s.Stats()
		for cell := range uint64(5) {
			if _, err := do(s, take(limit.Bucket(1, limit.Hour, 9), cell+1, 1)); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, 5*time.Second, "five keys and misses more", func() bool {
			now := s.Stats()
			return now.Keys == before.Keys+5 && now.Misses == before.Misses+5
		})
		if now := s.Stats(); now.Bytes == 0 || now.MaxBytes != bound || !now.Evicts || now.Failure != nil || now.Waiting != 0 {
			t.Errorf("%+v", now)
		}
	})
	t.Run("one line for a server that forgets counters", func(t *testing.T) {
		time.Sleep(silence)
		if n := strings.Count(strings.Join(log.lines(), "\n"), "set maxmemory-policy to noeviction"); n != 1 {
			t.Errorf("%d lines: %v", n, log.lines())
		}
	})
	t.Run("why it is not asked", func(t *testing.T) {
		server.Kill()
		eventually(t, 5*time.Second, "a failure", func() bool { return s.Stats().Failure != nil })
	})
}
