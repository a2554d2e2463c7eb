package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// What happens to a delivery between the reaper's read and its write wins.
func TestReap_4_3_DoesNotOverwriteWhatHappenedMeanwhile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	leases := claim(t, s, pending(t, s, db, sub, 4), "mine")
	past := bson.D{{Key: "$set", Value: bson.D{{Key: "lockedUntil", Value: time.Now().Add(-time.Hour)}}}}
	_, err := deliveries(db).UpdateMany(t.Context(), bson.D{}, past)
	is.NoErr(err)
	expired, err := s.ExpiredLeases(t.Context(), group, store.V2, []string{topic}, 25)
	is.NoErr(err)
	is.Equal(len(expired), 4)
	byDelivery := map[string]store.Expired{}
	for _, e := range expired {
		is.Equal(e.Attempt, 1)
		byDelivery[e.ID] = e
	}
	// A heartbeat, an outcome, and a new claim after another reaper.
	_, err = s.Renew(t.Context(), leases[:1], time.Hour)
	is.NoErr(err)
	_, err = s.Settle(t.Context(), []store.Settlement{settlement(s, leases[1], delivery.Succeeded)}, time.Hour)
	is.NoErr(err)
	_, err = deliveries(db).UpdateByID(t.Context(), leases[2].ID, bson.D{{Key: "$set", Value: bson.D{{Key: "lockToken", Value: "a later one"}, {Key: "attempt", Value: 2}}}})
	is.NoErr(err)
	before := all(t, deliveries(db), bson.D{{Key: "_id", Value: bson.D{{Key: "$ne", Value: leases[3].ID}}}})
	for _, l := range leases[:3] {
		done, err := s.Reap(t.Context(), byDelivery[l.ID], delivery.Failed, 0, time.Hour)
		is.NoErr(err)
		is.True(!done)
	}
	is.Equal(all(t, deliveries(db), bson.D{{Key: "_id", Value: bson.D{{Key: "$ne", Value: leases[3].ID}}}}), before)

	done, err := s.Reap(t.Context(), byDelivery[leases[3].ID], delivery.Failed, 0, time.Hour)
	is.NoErr(err)
	is.True(done)
	is.Equal(status(byID(t, deliveries(db), leases[3].ID)), delivery.StatusError)
	done, err = s.Reap(t.Context(), byDelivery[leases[3].ID], delivery.Failed, 0, time.Hour)
	is.NoErr(err)
	is.True(!done) // once
}

// Fields of any type in a delivery in processing: it is found, and ended or retried.
func TestReap_6_3_HostileFields(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	hostile := []any{nil, "text", int64(7), 1.5, true, bson.D{{Key: "a", Value: 1}}, bson.A{1, "b"}, bson.NewObjectID(), bson.Timestamp{T: 1}, bson.MinKey{}, bson.A{time.Now().Add(-time.Hour)}}
	fields := []string{"lockedUntil", "startedAt", "lockToken", "attempt", "attempts", "attemptId", "attemptCreatedAt", "nextAttemptAt", "lockedAt", "heartbeatAt"}
	leases := claim(t, s, pending(t, s, db, sub, len(fields)*len(hostile)), "mine")
	for i, l := range leases {
		set := bson.D{{Key: fields[i/len(hostile)], Value: hostile[i%len(hostile)]}}
		if set[0].Key != "lockedUntil" {
			set = append(set, bson.E{Key: "lockedUntil", Value: time.Now().Add(-time.Hour)})
		}
		_, err := deliveries(db).UpdateByID(t.Context(), l.ID, bson.D{{Key: "$set", Value: set}})
		is.NoErr(err)
	}
	for n := 0; ; n++ {
		expired, err := s.ExpiredLeases(t.Context(), group, store.V2, []string{topic}, 25)
		is.NoErr(err)
		if len(expired) == 0 {
			break
		}
		is.True(n < 10)
		for i, e := range expired {
			verdict := delivery.Retried
			if i%2 == 0 {
				verdict = delivery.Failed
			}
			done, err := s.Reap(t.Context(), e, verdict, 0, time.Hour)
			is.NoErr(err)
			is.True(done)
		}
	}
	for _, d := range all(t, deliveries(db), bson.D{}) {
		is.True(status(d) == delivery.StatusPending || status(d) == delivery.StatusError)
		is.Equal(d.Lookup("attempts").Type, bson.TypeArray)
	}
}

