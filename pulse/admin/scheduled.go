package admin

import (
	"context"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/store"
)

// Scheduled is what waits in a database for a later time (pulse.NotBefore), by topic. No group sees it before.
type Scheduled struct {
	topics map[string]store.Scheduled
	more   bool
}

// Topic tells how many events of a topic wait, and when the next one is due; zero when none waits.
func (s Scheduled) Topic(name string) (n Count, next time.Time) {
	topic := s.topics[name]
	return Count{N: topic.N, AtLeast: s.more}, topic.Next
}

// Scheduled counts the events that wait for a later time, with one command: of all topics those DefaultCountLimit that
// are due next. When more wait, every count may be higher.
func (a *Admin) Scheduled(ctx context.Context) (Scheduled, error) {
	ctx, cancel, err := a.begin(ctx)
	if err != nil {
		return Scheduled{}, err
	}
	defer cancel()
	topics, more, err := a.store.Scheduled(ctx, DefaultCountLimit)
	return Scheduled{topics, more}, err
}
