package store

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// Settlement is the end of one attempt, to be stored.
type Settlement struct {
	Lease
	Verdict delivery.Verdict
	// StartedAt is when the handler began, by the server's clock; zero takes the claim's time.
	StartedAt, EndedAt time.Time
	// Failure is nil for a success.
	Failure *delivery.Failure
	// Delay is the pause before the next attempt, for a Retried one.
	Delay time.Duration
	// Expired counts events that were gone before the handler ran.
	Expired int
	// Attempt and the rest identify the delivery in version 1, where an attempt is a document of its own.
	Attempt                                   int
	DeliveryID, EventID, ConsumerGroup, Topic string
}

// Settle stores the settlements and returns the IDs whose lease was lost: another worker or the reaper
// had changed them, and nothing was written to them. Plain successes go with one command whatever their
// number, all others with a second one. The outcome is part of the write that ends the delivery or
// schedules its next attempt (spec 4.10).
//
// After an error it is unknown which were stored. Settle may then be called again: what was stored is
// found by its token among the recorded attempts and is not written twice.
func (s *Store) Settle(ctx context.Context, settlements []Settlement, historyRetention time.Duration) (lost []string, err error) {
	var v1, v2 []Settlement
	for _, o := range settlements {
		if o.Format == V1 {
			v1 = append(v1, o)
		} else {
			v2 = append(v2, o)
		}
	}
	if len(v2) > 0 {
		if lost, err = s.settleV2(ctx, v2, historyRetention); err != nil {
			return nil, err
		}
	}
	if len(v1) > 0 {
		gone, err := s.settleV1(ctx, v1, historyRetention, false)
		if err != nil {
			return nil, fmt.Errorf("pulse: store %d outcomes: %w", len(v1), err)
		}
		lost = append(lost, gone...)
	}
	return lost, nil
}

func (s *Store) settleV2(ctx context.Context, settlements []Settlement, historyRetention time.Duration) (lost []string, err error) {
	var plain, others []Settlement
	for _, o := range settlements {
		if o.Verdict == delivery.Succeeded && o.Expired == 0 {
			plain = append(plain, o)
		} else {
			others = append(others, o)
		}
	}
	matched := int64(0)
	if len(plain) > 0 {
		n, err := s.settleSuccesses(ctx, plain, historyRetention)
		if err != nil {
			return nil, fmt.Errorf("pulse: store %d successes: %w", len(plain), err)
		}
		matched += n
	}
	if len(others) > 0 {
		n, err := s.settleEach(ctx, others, historyRetention)
		if err != nil {
			return nil, fmt.Errorf("pulse: store %d outcomes: %w", len(others), err)
		}
		matched += n
	}
	if int(matched) == len(settlements) {
		return nil, nil
	}
	return s.unsettled(ctx, settlements)
}

// settleSuccesses ends all the deliveries by one updateMany. Each handler's own times ride along;
// everything else of the attempt is in the document itself.
func (s *Store) settleSuccesses(ctx context.Context, plain []Settlement, retention time.Duration) (int64, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	leases, times := make([]Lease, len(plain)), make([]bson.D, len(plain))
	for i, o := range plain {
		leases[i], times[i] = o.Lease, ownTimes(o, retention)
	}
	ids, tokens := split(leases)
	set := bson.D{
		{Key: "status", Value: delivery.StatusSuccess},
		{Key: "attempts", Value: appended(attemptEntry("success", "$endedAt.s", "$endedAt.e", "$endedAt.d"))},
		{Key: "finalAttempt", Value: "$attempt"},
		{Key: "endedAt", Value: "$endedAt.e"},
		{Key: "updatedAt", Value: "$endedAt.e"},
		{Key: "expiresAt", Value: "$$REMOVE"},
	}
	if retention > 0 {
		set[len(set)-1].Value = "$endedAt.x"
	}
	set = append(set, lockRemoved()...)
	set = append(set, removed(attemptFields...)...)
	set = append(set, removed("error", "expiredEventCount")...)
	res, err := s.deliveries.UpdateMany(ctx, processing(ids, tokens), each("_id", ids, times, "endedAt", set))
	if err != nil {
		return 0, err
	}
	return res.ModifiedCount, nil
}

