package worker

import (
	"fmt"
	"testing"

	"github.com/matryer/is"
)

// More lanes than workers have work of version 1 alone: the look at version 2, which comes first, must not give
// away the slot that was reserved for version 1. The lanes would pass it round, and none would ever claim.
func TestPool_2_10_FormatWithoutWorkKeepsTheLanesSlots(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPool(t, 4)
	var lanes []*lane
	for i := range 8 {
		l := addLane(p, fmt.Sprint("t", i), 4, 3, 0)
		l.v1().candidates = candidates(3, 0)
		p.countNeedy(l, l.v1())
		lanes = append(lanes, l)
	}
	p.dispatch()
	is.Equal(p.slots, 4)
	claimed := 0
	for _, l := range lanes {
		reserved := l.reserved
		is.Equal(len(p.pick(l, l.v2())), 0)
		is.Equal(len(p.pick(l, l.v1())), reserved)
		claimed += reserved
	}
	is.Equal(claimed, 4)
}

func TestPool_2_10_TurnGivesBackSlotsThatNobodyNeeds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPool(t, 4)
	idle, busy := addLane(p, "idle", 4, 3, 0), addLane(p, "busy", 4, 3, 0)
	idle.reserved, p.slots = 4, 4
	busy.v1().candidates = candidates(9, 0)
	p.countNeedy(busy, busy.v1())
	progress, err := p.claimLane(t.Context(), idle)
	is.NoErr(err)
	is.True(!progress)
	is.Equal(idle.reserved, 0)
	is.Equal(busy.reserved, 4) // they go to the lane that has use for them
	is.Equal(p.slots, 4)
}
