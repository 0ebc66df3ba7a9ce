package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// TestQuickCalls sends calls of several commands, of several steps each and often about the
// same cells, the short way and the long way: every answer must be the same, and so must
// be until when each cell is watched.
func TestQuickCalls(t *testing.T) {
	server := redistest.Start(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ways := map[string]way{
		"short": {t: t, client: client, store: &Store{prefix: "short:"}},
		"long":  {t: t, client: client, store: &Store{prefix: "long:"}},
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for round := range uint64(300) {
		now := limit.Micros(1_900_000_000_000_000)
		limits := make([]limit.Limit, 4)
		for range 20 {
			now += limit.Micros(r.Int64N(20)) * limit.Second / 4
			if r.IntN(10) == 0 {
				now -= limit.Minute
			}
			for i := range limits {
				if limits[i] == (limit.Limit{}) || r.IntN(30) == 0 {
					limits[i] = anyOf(r, limit.Bucket(2, limit.Second, 5), limit.Bucket(7, limit.Minute, 3), limit.Pace(3*limit.Second), limit.Cooldown(limit.Minute))
				}
			}
			cmds := anyTakes(r, round, limits)
			short, long := ways["short"].quickly(now, cmds), ways["long"].slowly(now, cmds)
			if !reflect.DeepEqual(short, long) {
				t.Fatalf("round %d: the short way says\n%+v, the long\n%+v, of\n%+v", round, short, long, cmds)
			}
			for cell := range uint64(len(limits)) {
				key := ledger.Key{Group: round, Cell: cell}
				if short, long := ways["short"].watched(key), ways["long"].watched(key); short != long {
					t.Fatalf("round %d: watched until %x, the long way until %x, after %+v", round, short, long, cmds)
				}
			}
		}
	}
}

func anyOf[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// anyTakes returns quick commands about some cells, each of which has one limit.
func anyTakes(r *rand.Rand, group uint64, limits []limit.Limit) []ledger.Command {
	cmds := make([]ledger.Command, 1+r.IntN(6))
	for i := range cmds {
		cmds[i] = ledger.Command{Levels: true, Watch: anyOf(r, 0, limit.Second)}
		for _, cell := range r.Perm(len(limits))[:1+r.IntN(3)] {
			l, n := limits[cell], int64(0)
			if l.Kind != limit.KindCooldown {
				n = 1 + r.Int64N(l.Capacity())
			}
			key := ledger.Key{Group: group, Cell: uint64(cell)}
			cmds[i].Steps = append(cmds[i].Steps, ledger.Step{Key: key, Limit: l, N: n})
		}
	}
	return cmds
}

// A way is how commands get to the script.
type way struct {
	t      *testing.T
	client rueidis.Client
	store  *Store
}

// quickly sends cmds as one call of quick.lua.
func (w way) quickly(now limit.Micros, cmds []ledger.Command) []ledger.Result {
	if !areQuick(cmds) {
		w.t.Fatalf("not quick: %+v", cmds)
	}
	r := w.store.newRequest(cmds, question{})
	sheet := newSheet()
	sheet.add(w.store, r)
	return w.exec(now, r, cmds, sheet.keys, []string{sheet.text()})
}

// slowly sends them as if none were quick.
func (w way) slowly(now limit.Micros, cmds []ledger.Command) []ledger.Result {
	r := &request{}
	var args []string
	for i := range cmds {
		w.store.write(r, &cmds[i])
		args = append(args, string(r.parts[i].blob))
	}
	return w.exec(now, r, cmds, r.keys, args)
}

func (w way) exec(now limit.Micros, r *request, cmds []ledger.Command, keys, args []string) []ledger.Result {
	w.t.Helper()
	script := rueidis.NewLuaScript(scriptText(givenTime, w.store.prefix, time.Hour))
	text, err := script.Exec(context.Background(), w.client, keys, append(args, fmt.Sprint(int64(now)))).ToString()
	if err != nil {
		w.t.Fatal(err)
	}
	res := make([]ledger.Result, len(cmds))
	if err := split([]*request{r}, text); err != nil {
		w.t.Fatal(err)
	}
	if err := w.store.read(r, cmds, res); err != nil {
		w.t.Fatal(err)
	}
	return res
}

// watched is the time until which a cell is watched, as it is stored.
func (w way) watched(key ledger.Key) string {
	w.t.Helper()
	text, err := w.client.Do(context.Background(), w.client.B().Getrange().Key(w.store.cellKey(key)).Start(markLen+2*8).End(-1).Build()).ToString()
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}
