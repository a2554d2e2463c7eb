package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// The outcome of a version 1 attempt is written to its history document, which is the authority; what
// follows is derived from it: the next attempt, or the end of the delivery and the retention of all its
// documents. With transactions all of it happens together. Without, the outcome carries the marker
// needsReconciliation until what follows is done, and whoever finds the marker can finish the work from
// the documents alone (v1_repair.go).

// errPartly says that some outcomes matched nothing; the transaction that saw it has written nothing.
var errPartly = errors.New("some leases were lost")

// settleV1 stores outcomes of version 1 attempts and returns the IDs whose lease was lost. Together means
// that they stand or fall as a whole: if one is lost, all are.
func (s *Store) settleV1(ctx context.Context, all []Settlement, retention time.Duration, together bool) (lost []string, err error) {
	s.attempts.Lock()
	defer s.attempts.Unlock()
	rest := all
	for len(rest) > 0 {
		if s.transactions {
			err = s.inTransaction(ctx, func(ctx context.Context) error {
				n, err := s.recordV1(ctx, rest, retention, false)
				if err != nil {
					return err
				}
				if n < len(rest) {
					return errPartly
				}
				return s.followV1(ctx, endedOf(rest), retention, false)
			})
		} else {
			err = s.settleInStepsV1(ctx, rest, retention)
		}
		if err == nil {
			return lost, nil
		}
		if !errors.Is(err, errPartly) {
			return nil, err
		}
		mine, stored, gone, err := s.sortOutV1(ctx, rest)
		if err != nil {
			return nil, err
		}
		if !s.transactions {
			if err := s.followV1(mongo.NewSessionContext(ctx, nil), endedOf(stored), retention, true); err != nil {
				return nil, err
			}
		}
		lost = append(lost, gone...)
		if together && len(gone) > 0 {
			return idsOfSettlements(all), nil
		}
		if len(mine) == len(rest) {
			return nil, fmt.Errorf("outcomes match nothing although their leases are held: %w", errKeepsChanging)
		}
		rest = mine
	}
	return lost, nil
}

// settleInStepsV1 stores outcomes without transactions: each outcome first, marked, then what follows.
// Those that matched nothing are errPartly, and what follows is then left to the next call or a repair.
func (s *Store) settleInStepsV1(ctx context.Context, all []Settlement, retention time.Duration) error {
	n, err := s.recordV1(ctx, all, retention, true)
	if err != nil {
		return err
	}
	if n < len(all) {
		return errPartly
	}
	return s.followV1(ctx, endedOf(all), retention, true)
}

// sortOutV1 tells for each settlement whether its lease still holds (mine), its outcome is stored already, or
// it was lost (gone).
func (s *Store) sortOutV1(ctx context.Context, all []Settlement) (mine, stored []Settlement, gone []string, err error) {
	ids := idsOfSettlements(all)
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.history.Find(ctx, bson.D{{Key: "_id", Value: in(ids)}}, options.Find().SetProjection(
		bson.D{{Key: "status", Value: 1}, {Key: "lockToken", Value: 1}, {Key: "error.code", Value: 1}}))
	found := map[string]fields{}
	_, err = readAll(ctx, cursor, err, func(raw bson.Raw) struct{} {
		f := parse(raw)
		found[f.str("_id")] = f
		return struct{}{}
	})
	if err != nil {
		return nil, nil, nil, err
	}
	for _, o := range all {
		f, ok := found[o.ID]
		failure, _ := f["error"].DocumentOK()
		switch {
		case !ok, f.str("lockToken") != o.Token, delivery.TakenAway(parse(failure).str("code")):
			gone = append(gone, o.ID)
		case f.str("status") == delivery.StatusV1Pending:
			mine = append(mine, o)
		default:
			stored = append(stored, o)
		}
	}
	return mine, stored, gone, nil
}

func idsOfSettlements(all []Settlement) []string {
	ids := make([]string, len(all))
	for i, o := range all {
		ids[i] = o.ID
	}
	return ids
}

