package processes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/lease"
	"github.com/sluicegate/sluice/store/redis"
)

// callers is how many a process has.
const callers = 64

// The rules, in the order of an entry's Rule.
const (
	bucket = iota
	window
	slots
	shared
)

// percent is how much of a leased rule's limits may be given up.
const percent = 20

// policy has a rule for each kind of call, and one for all. With leases all but the slots
// are leased.
func policy(leases bool) *sluice.Policy {
	rule := func(id string, l limit.Limit) sluice.Rule {
		return sluice.Rule{
			ID: id, Match: sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {id}}},
			GroupBy: []sluice.Dimension{sluice.Subject}, Limits: []sluice.Limit{{Limit: l}},
		}
	}
	p := &sluice.Policy{Rules: []sluice.Rule{
		bucket: rule("bucket", limit.Bucket(100, limit.Second, 50)),
		window: rule("window", limit.Window(200, 2*limit.Second)),
		slots:  rule("slots", limit.Slots(10)),
		shared: {ID: "shared", Limits: []sluice.Limit{{Limit: limit.Window(1500, limit.Second)}}},
	}}
	p.Rules[bucket].Queue, p.Rules[slots].Queue = &sluice.Queue{}, &sluice.Queue{}
	if leases {
		p.Rules[bucket].Lease, p.Rules[window].Lease, p.Rules[shared].Lease = percent, percent, percent
	}
	return p
}

// keys is how many cells each rule has.
var keys = [...]int{bucket: 3, window: 4, slots: 2, shared: 1}

// A task is what the parent tells a process to do.
type task struct {
	URI         string
	Seed        uint64
	Number      uint64    // of the process
	Start, Turn time.Time // from Turn on the shared rule is what everybody runs into
	End         time.Time
	Exact       bool // the store tells the instant at which it took all units
	Leases      bool
	Log         string
}

// taskVariable is set in the environment of a process that has a task.
const taskVariable = "SLUICE_PROCESSES_TASK"

func TestMain(m *testing.M) {
	text := os.Getenv(taskVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	var j task
	err := json.Unmarshal([]byte(text), &j)
	if err == nil {
		err = j.do()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "process", j.Number, "failed:", err)
		os.Exit(1)
	}
}

// do lets the callers loose and writes down what they were granted.
func (j *task) do() error {
	ctx, cancel := context.WithDeadline(context.Background(), j.End)
	defer cancel()
	// A store that waits for long: what has an unknown outcome could not be counted.
	s, err := redis.Open(context.Background(), redis.Options{URI: j.URI, Wait: 5 * time.Second})
	if err != nil {
		return err
	}
	defer s.Close()
	p := policy(j.Leases)
	notes := &recorder{Store: s, Waker: s, limits: counted(p), exact: j.Exact}
	var noted sluice.Store = notes
	if j.Leases {
		leases := lease.New(s)
		notes.Store, notes.Waker = leases, leases
		noted = lessor{notes, leases}
	}
	c, err := sluice.Open(p, noted, sluice.Options{KeySecret: []byte("the same in all processes")})
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	time.Sleep(time.Until(j.Start))
	for i := range callers {
		r := rand.New(rand.NewPCG(j.Seed, j.Number*callers+uint64(i)))
		group.Go(func() { j.call(ctx, c, r, i%3, i >= callers/2) })
	}
	group.Wait()
	if n := notes.failed.Load(); n > 0 {
		return fmt.Errorf("%d commands were not answered; is the machine too busy?", n)
	}
	return write(j.Log, notes.log)
}

// call is one caller, until ctx ends. It makes calls of one kind, and if it turns then
// calls that only the shared rule is for.
func (j *task) call(ctx context.Context, c *sluice.Controller, r *rand.Rand, kind int, turns bool) {
	names := [...]string{bucket: "bucket", window: "window", slots: "slots", shared: "rest"}
	for ctx.Err() == nil {
		if turns && time.Now().After(j.Turn) {
			kind = shared
		}
		call := sluice.Call{Kind: names[kind]}
		if kind != shared {
			call.Subject = fmt.Sprint(r.IntN(keys[kind]))
		}
		adm, err := c.Admit(ctx, call)
		if refusal, ok := errors.AsType[*sluice.Refusal](err); ok {
			rest(ctx, max(refusal.RetryAfter, time.Millisecond))
			continue
		}
		if err == nil && kind == slots {
			rest(ctx, time.Duration(500+r.IntN(1000))*time.Millisecond)
		}
		adm.Release()
	}
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// counted are the limits by which a store counts the rules of p.
func counted(p *sluice.Policy) []limit.Limit {
	list := make([]limit.Limit, len(p.Rules))
	for i := range p.Rules {
		list[i] = p.Rules[i].Limits[0].Limit
		if l, ok := list[i].Lease(p.Rules[i].Lease); ok {
			list[i] = l.Limit
		}
	}
	return list
}

// A recorder notes what a store grants.
type recorder struct {
	sluice.Store
	sluice.Waker
	limits []limit.Limit // of the rules, as the store counts them
	exact  bool
	failed atomic.Int32

	mu  sync.Mutex
	log []entry
}

// A lessor is a recorder of a store that takes units ahead.
type lessor struct {
	*recorder
	leases *lease.Store
}

// Leased implements sluice.Lessor.
func (l lessor) Leased() int { return l.leases.Leased() }

// Apply implements sluice.Store.
func (s *recorder) Apply(ctx context.Context, cmds []ledger.Command, res []ledger.Result) error {
	from := time.Now().UnixMicro()
	err := s.Store.Apply(ctx, cmds, res)
	to := time.Now().UnixMicro()
	if err != nil {
		if ctx.Err() == nil {
			s.failed.Add(1)
		}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range cmds {
		if s.exact {
			from, to = int64(res[i].At), int64(res[i].At)
		}
		if res[i].Status == ledger.Done {
			s.note(&cmds[i], entry{At: int64(res[i].At), From: from, To: to})
		}
	}
	return nil
}

// note writes down what a command has taken or given back.
func (s *recorder) note(cmd *ledger.Command, e entry) {
	for i := range cmd.Steps {
		step := &cmd.Steps[i]
		e.Cell, e.N = step.Key.Cell, step.N
		e.Rule = uint8(slices.Index(s.limits, step.Limit))
		switch {
		case cmd.Op == ledger.Take:
			e.Op = taken
		case cmd.Op == ledger.Release && step.Limit.OnRelease():
			e.Op = back
		case cmd.Op == ledger.Void:
			e.Op, e.At = voided, int64(cmd.At)
		default:
			continue
		}
		s.log = append(s.log, e)
	}
}
