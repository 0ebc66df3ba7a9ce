package redis_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/redis"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// wall is this machine's time, which is the server's too.
func wall() limit.Micros { return limit.Micros(time.Now().UnixMicro()) }

// TestRepeatedWaits holds what is told without asking against the server's own clock,
// which is that of this machine.
func TestRepeatedWaits(t *testing.T) {
	server := redistest.Start(t)
	near, _ := openTwo(t, server)
	for i, l := range []limit.Limit{
		limit.Bucket(1, 150*limit.Millisecond, 5), limit.Window(5, 150*limit.Millisecond), limit.Pace(150 * limit.Millisecond),
	} {
		t.Run(l.String(), func(t *testing.T) {
			cmd := take(l, uint64(i), 1)
			res, err := do(near, cmd)
			for ; err == nil && res.Status == ledger.Done; res, err = do(near, cmd) {
			}
			end := res.At + res.Outcomes[0].Wait // as the server has said it
			before, refused, behind := scripts(t, server), 0, limit.Micros(0)
			for ; err == nil && res.Status == ledger.Refused; refused++ {
				if by := res.At + res.Outcomes[0].Wait; by < end-1 || by > end+1 {
					t.Fatalf("told to wait until %d µs after the server's time", by-end)
				}
				began := wall()
				if res, err = do(near, cmd); res.At > wall() {
					t.Fatalf("%d µs ahead of the server", res.At-wall())
				}
				behind = max(behind, began-res.At)
			}
			if err != nil || res.At < end {
				t.Errorf("passed %d µs after its time, %v", res.At-end, err)
			}
			n := scripts(t, server) - before
			t.Logf("%d refusals by %d script calls, at most %d µs behind the server, passed after %d µs", refused, n, behind, res.At-end)
			if n > 20 || behind > 100_000 || res.At > end+100_000 {
				t.Error("that is too much")
			}
		})
	}
	t.Run("its time does not go back", func(t *testing.T) {
		last := limit.Micros(0)
		for i := range 2000 {
			res, err := do(near, take(limit.Pace(limit.Hour), uint64(100+i%7), 1))
			if err != nil || res.At < last {
				t.Fatalf("it was %d and is %d, %v", last, res.At, err)
			}
			last = res.At
		}
	})
}

