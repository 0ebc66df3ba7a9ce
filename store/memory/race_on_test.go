//go:build race

package memory

// scale divides the sizes of tests, which the race detector slows down tenfold.
const scale = 8
