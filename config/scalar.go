package config

import (
	"net/netip"

	"github.com/sluicegate/sluice/limit"
)

// A Rate is a count, the span in which it comes back, and what may come at once.
type Rate struct {
	Max int64
	Per limit.Micros
	// Burst is nil if the text names none.
	Burst *int64
}

// A Prefix is a network. A bare address is a network of one.
type Prefix struct{ netip.Prefix }

// A Secret is text that must not be printed. Its String hides it.
type Secret string

// Free is a part of the file that is kept and not looked into: maps, lists and scalars.
type Free struct{ Value any }

type places map[any]place

type place struct {
	pos Pos
	key string
}
