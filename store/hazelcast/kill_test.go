package hazelcast_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/hazelcast"
	"github.com/sluicegate/sluice/store/hazelcast/hazelcasttest"
)

// The environment of a child process that takes until it is killed.
const (
	childAddr    = "SLUICE_TEST_HAZELCAST_ADDR"
	childCluster = "SLUICE_TEST_HAZELCAST_CLUSTER"
	childMap     = "SLUICE_TEST_HAZELCAST_MAP"
)

func TestMain(m *testing.M) {
	if os.Getenv(childAddr) != "" {
		takeForEver()
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// all are cells of which the children take one unit each, all or none.
func all() []ledger.Step {
	return []ledger.Step{
		cell(1, limit.Slots(1<<40)), cell(2, limit.Window(1<<30, limit.Day)),
		cell(3, limit.Bucket(1, limit.Day, 1<<20)), cell(4, limit.Slots(1<<41)),
	}
}

const childCallers = 4

// takeForEver says a line for every Take that was confirmed.
func takeForEver() {
	s, err := hazelcast.Open(context.Background(), hazelcast.Options{
		Addresses: []string{os.Getenv(childAddr)}, Cluster: os.Getenv(childCluster), Map: os.Getenv(childMap), Wait: 5 * time.Second,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	var wg sync.WaitGroup
	for i := range childCallers {
		wg.Go(func() {
			for {
				cmd := ledger.Command{Steps: all()}
				if i%2 == 0 {
					cmd.ID = ledger.ID{Hi: rand.Uint64(), Lo: rand.Uint64()}
				}
				res := make([]ledger.Result, 1)
				if err := s.Apply(context.Background(), []ledger.Command{cmd}, res); err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				if res[0].Status == ledger.Done {
					os.Stdout.WriteString("done\n")
				}
			}
		})
	}
	wg.Wait()
}

func TestKilledProcesses(t *testing.T) {
	member := hazelcasttest.Start(t, 1)[0]
	o := options(member)
	const children, rounds = 2, 20
	var confirmed atomic.Int64
	var wg sync.WaitGroup
	for range children {
		wg.Go(func() {
			for range rounds {
				confirmed.Add(killed(t, o))
			}
		})
	}
	wg.Wait()
	s := open(t, o)
	defer s.Close()
	steps := all()
	taken := used(t, s, steps[0])
	for _, step := range steps[1:] {
		if n := used(t, s, step); n != taken {
			t.Errorf("%d units of %v are used, and %d of %v", n, step.Limit, taken, steps[0].Limit)
		}
	}
	sure := confirmed.Load()
	if taken < sure || taken > sure+children*rounds*childCallers {
		t.Errorf("%d are used, %d were confirmed before %d kills", taken, sure, children*rounds)
	}
	t.Logf("%d kills, %d confirmed, %d used", children*rounds, sure, taken)
}

// killed starts a child, kills it at a random moment, and returns how many takes it had
// confirmed.
func killed(t *testing.T, o hazelcast.Options) (n int64) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childAddr+"="+o.Addresses[0], childCluster+"="+o.Cluster, childMap+"="+o.Map)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return 0
	}
	life := rand.N(100 * time.Millisecond)
	for lines := bufio.NewScanner(out); lines.Scan(); n++ {
		if n == 0 {
			time.AfterFunc(life, func() { _ = cmd.Process.Kill() })
		}
	}
	_ = cmd.Wait() // was killed
	if n == 0 {
		t.Error("a child confirmed nothing")
	}
	return n
}
