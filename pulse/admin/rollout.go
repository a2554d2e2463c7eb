package admin

import (
	"context"
	"fmt"
	"strings"

	"github.com/orionjs/orion-go/pulse/internal/store"
)

// RolloutReport says how far a change of the execution version has come in a group's topic (spec 4.13).
type RolloutReport struct {
	Group, Topic string
	Settings     Settings
	// Marker tells that version 2 deliveries exist, or existed.
	Marker bool
	// Clients are all that are connected to the server, by application name: a connection does not tell its group.
	Clients []Client
	Sight   Sight
	// Version1 counts active deliveries with attempts in the history, Version2Pending and Version2Processing those
	// with attempts of their own; HalfDone documents of version 1 whose step over two collections is not complete.
	Version1, Version2Pending, Version2Processing, HalfDone Count
	// Step2 is whether executionVersion 2, or a batch receiver, may be deployed with a higher configVersion now.
	Step2 Verdict
	// RollbackStep3 is whether, on the way back, software may be deployed now that does not know version 2.
	RollbackStep3 Verdict
}

// Client is an application that is connected to the server.
type Client struct {
	AppName     string
	Kind        ClientKind
	Connections int
	// Hosts are addresses that it connects from, at most twenty.
	Hosts []string
}

// ClientKind is what an application's name says about it.
type ClientKind string

// The kinds of clients.
const (
	// BridgeCapable serves both execution versions: its name has @orion-js/pulse-bridge-v2 in it.
	BridgeCapable ClientKind = "bridge-capable"
	// OtherPulse is a client of Pulse that may not serve both: its name has @orion-js/pulse in it.
	OtherPulse ClientKind = "other-pulse"
	// Tool is a shell, a graphical tool, or an operator's tool of Pulse: it runs no handlers.
	Tool ClientKind = "tool"
	// UnknownClient may be anything, also a client of Pulse over connections that its service opened.
	UnknownClient ClientKind = "unknown"
)

// Sight is which connections the database's role lets an Admin see.
type Sight string

// The sights.
const (
	SeesAll  Sight = "all"
	SeesOwn  Sight = "own-user" // those of the same database user
	SeesNone Sight = "none"
)

// Verdict is whether a step may be taken.
type Verdict struct {
	Answer Answer
	// Reasons are sentences, of what speaks against it first.
	Reasons []string
}

// Answer is yes, no, or unknown.
type Answer string

// The answers.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unclear Answer = "unknown"
)

// Rollout reports whether the next step of a roll-out can be taken. It takes three commands. Who is connected is read from $currentOp,
// which needs the right inprog to show the connections of all users. A connection whose name says nothing is unknown,
// not old: give the mongo.Client that a service opens an application name with @orion-js/pulse-bridge-v2 in it.
//
// There is no such subscription: *NotFoundError.
func (a *Admin) Rollout(ctx context.Context, group, topic string) (RolloutReport, error) {
	ctx, cancel, err := a.begin(ctx)
	if err != nil {
		return RolloutReport{}, err
	}
	defer cancel()
	subs, err := a.store.Overviews(ctx, group, topic)
	if err != nil {
		return RolloutReport{}, err
	}
	if group == "" || topic == "" || len(subs) == 0 {
		return RolloutReport{}, missingSubscription(group, topic)
	}
	connected, sight, err := a.store.Connections(ctx)
	if err != nil {
		return RolloutReport{}, err
	}
	work, err := a.store.Work(ctx, group, topic, DefaultCountLimit)
	if err != nil {
		return RolloutReport{}, err
	}
	sub := subscription(subs[0], a.store.Now())
	report := RolloutReport{
		Group: group, Topic: topic, Settings: sub.Settings, Marker: sub.Marker, Sight: sightOf(sight),
		Version1: countOf(work.V1), Version2Pending: countOf(work.V2Pending), Version2Processing: countOf(work.V2Processing),
		HalfDone: countOf(work.HalfDone),
	}
	report.Clients = clientsOf(connected)
	report.Step2, report.RollbackStep3 = report.step2(), report.rollbackStep3()
	return report, nil
}

