package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"pgregory.net/rapid"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// The lease protocol against a model: several workers claim, renew, settle, hand back and reap the same
// deliveries in random interleavings. All of them act on what they read or claimed some time ago, as processes
// that were frozen do; they forget claims, as processes that die do; leases end at any time, as clocks and
// pauses make them. After each step the database must be what the model says, and each answer too.

// modelDelivery is a delivery as the model knows it.
type modelDelivery struct {
	id, token string // token is empty unless it is claimed
	format    store.Format
	status    string // pending, success, error
	schedule  int    // scheduled attempts before the present one
	expired   bool   // the lease of the claim has ended
	outcomes  []string
}

// modelClaim is what a worker remembers of a claim; it may be long out of date.
type modelClaim struct {
	of        *modelDelivery
	candidate store.Candidate
	token     string
	stored    string // the outcome that was stored for it
}

// holds tells whether the claim is in force.
func (c *modelClaim) holds() bool { return c.token == c.of.token && c.of.token != "" }

// modelRead is an expired delivery as a reaper read it.
type modelRead struct {
	of      *modelDelivery
	expired store.Expired
	token   string
}

// protocol runs the same steps on the store and on the model.
type protocol struct {
	t      *testing.T
	s      *store.Store
	db     *mongo.Database
	lease  store.Lease
	topic  string
	format store.Format

	n          int
	deliveries map[string]*modelDelivery // by event ID
	candidates []store.Candidate         // as read at some time, with the schedule of then
	schedules  map[string]int
	claims     []*modelClaim
	reads      []modelRead
}

// endedOutcome ends a scheduled attempt in the model.
func (d *modelDelivery) end(verdict delivery.Verdict, outcome string) {
	d.token, d.expired = "", false
	d.outcomes = append(d.outcomes, outcome)
	switch verdict {
	case delivery.Succeeded:
		d.status = "success"
	case delivery.Retried:
		d.schedule++
	default:
		d.status = "error"
	}
}

func (p *protocol) materialize(rt *rapid.T) {
	page := keys(p.n, rapid.IntRange(1, 3).Draw(rt, "events"))
	for i := range page {
		page[i].EventID = p.topic + page[i].EventID
	}
	p.n += len(page)
	made := ofFormat(page, p.format)
	for i := range made {
		made[i].Topic = p.topic
	}
	if err := p.s.Materialize(p.t.Context(), p.lease, made, page[len(page)-1].Position, bson.Timestamp{}); err != nil {
		rt.Fatal(err)
	}
	for _, key := range page {
		p.deliveries[key.EventID] = &modelDelivery{format: p.format, status: "pending"}
	}
}

func (p *protocol) look(rt *rapid.T) {
	due, malformed, _, err := p.s.Candidates(p.t.Context(), group, p.topic, p.format, 100)
	if err != nil || len(malformed) > 0 {
		rt.Fatal(err, malformed)
	}
	free := 0
	for _, d := range p.deliveries {
		if d.status == "pending" && d.token == "" {
			free++
		}
	}
	if len(due) != free {
		rt.Fatalf("%d deliveries are due, the model has %d", len(due), free)
	}
	p.candidates, p.schedules = due, map[string]int{}
	for _, c := range due {
		d := p.deliveries[c.EventIDs[0]]
		p.schedules[c.ID] = d.schedule
		if d.id == "" {
			d.id = c.ID
			if p.format == store.V1 {
				d.id = c.DeliveryID
			}
		}
		if c.Attempts != d.schedule {
			rt.Fatalf("a candidate has %d attempts behind it, the model says %d", c.Attempts, d.schedule)
		}
	}
}

func (p *protocol) claim(rt *rapid.T) {
	if len(p.candidates) == 0 {
		rt.Skip("nothing was read")
	}
	from := rapid.IntRange(0, len(p.candidates)-1).Draw(rt, "from")
	to := rapid.IntRange(from+1, len(p.candidates)).Draw(rt, "to")
	picked := p.candidates[from:to] // as they were read, maybe long ago
	token := fmt.Sprint(p.topic, "token", len(p.claims))
	won, err := p.s.Claim(p.t.Context(), picked, "go:x", token, time.Hour)
	if err != nil {
		rt.Fatal(err)
	}
	got := map[string]bool{}
	for _, c := range won {
		got[c.ID] = true
	}
	for _, c := range picked {
		d := p.deliveries[c.EventIDs[0]]
		want := d.status == "pending" && d.token == "" && d.schedule == p.schedules[c.ID]
		if got[c.ID] != want {
			rt.Fatalf("claim of %s: won %v, the model says %v", c.EventIDs[0], got[c.ID], want)
		}
		if want {
			d.token, d.expired = token, false
			p.claims = append(p.claims, &modelClaim{of: d, candidate: c, token: token})
		}
	}
}

