package processes

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// processes is how many share the store.
const processes = 3

// full reports whether the long runs are asked for.
func full() bool { return os.Getenv("ACCEPTANCE") == "full" }

func TestThreeProcesses(t *testing.T) {
	t.Run("C-W13 on one Redis", func(t *testing.T) {
		load(t, task{URI: "redis://" + redistest.Start(t).Addr, Exact: true})
	})
	t.Run("on one Redis, with leases", func(t *testing.T) {
		load(t, task{URI: "redis://" + redistest.Start(t).Addr, Leases: true})
	})
	t.Run("on a Cluster of three masters", func(t *testing.T) {
		load(t, task{URI: redistest.Cluster(t).URI()})
	})
	t.Run("on a Cluster of three masters, with leases", func(t *testing.T) {
		load(t, task{URI: redistest.Cluster(t).URI(), Leases: true})
	})
}

// seed is the one of the environment, or a fresh one.
func seed(t *testing.T) uint64 {
	s := os.Getenv("SEED")
	if s == "" {
		return rand.Uint64N(1e9)
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("SEED: %v", err)
	}
	return n
}

// load starts the processes on one store, and checks what they were granted together.
func load(t *testing.T, job task) {
	half := 2500 * time.Millisecond // and a half: what comes back after whole seconds is back
	if full() {
		half = 30500 * time.Millisecond
	}
	start := time.Now().Add(500 * time.Millisecond)
	job.Seed, job.Start, job.Turn, job.End = seed(t), start, start.Add(half), start.Add(2*half)
	var logs []string
	var running []*exec.Cmd
	for i := range processes {
		job.Number, job.Log = uint64(i), filepath.Join(t.TempDir(), "log")
		text, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), taskVariable+"="+string(text))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running, logs = append(running, cmd), append(logs, job.Log)
	}
	for _, cmd := range running {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	var log []entry
	for _, file := range logs {
		part, err := read(file)
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, part...)
	}
	report(t, &job, cells(log))
}

// A sum is what the cells of one rule have come to.
type sum struct {
	cells, units  int
	fullest, used float64 // the fullest that any was, and the least that any gave
}

// report says how full the cells ever were, and how much of what they could give they gave
// while they were what callers ran into. No cell may ever be fuller than full.
func report(t *testing.T, job *task, byCell map[uint64][]entry) {
	p := policy(job.Leases)
	sums := make([]sum, len(p.Rules))
	for _, list := range byCell {
		rule := list[0].Rule
		fullest, used := judge(list, p.Rules[rule].Limits[0].Limit, job)
		s := &sums[rule]
		if s.cells == 0 || used < s.used {
			s.used = used
		}
		s.cells, s.fullest = s.cells+1, max(s.fullest, fullest)
		s.units += int(unitsIn(list, 0, math.MaxInt64))
	}
	var text strings.Builder
	fmt.Fprintf(&text, "SEED=%d, %d processes with %d callers each, %v\n", job.Seed, processes, callers, job.End.Sub(job.Start))
	fmt.Fprintf(&text, "| rule | keys | granted | fullest ÷ limit | admitted ÷ limit | bound |\n|---|---|---|---|---|---|\n")
	for i, s := range sums {
		r := &p.Rules[i]
		bound := 1.0
		if l, ok := r.Limits[0].Lease(r.Lease); ok {
			bound = l.Least()
		}
		fmt.Fprintf(&text, "| %s | %d | %d | %.4f | %.4f | %.4f |\n", r.ID, s.cells, s.units, s.fullest, s.used, bound)
		if s.fullest > 1 {
			t.Errorf("%s: a cell was filled to %.4f of its limit", r.ID, s.fullest)
		}
		if s.used < bound*least() {
			t.Errorf("%s: a cell gave %.4f of its limit, want %.4f of %.4f", r.ID, s.used, least(), bound)
		}
		if s.cells != keys[i] {
			t.Errorf("%s: %d keys, want %d", r.ID, s.cells, keys[i])
		}
	}
	t.Log(text.String())
}

// judge says how full a cell ever was, and which part of its limit it gave.
func judge(list []entry, l limit.Limit, job *task) (fullest, used float64) {
	start, turn, end := job.Start.UnixMicro(), job.Turn.UnixMicro(), job.End.UnixMicro()
	rule := list[0].Rule
	first, span := max(start, list[0].To), int64(l.Per)
	switch rule {
	case bucket:
		could := float64(l.Burst) + float64(l.Max*(turn-first))/float64(span)
		most := l.Burst*span + l.Max // it may be a microsecond early: decision 0005
		return float64(mostOwed(list, l.Max, span)) / float64(most), float64(unitsIn(list, first, turn)) / could
	case slots:
		held, part := mostHeld(list, first+int64(limit.Second)/2, turn, l.Max)
		return float64(held) / float64(l.Max), part
	case shared: // what callers run into from the turn on
		first, turn = turn+span, end
	}
	n := (turn - first) / span
	given := unitsIn(list, first, first+n*span)
	return float64(mostInWindow(list, span)) / float64(l.Max), float64(given) / float64(n*l.Max)
}

// least is the part of a limit that callers must be given who always want more. The short
// run shares its machine with other tests; it finds whoever is kept waiting without reason.
func least() float64 {
	if full() {
		return 0.99
	}
	return 0.5
}
