package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// left is a database that its clients have left, with n deliveries that wait.
func (k kind) left(t *testing.T, db *mongo.Database, n int, opts ...pulse.SubscribeOption) *admin.Admin {
	t.Helper()
	c := start(t, config(db))
	k.subscribe(t, c, func(call) error { return nil }, opts...)
	stop(t, c)
	a := open(t, db)
	pauseIt(t, a)
	c = start(t, config(db))
	k.subscribe(t, c, func(call) error { return nil }, opts...)
	publish(t, c, k.events(n))
	awaitBacklog(t, a, "deliveries", func(b admin.Backlog) bool { return b.Undiscovered.N == 0 && b.Pending.N >= n })
	stop(t, c)
	resumeIt(t, a)
	return a
}

// examine returns the finding of a check, which must be the only one of it, or nil.
func examine(t *testing.T, a *admin.Admin, check admin.Check, fix bool) *admin.Finding {
	t.Helper()
	report, err := a.Doctor(t.Context(), admin.DoctorOptions{Fix: fix})
	is.New(t).NoErr(err)
	var found []admin.Finding
	for _, f := range report.Findings {
		is.New(t).True(f.Text != "" && f.Remedy != "" && f.Where != "")
		if f.Check == check {
			found = append(found, f)
		}
	}
	if len(found) > 1 {
		t.Fatalf("several findings: %+v", found)
	}
	if len(found) == 0 {
		return nil
	}
	return &found[0]
}

// mended looks, mends and looks again.
func mended(t *testing.T, a *admin.Admin, check admin.Check, severity admin.Severity, text string) {
	t.Helper()
	is := is.New(t)
	f := examine(t, a, check, false)
	if f == nil {
		t.Fatalf("nothing was found by %s", check)
	}
	is.Equal(f.Severity, severity)
	if !strings.Contains(f.Text, text) {
		t.Errorf("%q is not in %q", text, f.Text)
	}
	is.True(f.Fixable && !f.Fixed)
	f = examine(t, a, check, true)
	is.True(f != nil && f.Fixed)
	is.True(examine(t, a, check, false) == nil)
}

// A database at work has nothing that a doctor would find.
func TestDoctor_HealthyAtWork(t *testing.T) {
	each(t, allKinds, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		c := start(t, config(db))
		k.subscribe(t, c, func(call) error { return nil })
		publish(t, c, k.events(20))
		a := open(t, db)
		awaitBacklog(t, a, "all are done", func(b admin.Backlog) bool { return b.Undiscovered.N+b.Pending.N+b.Processing.N == 0 })
		report, err := a.Doctor(t.Context(), admin.DoctorOptions{})
		is.NoErr(err)
		is.Equal(report.Findings, nil)
		is.True(report.Healthy())
		is.Equal(report.Subscriptions, 1)
	})
}

func TestDoctor_6_1_Indexes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	a := version2.left(t, db, 1)
	deliveries := collection(db, "deliveries").Indexes()
	is.NoErr(deliveries.DropOne(t.Context(), "pulse_deliveries_v2_pending"))
	mended(t, a, admin.CheckIndexes, admin.Problem, "pulse_deliveries_v2_pending is missing")

	is.NoErr(deliveries.DropOne(t.Context(), "pulse_deliveries_v2_pending"))
	_, err := deliveries.CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "topic", Value: 1}}, Options: options.Index().SetName("pulse_deliveries_v2_pending")})
	is.NoErr(err)
	f := examine(t, a, admin.CheckIndexes, true)
	is.True(!f.Fixable && strings.Contains(f.Text, "conflicts") && strings.Contains(f.Remedy, "dropIndex"))
}

// Work without a leader, and work that is paused, are told apart.
func TestDoctor_3_1_9_2_NobodyLeads(t *testing.T) {
	each(t, []kind{version1, version2, batches}, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		a := k.left(t, db, 3)
		f := examine(t, a, admin.CheckLeader, true)
		is.Equal(f.Severity, admin.Problem)
		is.True(strings.Contains(f.Text, "pending: 3") && strings.Contains(f.Remedy, "Start a replica of billing"))
		is.True(!f.Fixable)
		pauseIt(t, a)
		is.True(examine(t, a, admin.CheckLeader, false) == nil)
		f = examine(t, a, admin.CheckPause, false)
		is.Equal(f.Severity, admin.Warning)
		is.True(strings.Contains(f.Remedy, "pulse resume billing order.created"))
	})
}