// recordV1 writes the outcomes to the attempts, each fenced by its token, and returns how many it wrote.
func (s *Store) recordV1(ctx context.Context, all []Settlement, retention time.Duration, mark bool) (int, error) {
	var plain, others []Settlement
	for _, o := range all {
		// Without a transaction around them those of an order must be written in their order, each for itself.
		if o.Failure == nil && !mark {
			plain = append(plain, o)
		} else {
			others = append(others, o)
		}
	}
	n := int64(0)
	if len(plain) > 0 {
		leases, times := make([]Lease, len(plain)), make([]bson.D, len(plain))
		for i, o := range plain {
			leases[i], times[i] = o.Lease, ownTimes(o, 0)
		}
		ids, tokens := split(leases)
		set := bson.D{
			{Key: "status", Value: delivery.StatusV1Success},
			{Key: "startedAt", Value: "$endedAt.s"},
			{Key: "endedAt", Value: "$endedAt.e"},
			{Key: "durationMs", Value: "$endedAt.d"},
		}
		ctx, cancel := s.joined(ctx)
		defer cancel()
		res, err := s.history.UpdateMany(ctx, lockedV1(ids, tokens), each("_id", ids, times, "endedAt", append(set, marker(false)...)))
		if err != nil {
			return 0, err
		}
		n += res.ModifiedCount
	}
	if len(others) > 0 {
		models := make([]mongo.WriteModel, len(others))
		for i, o := range others {
			models[i] = mongo.NewUpdateOneModel().
				SetFilter(lockedV1([]string{o.ID}, []string{o.Token})).
				SetUpdate(pipelineSet(outcomeV1(o, mark)))
		}
		ctx, cancel := s.joined(ctx)
		defer cancel()
		res, err := s.history.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(true))
		if err != nil {
			return 0, err
		}
		n += res.ModifiedCount
	}
	return int(n), nil
}

// outcomeV1 is the part of an update that ends an attempt.
func outcomeV1(o Settlement, mark bool) bson.D {
	if o.Failure != nil {
		return failedV1(o, mark)
	}
	return append(bson.D{
		{Key: "status", Value: delivery.StatusV1Success},
		{Key: "startedAt", Value: literal(o.StartedAt)},
		{Key: "endedAt", Value: literal(o.EndedAt)},
		{Key: "durationMs", Value: literal(number(millis(o.EndedAt.Sub(o.StartedAt))))},
	}, marker(mark)...)
}

// failedV1 is the part of an update that ends an attempt with a failure.
func failedV1(o Settlement, mark bool) bson.D {
	started := startedExpression(o)
	return append(bson.D{
		{Key: "status", Value: delivery.StatusV1Error},
		{Key: "error", Value: literal(failureDocument(o.Failure))},
		{Key: "startedAt", Value: started},
		{Key: "endedAt", Value: literal(o.EndedAt)},
		{Key: "durationMs", Value: durationExpression(started, o.EndedAt)},
	}, marker(mark)...)
}

// marker sets or removes needsReconciliation, and the retention that a terminal state will set anew.
func marker(mark bool) bson.D {
	value := any("$$REMOVE")
	if mark {
		value = true
	}
	return bson.D{{Key: "needsReconciliation", Value: value}, {Key: "expiresAt", Value: "$$REMOVE"}}
}

// ended is an attempt with an outcome, and what must follow it.
type ended struct {
	historyID, deliveryID, eventID, group, topic string
	attempt                                      int
	verdict                                      delivery.Verdict
	endedAt                                      time.Time
	failure                                      any // as stored, nil for a success
	delay                                        time.Duration
}

func endedOf(all []Settlement) []ended {
	out := make([]ended, len(all))
	for i, o := range all {
		out[i] = ended{
			historyID: o.ID, deliveryID: o.DeliveryID, eventID: o.EventID, group: o.ConsumerGroup, topic: o.Topic,
			attempt: o.Attempt, verdict: o.Verdict, endedAt: o.EndedAt, delay: o.Delay,
		}
		if o.Failure != nil {
			out[i].failure = failureDocument(o.Failure)
		}
	}
	return out
}

// followV1 does what must follow recorded outcomes, in an order in which every crash leaves a marker on
// something: next attempts; then the ends of deliveries (marked), the retention of their attempts, and
// their own. It may be repeated at any point. With marked the outcomes carry the marker, which goes last.
func (s *Store) followV1(ctx context.Context, all []ended, retention time.Duration, marked bool) error {
	var retried, terminal []ended
	for _, e := range all {
		if e.verdict == delivery.Retried {
			retried = append(retried, e)
		} else {
			terminal = append(terminal, e)
		}
	}
	if err := s.nextAttemptsV1(ctx, retried, marked); err != nil {
		return err
	}
	return s.endDeliveriesV1(ctx, terminal, retention, marked)
}

func (s *Store) nextAttemptsV1(ctx context.Context, retried []ended, marked bool) error {
	if len(retried) == 0 {
		return nil
	}
	docs, ids, deliveryIDs := make([]bson.D, len(retried)), make([]string, len(retried)), make([]string, len(retried))
	for i, e := range retried {
		ids[i], deliveryIDs[i] = e.historyID, e.deliveryID
		docs[i] = attemptDocument(e.deliveryID, e.eventID, e.group, e.topic, e.attempt+1, s.Now(), e.endedAt.Add(e.delay))
	}
	ctx, cancel := s.joined(ctx)
	defer cancel()
	// Outside a transaction a repeated call meets its own documents; inside one there are none.
	_, err := s.history.InsertMany(ctx, docs, options.InsertMany().SetOrdered(!marked))
	if err != nil && !(marked && onlyDuplicates(err)) {
		return err
	}
	if !marked {
		return nil
	}
	if err := s.unmark(ctx, s.history, bson.D{{Key: "_id", Value: in(ids)}}); err != nil {
		return err
	}
	return s.unmark(ctx, s.deliveries, bson.D{{Key: "_id", Value: in(deliveryIDs)}})
}

