package sluice

import (
	"errors"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
)

// A Period is a span of the calendar. The zero Period is none.
type Period uint8

// The periods. A week begins on Monday.
const (
	Daily Period = iota + 1
	Weekly
	Monthly
)

// A Calendar makes the limits of a rule, which must be windows, those of calendar periods:
// each is full when a period begins, and what is settled later belongs to the period in which
// it was taken. A day is as long as it is: 23 or 25 hours where clocks are changed.
//
// It is the one place where the time of day decides, by the clock of the process that asks.
// Processes whose clocks differ count a call that comes while a period ends in one or the
// other.
type Calendar struct {
	Every Period
	// In is where midnight is. Nil is UTC.
	In *time.Location
}

// String says the period in words: "month in Europe/Berlin".
func (c *Calendar) String() string {
	name := map[Period]string{Daily: "day", Weekly: "week", Monthly: "month"}[c.Every]
	if c.In == nil {
		return name + " in UTC"
	}
	return name + " in " + c.In.String()
}

// span is a time that no period is longer than: what was taken in one does not come back
// within it.
func (p Period) span() limit.Micros {
	const changed = 2 * limit.Hour // more than clocks are set back
	switch p {
	case Daily:
		return limit.Day + changed
	case Weekly:
		return 7*limit.Day + changed
	}
	return 31*limit.Day + changed
}

// bounds returns the first day of the period of now, written as a number, and when the
// next one begins.
func (c *Calendar) bounds(now time.Time) (day uint64, end time.Time) {
	in := c.In
	if in == nil {
		in = time.UTC
	}
	t := now.In(in)
	y, m, d := t.Date()
	var next time.Time
	switch c.Every {
	case Weekly:
		d -= (int(t.Weekday()) + 6) % 7 // days since Monday
		next = time.Date(y, m, d+7, 0, 0, 0, 0, in)
	case Monthly:
		d = 1
		next = time.Date(y, m+1, 1, 0, 0, 0, 0, in)
	default:
		next = time.Date(y, m, d+1, 0, 0, 0, 0, in)
	}
	y, m, d = time.Date(y, m, d, 12, 0, 0, 0, in).Date() // a day may have no midnight, but it has a noon
	return uint64(y)*10_000 + uint64(m)*100 + uint64(d), next
}

// compileCalendar makes the windows of a calendar's rule outlast a period.
func (r *rule) compileCalendar() error {
	c := r.Calendar
	if c == nil {
		return nil
	}
	if c.Every < Daily || c.Every > Monthly {
		return errors.New("the calendar has no period; it is daily, weekly or monthly")
	}
	if r.Lease != 0 {
		return errors.New("a calendar's units cannot be leased; they would outlive their period")
	}
	for i := range r.limits {
		l := &r.limits[i]
		if l.Kind != limit.KindWindow {
			return errors.New("a calendar needs windows: at most so many in each period")
		}
		l.Limit.Per, l.step.Limit.Per, l.share.Per = c.Every.span(), c.Every.span(), c.Every.span()
		l.window = l.Limit.Per.Duration()
	}
	return nil
}

// inPeriod tells the cells of one period from those of another.
func (r *rule) inPeriod(base uint64) uint64 {
	day, _ := r.Calendar.bounds(time.Now())
	return mix(base, day)
}

// clampToPeriods ends waits where the period ends.
func (d *Decision) clampToPeriods(res *ledger.Result) {
	now := time.Now()
	for i := range d.places {
		r := d.places[i].rule
		if r == nil || r.Calendar == nil {
			continue
		}
		_, end := r.Calendar.bounds(now)
		left := limit.MicrosOf(end.Sub(now))
		if i < len(res.Outcomes) {
			o := &res.Outcomes[i]
			o.Wait = min(o.Wait, left)
		}
		if i < len(res.Levels) {
			l := &res.Levels[i]
			l.Next, l.Full = min(l.Next, left), min(l.Full, left)
		}
	}
}
