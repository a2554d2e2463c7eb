package tcpproxy

import (
	"net"
	"time"
)

// parcel is bytes on their way, with the time at which they arrive.
type parcel struct {
	bytes []byte
	due   time.Time
}

// inFlight bounds the parcels of a connection that are on their way at once.
const inFlight = 256

// copy carries bytes from one connection to another until one of them ends. Reading goes on while parcels are
// on their way, so that a delay is one, and no limit of bandwidth.
func (p *Proxy) copy(to, from net.Conn, delay *time.Duration) {
	way := make(chan parcel, inFlight)
	arrived := make(chan struct{})
	go func() {
		defer close(arrived)
		// A writer that ends early must not leave the reader waiting for room.
		defer func() {
			_ = from.Close()
			for range way {
				continue
			}
		}()
		for next := range way {
			if !p.wait(next.due) {
				return
			}
			if _, err := to.Write(next.bytes); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			p.mu.Lock()
			due := time.Now().Add(*delay)
			p.mu.Unlock()
			way <- parcel{bytes: append([]byte(nil), buffer[:n]...), due: due}
		}
		if err != nil {
			close(way)
			<-arrived
			return
		}
	}
}

// wait returns when a parcel may arrive, false when the proxy ends before.
func (p *Proxy) wait(due time.Time) bool {
	if left := time.Until(due); left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.ctx.Done():
			return false
		}
	}
	p.mu.Lock()
	flow := p.flow
	p.mu.Unlock()
	select {
	case <-flow:
		return true
	case <-p.ctx.Done():
		return false
	}
}
