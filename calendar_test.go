package sluice_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/memory"
)

// budget is a rule of 10 units in each period of c.
func budget(c sluice.Calendar) *sluice.Policy {
	return &sluice.Policy{Rules: []sluice.Rule{{ID: "budget", Calendar: &c, GroupBy: []sluice.Dimension{sluice.Tenant},
		Limits: []sluice.Limit{{Limit: limit.Window(10, limit.Minute), Unit: "dollars"}}}}}
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	in, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// spend takes n units and returns when the next would pass if they are not there.
func spend(t *testing.T, c *sluice.Controller, n int64) (sluice.Admission, time.Duration) {
	t.Helper()
	a, err := c.Admit(t.Context(), sluice.Call{Tenant: "t", Cost: sluice.Cost{{Unit: "dollars", N: n}}})
	if r, ok := errors.AsType[*sluice.Refusal](err); ok {
		if r.Reason != sluice.ReasonBudget || r.Permanent || r.RetryAfter <= 0 {
			t.Errorf("%+v", r)
		}
		return a, r.RetryAfter
	}
	if err != nil {
		t.Fatal(err)
	}
	return a, 0
}

func TestCalendar(t *testing.T) {
	for _, c := range []struct {
		name string
		cal  sluice.Calendar
		at   string        // when it is spent, by the calendar's clock
		wait time.Duration // until the next period
	}{
		{"a day in UTC", sluice.Calendar{Every: sluice.Daily}, "2026-03-10 18:00", 6 * time.Hour},
		{"a day that has 23 hours", sluice.Calendar{Every: sluice.Daily, In: zone(t, "Europe/Berlin")}, "2026-03-29 00:00", 23 * time.Hour},
		{"a day that has 25 hours", sluice.Calendar{Every: sluice.Daily, In: zone(t, "Europe/Berlin")}, "2026-10-25 00:00", 25 * time.Hour},
		{"a day without midnight", sluice.Calendar{Every: sluice.Daily, In: zone(t, "America/Santiago")}, "2026-09-06 12:00", 12 * time.Hour},
		{"a week ends with Sunday", sluice.Calendar{Every: sluice.Weekly}, "2026-11-29 23:00", time.Hour},
		{"a week begins on Monday", sluice.Calendar{Every: sluice.Weekly}, "2026-11-30 00:00", 7 * 24 * time.Hour},
		{"L-142 a month, far in the east", sluice.Calendar{Every: sluice.Monthly, In: zone(t, "Pacific/Tongatapu")}, "2026-01-31 23:30", 30 * time.Minute},
		{"December", sluice.Calendar{Every: sluice.Monthly}, "2026-12-31 00:00", 24 * time.Hour},
		{"February", sluice.Calendar{Every: sluice.Monthly}, "2028-02-01 00:00", 29 * 24 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := c.cal.In
				if in == nil {
					in = time.UTC
				}
				at, err := time.ParseInLocation("2006-01-02 15:04", c.at, in)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Until(at))
				ctl, err := sluice.Open(budget(c.cal), memory.New(memory.Options{}), sluice.Options{})
				if err != nil {
					t.Fatal(err)
				}
				spend(t, ctl, 10)
				if _, wait := spend(t, ctl, 1); wait != c.wait {
					t.Fatalf("full again in %v, want %v", wait, c.wait)
				}
				if c.wait > time.Hour {
					return // how long it takes is said; it is waited for where that is soon
				}
				time.Sleep(c.wait - time.Microsecond)
				if _, wait := spend(t, ctl, 1); wait != time.Microsecond {
					t.Errorf("just before the end: %v", wait)
				}
				time.Sleep(time.Microsecond)
				if _, wait := spend(t, ctl, 10); wait != 0 {
					t.Errorf("the new period has not all: wait %v", wait)
				}
			})
		})
	}
}

func TestCalendarSettlesIntoItsPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(24*time.Hour - time.Minute) // the clock of the test begins at midnight
		ctl, err := sluice.Open(budget(sluice.Calendar{Every: sluice.Daily}), memory.New(memory.Options{}), sluice.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a, _ := spend(t, ctl, 8)
		time.Sleep(time.Minute)
		spend(t, ctl, 10)
		if err := a.Settle(t.Context(), sluice.Cost{{Unit: "dollars", N: 1}}); err != nil {
			t.Fatal(err)
		}
		if _, wait := spend(t, ctl, 1); wait != 24*time.Hour {
			t.Errorf("L-142 yesterday's refund is spent today: wait %v", wait)
		}
	})
}

func TestCalendarRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		rule sluice.Rule
		want string
	}{
		{"no period", sluice.Rule{Calendar: &sluice.Calendar{}, Limits: []sluice.Limit{{Limit: limit.Window(1, limit.Day)}}}, "no period"},
		{"no window", sluice.Rule{Calendar: &sluice.Calendar{Every: sluice.Daily}, Limits: []sluice.Limit{{Limit: limit.Bucket(1, limit.Day, 1)}}}, "needs windows"},
		{"a lease", sluice.Rule{Lease: 5, Calendar: &sluice.Calendar{Every: sluice.Daily}, Limits: []sluice.Limit{{Limit: limit.Window(1, limit.Day)}}}, "leased"},
	} {
		c.rule.ID = "r"
		_, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{c.rule}}, memory.New(memory.Options{}), sluice.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
