package admin

import (
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/sluicegate/sluice/limit"
)

// maxFailing bounds the addresses that are remembered for their wrong tokens.
const maxFailing = 1024

// guesses is how many wrong tokens an address may send: ten, and one more every six
// seconds.
var guesses = limit.Bucket(10, limit.Minute, 10)

// failures limits wrong tokens by address. When it remembers as many addresses as it
// may, newcomers share one cell: guessing from many addresses does not become free.
type failures struct {
	start time.Time

	mu     sync.Mutex
	cells  map[netip.Prefix]*limit.Cell
	shared limit.Cell
}

func newFailures() *failures {
	return &failures{start: time.Now(), cells: map[netip.Prefix]*limit.Cell{}}
}

func (f *failures) now() limit.Micros { return limit.MicrosOf(time.Since(f.start)) }

// judge runs right, which looks at the token that addr sent, and debits addr if it was
// wrong. If addr has guessed too often, right is not run and the wait is above zero. A
// right token waits too: otherwise the answer would tell which is right. Looking and
// debiting are one step, so that guessing in parallel gains nothing.
func (f *failures) judge(addr netip.Addr, right func() bool) (wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, key := f.now(), group(addr)
	cell := f.cells[key]
	if cell == nil {
		cell = &limit.Cell{}
		if len(f.cells) >= maxFailing {
			cell = &f.shared
		}
	}
	if v := guesses.Fit(cell, now, 1); !v.OK {
		return v.Wait.Duration()
	}
	if !right() {
		guesses.Take(f.cell(key, now), now, 1)
	}
	return 0
}

// cell returns the cell to debit for key: its own, if it has one or there is room once
// the recovered are forgotten. The caller holds f.mu.
func (f *failures) cell(key netip.Prefix, now limit.Micros) *limit.Cell {
	if c := f.cells[key]; c != nil {
		return c
	}
	if len(f.cells) >= maxFailing {
		maps.DeleteFunc(f.cells, func(_ netip.Prefix, c *limit.Cell) bool { return guesses.Idle(c, now) })
	}
	if len(f.cells) >= maxFailing {
		return &f.shared
	}
	c := &limit.Cell{}
	f.cells[key] = c
	return c
}

// group returns the addresses that one guesser has: an IPv4 address or an IPv6 /64.
func group(addr netip.Addr) netip.Prefix {
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, _ := addr.Prefix(bits) // the zero Addr has the zero Prefix
	return p
}