// remembered draws some of the claims that were ever made, by whichever worker.
func (p *protocol) remembered(rt *rapid.T) []*modelClaim {
	if len(p.claims) == 0 {
		rt.Skip("nothing was claimed")
	}
	seen := map[string]bool{}
	var some []*modelClaim
	for range rapid.IntRange(1, 3).Draw(rt, "claims") {
		c := p.claims[len(p.claims)-1-rapid.IntRange(0, len(p.claims)-1).Draw(rt, "ago")]
		if !seen[c.candidate.ID] { // a worker holds a delivery once
			seen[c.candidate.ID] = true
			some = append(some, c)
		}
	}
	return some
}

func (p *protocol) leases(claims []*modelClaim) (leases []store.Lease) {
	for _, c := range claims {
		leases = append(leases, store.Lease{ID: c.candidate.ID, Token: c.token, Format: p.format})
	}
	return leases
}

func (p *protocol) renew(rt *rapid.T) {
	claims := p.remembered(rt)
	held, err := p.s.Renew(p.t.Context(), p.leases(claims), time.Hour)
	if err != nil {
		rt.Fatal(err)
	}
	for _, c := range claims {
		// IDs and tokens match crosswise: a claim of the document under another of the tokens counts as well.
		want := p.crosswise(c, claims)
		if held[c.candidate.ID] != want {
			rt.Fatalf("renewal: held %v, the model says %v", held[c.candidate.ID], want)
		}
		if want {
			c.of.expired = false
		}
	}
}

// crosswise tells whether the document of the claim is held under one of the tokens of all the claims.
func (p *protocol) crosswise(c *modelClaim, claims []*modelClaim) bool {
	if p.format == store.V1 && c.candidate.Attempts != c.of.schedule {
		return false // its document is that of an attempt that has ended
	}
	for _, other := range claims {
		if c.of.token != "" && c.of.token == other.token {
			return true
		}
	}
	return false
}

func (p *protocol) handBack(rt *rapid.T) {
	claims := p.remembered(rt)[:1]
	if err := p.s.HandBack(p.t.Context(), p.leases(claims)); err != nil {
		rt.Fatal(err)
	}
	for _, c := range claims {
		if c.holds() {
			c.of.token, c.of.expired = "", false
		}
	}
}

func (p *protocol) settle(rt *rapid.T) {
	all := p.remembered(rt)
	// A worker that holds a delivery again drops what it remembers of the claim before (worker.superseded).
	claims := slices.DeleteFunc(slices.Clone(all), func(c *modelClaim) bool { return !c.holds() && p.crosswise(c, all) })
	settlements := make([]store.Settlement, len(claims))
	for i, c := range claims {
		verdict := rapid.SampledFrom([]delivery.Verdict{delivery.Succeeded, delivery.Retried, delivery.Failed}).Draw(rt, "verdict")
		if c.stored != "" {
			verdict = verdictOf(c.stored) // again, as after a lost answer
		}
		o := store.Settlement{
			Lease: p.leases(claims[i : i+1])[0], Verdict: verdict, StartedAt: p.s.Now(), EndedAt: p.s.Now(),
			Attempt: c.candidate.Attempts + 1, DeliveryID: c.of.id, EventID: c.candidate.EventIDs[0], ConsumerGroup: group, Topic: p.topic,
		}
		if verdict != delivery.Succeeded {
			o.Failure = &delivery.Failure{Code: delivery.CodeHandlerError, Name: "x", Message: "y"}
		}
		settlements[i] = o
	}
	ids, err := p.s.Settle(p.t.Context(), settlements, time.Hour)
	if err != nil {
		rt.Fatal(err)
	}
	lost := map[string]bool{}
	for _, id := range ids {
		lost[id] = true
	}
	for i, c := range claims {
		if want := !c.holds() && c.stored == ""; lost[c.candidate.ID] != want {
			rt.Fatalf("outcome: lost %v, the model says %v", lost[c.candidate.ID], want)
		}
		if c.holds() {
			c.stored = outcomeOf(settlements[i].Verdict)
			c.of.end(settlements[i].Verdict, c.stored)
		}
	}
}

func outcomeOf(v delivery.Verdict) string {
	return map[delivery.Verdict]string{delivery.Succeeded: "success", delivery.Retried: "retry", delivery.Failed: "error"}[v]
}

func verdictOf(outcome string) delivery.Verdict {
	return map[string]delivery.Verdict{"success": delivery.Succeeded, "retry": delivery.Retried, "error": delivery.Failed}[outcome]
}

// expire ends the lease of a claim in the database.
func (p *protocol) expire(rt *rapid.T) {
	c := p.remembered(rt)[0]
	coll := deliveries(p.db)
	if p.format == store.V1 {
		coll = history(p.db)
	}
	filter := bson.D{{Key: "_id", Value: c.candidate.ID}, {Key: "lockToken", Value: c.token}}
	if p.format == store.V1 {
		filter = append(filter, bson.E{Key: "status", Value: delivery.StatusV1Pending})
	}
	past := bson.D{{Key: "$set", Value: bson.D{{Key: "lockedUntil", Value: time.Now().Add(-time.Hour)}}}}
	if _, err := coll.UpdateOne(p.t.Context(), filter, past); err != nil {
		rt.Fatal(err)
	}
	if c.holds() {
		c.of.expired = true
	}
}

