//go:build race

package everykind

// raceEnabled thins out the exhaustive tests, which the detector makes ten times
// as slow.
const raceEnabled = true
