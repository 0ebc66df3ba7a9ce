//go:build race

package file_test

// scale divides the sizes of tests, which the race detector slows down tenfold.
const scale = 10
