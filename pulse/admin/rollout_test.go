package admin_test

import (
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// named gives connections an application name.
func named(name string) func(*options.ClientOptions) {
	return func(opts *options.ClientOptions) { opts.SetAppName(name) }
}

// The clients are told apart by their names, and speak for or against version 2.
func TestRollout_4_13_WhoIsConnected(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	version1.subscribe(t, start(t, config(db)), func(call) error { return nil })
	// The test server shows no idle connections: each is the one that asks.
	seenAs := func(name string) (admin.RolloutReport, admin.ClientKind) {
		t.Helper()
		a := open(t, pulsetest.Client(t, named(name)).Database(db.Name()))
		report, err := a.Rollout(t.Context(), group, orders.Name())
		is.NoErr(err)
		is.Equal(report.Sight, admin.SeesAll)
		for _, c := range report.Clients {
			if c.AppName == name {
				is.True(c.Connections > 0)
				return report, c.Kind
			}
		}
		t.Fatalf("%s is not among %+v", name, report.Clients)
		return report, ""
	}
	report, kind := seenAs("billing " + db.Name() + " @orion-js/pulse-bridge-v2")
	is.Equal(kind, admin.BridgeCapable)
	is.Equal(report.Settings.ExecutionVersion, 1)
	is.True(!report.Marker)
	is.True(strings.Contains(report.Step2.Reasons[len(report.Step2.Reasons)-1], "serve both versions"))
	is.Equal(report.RollbackStep3.Answer, admin.Yes)

	report, kind = seenAs("@orion-js/pulse " + db.Name())
	is.Equal(kind, admin.OtherPulse)
	is.Equal(report.Step2.Answer, admin.No)
	is.True(strings.Contains(report.Step2.Reasons[0], "@orion-js/pulse"))

	report, kind = seenAs("reports " + db.Name())
	is.Equal(kind, admin.UnknownClient)
	is.True(report.Step2.Answer != admin.Yes)
	is.True(strings.Contains(strings.Join(report.Step2.Reasons, " "), "says nothing"))

	_, kind = seenAs("mongosh 2.1 " + db.Name())
	is.Equal(kind, admin.Tool)

	_, err := open(t, db).Rollout(t.Context(), group, "none")
	var missing *admin.NotFoundError
	is.True(asError(err, &missing))
}

// A user without the right to see all connections sees those of its own, or none, and is told so.
func TestRollout_4_13_WithoutTheRight(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	version1.subscribe(t, start(t, config(db)), func(call) error { return nil })
	name := "unprivileged " + db.Name()
	a := open(t, pulsetest.Client(t, named(name)).Database(db.Name()))
	failing := pulsetest.NewFailPoint(t, db.Client())
	for refusals, sight := range map[int]admin.Sight{1: admin.SeesOwn, 2: admin.SeesNone} {
		failing.Set(pulsetest.Failure{AppName: name, Commands: []string{"aggregate"}, Times: refusals, ErrorCode: 13})
		report, err := a.Rollout(t.Context(), group, orders.Name())
		is.NoErr(err)
		is.Equal(report.Sight, sight)
		is.Equal(len(report.Clients) > 0, sight == admin.SeesOwn)
		is.Equal(report.Step2.Answer, admin.Unclear)
		is.True(strings.Contains(report.Step2.Reasons[0], "inprog"))
		is.Equal(report.RollbackStep3.Answer, admin.Yes)
	}
}

// On the way back, version 2 work that is left keeps older software out, and nothing else does.
func TestRollout_4_13_TheWayBack(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	a, release := version2.stage(t, db)
	answer := func() (admin.RolloutReport, admin.Answer) {
		r, err := a.Rollout(t.Context(), group, orders.Name())
		is.NoErr(err)
		return r, r.RollbackStep3.Answer
	}
	report, back := answer()
	is.Equal(back, admin.No)
	is.Equal(report.Step2.Answer, admin.Yes) // taken
	is.True(report.Marker)
	is.Equal(report.Version2Pending.N, 3)
	is.Equal(report.Version2Processing.N, 1)

	// A replica with version 1 and a higher configVersion joins.
	version1.subscribe(t, start(t, config(db)), func(call) error { return nil }, pulse.ConfigVersion(1))
	report, back = answer()
	is.Equal(report.Settings.ExecutionVersion, 1)
	is.Equal(back, admin.No)
	is.True(strings.Contains(report.RollbackStep3.Reasons[0], "left"))

	release()
	awaitBacklog(t, a, "all but the retry", func(b admin.Backlog) bool { return b.Pending.N+b.Processing.N == 0 })
	_, err := a.CancelMatching(t.Context(), admin.DeliveryQuery{Group: group}, admin.Bulk{By: operator})
	is.NoErr(err)
	report, back = answer()
	is.Equal(back, admin.Yes)
	is.True(report.Marker) // it stays
}

// A delivery that runs keeps older software out as one that waits does, in the verdict and in the count.
func TestRollout_4_13_WhatRunsIsLeftToo(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	c := start(t, config(db))
	running, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { // before the client is closed
		select {
		case <-release:
		default:
			close(release)
		}
	})
	version2.subscribe(t, c, func(call) error {
		close(running)
		<-release
		return nil
	})
	publish(t, c, 1)
	<-running
	version1.subscribe(t, start(t, config(db)), func(call) error { return nil }, pulse.ConfigVersion(1))
	a := open(t, db)
	report, err := a.Rollout(t.Context(), group, orders.Name())
	is.NoErr(err)
	is.Equal(report.Version2Pending.N, 0)
	is.Equal(report.Version2Processing.N, 1)
	is.Equal(report.Version1.N, 0)
	is.Equal(report.RollbackStep3.Answer, admin.No)
	is.True(strings.Contains(report.RollbackStep3.Reasons[0], "processing: 1"))
	close(release)
	awaitBacklog(t, a, "it is done", func(b admin.Backlog) bool { return b.Processing.N == 0 })
	report, err = a.Rollout(t.Context(), group, orders.Name())
	is.NoErr(err)
	is.Equal(report.RollbackStep3.Answer, admin.Yes)
}

// A batch receiver is version 2, whatever else is stored, and an ordered subscription cannot take the step.
func TestRollout_4_13_BatchesAndOrder(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, k := range []kind{batches, ordered} {
		db := pulsetest.Database(t)
		k.subscribe(t, start(t, config(db)), func(call) error { return nil })
		report, err := open(t, db).Rollout(t.Context(), group, orders.Name())
		is.NoErr(err)
		if k.name == ordered.name {
			is.Equal(report.Step2.Answer, admin.No)
			is.Equal(report.RollbackStep3.Answer, admin.Yes)
		} else {
			is.Equal(report.RollbackStep3.Answer, admin.No)
		}
	}
}
