package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// Many claim the same candidates: each delivery is won once, and whoever won knows it.
func TestClaim_4_1_EachDeliveryIsWonOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	candidates := pending(t, s, db, sub, 100)
	var mu sync.Mutex
	winners := map[string]string{}
	var claimers sync.WaitGroup
	for n := range 8 {
		claimers.Go(func() {
			for from := 0; from < 100; from += 25 {
				token := fmt.Sprintf("token %d.%d", n, from) // each claim has one of its own
				at := (from + 25*n) % 100                    // beginning at different pages, which overlap
				won, err := s.Claim(t.Context(), candidates[at:min(at+40, 100)], "go:x", token, time.Hour)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				for _, c := range won {
					if winners[c.ID] != "" {
						t.Errorf("%s is won by %s and by %s", c.ID, winners[c.ID], token)
					}
					winners[c.ID] = token
				}
				mu.Unlock()
			}
		})
	}
	claimers.Wait()
	is.Equal(len(winners), 100)
	for _, d := range all(t, deliveries(db), bson.D{}) {
		is.Equal(status(d), delivery.StatusProcessing)
		is.Equal(d.Lookup("lockToken").StringValue(), winners[d.Lookup("_id").StringValue()])
		is.Equal(d.Lookup("attempt").AsInt64(), int64(1))
	}
}

// What was read is what is claimed: a candidate that has had an attempt since is not taken.
func TestClaim_4_1_StaleCandidateIsNotTaken(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	candidates := pending(t, s, db, sub, 3)
	first := claim(t, s, candidates[:1], "first")
	retried := settlement(s, first[0], delivery.Retried)
	lost, err := s.Settle(t.Context(), []store.Settlement{retried}, time.Hour)
	is.NoErr(err)
	is.Equal(len(lost), 0)
	before := byID(t, deliveries(db), candidates[0].ID)
	is.Equal(status(before), delivery.StatusPending) // and due, but another attempt than was read
	won, err := s.Claim(t.Context(), candidates, "go:x", "second", time.Hour)
	is.NoErr(err)
	is.Equal(won, candidates[1:])
	is.Equal(byID(t, deliveries(db), candidates[0].ID), before)
	won, err = s.Claim(t.Context(), candidates, "go:x", "third", time.Hour)
	is.NoErr(err)
	is.Equal(len(won), 0)
	// A claim whose answer was lost is found by its token.
	won, err = s.Claimed(t.Context(), candidates, "second")
	is.NoErr(err)
	is.Equal(won, candidates[1:])
}

func TestCandidates_3_4_OnlyWhatIsDue(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	candidates := pending(t, s, db, sub, 10)
	later := s.Now().Add(time.Hour)
	_, err := deliveries(db).UpdateByID(t.Context(), candidates[0].ID, bson.D{{Key: "$set", Value: bson.D{{Key: "nextAttemptAt", Value: later}}}})
	is.NoErr(err)
	due, malformed, more, err := s.Candidates(t.Context(), group, topic, store.V2, 9)
	is.NoErr(err)
	is.Equal(len(due), 9)
	is.Equal(len(malformed), 0)
	is.True(more) // there may be more: the page is full
	_, _, more, err = s.Candidates(t.Context(), group, topic, store.V2, 10)
	is.NoErr(err)
	is.True(!more)
	for _, other := range [][2]string{{"other", topic}, {group, "other"}} {
		due, _, _, err = s.Candidates(t.Context(), other[0], other[1], store.V2, 10)
		is.NoErr(err)
		is.Equal(len(due), 0)
	}
	at, err := s.DueTopics(t.Context(), group, map[store.Format][]string{store.V2: {topic, "other"}})
	is.NoErr(err)
	is.Equal(len(at[store.V2]), 1)
	is.True(at[store.V2][topic].Before(later))
	claim(t, s, candidates[1:], "x")
	at, err = s.DueTopics(t.Context(), group, map[store.Format][]string{store.V2: {topic}})
	is.NoErr(err)
	is.Equal(at[store.V2][topic], later)
}

func TestRenew_4_1_TellsWhichLeasesAreHeld(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	leases := claim(t, s, pending(t, s, db, sub, 6), "mine")
	_, err := deliveries(db).UpdateByID(t.Context(), leases[0].ID, bson.D{{Key: "$set", Value: bson.D{{Key: "lockToken", Value: "another's"}}}})
	is.NoErr(err)
	lost, err := s.Settle(t.Context(), []store.Settlement{settlement(s, leases[1], delivery.Succeeded)}, time.Hour)
	is.NoErr(err)
	is.Equal(len(lost), 0)
	_, err = deliveries(db).DeleteOne(t.Context(), bson.D{{Key: "_id", Value: leases[2].ID}})
	is.NoErr(err)
	stolen := byID(t, deliveries(db), leases[0].ID)
	held, err := s.Renew(t.Context(), leases, 3*time.Hour)
	is.NoErr(err)
	is.Equal(held, map[string]bool{leases[3].ID: true, leases[4].ID: true, leases[5].ID: true})
	is.Equal(byID(t, deliveries(db), leases[0].ID), stolen)
	is.True(byID(t, deliveries(db), leases[3].ID).Lookup("lockedUntil").Time().After(time.Now().Add(2 * time.Hour)))
	held, err = s.Renew(t.Context(), leases[3:], 3*time.Hour)
	is.NoErr(err)
	is.Equal(len(held), 3)
}