// settleEach ends or reschedules each delivery by an update of its own, all in one command.
func (s *Store) settleEach(ctx context.Context, others []Settlement, retention time.Duration) (int64, error) {
	models := make([]mongo.WriteModel, len(others))
	for i, o := range others {
		models[i] = mongo.NewUpdateOneModel().
			SetFilter(bson.D{
				{Key: "_id", Value: o.ID},
				{Key: "status", Value: delivery.StatusProcessing},
				{Key: "lockToken", Value: o.Token},
			}).
			SetUpdate(settlementUpdate(o, retention))
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	res, err := s.deliveries.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	if err != nil {
		return 0, err
	}
	return res.ModifiedCount, nil
}

// settlementUpdate is the update that stores one settlement, whoever's fence it stands behind.
func settlementUpdate(o Settlement, retention time.Duration) mongo.Pipeline {
	started := startedExpression(o)
	duration := durationExpression(started, o.EndedAt)
	status := "success"
	if o.Failure != nil {
		status = "error"
	}
	entry := attemptEntry(status, started, literal(o.EndedAt), duration)
	if o.Failure != nil {
		entry = append(entry, bson.E{Key: "error", Value: literal(failureDocument(o.Failure))})
	}
	if o.Expired > 0 {
		entry = append(entry, bson.E{Key: "expiredEventCount", Value: number(float64(o.Expired))})
	}
	set := bson.D{
		{Key: "attempts", Value: appended(entry)},
		{Key: "updatedAt", Value: literal(o.EndedAt)},
	}
	set = append(set, lockRemoved()...)
	if o.Verdict == delivery.Retried {
		return pipelineSet(append(set,
			bson.E{Key: "status", Value: delivery.StatusPending},
			bson.E{Key: "attemptId", Value: literal(newID())},
			bson.E{Key: "attemptCreatedAt", Value: literal(o.EndedAt)},
			bson.E{Key: "nextAttemptAt", Value: literal(o.EndedAt.Add(o.Delay))},
			bson.E{Key: "expiresAt", Value: "$$REMOVE"},
		))
	}
	return pipelineSet(append(set, terminal(o, retention)...))
}

// startedExpression is when the attempt's handler began, by the worker or else by the document.
func startedExpression(o Settlement) any {
	if o.StartedAt.IsZero() {
		// Of a delivery that was found in processing, which may lack it or have anything there.
		return bson.D{{Key: "$cond", Value: bson.A{
			bson.D{{Key: "$eq", Value: bson.A{bson.D{{Key: "$type", Value: "$startedAt"}}, "date"}}}, "$startedAt", literal(o.EndedAt),
		}}}
	}
	return literal(o.StartedAt)
}

func durationExpression(started any, ended time.Time) bson.D {
	return bson.D{{Key: "$toInt", Value: bson.D{{Key: "$min", Value: bson.A{
		int64(1<<31 - 1),
		bson.D{{Key: "$dateDiff", Value: bson.D{
			{Key: "startDate", Value: started}, {Key: "endDate", Value: literal(ended)}, {Key: "unit", Value: "millisecond"},
		}}},
	}}}}}
}

// terminal is the part of an update that ends a delivery.
func terminal(o Settlement, retention time.Duration) bson.D {
	set := bson.D{
		{Key: "status", Value: delivery.StatusSuccess},
		{Key: "finalAttempt", Value: "$attempt"},
		{Key: "endedAt", Value: literal(o.EndedAt)},
		{Key: "expiresAt", Value: "$$REMOVE"},
		{Key: "error", Value: "$$REMOVE"},
		{Key: "expiredEventCount", Value: "$$REMOVE"},
	}
	if o.Failure != nil {
		set[0].Value = delivery.StatusError
		set[4].Value = literal(failureDocument(o.Failure))
	}
	if retention > 0 {
		set[3].Value = literal(o.EndedAt.Add(retention))
	}
	if o.Expired > 0 {
		set[5].Value = number(float64(o.Expired))
	}
	return append(set, removed(attemptFields...)...)
}

// attemptEntry is a completed attempt, made of the document's own fields and what only the worker knows.
func attemptEntry(status string, started, ended, duration any) bson.D {
	return bson.D{
		{Key: "_id", Value: "$attemptId"},
		{Key: "attempt", Value: "$attempt"},
		{Key: "status", Value: status},
		{Key: "createdAt", Value: "$attemptCreatedAt"},
		{Key: "nextAttemptAt", Value: "$nextAttemptAt"},
		{Key: "startedAt", Value: started},
		{Key: "lockedAt", Value: "$lockedAt"},
		{Key: "lockedUntil", Value: "$lockedUntil"},
		{Key: "heartbeatAt", Value: "$heartbeatAt"},
		{Key: "lockOwner", Value: "$lockOwner"},
		{Key: "lockToken", Value: "$lockToken"},
		{Key: "endedAt", Value: ended},
		{Key: "durationMs", Value: duration},
	}
}

// appended is the attempts array with the entry added and cut to the window.
func appended(entry bson.D) bson.D {
	old := bson.D{{Key: "$cond", Value: bson.A{bson.D{{Key: "$isArray", Value: "$attempts"}}, "$attempts", bson.A{}}}}
	return bson.D{{Key: "$slice", Value: bson.A{
		bson.D{{Key: "$concatArrays", Value: bson.A{old, bson.A{entry}}}}, -delivery.AttemptWindow,
	}}}
}

func failureDocument(f *delivery.Failure) bson.D {
	doc := bson.D{{Key: "code", Value: f.Code}, {Key: "name", Value: f.Name}, {Key: "message", Value: f.Message}}
	if f.Stack != "" {
		doc = append(doc, bson.E{Key: "stack", Value: f.Stack})
	}
	return doc
}

// unsettled returns the IDs of the settlements that are not among their delivery's recorded attempts.
// An attempt that the reaper recorded for a lost worker, or that an operator has cancelled, has our token as well,
// and is a loss.
func (s *Store) unsettled(ctx context.Context, settlements []Settlement) ([]string, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	ids := make([]string, len(settlements))
	for i, o := range settlements {
		ids[i] = o.ID
	}
	type recorded struct{ id, token string }
	stored := make(map[recorded]bool)
	cursor, err := s.deliveries.Find(ctx, bson.D{{Key: "_id", Value: in(ids)}},
		options.Find().SetProjection(bson.D{{Key: "attempts.lockToken", Value: 1}, {Key: "attempts.error.code", Value: 1}}))
	_, err = readAll(ctx, cursor, err, func(raw bson.Raw) struct{} {
		f := parse(raw)
		attempts, _ := f["attempts"].ArrayOK()
		values, _ := attempts.Values()
		for _, v := range values {
			entry, ok := v.DocumentOK()
			if !ok {
				continue
			}
			e := parse(entry)
			failure, _ := e["error"].DocumentOK()
			if !delivery.TakenAway(parse(failure).str("code")) {
				stored[recorded{f.str("_id"), e.str("lockToken")}] = true
			}
		}
		return struct{}{}
	})
	if err != nil {
		return nil, fmt.Errorf("pulse: look up %d outcomes: %w", len(ids), err)
	}
	var lost []string
	for _, o := range settlements {
		if !stored[recorded{o.ID, o.Token}] {
			lost = append(lost, o.ID)
		}
	}
	return lost, nil
}
