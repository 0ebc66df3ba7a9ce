package sluice_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

// A diary writes down every event in one line.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) observe(e *sluice.Event) {
	line := e.Call.Subject + " " + e.Outcome.String()
	if e.Refusal != nil {
		line += " " + e.Refusal.Reason.String()
	}
	if e.Waited > 0 {
		line += fmt.Sprintf(" after %v", e.Waited)
	}
	if e.Err != nil {
		line += ": " + e.Err.Error()
	}
	for _, r := range e.Rules {
		line += " " + r.Rule
		if r.Refused {
			line += "!"
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) want(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.lines, want) {
		t.Errorf("events:\n%s\nwant:\n%s", strings.Join(d.lines, "\n"), strings.Join(want, "\n"))
	}
	d.lines = nil
}

// TestOneEventForEachDecision walks down every path a call can take.
func TestOneEventForEachDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book diary
		strict := kinds(one("strict", limit.Window(1, limit.Hour)), "strict")
		strict.Shadow = true
		insist := each(kinds(one("insist", limit.Slots(9)), "insist"), sluice.Tenant)
		insist.Missing = sluice.MissingDeny
		c := engineWith(t, sluice.Options{Observe: book.observe},
			queued(one("slots", limit.Slots(1)), sluice.Queue{Depth: new(3), Timeout: 5 * second}), strict, insist)

		held := send(background, c, sluice.Call{Subject: "first", Kind: "strict"})
		book.want(t, "first admitted slots strict")

		timedOut := send(background, c, sluice.Call{Subject: "late"})
		ctx, cancel := context.WithCancelCause(background)
		cancelled := send(ctx, c, sluice.Call{Subject: "gone"})
		sleepUntil(1 * second)
		next := send(background, c, sluice.Call{Subject: "next"})
		full := send(background, c, sluice.Call{Subject: "full"})
		book.want(t, "full refused queue_full slots!")
		wantReason(t, full, sluice.ReasonQueueFull)

		sleepUntil(3 * second)
		cancel(errors.New("bored"))
		synctest.Wait()
		book.want(t, "gone cancelled after 3s: bored slots")
		if cancelled.waiting() {
			t.Error("A-W8 the cancelled caller still waits")
		}
		sleepUntil(5 * second)
		book.want(t, "late refused queue_timeout after 5s slots!")
		wantReason(t, timedOut, sluice.ReasonQueueTimeout)

		sleepUntil(5500 * time.Millisecond)
		held.adm.Release()
		synctest.Wait()
		book.want(t, "next admitted after 4.5s slots")

		try(t, c, sluice.Call{Subject: "strict", Kind: "strict"})
		book.want(t, "strict refused concurrency slots! strict!")
		next.adm.Release()
		d, _ := try(t, c, sluice.Call{Subject: "strict", Kind: "strict"})
		book.want(t, "strict admitted slots strict!")
		d.Admission().Release()

		try(t, c, sluice.Call{Subject: "none", Kind: "insist"})
		book.want(t, "none refused missing slots insist!")

		dead, cancel2 := context.WithCancel(background)
		cancel2()
		c.Admit(dead, sluice.Call{Subject: "dead"})
		book.want(t, "dead cancelled: context canceled")
		c.Try(dead, &sluice.Call{Subject: "dead"}, d)
		book.want(t, "dead cancelled: context canceled")

		c.Check(background, sluice.Call{Subject: "nosy"})
		book.want(t)
		c.Close()
		c.Admit(background, sluice.Call{Subject: "closed"})
		book.want(t, "closed cancelled: sluice: the controller is closed")
	})
}

func TestEventLevels(t *testing.T) {
	var levels []sluice.Level
	c := engineWith(t, sluice.Options{Observe: func(e *sluice.Event) { levels = slices.Clone(e.Levels) }},
		each(one("a", limit.Window(4, limit.Hour)), sluice.Subject), one("b", limit.Bucket(1, limit.Second, 2)))
	c.Try(background, &sluice.Call{Subject: "s"}, new(sluice.Decision))
	want := []sluice.Level{
		{Rule: "a", Name: "window", Kind: limit.KindWindow, Unit: sluice.Calls, Limit: 4, Window: time.Hour, Remaining: 3},
		{Rule: "b", Name: "bucket", Kind: limit.KindBucket, Unit: sluice.Calls, Limit: 2, Window: 2 * second, Remaining: 1},
	}
	for i := range levels {
		if levels[i].Next <= 0 || levels[i].Full <= 0 {
			t.Errorf("%s: next unit in %v, full in %v, want both above zero", levels[i].Rule, levels[i].Next, levels[i].Full)
		}
		levels[i].Next, levels[i].Full = 0, 0
	}
	if !slices.Equal(levels, want) {
		t.Errorf("levels %+v\nwant   %+v", levels, want)
	}
}
