//go:build !race

package memory

// scale divides the sizes of tests.
const scale = 1
