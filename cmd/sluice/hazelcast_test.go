package main

import (
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluicegate/sluice/admin"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/store/hazelcast"
	"github.com/sluicegate/sluice/store/hazelcast/hazelcasttest"
)

// TestHazelcastScripts runs the command with a cluster of one member. Beside what other
// scripts find there are its address in MEMBER, its name in CLUSTER, and
//
//	member pause|resume   freezes the member, and lets it go on
func TestHazelcastScripts(t *testing.T) {
	member := hazelcasttest.Start(t, 1)[0]
	p := scripts(t, "testdata/hazelcast")
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("MEMBER", member.Addr)
		env.Setenv("CLUSTER", member.Cluster)
		env.Setenv("STORE_SECRET", "0123456789abcdefghijklmnopqrstuv")
		return setup(env)
	}
	p.Cmds["member"] = func(ts *testscript.TestScript, neg bool, args []string) {
		do, ok := map[string]func(){"pause": member.Pause, "resume": member.Resume}[strings.Join(args, " ")]
		if neg || !ok {
			ts.Fatalf("usage: member pause|resume")
		}
		do()
	}
	testscript.Run(t, p)
}

func TestHazelcastOptions(t *testing.T) {
	t.Setenv("STORE_SECRET", "0123456789abcdefghijklmnopqrstuv")
	t.Setenv("PASSWORD", "hunter2")
	c, problems := config.Load(nil, config.Options{Set: []string{
		"store.backend=hazelcast", "store.hazelcast.addresses=[10.0.0.1:5701, 10.0.0.2:5701]", "store.hazelcast.cluster=prod",
		"store.hazelcast.user=sluice", "store.hazelcast.password=${PASSWORD}", "store.hazelcast.keySecret=${STORE_SECRET}",
		"store.hazelcast.map=books", "store.hazelcast.wait=80ms", "store.hazelcast.retention=2h",
	}})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	got, err := hazelcastOptions(c.Store.Hazelcast, log)
	want := hazelcast.Options{
		Addresses: []string{"10.0.0.1:5701", "10.0.0.2:5701"}, Cluster: "prod", User: "sluice", Password: "hunter2", Map: "books",
		Wait: 80 * time.Millisecond, Retention: 2 * time.Hour, Logger: log,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	t.Run("B-58 what the store says of itself", func(t *testing.T) {
		got := hazelcastStats(hazelcast.Stats{Failure: hazelcast.ErrUnavailable})
		want := admin.Stats{Backend: "hazelcast", Degraded: true, BreakerOpen: true, Fault: hazelcast.ErrUnavailable.Error()}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}
