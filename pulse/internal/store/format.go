package store

// Format is where the attempts of a delivery are stored (spec 4.8, 4.10). A delivery keeps the format it
// was born with.
type Format int

const (
	// V1 has one document in the history collection for each attempt; the delivery has only the end.
	V1 Format = 1
	// V2 has the attempts on the delivery itself; batches are always stored so.
	V2 Format = 2
)

// Formats lists both, the cheaper one first.
var Formats = []Format{V2, V1}

// ofFormat returns the leases of one format.
func ofFormat(leases []Lease, format Format) []Lease {
	var out []Lease
	for _, l := range leases {
		if (l.Format == V1) == (format == V1) {
			out = append(out, l)
		}
	}
	return out
}