// A lost worker's deliveries are ended as the leader would end them, and run again.
func TestDoctor_4_3_ExpiredLeases(t *testing.T) {
	each(t, []kind{version1, version2, batches}, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		a := k.left(t, db, 2)
		id := inState(t, a, admin.Pending)[0].ID
		past := time.Now().Add(-time.Hour)
		lock := bson.D{
			{Key: "startedAt", Value: past},
			{Key: "lockOwner", Value: "go:lost"},
			{Key: "lockToken", Value: "lost"},
			{Key: "lockedAt", Value: past},
			{Key: "lockedUntil", Value: past},
			{Key: "heartbeatAt", Value: past},
		}
		if k.name == version1.name {
			_, err := collection(db, "history").UpdateOne(t.Context(), bson.D{{Key: "deliveryId", Value: id}}, bson.D{{Key: "$set", Value: lock}})
			is.NoErr(err)
		} else {
			set(t, collection(db, "deliveries"), id, append(lock, bson.E{Key: "status", Value: "v2-processing"}, bson.E{Key: "attempt", Value: 1}))
		}
		is.True(inState(t, a, admin.Processing)[0].LeaseEnded)
		mended(t, a, admin.CheckLeases, admin.Problem, "lease: 1")
		d, err := a.Delivery(t.Context(), id)
		is.NoErr(err)
		is.Equal(d.State, admin.Retrying)
		is.Equal(d.Attempts[0].Error.Code, "worker_lost")
	})
}

// What handlers could not do is a note: the database is healthy.
func TestDoctor_2_4_Failures(t *testing.T) {
	each(t, allKinds, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		var calls pulsetest.Recorder[int]
		a, _ := k.failing(t, db, config(db), &calls, func(call) error { return nil })
		f := examine(t, a, admin.CheckFailures, false)
		is.True(f != nil && f.Severity == admin.Note)
		is.True(strings.HasSuffix(f.Text, "kept: 1."))
		is.True(strings.HasPrefix(f.Remedy, "pulse deliveries --state error --group=billing --topic=order.created "))
	})
}

func TestDoctor_2_4_RetriesThatWaitForLong(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	c := start(t, config(db))
	version2.subscribe(t, c, func(call) error { return errPlanned }, pulse.MaxRetries(3), pulse.RetryDelay(time.Hour))
	publish(t, c, version2.events(1))
	a := open(t, db)
	awaitBacklog(t, a, "the retry", func(b admin.Backlog) bool { return b.Retrying.N == 1 })
	is.True(examine(t, a, admin.CheckFailures, false) == nil)
	stop(t, c)
	set(t, collection(db, "deliveries"), inState(t, a, admin.Retrying)[0].ID, bson.D{{Key: "attemptCreatedAt", Value: time.Now().Add(-10 * time.Minute)}})
	f := examine(t, a, admin.CheckFailures, false)
	is.True(f != nil && f.Severity == admin.Note)
	is.True(strings.Contains(f.Text, "repeated: 1, one of them waits for 10m"))
}

func TestDoctor_6_3_StatesAndDueTimes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	a := version2.left(t, db, 3)
	waiting := inState(t, a, admin.Pending)
	set(t, collection(db, "deliveries"), waiting[0].ID, bson.D{{Key: "status", Value: "lost"}})
	f := examine(t, a, admin.CheckStates, true)
	is.Equal(f.Severity, admin.Problem)
	is.True(strings.Contains(f.Text, waiting[0].ID) && !f.Fixable)
	d, err := a.Delivery(t.Context(), waiting[0].ID)
	is.NoErr(err)
	is.Equal(d.State, admin.Unknown)

	set(t, collection(db, "deliveries"), waiting[1].ID, bson.D{{Key: "nextAttemptAt", Value: "soon"}})
	mended(t, a, admin.CheckDueTimes, admin.Problem, waiting[1].ID)
}

// A step that a crash has left half done is finished: here the first attempt is missing.
func TestDoctor_4_8_HalfDoneSteps(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	a := version1.left(t, db, 2)
	id := inState(t, a, admin.Pending)[0].ID
	_, err := collection(db, "history").DeleteOne(t.Context(), bson.D{{Key: "deliveryId", Value: id}})
	is.NoErr(err)
	set(t, collection(db, "deliveries"), id, bson.D{{Key: "needsReconciliation", Value: true}, {Key: "updatedAt", Value: time.Now().Add(-time.Hour)}})
	mended(t, a, admin.CheckHalfDone, admin.Warning, id)
	d, err := a.Delivery(t.Context(), id)
	is.NoErr(err)
	is.Equal(len(d.Attempts), 1)
}

