// Package processes loads one store from three real processes at once and counts what all
// of them together were granted.
//
//	go test ./sim/processes                  a few seconds each, as CI does
//	ACCEPTANCE=full go test -v ./sim/processes   a minute each
//	SEED=42 go test ./sim/processes          the same keys and pauses again
//
// A process is this test's own program, started once more. It opens a store and a controller
// of its own and lets 64 callers loose under four rules: a bucket, a window and slots, with
// several keys each, and a window that all calls share. In the first half the load is such
// that each of the three is exhausted all the time and the shared one never; in the second half
// the shared one is.
//
// # Which instants are counted
//
// Each process notes what passes between its controller and its store: the key, the limit,
// the units, and when. The union of these notes is checked afterwards by arithmetic that
// shares no code with package limit. A single server says at which microsecond of its own
// clock it took the units, so the check is exact. A Cluster takes in one slot after the other,
// and units that were taken ahead are spent in the process: such a grant was made at some
// instant between the question and the answer, both by the clock of the machine, which is the
// servers' own. What is counted then is what was taken inside a window for certain, which a
// correct store never has too much of either.
package processes
