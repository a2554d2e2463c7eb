package engine

import (
	"context"
	"fmt"

	"github.com/orionjs/orion-go/pulse/internal/backoff"
	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/observe"
)

// pollJitter spreads the polls of replicas.
const pollJitter = 0.2

// pollSoon asks for a poll outside the schedule.
func (e *Engine) pollSoon() {
	select {
	case e.polls <- struct{}{}:
	default:
	}
}

// pollLoop looks at everything: about every poll interval, and when asked. It is the safety net of the
// change stream and, without one, the only source of wake-ups.
func (e *Engine) pollLoop(ctx context.Context) {
	failures := backoff.NewExponential(e.Poll, 5*e.Poll)
	for {
		wait := clock.Jitter(e.Poll-e.Poll/10, pollJitter)
		if err := e.poll(ctx); err != nil && ctx.Err() == nil {
			e.Report(err)
			wait = failures.Next()
		} else {
			failures.Reset()
			e.Answered()
		}
		timer := clock.NewTimer(wait)
		select {
		case <-timer.C:
		case <-e.polls:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// poll costs three commands whatever the number of topics, sometimes four: subscriptions, new events of the topics
// that are led here and events that wait to be stamped, pending deliveries of the topics that seem to have none, and
// the next event that is published for a later time.
func (e *Engine) poll(ctx context.Context) error {
	topics := e.topics()
	if len(topics) == 0 && !e.stamps.used() {
		return nil // a client that only publishes sends nothing else
	}
	if len(topics) > 0 {
		if err := e.pollSubscriptions(ctx, topics); err != nil {
			return err
		}
	}
	e.leader.LookBack()
	news, err := e.Store.News(ctx, e.leader.Cursors())
	if err != nil {
		return err
	}
	for _, topic := range news.Topics {
		e.woken(topic, observe.Poll)
		e.leader.Look(topic)
	}
	if news.Pending {
		e.stamps.ask(0)
	}
	if err := e.askForLater(ctx); err != nil {
		return err
	}
	e.pool.LookAgain() // their own leader's new deliveries, claimed as they are stored, may keep them busy for long
	return e.lookForDue(ctx)
}

// pollSubscriptions takes over what others have changed in the subscriptions, and leads those that nobody
// leads.
func (e *Engine) pollSubscriptions(ctx context.Context, topics []string) error {
	subs, err := e.Store.Subscriptions(ctx, e.Group, topics)
	if err != nil {
		return err
	}
	stored := make(map[string]bool, len(subs))
	for _, sub := range subs {
		stored[sub.Topic] = true
		r := e.receiver(sub.Topic)
		if r == nil {
			continue
		}
		e.adopt(r, sub)
		e.takePause(r, sub)
		e.mu.Lock()
		e.byNode[sub.Topic] = sub.LedByNode && sub.LeaderUntil.After(e.Store.Now())
		e.mu.Unlock()
		if err := e.leader.Campaign(ctx, r, sub); err != nil {
			return err
		}
		// Removed while the lease was on its way: Remove, which released what it saw, did not see it.
		if e.receiver(sub.Topic) != r {
			if err := e.leader.Release(ctx, sub.Topic); err != nil {
				return err
			}
		}
	}
	for _, topic := range topics {
		if e.goneSince(topic, !stored[topic]) && e.receiver(topic) != nil {
			e.Report(fmt.Errorf("pulse: consumer group %s, topic %s: the stored subscription is gone: someone deleted it; restart this service to create it again (it then starts by its offset reset)", e.Group, topic))
		}
	}
	return nil
}

// goneSince remembers whether a topic's subscription is gone, and tells whether that is news.
func (e *Engine) goneSince(topic string, gone bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	news := gone && !e.gone[topic]
	e.gone[topic] = gone
	return news
}

// adopt takes over settings that a replica with a higher configVersion has stored (spec 2.6).
func (e *Engine) adopt(r *receiver.Receiver, sub store.Subscription) {
	inForce := r.Settings()
	if sub.Settings.ConfigVersion() <= inForce.ConfigVersion {
		return
	}
	adopted := sub.Settings.Over(inForce)
	r.Adopt(adopted)
	e.Logger.Info("pulse: adopted the stored settings of a higher configVersion", "group", e.Group, "topic", r.Topic,
		"from", inForce.ConfigVersion, "to", adopted.ConfigVersion, "changed", sub.Settings.Differences(inForce))
}

// takePause takes over whether an operator has paused the subscription (spec 9.2). Leading goes on: events become
// deliveries, which wait.
func (e *Engine) takePause(r *receiver.Receiver, sub store.Subscription) {
	paused := sub.Paused != nil
	switch {
	case !r.SetPaused(paused):
	case paused:
		e.pool.Pause(r.Topic)
		e.Logger.Warn("pulse: the subscription was paused; deliveries wait until it is resumed", "group", e.Group, "topic", r.Topic, "by", sub.Paused.Name, "reason", sub.Paused.Reason)
	default:
		e.pool.Resume(r.Topic)
		e.Logger.Info("pulse: the subscription was resumed", "group", e.Group, "topic", r.Topic)
	}
}

// lookForDue wakes the lanes that do not know that they have work, now or when it is due.
func (e *Engine) lookForDue(ctx context.Context) error {
	quiet := e.pool.Quiet()
	if len(quiet) == 0 {
		return nil
	}
	due, err := e.Store.DueTopics(ctx, e.Group, quiet)
	if err != nil {
		return err
	}
	for format, topics := range due {
		for topic, at := range topics {
			if !at.After(e.Store.Now()) {
				e.woken(topic, observe.Poll)
			}
			e.pool.WakeAt(topic, format, at)
		}
	}
	return nil
}

// all returns the receivers of this client.
func (e *Engine) all() []*receiver.Receiver { return e.those(func(string) bool { return true }) }

// nodeLed returns the receivers of topics that a Node client leads.
func (e *Engine) nodeLed() []*receiver.Receiver {
	return e.those(func(topic string) bool { return e.byNode[topic] })
}

func (e *Engine) those(which func(topic string) bool) []*receiver.Receiver {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []*receiver.Receiver
	for topic, r := range e.receivers {
		if which(topic) {
			out = append(out, r)
		}
	}
	return out
}

func (e *Engine) topics() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	topics := make([]string, 0, len(e.receivers))
	for topic := range e.receivers {
		topics = append(topics, topic)
	}
	return topics
}

func (e *Engine) receiver(topic string) *receiver.Receiver {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.receivers[topic]
}
