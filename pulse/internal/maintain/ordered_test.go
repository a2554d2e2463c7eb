package maintain

import (
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// Expired attempts of an order are left to its next holder, who ends them in an order that leaves no hole. Those
// of an unordered topic, and deliveries of version 2 that an ordered topic has from before, are reaped.
func TestReap_4_9_OrdersAreLeftToTheirHolder(t *testing.T) {
	t.Parallel()
	for _, ordered := range []bool{true, false} {
		t.Run(map[bool]string{true: "ordered", false: "unordered"}[ordered], func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			f := newFixture(t, 1)
			f.Leading()[0].Adopt(store.Settings{Ordered: ordered, ExecutionVersion: 1, MaxRetries: 1, RetryDelay: time.Minute, Multiplier: 2, Delivery: store.AtLeastOnce})
			f.leave(t, halfDone{delivery: deliveryV1("pending"), attempts: []bson.D{
				attemptV1("pending", bson.E{Key: "lockToken", Value: "gone"}, bson.E{Key: "startedAt", Value: happened}, bson.E{Key: "lockedUntil", Value: happened}),
			}}, "d")
			f.add(t, 1, "led", lost(1)...)
			_, err := f.reapOnce(t.Context())
			is.NoErr(err)
			attempts := read(t, f.history(), bson.D{})
			is.Equal(len(attempts) == 1, ordered)
			is.Equal(attempts[0].Lookup("status").StringValue() == "pending", ordered)
			is.Equal(f.count(t, field("status", delivery.StatusPending)), 1) // the one of version 2
		})
	}
}
