package main

import (
	"errors"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/admin"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/store/redis"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

func TestRedisOptions(t *testing.T) {
	t.Setenv("STORE_SECRET", "0123456789abcdefghijklmnopqrstuv")
	server := redistest.Start(t)
	c, problems := config.Load(nil, config.Options{Set: []string{
		"store.backend=redis", "store.redis.uri=redis://" + server.Addr, "store.redis.keySecret=${STORE_SECRET}",
		"store.redis.prefix=books-", "store.redis.wait=750ms", "store.redis.retention=2h", "store.redis.silence=9s",
		"store.redis.processes=4", "store.redis.repeatRefusals=false",
	}})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	got, err := redisOptions(c.Store.Redis, log)
	want := redis.Options{URI: "redis://" + server.Addr, Prefix: "books-", Wait: 750 * time.Millisecond, Retention: 2 * time.Hour, Silence: 9 * time.Second, AskAlways: true, Logger: log}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	b, err := openStore(&c.Store, log)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close() //nolint:errcheck // nothing was written
	if string(b.secret) != "0123456789abcdefghijklmnopqrstuv" || b.processes != 4 || b.shares == nil {
		t.Errorf("%+v", b)
	}
	if _, ok := b.Store.(sluice.Waker); !ok {
		t.Error("callers in line are not told what other replicas give back")
	}
	t.Run("B-58 what the store says of itself", func(t *testing.T) {
		// Of the server: the probe of the start, and the process.
		if st := b.stats(); st.Backend != "redis" || st.Keys != 2 || st.Bytes == 0 || st.Degraded {
			t.Errorf("%+v", st)
		}
	})
}

func TestRedisStats(t *testing.T) {
	t.Run("B-58", func(t *testing.T) {
		got := redisStats(redis.Stats{Figures: redis.Figures{Keys: 7, Hits: 5, Misses: 3, Evictions: 2, Bytes: 4096}, Failure: errors.New("gone")})
		want := admin.Stats{Backend: "redis", Keys: 7, Hits: 5, Misses: 3, Evictions: 2, Bytes: 4096, Degraded: true, BreakerOpen: true, Fault: "gone"}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}
