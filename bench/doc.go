// Package bench measures sluice beside other limiters and beside the floors of
// the machine: the same loops, keys and process for every row.
//
// It is a module of its own, so that the peers never enter the module graph of
// those who use sluice. Everything in it is a benchmark; cmd/table runs them in
// interleaved rounds and prints ratios. README.md says how to read them.
package bench