// attemptDocument is a new attempt.
func attemptDocument(deliveryID, eventID, group, topic string, attempt int, now, due time.Time) bson.D {
	return bson.D{
		{Key: "_id", Value: newID()},
		{Key: "deliveryId", Value: deliveryID},
		{Key: "eventId", Value: eventID},
		{Key: "consumerGroup", Value: group},
		{Key: "topic", Value: topic},
		{Key: "attempt", Value: number(float64(attempt))},
		{Key: "status", Value: delivery.StatusV1Pending},
		{Key: "createdAt", Value: now},
		{Key: "nextAttemptAt", Value: due},
	}
}

func (s *Store) endDeliveriesV1(ctx context.Context, terminal []ended, retention time.Duration, marked bool) error {
	if len(terminal) == 0 {
		return nil
	}
	ids, ends, historyIDs := make([]string, len(terminal)), make([]bson.D, len(terminal)), make([]string, len(terminal))
	single := true // every delivery ended at its first attempt
	for i, e := range terminal {
		ids[i], historyIDs[i] = e.deliveryID, e.historyID
		single = single && e.attempt == 1
		end := bson.D{{Key: "e", Value: e.endedAt}, {Key: "n", Value: number(float64(e.attempt))}}
		if retention > 0 {
			end = append(end, bson.E{Key: "x", Value: e.endedAt.Add(retention)})
		}
		if e.failure != nil {
			end = append(end, bson.E{Key: "f", Value: e.failure})
		}
		ends[i] = end
	}
	expiry := func(key string) mongo.Pipeline {
		set := bson.D{{Key: "needsReconciliation", Value: "$$REMOVE"}}
		if retention <= 0 {
			return pipelineSet(append(set, removed("expiresAt")...))
		}
		return each(key, ids, ends, "expiresAt", append(set, bson.E{Key: "expiresAt", Value: "$expiresAt.x"}))
	}
	failed := bson.D{{Key: "$gt", Value: bson.A{"$endedAt.f", nil}}}
	set := bson.D{
		{Key: "status", Value: bson.D{{Key: "$cond", Value: bson.A{failed, delivery.StatusV1Error, delivery.StatusV1Success}}}},
		{Key: "finalAttempt", Value: "$endedAt.n"},
		{Key: "error", Value: bson.D{{Key: "$cond", Value: bson.A{failed, "$endedAt.f", "$$REMOVE"}}}},
		{Key: "endedAt", Value: "$endedAt.e"},
		{Key: "updatedAt", Value: "$endedAt.e"},
	}
	if marked {
		set = append(set, marker(true)...)
	} else {
		set = append(set, removed("needsReconciliation", "expiresAt")...)
		if retention > 0 {
			set[len(set)-1].Value = "$endedAt.x"
		}
	}
	ctx, cancel := s.joined(ctx)
	defer cancel()
	if _, err := s.deliveries.UpdateMany(ctx,
		bson.D{{Key: "_id", Value: in(ids)}, {Key: "status", Value: delivery.StatusV1Pending}}, each("_id", ids, ends, "endedAt", set)); err != nil {
		return err
	}
	// The attempts may expire before their delivery does, never after: while the delivery stands it says
	// what they were.
	if retention > 0 {
		filter := bson.D{{Key: "deliveryId", Value: in(ids)}, {Key: "status", Value: in([]string{delivery.StatusV1Success, delivery.StatusV1Error})}}
		if single {
			filter = bson.D{{Key: "_id", Value: in(historyIDs)}}
		}
		if _, err := s.history.UpdateMany(ctx, filter, expiry("deliveryId")); err != nil {
			return err
		}
	}
	if !marked {
		return nil
	}
	if retention <= 0 {
		if err := s.unmark(ctx, s.history, bson.D{{Key: "deliveryId", Value: in(ids)}}); err != nil {
			return err
		}
	}
	_, err := s.deliveries.UpdateMany(ctx,
		bson.D{{Key: "_id", Value: in(ids)}, {Key: "status", Value: in([]string{delivery.StatusV1Success, delivery.StatusV1Error})}},
		expiry("_id"))
	return err
}

// unmark removes the marker from the documents that match.
func (s *Store) unmark(ctx context.Context, coll *mongo.Collection, filter bson.D) error {
	ctx, cancel := s.joined(ctx)
	defer cancel()
	_, err := coll.UpdateMany(ctx,
		append(filter, bson.E{Key: "needsReconciliation", Value: true}),
		bson.D{{Key: "$unset", Value: bson.D{{Key: "needsReconciliation", Value: ""}}}})
	return err
}
