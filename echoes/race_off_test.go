//go:build !race

package echoes

const raceEnabled = false
