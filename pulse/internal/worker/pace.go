package worker

import "time"

// The bounds of claiming ahead: as many first attempts as a lane's workers finish within aheadTime, and
// at most aheadFactor for each worker.
const (
	aheadTime   = 250 * time.Millisecond
	aheadFactor = 16
)

// pace measures how long a lane's handlers take, as a moving average.
type pace struct{ average time.Duration }

func (p *pace) observe(d time.Duration) {
	d = max(d, time.Microsecond)
	if p.average == 0 {
		p.average = d
		return
	}
	p.average += (d - p.average) / 8
}

// share is how many deliveries may be claimed ahead for that many workers: none before a handler has
// been seen.
func (p *pace) share(workers int) int {
	if p.average == 0 {
		return 0
	}
	return min(aheadFactor*workers, int(time.Duration(workers)*aheadTime/p.average))
}
