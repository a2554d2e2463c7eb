package store

import "time"

// Pause is by whom, why and when a subscription was paused.
type Pause struct {
	By
	At time.Time
}

// readPause reads the field paused of a subscription. A document there pauses it, whatever is in it.
func readPause(f fields) *Pause {
	doc, ok := f["paused"].DocumentOK()
	if !ok {
		return nil
	}
	e := parse(doc)
	return &Pause{By: By{e.str("by"), e.str("reason")}, At: e.time("at")}
}
