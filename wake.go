package sluice

import (
	"cmp"
	"slices"
)

// wake asks for the lines in which others wait for what d has given back. Of a grant that
// was resumed by its ID only the rules are known, not the keys.
func (d *Decision) wake() {
	if len(d.matched) == 0 {
		for _, at := range d.places {
			if at.rule != nil && at.rule.line != nil {
				d.c.wakeLines(at.rule.line)
			}
		}
		return
	}
	for i := range d.matched {
		m := &d.matched[i]
		if m.rule.line == nil || m.rule.line.waiting.Load() == 0 {
			continue
		}
		d.c.room.mu.Lock()
		l := m.rule.line.byKey[m.lineKey()]
		d.c.room.mu.Unlock()
		if l != nil {
			d.c.ask(l)
		}
	}
}

// wakeLines asks for every line of one rule, or of all rules if of is nil, first where
// somebody has waited longest.
func (c *Controller) wakeLines(of *lines) {
	var all []*waitLine
	c.room.mu.Lock()
	for _, ls := range c.room.rules {
		if of != nil && of != ls {
			continue
		}
		for _, l := range ls.byKey {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *waitLine) int { return cmp.Compare(a.queue.Oldest(), b.queue.Oldest()) })
	c.room.mu.Unlock()
	for _, l := range all {
		c.ask(l)
	}
}
