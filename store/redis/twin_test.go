package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/limit/limittest"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// givenTime stands in place of serverTime: the last argument is the time, and cells are
// kept until long after the real time, which does not follow, while this one may go back.
// Nothing else of the script is different.
const givenTime = `local now, spare = tonumber(table.remove(ARGV)), 4000000000000000
`

// A twin is one cell inside a real server.
type twin struct {
	t      *testing.T
	client rueidis.Client
	script *rueidis.Lua
	store  *Store // for its names alone
	key    uint64
	quick  bool // the next Take goes the short way, if there is one
}

// twins returns a maker of twins that share one server.
func twins(t *testing.T) func(t *testing.T) *twin {
	server := redistest.Start(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	script := rueidis.NewLuaScript(scriptText(givenTime, "twin:", time.Hour))
	var last atomic.Uint64
	return func(t *testing.T) *twin {
		return &twin{t: t, client: client, script: script, store: &Store{prefix: "twin:"}, key: last.Add(1)}
	}
}

// do carries out cmd, whose step is about the twin's cell, at time now.
func (w *twin) do(now limit.Micros, cmd ledger.Command) ledger.Result {
	w.t.Helper()
	cmd.Steps[0].Key.Cell = w.key
	keys := []string{w.store.cellKey(cmd.Steps[0].Key)}
	text := string(appendCommand(nil, &cmd, cmd.Steps, flagLevels))
	w.quick = !w.quick && isQuick(&cmd)
	if w.quick {
		text = w.store.quickText(cmd)
	}
	cmd.Levels = true
	reply, err := w.script.Exec(context.Background(), w.client, keys, []string{text, fmt.Sprint(int64(now))}).ToString()
	if err != nil {
		w.t.Fatal(err)
	}
	var res ledger.Result
	r := reader{rest: []byte(reply)}
	res.Start(limit.Micros(read64(r.take(8))))
	if w.quick {
		r.readQuick(&cmd, &res)
	} else {
		r.take(4) // the length of the one answer
		r.readAnswer(&cmd, &res)
	}
	if r.bad || len(r.rest) > 0 {
		w.t.Fatalf("the answer to %+v cannot be read: %q", cmd, reply)
	}
	return res
}

// quickText is a call of one quick command.
func (s *Store) quickText(cmd ledger.Command) string {
	w := newSheet()
	w.add(s, s.newRequest([]ledger.Command{cmd}, question{}))
	return w.text()
}

func (w *twin) Take(l limit.Limit, now limit.Micros, n int64) limit.Verdict {
	w.t.Helper()
	res := w.do(now, ledger.Command{Steps: []ledger.Step{{Limit: l, N: n}}})
	if len(res.Outcomes) == 0 {
		return limit.Verdict{OK: true}
	}
	return res.Outcomes[0]
}

func (w *twin) Give(l limit.Limit, now, at limit.Micros, n int64) {
	w.t.Helper()
	w.do(now, ledger.Command{Op: ledger.Void, At: at, Steps: []ledger.Step{{Limit: l, N: n}}})
}

func (w *twin) Cool(l limit.Limit, now, d limit.Micros) {
	w.t.Helper()
	w.do(now, ledger.Command{Op: ledger.Cool, Delay: d, Steps: []ledger.Step{{Limit: l}}})
}

func (w *twin) Level(l limit.Limit, now limit.Micros) limit.Level {
	w.t.Helper()
	res := w.do(now, ledger.Command{Op: ledger.Peek, Steps: []ledger.Step{{Limit: l}}})
	return res.Levels[0]
}

func TestTwinTraces(t *testing.T) {
	fresh := twins(t)
	limittest.Run(t, func() limittest.Machine { return fresh(t) })
}

// A model is the Go side of a twin.
type model struct {
	limit limit.Limit
	cell  limit.Cell
}

func (m *model) at(l limit.Limit, now limit.Micros) *limit.Cell {
	if m.limit != (limit.Limit{}) {
		m.cell = l.Convert(m.limit, m.cell, now)
	}
	m.limit = l
	return &m.cell
}

// extent is how many random steps a test takes, and under which seed: ten thousand, a
// hundred thousand where CI is set. SEED=n repeats a run, STEPS=n makes it longer.
func extent(t *testing.T) (steps int, seed uint64) {
	steps, seed = 10_000, rand.Uint64()
	if os.Getenv("CI") != "" {
		steps = 100_000
	}
	for name, v := range map[string]func(uint64){
		"STEPS": func(n uint64) { steps = int(n) }, "SEED": func(n uint64) { seed = n },
	} {
		if s := os.Getenv(name); s != "" {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			v(n)
		}
	}
	t.Logf("%d steps, SEED=%d", steps, seed)
	return steps, seed
}

// TestTwins sends random steps of each kind through the Go and the script, and every answer
// must be the same to the microsecond.
func TestTwins(t *testing.T) {
	steps, seed := extent(t)
	fresh := twins(t)
	for kind := limit.KindBucket; kind <= limit.KindCooldown; kind++ {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(kind)))
			for done := 0; done < steps && !t.Failed(); {
				done += walk(t, r, kind, fresh(t))
			}
		})
	}
}

