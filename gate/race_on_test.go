//go:build race

package gate_test

// slowdown is how much slower the race detector makes what is measured.
const slowdown = 20
