package schema

import "bytes"

// Bounds on what is read. They are checked before anything is made of what exceeds them.
var (
	schemaBounds   = bounds{bytes: 256 << 10, depth: 64, values: 20_000}
	argumentBounds = bounds{bytes: 4 << 20, depth: 128, values: 100_000}
)

// Bounds on a number as it is written. A reader without them makes a number with a
// million digits of the eight bytes 1e999999. What a float64 can be is well within.
const (
	mostNumber   = 128
	mostExponent = 400
)

// bounds are the largest JSON text that is read.
type bounds struct{ bytes, depth, values int }

// tooLong reports whether a number takes more digits than are computed with.
func tooLong(number []byte) bool {
	if len(number) > mostNumber {
		return true
	}
	e := bytes.IndexAny(number, "eE")
	if e < 0 {
		return false
	}
	exponent := 0
	for _, c := range bytes.TrimLeft(number[e+1:], "+-") {
		if exponent = exponent*10 + int(c-'0'); exponent > mostExponent {
			return true
		}
	}
	return false
}