// The rows of the clean-up: what goes, with a retention and without one.
func TestDeleteSuccesses_4_3_BehindTheCursorAndExpired(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, _ := newStore(t)
	cursor := bson.Timestamp{T: 100, I: 5}
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	add := func(name, status string, sequence any, expires any, more ...bson.E) {
		doc := append(bson.D{
			{Key: "_id", Value: name},
			{Key: "eventId", Value: name},
			{Key: "consumerGroup", Value: group},
			{Key: "topic", Value: topic},
			{Key: "status", Value: status},
			{Key: "eventSequence", Value: sequence},
			{Key: "expiresAt", Value: expires},
		}, more...)
		_, err := deliveries(db).InsertOne(t.Context(), doc)
		is.NoErr(err)
	}
	behind := bson.Timestamp{T: 100, I: 4}
	add("behind, expired", delivery.StatusSuccess, behind, past)
	add("behind, not expired", delivery.StatusSuccess, behind, future)
	add("behind, kept for ever", delivery.StatusSuccess, behind, nil)
	add("at the cursor", delivery.StatusSuccess, cursor, past)
	add("ahead", delivery.StatusSuccess, bson.Timestamp{T: 101, I: 1}, past)
	add("failed", delivery.StatusError, behind, past)
	add("pending", delivery.StatusPending, behind, past)
	add("processing", delivery.StatusProcessing, behind, past)
	add("no sequence", delivery.StatusSuccess, nil, past)
	names := func() (names []string) {
		for _, d := range all(t, deliveries(db), bson.D{}) {
			names = append(names, d.Lookup("_id").StringValue())
		}
		return names
	}
	// The server's own TTL may have been faster with what has expired: only what must stay is compared.
	n, err := s.DeleteSuccesses(t.Context(), group, map[string]bson.Timestamp{topic: cursor, "another": {T: 1000}}, true, 1000)
	is.NoErr(err)
	is.True(n <= 1)
	for _, name := range names() {
		is.True(name != "behind, expired")
	}
	is.Equal(len(all(t, deliveries(db), bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: bson.A{"behind, not expired", "behind, kept for ever"}}}}})), 2)
	n, err = s.DeleteSuccesses(t.Context(), group, map[string]bson.Timestamp{topic: cursor, "another": {T: 1000}}, false, 1)
	is.NoErr(err)
	is.Equal(n, 1) // bounded
	n, err = s.DeleteSuccesses(t.Context(), group, map[string]bson.Timestamp{topic: cursor, "another": {T: 1000}}, false, 1000)
	is.NoErr(err)
	is.Equal(n, 1)
	n, err = s.DeleteSuccesses(t.Context(), group, map[string]bson.Timestamp{topic: cursor, "another": {T: 1000}}, false, 1000)
	is.NoErr(err)
	is.Equal(n, 0)
	for _, other := range [][2]string{{"other", topic}, {group, "other"}} {
		n, err = s.DeleteSuccesses(t.Context(), other[0], map[string]bson.Timestamp{other[1]: {T: 1000}}, false, 1000)
		is.NoErr(err)
		is.Equal(n, 0)
	}
}

