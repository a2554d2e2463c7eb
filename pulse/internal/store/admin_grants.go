package store

import "time"

// By is who does something to stored work, and why. It is kept with what was done.
type By struct{ Name, Reason string }

// Grant is a further attempt of a delivery that had ended, granted by an operator (spec 9.2).
type Grant struct {
	By
	At time.Time
	// Attempt is the number that it was granted as.
	Attempt int
}

// readGrants reads the grants of a delivery.
func readGrants(f fields) []Grant {
	array, _ := f["grants"].ArrayOK()
	values, err := array.Values()
	if err != nil {
		return nil
	}
	var grants []Grant
	for _, v := range values {
		doc, ok := v.DocumentOK()
		if !ok {
			continue
		}
		e := parse(doc)
		g := Grant{By: By{e.str("by"), e.str("reason")}, At: e.time("at")}
		g.Attempt, _ = e.int("attempt")
		grants = append(grants, g)
	}
	return grants
}
