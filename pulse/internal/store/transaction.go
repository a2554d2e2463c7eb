package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// A process that dies within a transaction leaves it open, and whoever needs what it wrote waits until the server
// ends it, after a minute by default. So all transactions of a client run in one session, whose ID is part of the
// client's name in leases: who takes over from a client that is lost ends its session first. And a transaction
// whose end was lost on the way is ended by the next one of the same session.

// ownSession is the session of a client's own transactions, which take turns.
type ownSession struct {
	turn    chan struct{}
	session *mongo.Session
	id      uuid.UUID // set by Owner, before any other use
}

// Owner returns the name of this client in leases: GoOwner, the host and process for people, and an ID that is
// the one of the session of its transactions, if the server has transactions.
func (s *Store) Owner(host string, process int) (string, error) {
	id := uuid.New()
	if s.transactions {
		s.own.turn <- struct{}{}
		defer func() { <-s.own.turn }()
		session, err := s.ownSession()
		if err != nil {
			return "", err
		}
		_, raw := session.ID().Lookup("id").Binary()
		if id, err = uuid.FromBytes(raw); err != nil {
			return "", fmt.Errorf("pulse: the ID of a session: %w", err)
		}
	}
	s.own.id = id
	return fmt.Sprintf("%s%s:%d:%s", GoOwner, host, process, id), nil
}

// ownSession returns the session, which the first call starts. The turn is taken.
func (s *Store) ownSession() (*mongo.Session, error) {
	if s.own.session == nil {
		session, err := s.db.Client().StartSession(options.Session().SetCausalConsistency(false))
		if err != nil {
			return nil, fmt.Errorf("pulse: start a session: %w", err)
		}
		s.own.session = session
	}
	return s.own.session, nil
}

// Close ends the session. The store may be used again.
func (s *Store) Close(ctx context.Context) {
	select {
	case s.own.turn <- struct{}{}:
	case <-ctx.Done():
		return // a transaction hangs; its server ends it
	}
	defer func() { <-s.own.turn }()
	if s.own.session != nil {
		s.own.session.EndSession(ctx)
		s.own.session = nil
	}
}

// inTransaction runs write in a transaction of its own, again when the server asks for that.
func (s *Store) inTransaction(ctx context.Context, write func(ctx context.Context) error) error {
	select {
	case s.own.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.own.turn }()
	session, err := s.ownSession()
	if err != nil {
		return err
	}
	// Once begun it is not interrupted, by a Close for example: cut in the middle, it would stay open.
	ctx, cancel := s.deadline(context.WithoutCancel(ctx))
	defer cancel()
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) { return nil, write(ctx) },
		options.Transaction().SetReadConcern(readconcern.Local()).SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary()))
	return err
}

// AbortLeft ends what clients that are lost, named by their leases, may have left open. One that is alive all the
// same, and has only been slow, loses no more than the transaction that it is in, whose lease is gone. Users may
// end the sessions of their own; replicas that use different ones wait for the server.
func (s *Store) AbortLeft(ctx context.Context, owners ...string) error {
	slices.Sort(owners)
	var sessions bson.A
	for _, owner := range slices.Compact(owners) {
		id, ok := strings.CutPrefix(owner, GoOwner)
		if !ok {
			continue
		}
		if parsed, err := uuid.Parse(id[strings.LastIndex(id, ":")+1:]); err == nil && parsed != s.own.id {
			sessions = append(sessions, bson.D{{Key: "id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: parsed[:]}}})
		}
	}
	if len(sessions) == 0 || !s.transactions {
		return nil
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	err := s.db.RunCommand(ctx, bson.D{{Key: "killSessions", Value: sessions}}).Err()
	if err != nil && !answered(err) {
		return fmt.Errorf("pulse: end the transactions of lost clients: %w", err)
	}
	return nil // refused: what is open ends by itself
}
