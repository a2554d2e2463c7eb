package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// The attempts of a lost holder are freed only as they were read: whatever happened to them meanwhile stays. A
// started one has lost its worker, one that was only claimed is as it was.
func TestRecover_4_9_IsFencedByTheOldLock(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]bson.D{
		"nothing":        nil,
		"another's lock": {{Key: "lockToken", Value: "another's"}},
		"a heartbeat":    {{Key: "lockedUntil", Value: time.Now().Add(time.Hour)}},
		"an outcome":     {{Key: "status", Value: "success"}},
	} {
		t.Run(fmt.Sprint("between came ", what), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s, db, sub := newStore(t)
			n, err := s.ClaimOrdered(t.Context(), pendingV1(t, s, sub, 2), "go:lost", "old", time.Hour)
			is.NoErr(err)
			is.Equal(n, 2)
			_, err = history(db).UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "lockedUntil", Value: time.Now().Add(-time.Minute)}}}})
			is.NoErr(err)
			heads, err := s.Heads(t.Context(), group, topic, 10)
			is.NoErr(err)
			is.True(heads[0].Started && !heads[1].Started)
			if change != nil {
				_, err = history(db).UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: change}})
				is.NoErr(err)
			}
			before := all(t, history(db), bson.D{})
			for _, h := range heads {
				recovered, err := s.Recover(t.Context(), h, delivery.Retried, 0, time.Hour)
				is.NoErr(err)
				is.Equal(recovered, change == nil)
			}
			after := all(t, history(db), bson.D{})
			if change != nil {
				is.Equal(after, before)
				return
			}
			is.Equal(len(after), 3) // the next attempt of the started one, and no other
			lost := byID(t, history(db), heads[0].ID)
			is.Equal(status(lost), "error")
			is.Equal(lost.Lookup("error", "code").StringValue(), delivery.CodeWorkerLost)
			free := byID(t, history(db), heads[1].ID)
			is.Equal(status(free), "pending")
			for _, field := range []string{"lockToken", "lockOwner", "lockedUntil", "startedAt", "heartbeatAt"} {
				_, err := free.LookupErr(field)
				is.True(err != nil)
			}
		})
	}
}