// TestRepeatedAnswers compares answers of a store that repeats refusals with those of the
// server, over random histories. SEED in the log repeats one by hand.
func TestRepeatedAnswers(t *testing.T) {
	server := redistest.Start(t)
	near, other := openTwo(t, server)
	seed := rand.Uint64()
	t.Logf("SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	limits := append(slices.Clone(kinds), limit.Pace(limit.Hour), limit.Cooldown(0))
	var grants []ledger.Command
	var story strings.Builder
	before, asked, refused := scripts(t, server), 0, 0
	for i := range 4000 {
		cmd := ledger.Command{Levels: r.IntN(2) == 0}
		for j := range 1 + r.IntN(3) {
			l := limits[r.IntN(len(limits))]
			cell := uint64(10*i/4000)*1000 + uint64(l.Kind)*10 + uint64(j)
			s := ledger.Step{Key: ledger.Key{Group: 1, Cell: cell}, Limit: l, N: 1 + r.Int64N(min(6, l.Capacity()))}
			s.Set = uint8(r.IntN(4) / 3)
			cmd.Steps = append(cmd.Steps, s)
		}
		switch k := r.IntN(60); {
		case k < 2 && len(grants) > 0:
			j := r.IntN(len(grants))
			cmd = grants[j]
			grants = slices.Delete(grants, j, j+1)
			cmd.Op = []ledger.Op{ledger.Void, ledger.Release}[k]
			must(t, near, ledger.Done, cmd)
		case k == 3:
			cmd.Op, cmd.Delay = ledger.Cool, limit.Micros(r.Int64N(int64(limit.Minute)))
			must(t, near, ledger.Done, cmd)
		case k == 4 && r.IntN(20) == 0:
			cmd = ledger.Command{Op: ledger.Reset, Group: 1}
			must(t, near, ledger.Done, cmd)
		default:
			peek := cmd
			peek.Op, peek.Steps = ledger.Peek, slices.Clone(cmd.Steps)
			want, err := do(other, peek)
			asked++
			if err != nil {
				t.Fatal(err)
			}
			for range 1 + r.IntN(4) {
				got, err := do(near, cmd)
				if err != nil {
					t.Fatal(err)
				}
				if text := differ(cmd, got, want); text != "" {
					t.Fatalf("step %d: %s: got %+v, want %+v, after\n%s", i, text, got, want, story.String())
				}
				if got.Status == ledger.Done {
					grant := cmd
					grant.At = got.At
					grants = append(grants, grant)
					break
				}
				refused++
			}
		}
		fmt.Fprintf(&story, "%+v\n", cmd)
		if story.Len() > 20_000 {
			story.Reset()
		}
	}
	n := scripts(t, server) - before - int64(asked)
	t.Logf("%d refusals by %d script calls", refused, n)
	if n >= int64(refused) {
		t.Error("hardly one was repeated")
	}
}

// differ says in what an answer to a Take is not what a Peek of it was told a moment ago.
// A cell that let it pass may have been remembered from before.
func differ(cmd ledger.Command, got, want ledger.Result) string {
	if got.Status != want.Status {
		return "status"
	}
	if len(got.Outcomes) != len(want.Outcomes) || len(got.Levels) != len(want.Levels) {
		return "lengths"
	}
	for i, w := range want.Outcomes {
		g := got.Outcomes[i]
		if g.OK {
			continue
		}
		end, by := g.Wait+got.At, w.Wait+want.At
		if w.OK || g.Never != w.Never || (g.Wait == 0) != (w.Wait == 0) || g.Wait > 0 && (end < by-2 || end > by+100_000) {
			return "outcomes"
		}
	}
	if got.Status == ledger.Done {
		return "" // the levels are those after it
	}
	for i, w := range want.Levels {
		if got.Outcomes[i].OK {
			continue
		}
		if g := got.Levels[i]; g.Left != w.Left || g.Max != w.Max || (g.Next == 0) != (w.Next == 0) || (g.Full == 0) != (w.Full == 0) {
			return "levels"
		}
	}
	return ""
}

func TestRepeatingAllocatesNothing(t *testing.T) {
	server := redistest.Start(t)
	near, _ := openTwo(t, server)
	for i, l := range kinds {
		cmd := take(l, uint64(i), 10)
		cmd.Levels = true
		must(t, near, ledger.Done, cmd)
		refuse(t, server, near, cmd)
		cmds, res := []ledger.Command{cmd}, make([]ledger.Result, 1)
		if n := testing.AllocsPerRun(1000, func() { near.Apply(context.Background(), cmds, res) }); n != 0 {
			t.Errorf("%v: %v allocations", l, n)
		}
	}
}

// BenchmarkRefusals measures refusals of one hot key by 64 callers, and how many script
// calls one takes.
func BenchmarkRefusals(b *testing.B) {
	server := redistest.Start(b)
	for _, always := range []bool{true, false} {
		b.Run(fmt.Sprintf("AskAlways=%v", always), func(b *testing.B) {
			s := open(b, redis.Options{URI: "redis://" + server.Addr, Wait: 10 * time.Second, AskAlways: always})
			defer s.Close()
			server.Flush()
			must(b, s, ledger.Done, take(limit.Bucket(1, limit.Hour, 1), 1, 1))
			hears(b, s)
			before := scripts(b, server)
			b.ReportAllocs()
			b.SetParallelism(max(1, 64/runtime.GOMAXPROCS(0)))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				cmds, res := []ledger.Command{take(limit.Bucket(1, limit.Hour, 1), 1, 1)}, make([]ledger.Result, 1)
				cmds[0].Levels = true
				for pb.Next() {
					if err := s.Apply(context.Background(), cmds, res); err != nil || res[0].Status != ledger.Refused {
						b.Fatalf("%+v, %v", res[0], err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "refusals/s")
			b.ReportMetric(float64(scripts(b, server)-before)/float64(b.N), "scripts/op")
		})
	}
}
