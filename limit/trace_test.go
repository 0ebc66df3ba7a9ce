package limit_test

import (
	"testing"

	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/limit/limittest"
)

// A machine is a cell and the limit it was last used under.
type machine struct {
	limit limit.Limit
	cell  limit.Cell
}

// at returns the cell, carried over to l.
func (m *machine) at(l limit.Limit, now limit.Micros) *limit.Cell {
	if m.limit != (limit.Limit{}) {
		m.cell = l.Convert(m.limit, m.cell, now)
	}
	m.limit = l
	return &m.cell
}

func (m *machine) Take(l limit.Limit, now limit.Micros, n int64) limit.Verdict {
	return l.Take(m.at(l, now), now, n)
}

func (m *machine) Give(l limit.Limit, now, at limit.Micros, n int64) {
	l.Give(m.at(l, now), now, at, n)
}

func (m *machine) Cool(l limit.Limit, now, d limit.Micros) { l.Cool(m.at(l, now), now, d) }

func (m *machine) Level(l limit.Limit, now limit.Micros) limit.Level {
	return l.Level(m.at(l, now), now)
}

func TestTraces(t *testing.T) {
	limittest.Run(t, func() limittest.Machine { return new(machine) })
}
