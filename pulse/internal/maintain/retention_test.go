package maintain

import (
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// A changed retention changes no stored document. Turned off, successes go as soon as the group is past them,
// also those with an end of their own, and failures keep theirs. Turned on, what was stored without an end stays
// until somebody gives it one, as the documentation says.
func TestCleanup_4_4_ChangedRetention(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t, 1)
	longAgo := field("endedAt", time.Now().Add(-8*24*time.Hour).Truncate(time.Millisecond))
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	store := func() {
		for _, status := range []string{delivery.StatusSuccess, delivery.StatusV1Success, delivery.StatusError, delivery.StatusV1Error} {
			f.add(t, 2, "led", field("status", status), longAgo)                            // stored under NoTTL
			f.add(t, 3, "led", field("status", status), longAgo, field("expiresAt", later)) // under a retention
		}
	}
	succeeded := field("status", bson.D{field("$in", bson.A{delivery.StatusSuccess, delivery.StatusV1Success})})
	failed := field("status", bson.D{field("$in", bson.A{delivery.StatusError, delivery.StatusV1Error})})
	without := field("expiresAt", nil)
	clean := func(keep time.Duration) {
		t.Helper()
		f.HistoryRetention = keep
		more, err := f.cleanupOnce(t.Context())
		is.NoErr(err)
		is.True(!more)
	}

	store()
	clean(-1) // turned off
	is.Equal(f.count(t, succeeded), 0)
	is.Equal(f.count(t, failed, without), 4)
	is.Equal(f.count(t, failed, field("expiresAt", later)), 6)

	store()
	clean(time.Hour) // turned on again
	is.Equal(f.count(t, succeeded, without), 4)
	is.Equal(f.count(t, succeeded, field("expiresAt", later)), 6)
	is.Equal(f.count(t, failed, without), 8)
	is.Equal(f.count(t, failed, field("expiresAt", later)), 12)

	// docs/retention.md, Change a retention.
	_, err := f.deliveries.UpdateMany(t.Context(),
		bson.D{field("endedAt", bson.D{field("$lt", time.Now().Add(-7*24*time.Hour))}), without},
		bson.D{field("$set", bson.D{field("expiresAt", time.Now().Truncate(time.Millisecond))})})
	is.NoErr(err)
	clean(time.Hour)
	is.Equal(f.count(t, succeeded), 6)
	is.Equal(f.count(t, without), 0) // the failures are left to the TTL index
	is.Equal(f.count(t, succeeded, field("expiresAt", later)), 6)
}
