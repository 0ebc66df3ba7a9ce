// Package sim plays random scenes with the whole engine under one seed: policies of every
// kind of limit, callers who wait, leave, repeat themselves, settle, abandon and release,
// cooldowns, resets and reloads, on the fake clock of a synctest bubble. After every step
// a model that shares no code with the engine says what must be left of every limit, who
// may go ahead, and who must not have been kept waiting.
//
//	go test ./sim                        some seeds, the first one drawn
//	go test ./sim -run TestSim -seed=42  this seed, exactly
//	go test ./sim -run TestSim -runs=500 more seeds
//
// One goroutine acts at a time and the next step begins when all are at rest, so that a
// seed is one history. The race detector shuffles goroutines on purpose: with -race two
// callers whose turn comes in the same microsecond may change places.
package sim
