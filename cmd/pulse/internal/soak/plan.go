// Package soak lets processes work while faults hit them, and tells whether every event was handled all the same.
package soak

import (
	"math/rand/v2"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults. A stall hits all processes at once, the others one.
const (
	Kill   Kind = "kill"   // SIGKILL, and a new process after a while
	Freeze Kind = "freeze" // SIGSTOP, and SIGCONT after a while
	Cut    Kind = "cut"    // all connections are closed, and new ones, for a while
	Hole   Kind = "hole"   // nothing arrives for a while, and nothing is closed
	Stall  Kind = "stall"  // the same, for everybody, as when the server stands still
)

// Fault is one that is planned.
type Fault struct {
	// At is when it begins, since the start; Lasts how long it takes until all is as before.
	At    time.Duration `json:"at"`
	Lasts time.Duration `json:"lasts"`
	Kind  Kind          `json:"kind"`
	// Target is the number of the process that is hit; a stall has none, -1.
	Target int `json:"target"`
}

// The kinds by how often they come, and how long they last at least and at most: some of each are longer than
// the leases, some shorter.
var kinds = []struct {
	kind        Kind
	weight      int
	least, most time.Duration
}{
	{Kill, 4, 100 * time.Millisecond, 3 * time.Second},
	{Freeze, 3, 500 * time.Millisecond, 3 * lease / 2},
	{Cut, 3, 100 * time.Millisecond, 4 * time.Second},
	{Hole, 2, 500 * time.Millisecond, 3 * lease / 2},
	{Stall, 1, 500 * time.Millisecond, 5 * time.Second},
}

// The pauses between faults, and before the first and after the last one.
const (
	leastPause = 500 * time.Millisecond
	mostPause  = 5 * time.Second
	calm       = 3 * time.Second
)

// Plan is the faults of a seed for so many processes: the same for the same arguments. A longer time has the same
// faults, and more.
func Plan(seed uint64, total time.Duration, targets int) []Fault {
	dice := rand.New(rand.NewPCG(seed, 0))
	between := func(least, most time.Duration) time.Duration {
		return (least + time.Duration(dice.Int64N(int64(most-least)))).Round(time.Millisecond)
	}
	weights := 0
	for _, k := range kinds {
		weights += k.weight
	}
	var plan []Fault
	for at := calm; ; at += between(leastPause, mostPause) {
		choice := dice.IntN(weights)
		i := 0
		for choice >= kinds[i].weight {
			choice -= kinds[i].weight
			i++
		}
		f := Fault{At: at, Kind: kinds[i].kind, Lasts: between(kinds[i].least, kinds[i].most), Target: dice.IntN(targets)}
		if f.Kind == Stall {
			f.Target = -1
		}
		if at += f.Lasts; at+calm > total {
			return plan
		}
		plan = append(plan, f)
	}
}
