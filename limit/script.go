package limit

import _ "embed"

//go:embed cell.lua
var cellScript string

//go:embed window.lua
var windowScript string

//go:embed convert.lua
var convertScript string

// Script returns the algorithms in the Lua 5.1 of Redis, for a store that carries them
// out in a script. The text defines local functions and does nothing; what a window
// needs of its store is said at its head. It answers as the Go does, to the microsecond,
// for every limit that [Limit.Validate] accepts.
func Script() string { return cellScript + windowScript + convertScript }

// Terms returns what a script needs in place of l to take from a Bucket, a Pace or a
// Cooldown: the credits that a microsecond pays back, the most that a cell may owe after
// a take, and how far ahead of the time its stamp may lie.
func (l Limit) Terms() (rate, ceiling int64, span Micros) {
	if l.Kind == KindCooldown {
		return l.rate(), 0, l.span()
	}
	return l.rate(), l.Burst*int64(l.Per) + l.tolerance(), l.span()
}
