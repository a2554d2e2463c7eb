package directive

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

// check reports settings that cannot go together (spec 2.3 to 2.7 and 7.6). What
// depends on defaults of the whole service is checked when the service starts.
func (s *scanner) check(l *Listener, given map[Key]Setting, bad map[Key]bool) {
	is := func(key Key, want any) bool { v, ok := given[key]; return ok && v.Value == want }
	at := func(key Key, message, fix string) { s.report(given[key].Pos, message, fix) }

	if l.Kind == Batch {
		if _, ok := given[BatchSize]; !ok && !bad[BatchSize] {
			s.report(l.Pos, "a batch needs batchSize", "add batchSize=100, or another positive number")
		}
		if is(Ordered, true) {
			at(Ordered, "batches are not ordered", "remove ordered=true: items of one batch are in order, batches run side by side")
		}
		if is(ExecutionVersion, 1) {
			at(ExecutionVersion, "batches always use executionVersion 2", "remove executionVersion=1")
		}
		if t, ok := given[Transport]; ok && t.Value != "pulse" {
			at(Transport, fmt.Sprintf("batches cannot be received with transport=%s: Kafka delivers single events", t.Value), "use transport=pulse, or //echoes:event")
		}
	} else {
		s.checkEvent(given, is, at)
	}
	if n, ok := given[MaxRetries]; ok && n.Value.(int) > 0 && is(Delivery, "at-most-once") {
		at(MaxRetries, fmt.Sprintf("at-most-once never retries, and maxRetries is %d", n.Value), "use delivery=at-least-once, or remove maxRetries")
	}
	if b, ok := given[RateBurst]; ok && given[RateLimit].Value == nil && !bad[RateLimit] {
		s.note(b.Pos, "rateBurst needs rateLimit: unless Config.Defaults has one, the service does not start", "add rateLimit=10, or another number of calls in a second")
	}
	s.checkTopic(l, given, bad)
	s.checkDelay(given)
}

// kafkaName matches the names that Kafka gives to topics.
var kafkaName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// checkTopic refuses topics that the transport cannot have, and notes those that
// mean less than they seem to.
func (s *scanner) checkTopic(l *Listener, given map[Key]Setting, bad map[Key]bool) {
	topic, pos := l.Topic, l.TopicPos
	if t, ok := given[Topic]; ok {
		topic, pos = t.Value.(string), t.Pos
	}
	if bad[Topic] {
		return
	}
	if t, ok := given[Transport]; ok && t.Value != "pulse" && (!kafkaName.MatchString(topic) || topic == "." || topic == "..") {
		s.report(pos, fmt.Sprintf("Kafka has no topic %q", topic), "its topics consist of at most 249 letters, digits, dots, dashes and underscores")
	}
	switch {
	case strings.ContainsAny(topic, ",;"):
		s.note(pos, fmt.Sprintf("%q is one topic", topic), "a listener has one topic: write a method for each")
	case strings.ContainsAny(topic, "${}%"):
		s.note(pos, fmt.Sprintf("%q is the name of one topic", topic), "nothing is filled in")
	case strings.ContainsAny(topic, "*>#?"):
		s.note(pos, fmt.Sprintf("%q is the name of one topic", topic), "topics have no wildcards")
	}
}

func (s *scanner) checkEvent(given map[Key]Setting, is func(Key, any) bool, at func(Key, string, string)) {
	if is(Ordered, true) && is(ExecutionVersion, 2) {
		at(ExecutionVersion, "ordered delivery cannot use executionVersion 2", "write ordered=false, or remove executionVersion=2")
	}
	if n, ok := given[MaxConcurrency]; ok && n.Value.(int) > 1 && is(Ordered, true) {
		at(MaxConcurrency, fmt.Sprintf("ordered delivery runs one handler at a time, and maxConcurrency is %d", n.Value), "write ordered=false, or remove maxConcurrency")
	}
	if _, ok := given[Ordered]; !ok && !is(Transport, "kafka") {
		s.noteOrdered(given)
	}
	if is(Transport, "kafka") {
		for _, key := range []Key{Ordered, OffsetReset, Delivery, RetryDelay, MaxRetryDelay, RetryJitter, HandlerTimeout, RateLimit, RateBurst} {
			if _, ok := given[key]; ok {
				at(key, fmt.Sprintf("%s has no effect with transport=kafka", key), fmt.Sprintf("remove %s, or use transport=both", key))
			}
		}
	}
}

// noteOrdered notes settings that need unordered delivery where the directive does
// not ask for it. Config.Defaults may, which only the start of the service knows.
func (s *scanner) noteOrdered(given map[Key]Setting) {
	const unless = ": events are ordered unless Config.Defaults says otherwise, and the service does not start then"
	if v, ok := given[ExecutionVersion]; ok && v.Value == 2 {
		s.note(v.Pos, "executionVersion=2 needs ordered=false"+unless, "add ordered=false")
	}
	if n, ok := given[MaxConcurrency]; ok && n.Value.(int) > 1 {
		s.note(n.Pos, fmt.Sprintf("maxConcurrency=%d needs ordered=false%s", n.Value, unless), "add ordered=false")
	}
}

// checkDelay refuses retries so late that their due time leaves the range of
// dates (spec 2.4). It needs all three values, since any of them may have
// another default in the service.
func (s *scanner) checkDelay(given map[Key]Setting) {
	delay, ok1 := given[RetryDelay]
	if most, ok := given[MaxRetryDelay]; ok {
		if ok1 && delay.Value.(time.Duration) > most.Value.(time.Duration) {
			s.report(most.Pos, fmt.Sprintf("maxRetryDelay=%v is less than the first delay, retryDelay=%v", most.Value, delay.Value), "lower retryDelay, or raise maxRetryDelay")
		}
		return // no delay is longer
	}
	retries, ok2 := given[MaxRetries]
	factor, ok3 := given[RetryBackoffMultiplier]
	if !ok1 || !ok2 || !ok3 || retries.Value.(int) < 1 {
		return
	}
	ms := float64(delay.Value.(time.Duration).Milliseconds()) * math.Pow(factor.Value.(float64), float64(retries.Value.(int)-1))
	if ms > latestDelayMillis {
		s.report(delay.Pos, fmt.Sprintf("retry %d would come after the last date that can be stored", retries.Value),
			"lower retryDelay, maxRetries or retryBackoffMultiplier")
	}
}
