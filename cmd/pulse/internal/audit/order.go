package audit

// CheckOrder adds a violation for each call of an ordered topic that began before all events with lower numbers
// had been handled successfully. A repeated handling of an event is in order: what was done without its outcome
// being stored is done again.
func (v *Verdict) CheckOrder(topic string, entries []Entry) {
	doneAt := map[int]int64{} // the end of the first success
	for _, e := range entries {
		if e.Topic != topic || !e.OK {
			continue
		}
		for _, n := range e.Events {
			if at, done := doneAt[n]; !done || e.End < at {
				doneAt[n] = e.End
			}
		}
	}
	const most = 5
	found := 0
	for _, e := range sorted(entries) {
		if e.Topic != topic {
			continue
		}
		for _, n := range e.Events {
			if n == 0 {
				continue
			}
			before, done := doneAt[n-1]
			if done && before <= e.Start {
				continue
			}
			if found++; found <= most {
				v.Violate("topic %s: event %d was begun by %s before event %d was done", topic, n, e.Replica, n-1)
			}
		}
	}
	if found > most {
		v.Violate("topic %s: %d events in all were begun too early", topic, found)
	}
}