func TestHandBack_4_7_AttemptIsNotConsumed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	candidates := pending(t, s, db, sub, 3)
	before := all(t, deliveries(db), bson.D{})
	leases := claim(t, s, candidates, "mine")
	_, err := deliveries(db).UpdateByID(t.Context(), leases[0].ID, bson.D{{Key: "$set", Value: bson.D{{Key: "lockToken", Value: "another's"}}}})
	is.NoErr(err)
	stolen := byID(t, deliveries(db), leases[0].ID)
	is.NoErr(s.HandBack(t.Context(), leases))
	is.NoErr(s.HandBack(t.Context(), leases)) // twice, after a lost answer, is once
	is.Equal(byID(t, deliveries(db), leases[0].ID), stolen)
	for i, d := range all(t, deliveries(db), bson.D{{Key: "_id", Value: bson.D{{Key: "$ne", Value: leases[0].ID}}}}) {
		is.Equal(status(d), delivery.StatusPending)
		is.Equal(d.Lookup("attempt").AsInt64(), int64(0))
		is.Equal(d.Lookup("attemptId"), before[i+1].Lookup("attemptId"))
		is.Equal(d.Lookup("nextAttemptAt"), before[i+1].Lookup("nextAttemptAt"))
		_, err := d.LookupErr("lockToken")
		is.True(err != nil)
	}
}

// Outcomes match ID, state and token; a mixture of won and lost ones is told apart, and each is written once.
func TestSettle_4_1_MixedOutcomesAreFencedAndIdempotent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	candidates := pending(t, s, db, sub, 8)
	one := claim(t, s, candidates[:4], "one")
	two := claim(t, s, candidates[4:], "two")
	outcomes := []store.Settlement{
		settlement(s, one[0], delivery.Succeeded), settlement(s, one[1], delivery.Retried),
		settlement(s, two[0], delivery.Failed), settlement(s, two[1], delivery.Succeeded),
		// Lost: taken by another worker; recorded as lost by the reaper; deleted.
		settlement(s, one[2], delivery.Succeeded), settlement(s, one[3], delivery.Failed),
		settlement(s, two[2], delivery.Retried), settlement(s, two[3], delivery.Succeeded),
	}
	outcomes[3].Expired = 2
	_, err := deliveries(db).UpdateByID(t.Context(), one[2].ID, bson.D{{Key: "$set", Value: bson.D{{Key: "lockToken", Value: "another's"}}}})
	is.NoErr(err)
	_, err = deliveries(db).UpdateMany(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: bson.A{one[3].ID, two[2].ID}}}}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "lockedUntil", Value: time.Now().Add(-time.Hour)}}}})
	is.NoErr(err)
	expired, err := s.ExpiredLeases(t.Context(), group, store.V2, []string{topic}, 25)
	is.NoErr(err)
	is.Equal(len(expired), 2)
	for _, e := range expired {
		done, err := s.Reap(t.Context(), e, delivery.Retried, 0, time.Hour)
		is.NoErr(err)
		is.True(done)
	}
	_, err = deliveries(db).DeleteOne(t.Context(), bson.D{{Key: "_id", Value: two[3].ID}})
	is.NoErr(err)

	var first []bson.Raw
	for range 2 { // again, as after an answer that got lost
		lost, err := s.Settle(t.Context(), outcomes, time.Hour)
		is.NoErr(err)
		is.Equal(lost, []string{one[2].ID, one[3].ID, two[2].ID, two[3].ID})
		now := all(t, deliveries(db), bson.D{})
		if first != nil {
			is.Equal(now, first) // nothing was written twice
		}
		first = now
	}
	for id, want := range map[string]string{
		one[0].ID: delivery.StatusSuccess, one[1].ID: delivery.StatusPending, two[0].ID: delivery.StatusError, two[1].ID: delivery.StatusSuccess,
		one[2].ID: delivery.StatusProcessing, one[3].ID: delivery.StatusPending, two[2].ID: delivery.StatusPending,
	} {
		is.Equal(status(byID(t, deliveries(db), id)), want)
	}
	is.Equal(byID(t, deliveries(db), two[1].ID).Lookup("expiredEventCount").AsInt64(), int64(2))
}

// Hundreds of successes are one command, each with its own times.
func TestSettle_4_10_SuccessesKeepTheirOwnTimes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	leases := claim(t, s, pending(t, s, db, sub, 300), "mine")
	outcomes := make([]store.Settlement, len(leases))
	begun := s.Now()
	for i, l := range leases {
		outcomes[i] = store.Settlement{Lease: l, StartedAt: begun.Add(time.Duration(i) * time.Second)}
		outcomes[i].EndedAt = outcomes[i].StartedAt.Add(time.Duration(i) * time.Millisecond)
	}
	lost, err := s.Settle(t.Context(), outcomes, time.Hour)
	is.NoErr(err)
	is.Equal(len(lost), 0)
	for i, l := range leases {
		d := byID(t, deliveries(db), l.ID)
		attempt := d.Lookup("attempts", "0").Document()
		is.Equal(attempt.Lookup("durationMs").AsInt64(), int64(i))
		is.Equal(attempt.Lookup("startedAt").Time().UTC(), outcomes[i].StartedAt)
		is.Equal(d.Lookup("endedAt").Time().UTC(), outcomes[i].EndedAt)
		is.Equal(d.Lookup("expiresAt").Time().UTC(), outcomes[i].EndedAt.Add(time.Hour))
	}
}
