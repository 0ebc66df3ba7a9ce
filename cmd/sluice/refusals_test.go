package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
)

// A line is what the test looks at of a line about refusals.
type line struct {
	Message    string `json:"msg"`
	Rule       string
	Mode       string
	Sampled    bool
	Suppressed int
}

func TestRefusalLog(t *testing.T) {
	refused := &sluice.Event{Call: &sluice.Call{}, Outcome: sluice.Refused, Refusal: &sluice.Refusal{Rule: "a", Reason: sluice.ReasonRate}}
	shadow := &sluice.Event{Call: &sluice.Call{}, Rules: []sluice.RuleOutcome{{Rule: "a", Shadow: true, Refused: true}, {Rule: "b"}}}

	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := newRefusalLog(slog.New(slog.NewJSONHandler(&out, nil)))
		next := func() (got line) {
			t.Helper()
			if err := json.NewDecoder(&out).Decode(&got); err != nil {
				t.Fatalf("a line is missing: %v", err)
			}
			out.Reset()
			return got
		}
		for range 1000 {
			l.observe(shadow)
		}
		if got, want := next(), (line{"a call was refused", "a", "shadow", true, 0}); got != want {
			t.Errorf("I-128 the first line is %+v, want %+v", got, want)
		}
		l.observe(refused)
		if got, want := next(), (line{"a call was refused", "a", "enforced", true, 0}); got != want {
			t.Errorf("a rule that enforces is sampled apart: got %+v, want %+v", got, want)
		}
		time.Sleep(refusalEvery - time.Nanosecond)
		l.observe(shadow)
		if out.Len() != 0 {
			t.Errorf("a second line came before its time: %s", &out)
		}
		time.Sleep(time.Nanosecond)
		l.observe(shadow)
		if got := next(); got.Suppressed != 1000 {
			t.Errorf("I-128 the second line says that %d were left out, want 1000", got.Suppressed)
		}
		l.observe(shadow)
		l.observe(shadow)
		l.flush()
		if got, want := next(), (line{"further calls were refused", "a", "shadow", true, 2}); got != want {
			t.Errorf("the last line is %+v, want %+v", got, want)
		}
		l.flush()
		if out.Len() != 0 {
			t.Errorf("what has been told is told again: %s", &out)
		}
	})
}

func TestRefusalLogAllocatesNothingForALineThatItLeavesOut(t *testing.T) {
	l := newRefusalLog(slog.New(slog.DiscardHandler))
	e := &sluice.Event{Call: &sluice.Call{}, Outcome: sluice.Refused, Refusal: &sluice.Refusal{Rule: "a"}}
	l.observe(e)
	l.start = l.start.Add(time.Hour) // no line is due for an hour
	if n := testing.AllocsPerRun(100, func() { l.observe(e) }); n != 0 {
		t.Errorf("a line that is left out allocates %v times", n)
	}
}
