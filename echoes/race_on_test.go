//go:build race

package echoes

// raceEnabled thins out tests that try every value: the race detector makes
// them six times as slow and has nothing to find in them.
const raceEnabled = true
