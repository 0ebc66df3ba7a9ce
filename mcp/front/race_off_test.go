//go:build !race

package front_test

// raceDetector is true if the tests run under the race detector.
const raceDetector = false