// readExpired is the first half of a reaper's work, reap the second, at some later time.
func (p *protocol) readExpired(rt *rapid.T) {
	found, err := p.s.ExpiredLeases(p.t.Context(), group, p.format, []string{p.topic}, 100)
	if err != nil {
		rt.Fatal(err)
	}
	byID := map[string]*modelDelivery{}
	want := 0
	for _, d := range p.deliveries {
		byID[d.id] = d
		if d.token != "" && d.expired {
			want++
		}
	}
	if len(found) != want {
		rt.Fatalf("%d leases have expired, the model says %d", len(found), want)
	}
	for _, e := range found {
		p.reads = append(p.reads, modelRead{of: byID[e.ID], expired: e, token: byID[e.ID].token})
	}
}

func (p *protocol) reap(rt *rapid.T) {
	if len(p.reads) == 0 {
		rt.Skip("nothing was read")
	}
	r := p.reads[rapid.IntRange(0, len(p.reads)-1).Draw(rt, "read")]
	verdict := rapid.SampledFrom([]delivery.Verdict{delivery.Retried, delivery.Failed}).Draw(rt, "verdict")
	reaped, err := p.s.Reap(p.t.Context(), r.expired, verdict, 0, time.Hour)
	if err != nil {
		rt.Fatal(err)
	}
	want := r.of.token == r.token && r.token != "" && r.of.expired
	if reaped != want {
		rt.Fatalf("reaped %v, the model says %v", reaped, want)
	}
	if want {
		r.of.end(verdict, "lost")
	}
}

// check compares the database with the model.
func (p *protocol) check(rt *rapid.T) {
	docs := all(p.t, deliveries(p.db), bson.D{{Key: "topic", Value: p.topic}})
	if len(docs) != len(p.deliveries) {
		rt.Fatalf("%d deliveries, the model has %d", len(docs), len(p.deliveries))
	}
	attempts := map[string][]bson.Raw{}
	if p.format == store.V1 {
		for _, a := range all(p.t, history(p.db), bson.D{{Key: "topic", Value: p.topic}}) {
			id := a.Lookup("deliveryId").StringValue()
			attempts[id] = append(attempts[id], a)
		}
	}
	for _, doc := range docs {
		d := p.deliveries[doc.Lookup("eventId").StringValue()]
		var status, token string
		var outcomes int
		if p.format == store.V1 {
			status = doc.Lookup("status").StringValue()
			for _, a := range attempts[doc.Lookup("_id").StringValue()] {
				if a.Lookup("status").StringValue() != delivery.StatusV1Pending {
					outcomes++
				} else if text, ok := a.Lookup("lockToken").StringValueOK(); ok {
					token = text
				}
			}
		} else {
			status = map[string]string{
				delivery.StatusPending: "pending", delivery.StatusProcessing: "pending", delivery.StatusSuccess: "success", delivery.StatusError: "error",
			}[doc.Lookup("status").StringValue()]
			token, _ = doc.Lookup("lockToken").StringValueOK()
			values, _ := doc.Lookup("attempts").Array().Values()
			outcomes = len(values)
			if (doc.Lookup("status").StringValue() == delivery.StatusProcessing) != (token != "") {
				rt.Fatalf("state and lock do not agree: %s", doc)
			}
		}
		if status != d.status || token != d.token || outcomes != min(len(d.outcomes), delivery.AttemptWindow) {
			rt.Fatalf("the model has %+v, the database %s %v", *d, doc, attempts[doc.Lookup("_id").StringValue()])
		}
	}
}

func TestProtocol_4_1_AgreesWithTheModel(t *testing.T) {
	t.Parallel()
	for _, format := range []store.Format{store.V1, store.V2} {
		t.Run(fmt.Sprint("version ", format), func(t *testing.T) {
			t.Parallel()
			s, db, sub := newStore(t)
			lease := lead(t, s, sub, "leader", time.Hour)
			run := 0
			rapid.Check(t, func(rt *rapid.T) {
				run++
				p := &protocol{
					t: t, s: s, db: db, lease: lease, format: format, topic: fmt.Sprint("run ", run, " "),
					deliveries: map[string]*modelDelivery{},
				}
				p.materialize(rt)
				p.look(rt)
				rt.Repeat(map[string]func(*rapid.T){
					"materialize": p.materialize, "look": p.look, "claim": p.claim, "renew": p.renew, "hand back": p.handBack,
					"settle": p.settle, "expire": p.expire, "read expired": p.readExpired, "reap": p.reap, "": p.check,
				})
			})
		})
	}
}
