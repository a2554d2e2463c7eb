package store

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// each is the update of an updateMany that gives every document values of its own: those at the place of its
// field's value among the keys. Two stages: the first puts them, as a document, where the field at will be; the
// second, set, reads them there ("$at.name") and must replace that field.
//
// The server searches the keys once for each document, and passes over the literal arrays for it, so that the
// price of a document grows with their number. Equal values are sent once: handlers that take less than a
// millisecond share most of theirs.
func each(field string, keys []string, values []bson.D, at string, set bson.D) mongo.Pipeline {
	var distinct bson.A
	place, places := map[string]int32{}, make([]int32, len(values))
	for i, v := range values {
		raw, err := bson.Marshal(v)
		n, known := place[string(raw)]
		if err != nil || !known {
			n = int32(len(distinct))
			place[string(raw)] = n
			distinct = append(distinct, v)
		}
		places[i] = n
	}
	of := bson.D{{Key: "$arrayElemAt", Value: bson.A{literal(distinct), bson.D{{Key: "$arrayElemAt", Value: bson.A{
		literal(places), bson.D{{Key: "$indexOfArray", Value: bson.A{literal(keys), "$" + field}}},
	}}}}}}
	return append(pipelineSet(bson.D{{Key: at, Value: of}}), pipelineSet(set)...)
}

// ownTimes are the values of a success that the document does not have: when its handler began and ended, how
// long it took, and with a retention when it expires.
func ownTimes(o Settlement, retention time.Duration) bson.D {
	d := bson.D{
		{Key: "s", Value: o.StartedAt},
		{Key: "e", Value: o.EndedAt},
		{Key: "d", Value: number(millis(o.EndedAt.Sub(o.StartedAt)))},
	}
	if retention > 0 {
		d = append(d, bson.E{Key: "x", Value: o.EndedAt.Add(retention)})
	}
	return d
}
