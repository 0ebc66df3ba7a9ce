package bench

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/store/redis/redistest"
)

const (
	turn   = 100 * time.Millisecond // how long a row is asked before the next one is
	sample = 4                      // one of so many decisions is timed
)

// A contest is the rows of one workload, in turn: a burst of other work on the machine
// hits all of them alike.
type contest struct {
	server *redistest.Server
	rows   []contestant
	work   []worker
	order  []uint32
	list   []string
}

// BenchmarkRemote/<workload>/<callers>/<row> is decisions whose books others can share, by
// callers of whom each waits for its answer. dec/s is decisions a second, p50-ns and p99-ns
// how long a caller waits, redis-ns/dec the CPU of the server for one. Run with -benchtime 5x
// for five turns of each row.
func BenchmarkRemote(b *testing.B) {
	for _, w := range []workload{
		{"uni100k", 100_000, deep, func(_ int, r *rand.Rand) uint32 { return r.Uint32N(100_000) }},
		{"hot", 1, deep, nil},
	} {
		b.Run(w.name, func(b *testing.B) {
			c := contest{
				server: redistest.Start(b), rows: find(func(c contestant) bool { return c.remote != nil }),
				order: w.visit(), list: keys()[:w.keys],
			}
			for _, row := range c.rows {
				c.work = append(c.work, row.remote(b, c.server, w.quota))
				c.fill(b, len(c.work)-1)
			}
			for _, callers := range []int{1, 16, 64, 256} {
				b.Run(strconv.Itoa(callers), func(b *testing.B) { c.play(b, callers) })
			}
		})
	}
}

// turns is how many each row has: the -benchtime, which counts them.
func turns(b *testing.B) int {
	text := flag.Lookup("test.benchtime").Value.String()
	n, err := strconv.Atoi(strings.TrimSuffix(text, "x"))
	if err != nil {
		b.Fatalf("-benchtime %s: want a number of turns, such as 5x", text)
	}
	return n
}

// fill lets row see every key.
func (c *contest) fill(b *testing.B, row int) {
	const callers = 64
	var failed atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			allow := c.work[row]()
			for k := i; k < len(c.list); k += callers {
				if !allow(c.list[k]) {
					failed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := failed.Load(); n > 0 {
		b.Fatalf("%s: %d of %d keys were refused", c.rows[row].name, n, len(c.list))
	}
}

// play lets the rows take turns, and reports each as a benchmark of its own.
func (c *contest) play(b *testing.B, callers int) {
	scores := make([]score, len(c.rows))
	for range turns(b) {
		for i := range c.rows {
			scores[i].add(c.take(i, callers))
		}
	}
	for i, row := range c.rows {
		b.Run(row.name, func(b *testing.B) { scores[i].report(b, row.elsewhere) })
	}
}

// A score is what a row has done in its turns.
type score struct {
	decisions, refused int
	wall, server       time.Duration // the server's is CPU time
	waits              []int64       // ns
}

func (s *score) add(o score) {
	s.decisions += o.decisions
	s.refused += o.refused
	s.wall += o.wall
	s.server += o.server
	s.waits = append(s.waits, o.waits...)
}

func (s *score) report(b *testing.B, elsewhere bool) {
	if s.refused > 0 {
		b.Errorf("refused %d of %d, want none", s.refused, s.decisions)
	}
	slices.Sort(s.waits)
	n := float64(s.decisions)
	b.ReportMetric(n/s.wall.Seconds(), "dec/s")
	b.ReportMetric(float64(s.waits[len(s.waits)/2]), "p50-ns")
	b.ReportMetric(float64(s.waits[len(s.waits)*99/100]), "p99-ns")
	if !elsewhere {
		b.ReportMetric(float64(s.server.Nanoseconds())/n, "redis-ns/dec")
	}
	b.ReportMetric(0, "ns/op")
}

// take lets one row decide for the time of a turn.
func (c *contest) take(row, callers int) score {
	var stop atomic.Bool
	var all sync.WaitGroup
	scores := make([]score, callers)
	start, cpu := time.Now(), c.serverTime()
	for i := range callers {
		all.Go(func() { scores[i] = c.ask(c.work[row](), &stop) })
	}
	time.Sleep(turn)
	stop.Store(true)
	all.Wait()
	sum := score{wall: time.Since(start), server: c.serverTime() - cpu}
	for _, s := range scores {
		sum.add(s)
	}
	return sum
}

// ask decides until it is told to stop.
func (c *contest) ask(allow func(string) bool, stop *atomic.Bool) (s score) {
	at := rand.Uint32()
	for ; !stop.Load(); s.decisions++ {
		timed := s.decisions%sample == 0
		var start int64
		if timed {
			start = clock()
		}
		if !allow(c.list[c.order[at%visits]]) {
			s.refused++
		}
		if timed {
			s.waits = append(s.waits, clock()-start)
		}
		at++
	}
	return s
}

// serverTime is the CPU time that the server has used.
func (c *contest) serverTime() (sum time.Duration) {
	for line := range strings.Lines(c.server.Info("cpu")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			sum += time.Duration(must(strconv.ParseFloat(value, 64)) * float64(time.Second))
		}
	}
	return sum
}
