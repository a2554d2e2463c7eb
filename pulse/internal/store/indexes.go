package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/orionjs/orion-go/pulse/internal/backoff"
	"github.com/orionjs/orion-go/pulse/internal/clock"
)

const (
	// indexTimeout bounds EnsureIndexes when the caller's context has no deadline. Building an index over
	// a large collection takes longer: the server goes on with it, and the next start finds it.
	indexTimeout = 30 * time.Second
	// indexRounds is how often a collection is read again when others create its indexes at the same time.
	indexRounds = 8
)

// codeUnauthorized is the server's answer to a user without the right to do what it asks for.
const codeUnauthorized = 13

// passingCodes are answers to createIndexes that may be different after another look: another client
// creates the same collection or index, or the primary changes. Whether 85 and 86 mean such a race or a
// real conflict, only that look can tell.
var passingCodes = []int{
	48,    // NamespaceExists
	85,    // IndexOptionsConflict
	86,    // IndexKeySpecsConflict
	112,   // WriteConflict
	117,   // ConflictingOperationInProgress
	276,   // IndexBuildAborted
	285,   // IndexBuildAlreadyInProgress
	12586, // BackgroundOperationInProgressForDatabase
	12587, // BackgroundOperationInProgressForNamespace
	91,    // ShutdownInProgress
	189,   // PrimarySteppedDown
	10107, // NotWritablePrimary
	11600, // InterruptedAtShutdown
	11602, // InterruptedDueToReplStateChange
	13435, // NotPrimaryNoSecondaryOk
}

// EnsureIndexes creates the missing indexes of the collections prefix.events, prefix.subscriptions,
// prefix.deliveries and prefix.history under the names of the storage format, and compares those that exist
// by meaning (spec 6.1). It never drops or changes an index.
//
// The cost is one listIndexes per collection, and one createIndexes for each that lacks something, so a
// user without the right to create indexes can start when all are there. Any number of replicas may call
// it at once. An index of another name with the same meaning is accepted with a warning, since other
// clients of the group look indexes up by name. Everything that keeps the client from starting is reported
// together as an *IndexError; another error means that the server could not be asked. A context without a
// deadline gets one of 30 seconds; a session in it is not used.
func EnsureIndexes(ctx context.Context, db *mongo.Database, prefix string) (warnings []string, err error) {
	ctx = mongo.NewSessionContext(ctx, nil)
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, indexTimeout)
		defer cancel()
	}
	opts := options.Collection().SetWriteConcern(writeconcern.Majority()).
		SetRegistry(bson.NewRegistry()).SetBSONOptions(&options.BSONOptions{})
	reports := make([]indexReport, len(pulseIndexes))
	var all sync.WaitGroup
	for i, c := range pulseIndexes {
		all.Go(func() {
			keeper := indexKeeper{coll: db.Collection(prefix+"."+c.suffix, opts), specs: c.specs}
			keeper.shell = shell{db.Name(), keeper.coll.Name()}
			reports[i] = keeper.ensure(ctx)
		})
	}
	all.Wait()
	wrong := &IndexError{Database: db.Name()}
	var failures []error
	for _, r := range reports {
		warnings = append(warnings, r.warnings...)
		wrong.Problems = append(wrong.Problems, r.problems...)
		if r.err != nil {
			failures = append(failures, r.err)
		}
	}
	if len(wrong.Problems) > 0 {
		failures = append(failures, wrong)
	}
	if len(failures) == 1 {
		return warnings, failures[0]
	}
	return warnings, errors.Join(failures...)
}

// indexReport is what was found in one collection.
type indexReport struct {
	warnings []string
	problems []IndexProblem
	missing  []indexSpec
	err      error // the server could not be asked
}

// indexKeeper looks after the indexes of one collection.
type indexKeeper struct {
	coll  *mongo.Collection
	specs []indexSpec
	shell shell
}

// ensure reads and creates in rounds. One command creates all that is missing. When it fails, which says
// nothing about most of them, the next round reads again, for another replica may have created them, and
// tries one by one, so that each index that cannot be created is reported with its own cause.
func (k indexKeeper) ensure(ctx context.Context) indexReport {
	pause := backoff.NewExponential(10*time.Millisecond, 300*time.Millisecond)
	for round := 1; ; round++ {
		stored, err := k.list(ctx)
		if err != nil {
			return indexReport{err: fmt.Errorf("pulse: list the indexes of %s: %w", k.namespace(), hint(err, "listIndexes"))}
		}
		report := k.compare(stored)
		if len(report.missing) == 0 {
			return report
		}
		if round == 1 {
			if err := k.create(ctx, report.missing...); err == nil {
				return report
			} else if !answered(err) {
				report.err = k.unreachable(err)
				return report
			}
			continue
		}
		again := false
		for _, spec := range report.missing {
			err := k.create(ctx, spec)
			switch {
			case err == nil:
			case !answered(err):
				report.err = k.unreachable(err)
				return report
			case round < indexRounds && hasCode(err, passingCodes...):
				again = true
			default:
				report.problems = append(report.problems, k.cannotCreate(spec, stored, err))
			}
		}
		if !again {
			return report
		}
		if err := clock.Sleep(ctx, pause.Next()); err != nil {
			report.err = k.unreachable(err)
			return report
		}
	}
}

