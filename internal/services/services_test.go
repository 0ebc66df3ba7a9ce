package services

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/store/hazelcast/hazelcasttest"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// TestEverythingStarts prints one line for each service: where it answers, or that it is
// left out. All of them are stopped when it ends.
func TestEverythingStarts(t *testing.T) {
	for _, c := range []struct {
		name  string
		start func(t *testing.T) (where string)
	}{
		{"Redis, single", func(t *testing.T) string { return redis(redistest.Start(t)) }},
		{"Redis, Sentinel with a master and a replica", sentinel},
		{"Redis, Cluster of three masters with replicas", func(t *testing.T) string { return redis(redistest.Cluster(t).Nodes[0]) }},
		{"Hazelcast, one member", func(t *testing.T) string { return hazelcasttest.Version + " at " + hazelcasttest.Start(t, 1)[0].Addr }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Cleanup(func() {
				switch {
				case t.Skipped():
					say("left out %s: make services as root on Debian installs it", c.name)
				case t.Failed():
					say("%s does not start", c.name)
				}
			})
			say("%s: %s", c.name, c.start(t))
		})
	}
	say("all stopped again")
}

func say(format string, args ...any) { fmt.Printf("services: "+format+"\n", args...) }

// redis says which version answers, and where.
func redis(s *redistest.Server) string {
	_, version, _ := strings.Cut(s.Info("server"), "redis_version:")
	version, _, _ = strings.Cut(version, "\r")
	return version + " at " + s.Addr
}

func sentinel(t *testing.T) string {
	master := redistest.Start(t)
	redistest.Replica(t, master)
	watcher := redistest.Sentinel(t, master)
	for began := time.Now(); !strings.Contains(watcher.Info("sentinel"), "slaves=1"); {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("the Sentinel does not see the replica: %s", watcher.Info("sentinel"))
		}
		time.Sleep(10 * time.Millisecond)
	}
	return redis(watcher)
}