func missingSubscription(group, topic string) error {
	return &NotFoundError{What: "subscription", Name: fmt.Sprintf("of group %s to topic %s", group, topic)}
}

func countOf(c store.Count) Count {
	return Count{N: min(c.N, DefaultCountLimit), AtLeast: c.AtLeast}
}

func sightOf(s store.Sight) Sight {
	switch s {
	case store.SeesAll:
		return SeesAll
	case store.SeesOwn:
		return SeesOwn
	default:
		return SeesNone
	}
}

// tools begin the application names of programs that run no handlers.
var tools = []string{"pulse-cli", "pulse-console", "mongosh", "MongoDB", "mongodump", "mongorestore", "mongoexport", "mongoimport"}

func kindOf(appName string) ClientKind {
	switch {
	case strings.Contains(appName, "@orion-js/pulse-bridge-v2"):
		return BridgeCapable
	case strings.Contains(appName, "@orion-js/pulse"):
		return OtherPulse
	}
	for _, tool := range tools {
		if strings.HasPrefix(appName, tool) {
			return Tool
		}
	}
	return UnknownClient
}

func clientsOf(connected []store.Connected) []Client {
	var clients []Client
	for _, c := range connected {
		clients = append(clients, Client{AppName: c.AppName, Kind: kindOf(c.AppName), Connections: c.N, Hosts: c.Hosts})
	}
	return clients
}

// connections counts those of a kind.
func (r RolloutReport) connections(kind ClientKind) int {
	n := 0
	for _, c := range r.Clients {
		if c.Kind == kind {
			n += c.Connections
		}
	}
	return n
}

func (r RolloutReport) step2() Verdict {
	var v Verdict
	say := func(answer Answer, format string, args ...any) {
		v.Reasons = append(v.Reasons, fmt.Sprintf(format, args...))
		if v.Answer != No {
			v.Answer = answer
		}
	}
	if r.Settings.ExecutionVersion == 2 {
		return Verdict{Yes, []string{fmt.Sprintf("It was taken: new deliveries are of version 2. Active ones of version 1: %s.", r.Version1)}}
	}
	if n := r.connections(OtherPulse); n > 0 {
		say(No, "Connections of Pulse clients whose name does not say that they serve both versions (@orion-js/pulse): %d. Bring their replicas to a release that does, or make sure that they serve other groups alone.", n)
	}
	if r.Settings.Ordered {
		say(No, "The subscription is ordered, which version 2 is not: the step needs Unordered() with the same configVersion.")
	}
	switch r.Sight {
	case SeesNone:
		say(Unclear, "This user may not see who is connected: grant it the right inprog, or look at your deployment.")
	case SeesOwn:
		say(Unclear, "This user sees the connections of its own alone: grant it the right inprog, or look at your deployment.")
	}
	if n := r.connections(UnknownClient); n > 0 {
		say(Unclear, "Connections whose application name says nothing: %d. If one of them serves this group, its release must know both versions.", n)
	}
	switch n := r.connections(BridgeCapable); {
	case n > 0:
		v.Reasons = append(v.Reasons, fmt.Sprintf("Connections of clients that serve both versions: %d.", n))
	case r.Sight != SeesNone:
		say(Unclear, "No client is connected whose name says that it serves both versions.")
	}
	if v.Answer == "" {
		v.Answer = Yes
	}
	return v
}

func (r RolloutReport) rollbackStep3() Verdict {
	if r.Settings.ReceiverMode == "batch" {
		return Verdict{No, []string{"The subscription has a batch receiver: new deliveries are of version 2. First go back to a single handler of version 1 with a higher configVersion."}}
	}
	if r.Settings.ExecutionVersion == 2 {
		return Verdict{No, []string{"New deliveries are of version 2: first set executionVersion 1 with a higher configVersion."}}
	}
	if r.Version2Pending.N+r.Version2Processing.N > 0 {
		return Verdict{No, []string{fmt.Sprintf("Version 2 deliveries are left, pending: %s, processing: %s. Older software would leave them waiting: keep the replicas that know both versions until there are none.", r.Version2Pending, r.Version2Processing)}}
	}
	return Verdict{Yes, []string{"New deliveries are of version 1, and none of version 2 is left to do."}}
}