// list reads the indexes with one command. A collection that does not exist yet (the server's code 26,
// which the driver turns into an empty list) has none.
func (k indexKeeper) list(ctx context.Context) ([]storedIndex, error) {
	cursor, err := k.coll.Indexes().List(ctx)
	if err != nil {
		return nil, err
	}
	var entries []bson.Raw
	if err := cursor.All(ctx, &entries); err != nil {
		return nil, err
	}
	stored := make([]storedIndex, len(entries))
	for i, entry := range entries {
		stored[i] = readIndex(entry)
	}
	return stored, nil
}

func (k indexKeeper) create(ctx context.Context, specs ...indexSpec) error {
	models := make([]mongo.IndexModel, len(specs))
	for i, spec := range specs {
		models[i] = spec.model()
	}
	_, err := k.coll.Indexes().CreateMany(ctx, models)
	return err
}

// compare sorts the wanted indexes into present, present under another name, conflicting and missing.
func (k indexKeeper) compare(stored []storedIndex) indexReport {
	var report indexReport
	for _, spec := range k.specs {
		// The index of that name decides: others look it up by name, whatever else there is.
		if i := slices.IndexFunc(stored, func(x storedIndex) bool { return x.name == spec.name }); i >= 0 {
			if found := spec.differences(stored[i]); len(found) > 0 {
				report.problems = append(report.problems, k.conflict(spec, stored[i], found, nil))
			}
			continue
		}
		report.add(k, spec, stored)
	}
	return report
}

// add judges a spec whose name is free.
func (r *indexReport) add(k indexKeeper, spec indexSpec, stored []storedIndex) {
	var rival *storedIndex
	for _, x := range stored {
		found := spec.differences(x)
		if len(found) == 0 && x.name == spec.alias {
			return
		}
		if len(found) == 0 {
			r.warnings = append(r.warnings, fmt.Sprintf(
				"index %q of %s does the work of %q and is used, but other clients look it up by name and refuse to start; to rename it, run in mongosh while no client runs: %s",
				x.name, k.namespace(), spec.name, strings.Join(k.shell.mend(spec, x, nil), "; ")))
			return
		}
		if refused(found) && rival == nil {
			rival = &x
		}
	}
	if rival != nil {
		r.problems = append(r.problems, k.conflict(spec, *rival, spec.differences(*rival), nil))
		return
	}
	r.missing = append(r.missing, spec)
}

func (k indexKeeper) conflict(spec indexSpec, x storedIndex, found []difference, cause error) IndexProblem {
	texts := make([]string, len(found))
	for i, d := range found {
		texts[i] = d.text
	}
	subject := "the index of that name "
	if x.name != spec.name {
		subject = fmt.Sprintf("index %q has the same keys and stands in its way: it ", x.name)
	}
	return IndexProblem{
		Collection: k.coll.Name(), Index: spec.name, Err: cause,
		Problem:  subject + strings.Join(texts, ", "),
		Commands: k.shell.mend(spec, x, found),
	}
}

// cannotCreate explains the server's refusal to create a missing index.
func (k indexKeeper) cannotCreate(spec indexSpec, stored []storedIndex, err error) IndexProblem {
	p := IndexProblem{Collection: k.coll.Name(), Index: spec.name, Err: err, Commands: []string{k.shell.create(spec, false)}}
	switch {
	case hasCode(err, codeUnauthorized):
		p.Problem = "it is missing and this user lacks the right to create it (action createIndex); let a user who has it run the command"
	case mongo.IsDuplicateKeyError(err):
		p.Problem = fmt.Sprintf("it must be unique, but there are documents with the same values: list them, remove all but one of each, create the index (%v)", err)
		p.Commands = append([]string{k.shell.duplicates(spec)}, p.Commands...)
	default:
		// A server that tells fewer options apart than those compared here refuses beside such an index.
		for _, x := range stored {
			if sameKeys(spec.keys, x.keys) {
				return k.conflict(spec, x, spec.differences(x), err)
			}
		}
		p.Problem = fmt.Sprintf("the server does not create it: %v", err)
	}
	return p
}

func (k indexKeeper) namespace() string { return k.coll.Database().Name() + "." + k.coll.Name() }

func (k indexKeeper) unreachable(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || mongo.IsTimeout(err) {
		return fmt.Errorf("pulse: create the indexes of %s: %w (the server may still be building them over a large collection: start again later, or create them beforehand)", k.namespace(), err)
	}
	return fmt.Errorf("pulse: create the indexes of %s: %w", k.namespace(), err)
}

// hint adds the missing privilege to an error that is about one.
func hint(err error, action string) error {
	if hasCode(err, codeUnauthorized) {
		return fmt.Errorf("%w (grant this user the action %s on the collection)", err, action)
	}
	return err
}

// answered tells an answer of the server from a failure to reach it in time.
func answered(err error) bool {
	var answer mongo.ServerError
	return errors.As(err, &answer) && !mongo.IsNetworkError(err) && !mongo.IsTimeout(err)
}

func hasCode(err error, codes ...int) bool {
	var answer mongo.ServerError
	return errors.As(err, &answer) && slices.ContainsFunc(codes, answer.HasErrorCode)
}