// Pending deliveries that nobody could claim: told apart, made claimable, or ended.
func TestMend_6_3_MalformedPendingDeliveries(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	sound := pending(t, s, db, sub, 2)
	now := s.Now()
	type row struct {
		field    string
		value    any // nil: absent
		undated  bool
		hopeless bool
	}
	rows := []row{
		{"attemptId", nil, false, false},
		{"attemptId", "", false, false},
		{"attemptId", 7, false, false},
		{"attempt", nil, false, false},
		{"attempt", "two", false, false},
		{"attempt", -3, false, false},
		{"attempt", bson.A{}, false, false},
		{"nextAttemptAt", nil, true, false},
		{"nextAttemptAt", "soon", true, false},
		{"nextAttemptAt", 12, true, false},
		{"nextAttemptAt", bson.A{"x"}, true, false},
		{"eventId", nil, false, true},
		{"eventId", 12, false, true},
		{"eventId", "", false, true},
		{"_id", 12, false, true},
		{"_id", bson.NewObjectID(), false, true},
	}
	for i, r := range rows {
		doc := bson.D{}
		for _, e := range (bson.D{
			{Key: "_id", Value: uuid.NewString()},
			{Key: "eventId", Value: fmt.Sprint("event ", i)},
			{Key: "consumerGroup", Value: group},
			{Key: "topic", Value: topic},
			{Key: "eventSequence", Value: bson.Timestamp{T: 9, I: uint32(i)}},
			{Key: "status", Value: delivery.StatusPending},
			{Key: "attempt", Value: int32(0)},
			{Key: "attemptId", Value: uuid.NewString()},
			{Key: "nextAttemptAt", Value: now},
			{Key: "attempts", Value: bson.A{}},
			{Key: "row", Value: i},
		}) {
			if e.Key == r.field {
				e.Value = r.value
			}
			if e.Value != nil {
				doc = append(doc, e)
			}
		}
		_, err := deliveries(db).InsertOne(t.Context(), doc)
		is.NoErr(err)
	}
	due, malformed, _, err := s.Candidates(t.Context(), group, topic, store.V2, 100)
	is.NoErr(err)
	is.Equal(len(due), 2)
	undated, err := s.Undated(t.Context(), group, []string{topic}, 100)
	is.NoErr(err)
	is.Equal(len(undated), 4)
	is.Equal(len(malformed)+len(undated), len(rows))
	at, err := s.DueTopics(t.Context(), group, map[store.Format][]string{store.V2: {topic}})
	is.NoErr(err)
	is.True(!at[store.V2][topic].IsZero()) // what is no date does not pass for the nearest

	// One is repaired by somebody else meanwhile: it is left alone.
	_, err = deliveries(db).UpdateOne(t.Context(), bson.D{{Key: "row", Value: 0}}, bson.D{{Key: "$set", Value: bson.D{{Key: "attemptId", Value: "theirs"}}}})
	is.NoErr(err)
	mended := 0
	for _, m := range append(malformed, undated...) {
		done, err := s.Mend(t.Context(), m, time.Hour)
		is.NoErr(err)
		if done {
			mended++
			is.True(m.Err() != nil)
		}
	}
	is.Equal(mended, len(rows)-1)
	due, malformed, _, err = s.Candidates(t.Context(), group, topic, store.V2, 100)
	is.NoErr(err)
	is.Equal(len(malformed), 0)
	hopeless := 0
	for i, r := range rows {
		d := all(t, deliveries(db), bson.D{{Key: "row", Value: i}})[0]
		if !r.hopeless {
			is.Equal(status(d), delivery.StatusPending)
			continue
		}
		hopeless++
		is.Equal(status(d), delivery.StatusError)
		is.Equal(d.Lookup("error", "code").StringValue(), delivery.CodeDecodeError)
		is.True(d.Lookup("expiresAt").Time().After(now))
	}
	is.Equal(len(due), 2+len(rows)-hopeless)
	is.Equal(byID(t, deliveries(db), sound[0].ID).Lookup("attemptId").StringValue(), sound[0].AttemptID) // sound ones stay as they are
	is.Equal(all(t, deliveries(db), bson.D{{Key: "row", Value: 0}})[0].Lookup("attemptId").StringValue(), "theirs")
}

// Many deliveries whose handlers take long, and whose leases hold, hide none that was lost.
func TestReap_4_3_LiveHandlersHideNoLostOne(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	candidates := pending(t, s, db, sub, 60)
	claim(t, s, candidates, "token")
	_, err := deliveries(db).UpdateByID(t.Context(), candidates[59].ID, bson.D{{Key: "$set", Value: bson.D{{Key: "lockedUntil", Value: time.Now().Add(-time.Minute)}}}})
	is.NoErr(err)
	expired, err := s.ExpiredLeases(t.Context(), group, store.V2, []string{topic}, 25)
	is.NoErr(err)
	is.Equal(len(expired), 1)
	is.Equal(expired[0].ID, candidates[59].ID)
}

// Without a retention the attempts of a version 1 success go with it.
func TestDeleteSuccesses_4_4_WithoutRetentionTheAttemptsGoToo(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	page := keys(0, 3)
	lease := lead(t, s, sub, "leader", time.Hour)
	is.NoErr(s.Materialize(t.Context(), lease, ofFormat(page, store.V1), page[2].Position, bson.Timestamp{}))
	due, _, _, err := s.Candidates(t.Context(), group, topic, store.V1, 2)
	is.NoErr(err)
	for _, c := range due {
		won, err := s.Claim(t.Context(), []store.Candidate{c}, "go:x", c.ID, time.Hour)
		is.NoErr(err)
		is.Equal(len(won), 1)
		o := store.Settlement{
			Lease: store.Lease{ID: c.ID, Token: c.ID, Format: store.V1}, Verdict: delivery.Succeeded, StartedAt: s.Now(), EndedAt: s.Now(),
			Attempt: 1, DeliveryID: c.DeliveryID, EventID: c.EventIDs[0], ConsumerGroup: group, Topic: topic,
		}
		lost, err := s.Settle(t.Context(), []store.Settlement{o}, 0)
		is.NoErr(err)
		is.Equal(len(lost), 0)
	}
	n, err := s.DeleteSuccesses(t.Context(), group, map[string]bson.Timestamp{topic: {T: 5000}}, false, 100)
	is.NoErr(err)
	is.Equal(n, 2)
	is.Equal(len(all(t, deliveries(db), bson.D{})), 1)
	is.Equal(len(all(t, history(db), bson.D{})), 1) // of the one that is pending
}