// An event that nobody was there to give its place is given it: a committed one of a transaction, and one whose later
// time has come.
func TestDoctor_3_5_9_1_UnstampedEvents(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	a := version2.left(t, db, 1)
	_, err := collection(db, "events").InsertOne(t.Context(), bson.D{
		{Key: "_id", Value: "forgotten"},
		{Key: "pendingTopic", Value: orders.Name()},
		{Key: "pendingOrder", Value: int64(1)},
		{Key: "data", Value: bson.D{}},
		{Key: "createdAt", Value: time.Now().Add(-time.Hour)},
	})
	is.NoErr(err)
	mended(t, a, admin.CheckUnstamped, admin.Problem, "forgotten")
	is.Equal(theSubscription(t, a).Backlog.Undiscovered.N, 1)

	for id, at := range map[string]time.Time{"overdue": time.Now().Add(-time.Hour), "early": time.Now().Add(time.Hour)} {
		_, err = collection(db, "events").InsertOne(t.Context(), bson.D{
			{Key: "_id", Value: id},
			{Key: "pendingTopic", Value: orders.Name()},
			{Key: "topic", Value: at},
			{Key: "pendingOrder", Value: int64(1)},
			{Key: "data", Value: bson.D{}},
			{Key: "createdAt", Value: time.Now().Add(-2 * time.Hour)},
			{Key: "notBefore", Value: at},
		})
		is.NoErr(err)
	}
	mended(t, a, admin.CheckUnstamped, admin.Problem, `1, such as "overdue"`)
	is.Equal(theSubscription(t, a).Backlog.Undiscovered.N, 2)
}

// An event behind the cursor whose delivery is missing is told of; one whose delivery its retention may have deleted
// is not.
func TestDoctor_3_5_SkippedEvents(t *testing.T) {
	each(t, allKinds, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		c := start(t, config(db))
		k.subscribe(t, c, func(call) error { return nil })
		ids := publish(t, c, k.events(3))
		a := open(t, db)
		awaitBacklog(t, a, "all are done", func(b admin.Backlog) bool { return b.Undiscovered.N+b.Pending.N+b.Processing.N == 0 })
		stop(t, c)
		done := inState(t, a, admin.Succeeded)
		is.Equal(len(done), 3)
		// As if the look-back were through.
		sub := theSubscription(t, a)
		raw, err := collection(db, "subscriptions").FindOne(t.Context(), bson.D{{Key: "_id", Value: sub.ID}}).Raw()
		is.NoErr(err)
		set(t, collection(db, "subscriptions"), sub.ID, bson.D{{Key: "settledSequence", Value: raw.Lookup("cursorSequence")}})
		_, err = collection(db, "deliveries").DeleteOne(t.Context(), bson.D{{Key: "_id", Value: done[0].ID}})
		is.NoErr(err)
		is.True(examine(t, a, admin.CheckSkippedEvents, false) == nil) // the others ended after it was published
		set(t, collection(db, "deliveries"), done[2].ID, bson.D{{Key: "endedAt", Value: time.Now().Add(-time.Hour)}})
		f := examine(t, a, admin.CheckSkippedEvents, true)
		is.Equal(f.Severity, admin.Problem)
		is.True(strings.Contains(f.Text, ids[len(ids)-1]) && !f.Fixable)
		is.True(strings.Contains(f.Remedy, "pulse publish"))
	})
}

func TestDoctor_2_4_4_4_RetriesOutliveTheEvents(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	a := version2.left(t, db, 1, pulse.MaxRetries(5), pulse.RetryDelay(24*time.Hour))
	// The retention of an event that was published for a later time counts from there.
	due := time.Now()
	_, err := collection(db, "events").InsertOne(t.Context(), bson.D{
		{Key: "_id", Value: "later"},
		{Key: "topic", Value: orders.Name()},
		{Key: "data", Value: bson.D{}},
		{Key: "createdAt", Value: due.Add(-60 * 24 * time.Hour)},
		{Key: "notBefore", Value: due},
		{Key: "sequence", Value: bson.Timestamp{}},
		{Key: "expiresAt", Value: due.Add(7 * 24 * time.Hour)},
	})
	is.NoErr(err)
	f := examine(t, a, admin.CheckRetention, false)
	is.Equal(f.Severity, admin.Warning)
	is.True(strings.Contains(f.Text, "744h0m0s") && strings.Contains(f.Text, "168h0m0s")) // 1+2+4+8+16 days against 7
	is.True(examine(t, version2.left(t, pulsetest.Database(t), 1), admin.CheckRetention, false) == nil)
}

func TestDoctor_1_6_LargeDocuments(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	a := version2.left(t, db, 1)
	large := pulse.NewTopic[string](orders.Name())
	cfg := config(db)
	cfg.ConsumerGroup = "shop"
	e, err := large.Publish(t.Context(), start(t, cfg), strings.Repeat("x", 9<<20))
	is.NoErr(err)
	f := examine(t, a, admin.CheckDocumentSize, false)
	is.Equal(f.Severity, admin.Warning)
	is.True(strings.Contains(f.Text, e.ID) && strings.Contains(f.Text, "9.0 MB"))
}
