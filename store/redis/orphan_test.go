package redis

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// TestOrphans is about answers that come when their callers have left.
func TestOrphans(t *testing.T) {
	server := redistest.Start(t)
	s := openFor(t, Options{URI: "redis://" + server.Addr, Wait: time.Second})
	step := func(cell uint64) []ledger.Step {
		return []ledger.Step{{Key: ledger.Key{Group: 1, Cell: cell}, Limit: limit.Slots(1), N: 1}}
	}
	do := func(cmd ledger.Command) ledger.Result {
		t.Helper()
		res := make([]ledger.Result, 1)
		if err := s.Apply(context.Background(), []ledger.Command{cmd}, res); err != nil {
			t.Fatal(err)
		}
		return res[0]
	}
	// abandon sends cmd, whose caller leaves before the answer is there.
	abandon := func(cmd ledger.Command, q question) {
		t.Helper()
		cmds := []ledger.Command{cmd}
		r := s.newRequest(cmds, q)
		if !r.leave(cmds) {
			t.Fatal("it was answered")
		}
		s.fly([]*request{r})
	}
	t.Run("P-092 what comes back while the memory is full comes back", func(t *testing.T) {
		id := ledger.ID{Hi: 1, Lo: 1}
		do(ledger.Command{ID: id, Steps: step(1)})
		server.Do("CONFIG", "SET", "maxmemory", "1")
		abandon(ledger.Command{Op: ledger.Release, ID: id}, question{})
		server.Do("CONFIG", "SET", "maxmemory", "0")
		for deadline := time.Now().Add(5 * time.Second); do(ledger.Command{Op: ledger.Peek, Steps: step(1)}).Status != ledger.Done; {
			if time.Now().After(deadline) {
				t.Fatal("the slot stays held")
			}
		}
	})
	t.Run("a refusal that came too late is not repeated", func(t *testing.T) {
		do(ledger.Command{Steps: step(2)})
		sum := sumOf(step(2))
		abandon(ledger.Command{Steps: step(2)}, question{asked: true, again: true, sum: sum})
		if s.refusals.table[sum%maxRefusals].Load() != nil {
			t.Error("it is remembered as if it had just been said")
		}
	})
	t.Run("cells are watched for as long as their refusal may be repeated", func(t *testing.T) {
		r := s.newRequest([]ledger.Command{{Steps: step(3)}}, question{asked: true, again: true})
		span := limit.Micros(binary.LittleEndian.Uint64(r.parts[0].blob[12:]))
		if least := maxRepeat + limit.MicrosOf(s.wait); span < least { // from when the answer is here
			t.Errorf("for %d, want %d", span, least)
		}
	})
}

func TestComplaints(t *testing.T) {
	var said bytes.Buffer
	s := &Store{log: slog.New(slog.NewTextHandler(&said, nil))}
	s.outbox.list, s.outbox.wake = make([]*request, maxOutbox), make(chan struct{}, 1)
	for range 1000 {
		s.outbox.put(s, &request{})
	}
	if n := strings.Count(said.String(), "too much waits"); n != 1 || len(s.outbox.list) != maxOutbox {
		t.Errorf("%d lines for a thousand slots that stay held, want one; %d wait", n, len(s.outbox.list))
	}
}
