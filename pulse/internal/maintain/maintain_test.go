package maintain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a maintainer that leads the topic "led", whose loops do not run: the test takes each step.
type fixture struct {
	*Maintainer
	deliveries *mongo.Collection
	due        pulsetest.Recorder[string]
	reports    pulsetest.Recorder[error]
}

func newFixture(t *testing.T, retries int) *fixture {
	t.Helper()
	is := is.New(t)
	db := pulsetest.Database(t)
	f := &fixture{deliveries: db.Collection("p.deliveries")}
	led := &receiver.Receiver{Topic: "led"}
	led.Adopt(store.Settings{MaxRetries: retries, RetryDelay: time.Minute, Multiplier: 2, Delivery: store.AtLeastOnce})
	f.Maintainer = &Maintainer{
		Store: store.New(db, "p"), Group: "billing", Poll: time.Second, Lease: 30 * time.Second, HistoryRetention: time.Hour,
		Leading:    func() []*receiver.Receiver { return []*receiver.Receiver{led} },
		Unattended: func() []*receiver.Receiver { return nil },
		All:        func() []*receiver.Receiver { return []*receiver.Receiver{led} },
		Settled: func() map[string]bson.Timestamp {
			return map[string]bson.Timestamp{"led": {T: 100, I: 1}}
		},
		Due:    func(topic string, _ store.Format, _ time.Time) { f.due.Add(topic) },
		Report: func(err error) { f.reports.Add(err) },
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	is.NoErr(f.Store.Detect(t.Context()))
	return f
}

// add stores n deliveries of a topic with the given fields, and others that every delivery has.
func (f *fixture) add(t *testing.T, n int, topic string, fields ...bson.E) {
	t.Helper()
	docs := make([]bson.D, n)
	for i := range docs {
		docs[i] = append(bson.D{
			{Key: "_id", Value: uuid.NewString()},
			{Key: "consumerGroup", Value: "billing"},
			{Key: "topic", Value: topic},
			{Key: "eventId", Value: uuid.NewString()},
			{Key: "eventSequence", Value: bson.Timestamp{T: 50, I: uint32(i)}},
			{Key: "attempts", Value: bson.A{}},
		}, fields...)
	}
	_, err := f.deliveries.InsertMany(t.Context(), docs)
	is.New(t).NoErr(err)
}

func (f *fixture) count(t *testing.T, filter ...bson.E) int {
	t.Helper()
	n, err := f.deliveries.CountDocuments(t.Context(), append(bson.D{}, filter...))
	is.New(t).NoErr(err)
	return int(n)
}

func field(key string, value any) bson.E { return bson.E{Key: key, Value: value} }

// lost are the fields of a delivery whose lease is over.
func lost(attempt int) []bson.E {
	return []bson.E{
		field("status", delivery.StatusProcessing), field("attempt", attempt), field("attemptId", uuid.NewString()), field("lockToken", "gone"),
		field("startedAt", time.Now()), field("lockedUntil", time.Now().Add(-time.Minute)),
	}
}

func TestReap_4_3_FullPagesDrainAtOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t, 1)
	f.add(t, 2*reapBatch, "led", lost(1)...) // a retry is left
	f.add(t, 3, "led", lost(2)...)           // none is
	f.add(t, 3, "not led", lost(1)...)
	for pass := range 4 {
		more, err := f.reapOnce(t.Context())
		is.NoErr(err)
		is.Equal(more, pass < 2) // full pages call for the next one
	}
	is.Equal(f.count(t, field("topic", "led"), field("status", delivery.StatusPending), field("attempts.error.code", delivery.CodeWorkerLost)), 2*reapBatch)
	is.Equal(f.count(t, field("topic", "led"), field("status", delivery.StatusError), field("error.code", delivery.CodeWorkerLost)), 3)
	is.Equal(f.count(t, field("topic", "not led"), field("status", delivery.StatusProcessing)), 3)
	is.Equal(f.due.Len(), 2*reapBatch) // each wakes its topic when it is due
}

func TestReap_4_3_LeadsNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t, 1)
	f.Leading = func() []*receiver.Receiver { return nil }
	f.add(t, 3, "led", lost(1)...)
	f.add(t, 3, "led", field("status", delivery.StatusPending))
	for _, once := range []func(context.Context) (bool, error){f.reapOnce, f.mendOnce} {
		more, err := once(t.Context())
		is.NoErr(err)
		is.True(!more)
	}
	is.Equal(f.count(t, field("status", delivery.StatusProcessing)), 3)
	is.Equal(f.count(t, field("status", delivery.StatusPending), field("attemptId", bson.D{field("$exists", false)})), 3)
}

// A delivery that cannot be ended does not hold up those behind it.
func TestReap_6_3_OneThatCannotBeEndedHoldsUpNobody(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t, 1)
	// So large that the record of its attempt does not fit any more.
	large := append(lost(1), field("lockedUntil", time.Now().Add(-time.Hour)), field("ballast", strings.Repeat("x", 16<<20-700)))
	f.add(t, 1, "led", append(large[:5:5], large[6:]...)...)
	f.add(t, 5, "led", lost(1)...)
	_, err := f.reapOnce(t.Context())
	is.True(err != nil) // reported
	is.Equal(f.count(t, field("status", delivery.StatusPending)), 5)
	is.Equal(f.count(t, field("status", delivery.StatusProcessing)), 1)
}

