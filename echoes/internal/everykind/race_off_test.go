//go:build !race

package everykind

const raceEnabled = false
