package redis_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/store/redis/redistest"
)

// A scene is servers and what happens to them.
type scene struct {
	uri    string // where the store is told they are
	strike func()
	// heal ends the trouble, and returns when there is a server again that works.
	heal func()
	// passes says that the trouble ends by itself, and heal only waits for that.
	passes bool
	// wait is how long the store waits; zero is its own choice.
	wait time.Duration
	// survived says that callers notice nothing.
	survived bool
	// forgets says that a server may be lost together with what it had confirmed.
	forgets bool
}

// behind is a scene of one server behind a proxy.
func behind(trouble func(*proxy)) func(*testing.T) scene {
	return func(t *testing.T) scene {
		p := newProxy(t, redistest.Start(t).Addr)
		return scene{uri: p.uri(), strike: func() { trouble(p) }, heal: p.heal}
	}
}

var faults = []struct {
	name  string
	scene func(*testing.T) scene
}{
	{"P-153 black hole", behind((*proxy).swallow)},
	{"P-154 takes and never answers", behind((*proxy).swallowAnswers)},
	{"P-156 six seconds late", behind(func(p *proxy) { p.delay(6000) })},
	{"connections reset", behind((*proxy).reset)},
	{"frozen", func(t *testing.T) scene {
		s := redistest.Start(t)
		return scene{uri: "redis://" + s.Addr, strike: s.Stop, heal: s.Continue}
	}},
	{"P-160 killed and started again, empty", func(t *testing.T) scene {
		s := redistest.Start(t)
		return scene{uri: "redis://" + s.Addr, strike: s.Kill, heal: s.Run, forgets: true}
	}},
	{"P-129 SCRIPT FLUSH, ten times", forgetful},
	{"P-134 READONLY, the master steps down", stepsDown},
	{"failover by Sentinel, the master killed", failsOver},
	{"a master of a Cluster killed", losesMaster},
}

// forgetful is a server that is told ten times to forget its scripts.
func forgetful(t *testing.T) scene {
	s := redistest.Start(t)
	done := make(chan struct{})
	flush := func() {
		defer close(done)
		for range 10 {
			s.Do("SCRIPT", "FLUSH")
			time.Sleep(100 * time.Millisecond)
		}
	}
	return scene{uri: "redis://" + s.Addr, strike: func() { go flush() }, heal: func() { <-done }, wait: time.Second, survived: true}
}

// stepsDown is a master that hands over to its replica and goes on as one, while clients
// keep their connections and a name leads to the new master.
func stepsDown(t *testing.T) scene {
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	replica := redistest.Replica(t, master)
	name := newRouter(t, master.Addr)
	return scene{
		uri: "redis://" + name.Addr().String(),
		strike: func() {
			master.Do("FAILOVER")
			name.to.Store(replica.Addr)
		},
		heal:   func() { awaitMaster(t, replica) },
		passes: true,
	}
}

func failsOver(t *testing.T) scene {
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	replica := redistest.Replica(t, master)
	sentinel := redistest.Sentinel(t, master)
	eventually(t, 15*time.Second, "the Sentinel knows the replica", func() bool {
		return strings.Contains(sentinel.Info("sentinel"), "slaves=1")
	})
	return scene{
		uri:     fmt.Sprintf("redis://%s?master_set=books", sentinel.Addr),
		strike:  master.Kill,
		heal:    func() { awaitMaster(t, replica) },
		passes:  true,
		forgets: true,
	}
}

// losesMaster is a Cluster in which the master dies that has the cells of these rules: all
// that are shared by all calls are in one slot.
func losesMaster(t *testing.T) scene {
	g := redistest.Cluster(t)
	master := g.Owner("{AAAAAAAAAAA}")
	replica := g.Nodes[slices.Index(g.Nodes, master)+3]
	return scene{uri: g.URI(), strike: master.Kill, heal: func() { awaitMaster(t, replica) }, passes: true, forgets: true}
}

func awaitMaster(t *testing.T, s *redistest.Server) {
	eventually(t, 30*time.Second, "the replica is the master", s.IsMaster)
}