// walk takes one cell through some random steps and returns how many.
func walk(t *testing.T, r *rand.Rand, kind limit.Kind, w *twin) int {
	l := anyLimit(r, kind)
	var m model
	now := limit.Micros(1_900_000_000_000_000) // a time of day; beyond 2^50
	grants := []limit.Micros{now}
	n := 20 + r.IntN(200)
	if kind == limit.KindWindow && r.IntN(10) == 0 {
		n = 3000 // a log that is too long to be written whole
	}
	var story strings.Builder
	for i := range n {
		now = max(1, now+anyStep(r, l))
		if r.IntN(40) == 0 {
			l = anyLimit(r, []limit.Kind{kind, limit.Kind(1 + r.IntN(5))}[r.IntN(2)])
		}
		units := anyUnits(r, l)
		var want, got string
		switch r.IntN(8) {
		case 0:
			at := grants[r.IntN(len(grants))]
			fmt.Fprintf(&story, "%d: give %d from %d to %+v\n", now, units, at, l)
			l.Give(m.at(l, now), now, at, units)
			w.Give(l, now, at, units)
		case 1:
			d := limit.Micros(r.Int64N(int64(min(l.Per, 1<<40)) + 2))
			fmt.Fprintf(&story, "%d: cool %d %+v\n", now, d, l)
			l.Cool(m.at(l, now), now, d)
			w.Cool(l, now, d)
		case 2:
			fmt.Fprintf(&story, "%d: level %+v\n", now, l)
			l.Fit(m.at(l, now), now, 0)
			want, got = fmt.Sprint(l.Level(m.at(l, now), now)), fmt.Sprint(w.Level(l, now))
		default:
			fmt.Fprintf(&story, "%d: take %d of %+v\n", now, units, l)
			v := l.Take(m.at(l, now), now, units)
			if v.OK {
				grants = append(grants, now)
			}
			want, got = fmt.Sprintf("%+v", v), fmt.Sprintf("%+v", w.Take(l, now, units))
		}
		if got != want {
			t.Errorf("step %d: the script says %s, the Go %s, after\n%s", i, got, want, story.String())
			return n
		}
	}
	return n
}

// anyLimit returns a valid limit of a kind: small ones, which meet their edges often, and
// huge ones.
func anyLimit(r *rand.Rand, kind limit.Kind) limit.Limit {
	for {
		scale := []int64{5, 50, 10_000, 1 << 40}[r.IntN(4)]
		span := limit.Micros(1 + r.Int64N([]int64{4, 1000, 10_000_000, 1 << 40}[r.IntN(4)]))
		l := map[limit.Kind]limit.Limit{
			limit.KindBucket: limit.Bucket(r.Int64N(scale), span, r.Int64N(scale)), limit.KindPace: limit.Pace(span),
			limit.KindWindow: limit.Window(r.Int64N(scale), span), limit.KindSlots: limit.Slots(r.Int64N(scale)),
			limit.KindCooldown: limit.Cooldown(span * limit.Micros(r.IntN(2))),
		}[kind]
		if l.Validate() == nil {
			return l
		}
	}
}

// anyStep returns how far time moves: often not at all, mostly a part of the limit's span,
// at times back.
func anyStep(r *rand.Rand, l limit.Limit) limit.Micros {
	span := max(2, int64(l.Per))
	if l.Kind == limit.KindBucket && l.Max > 0 {
		span = max(2, int64(l.Per)/l.Max, l.Burst*int64(l.Per)/l.Max/4)
	}
	span = min(span, 1<<40)
	switch r.IntN(12) {
	case 0, 1, 2:
		return 0
	case 3:
		return limit.Micros(span)
	case 4:
		return -limit.Micros(r.Int64N(span))
	case 5:
		return limit.Micros(r.Int64N(4 * span))
	}
	return limit.Micros(r.Int64N(span/4 + 1))
}

// anyUnits returns a number of units that matters to l, and at times a hostile one.
func anyUnits(r *rand.Rand, l limit.Limit) int64 {
	most := min(l.Capacity(), 1<<50)
	switch r.IntN(24) {
	case 0:
		return []int64{-1, 1<<63 - 1, -1 << 63, most + 1, 1 << 52}[r.IntN(5)]
	case 1, 2:
		return 0
	case 3, 4:
		return most
	case 5, 6, 7:
		return r.Int64N(most + 1)
	}
	return 1 + r.Int64N(most/8+1)
}