func TestCleanup_4_3_BehindTheCursorOnly(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{true, false} {
		t.Run(fmt.Sprint("retention=", keeps), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			f := newFixture(t, 1)
			success := field("status", delivery.StatusSuccess)
			f.add(t, 10, "led", success, field("name", "kept for ever"))
			f.add(t, 10, "led", success, field("name", "not expired"), field("expiresAt", time.Now().Add(time.Hour)))
			f.add(t, 10, "led", field("status", delivery.StatusError), field("name", "failed"))
			f.add(t, 10, "not led", success, field("name", "not led"))
			_, err := f.deliveries.InsertOne(t.Context(), bson.D{
				field("consumerGroup", "billing"), field("topic", "led"), success, field("eventSequence", bson.Timestamp{T: 100, I: 1}), field("name", "at the cursor"),
			})
			is.NoErr(err)
			if !keeps {
				f.HistoryRetention = -1 // no retention: what is settled decides
			}
			more, err := f.cleanupOnce(t.Context())
			is.NoErr(err)
			is.True(!more)
			gone := 10
			if keeps {
				gone = 0
			}
			is.Equal(f.count(t, field("name", "kept for ever")), 10-gone)
			is.Equal(f.count(t, field("name", "not expired")), 10-gone)
			is.Equal(f.count(t, field("name", "failed")), 10)
			is.Equal(f.count(t, field("name", "not led")), 10)
			is.Equal(f.count(t, field("name", "at the cursor")), 1)
		})
	}
}

func TestCleanup_4_3_FullBatchesDrain(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t, 1)
	f.HistoryRetention = -1
	f.add(t, cleanupBatch+5, "led", field("status", delivery.StatusSuccess))
	more, err := f.cleanupOnce(t.Context())
	is.NoErr(err)
	is.True(more)
	is.Equal(f.count(t), 5)
	more, err = f.cleanupOnce(t.Context())
	is.NoErr(err)
	is.True(!more)
	is.Equal(f.count(t), 0)
}

func TestMend_6_3_UndatedDeliveriesAreMendedOrEnded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t, 1)
	f.add(t, reapBatch+2, "led", field("status", delivery.StatusPending))
	f.add(t, 1, "not led", field("status", delivery.StatusPending))
	_, err := f.deliveries.InsertOne(t.Context(), bson.D{field("consumerGroup", "billing"), field("topic", "led"), field("status", delivery.StatusPending)})
	is.NoErr(err)
	for pass := range 3 {
		more, err := f.mendOnce(t.Context())
		is.NoErr(err)
		is.Equal(more, pass == 0)
	}
	due, _, _, err := f.Store.Candidates(t.Context(), "billing", "led", store.V2, 100)
	is.NoErr(err)
	is.Equal(len(due), reapBatch+2)
	is.Equal(f.count(t, field("status", delivery.StatusError), field("error.code", delivery.CodeDecodeError)), 1)
	is.Equal(f.count(t, field("topic", "not led"), field("nextAttemptAt", bson.D{field("$exists", false)})), 1)
	is.Equal(f.reports.Len(), reapBatch+3)
	is.Equal(f.due.Len(), reapBatch+2)
}

// The pace of a loop: a pause between passes, none while there is more, longer ones after failures.
func TestLoop_4_3_Pace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		const pause = 10 * time.Second
		var reported []error
		m := &Maintainer{Report: func(err error) { reported = append(reported, err) }}
		ctx, cancel := context.WithCancel(t.Context())
		last, pass := time.Now(), 0
		failed := errors.New("failed")
		m.loop(ctx, pause, 0.2, func(context.Context) (bool, error) {
			waited := time.Since(last)
			last = time.Now()
			pass++
			switch pass {
			case 1: // spread over the second half of the pause
				is.True(waited >= pause/2 && waited <= pause)
				return true, nil
			case 2, 3:
				is.Equal(waited, time.Duration(0)) // at once
				return pass == 2, nil
			case 4, 5, 6:
				is.True(waited >= pause)
				return false, failed
			case 7:
				is.True(waited >= 2*pause) // less often
				return false, nil
			default:
				is.True(waited >= pause && waited <= pause+pause/5)
				cancel()
				return false, context.Canceled // of the end: not reported
			}
		})
		is.Equal(pass, 8)
		is.Equal(reported, []error{failed, failed, failed})
	})
}

func TestReapLoop_4_3_StartsAndEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &Maintainer{
			Poll: 3 * time.Second, Lease: 30 * time.Second,
			Leading: func() []*receiver.Receiver { return nil }, Settled: func() map[string]bson.Timestamp { return nil },
			Unattended: func() []*receiver.Receiver { return nil }, All: func() []*receiver.Receiver { return nil },
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		for _, loop := range []func(context.Context){m.ReapLoop, m.CleanupLoop, m.MendLoop} {
			go loop(ctx)
		}
		<-ctx.Done()
		synctest.Wait() // all have ended, or the bubble says so
	})
}
