package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/cmd/pulse/internal/terminal"
	"github.com/orionjs/orion-go/cmd/pulse/internal/view"
	"github.com/orionjs/orion-go/pulse/admin"
)

// noData is the data of an event whose payload is not to be shown.
var noData bson.RawValue

// writeDelivery prints a delivery for people.
func writeDelivery(d admin.DeliveryDetail, noPayload bool, now time.Time) {
	worker := terminal.Clean(d.Worker)
	if d.LeaseEnded {
		worker += ": its lease has ended, the worker counts as lost"
	}
	halfDone := ""
	if d.HalfDone {
		halfDone = "a step of it is not complete: a client of the group completes it"
	}
	failure := ""
	if d.Error != nil { // not always that of the last attempt: no attempt cancels
		failure = terminal.Clean(d.Error.Code + ": " + d.Error.Message)
	}
	expires := terminal.Both(d.ExpiresAt, now)
	if expires == "" && !d.EndedAt.IsZero() {
		expires = "for ever"
	}
	terminal.Fields(os.Stdout,
		[2]string{"delivery", terminal.Clean(d.ID)}, [2]string{"group", terminal.Clean(d.Group)}, [2]string{"topic", terminal.Clean(d.Topic)},
		[2]string{"state", deliveryState(d.Delivery, now)}, [2]string{"error", failure}, [2]string{"attempt", strconv.Itoa(d.Attempt)},
		[2]string{"execution version", strconv.Itoa(d.ExecutionVersion)},
		[2]string{"event published", terminal.Both(d.EventCreatedAt, now)}, [2]string{"created", terminal.Both(d.CreatedAt, now)},
		[2]string{"due", terminal.Both(d.NextAttemptAt, now)}, [2]string{"started", terminal.Both(d.StartedAt, now)},
		[2]string{"lease until", terminal.Both(d.LockedUntil, now)}, [2]string{"worker", worker},
		[2]string{"ended", terminal.Both(d.EndedAt, now)}, [2]string{"kept until", expires}, [2]string{"half done", halfDone})
	if d.ExpiredEvents > 0 {
		fmt.Printf("%s had been deleted before the handler ran\n", terminal.Plural(d.ExpiredEvents, "event"))
	}
	for _, g := range d.Grants {
		fmt.Printf("attempt %d was granted %s, %s\n", g.Attempt, byWhom(g.By), terminal.Both(g.At, now))
	}
	for _, a := range d.Attempts {
		writeAttempt(a, now)
	}
	for _, e := range d.Events {
		writeEventDetail(e, noPayload, now)
	}
	if more := len(d.EventIDs) - len(d.Events); more > 0 {
		fmt.Printf("\nand %s more\n", terminal.Plural(more, "event"))
	}
}

func writeAttempt(a admin.Attempt, now time.Time) {
	fmt.Printf("\nAttempt %d: %s\n", a.Number, a.State)
	took := ""
	if !a.EndedAt.IsZero() {
		took = terminal.Span(a.Duration)
	}
	due := ""
	if a.StartedAt.IsZero() {
		due = terminal.Both(a.NextAttemptAt, now)
	}
	failure := ""
	if a.Error != nil {
		failure = terminal.Clean(strings.TrimSuffix(a.Error.Code+" ("+a.Error.Name+")", " ()"))
	}
	terminal.Fields(os.Stdout, [2]string{"  due", due}, [2]string{"  started", terminal.Both(a.StartedAt, now)},
		[2]string{"  ended", terminal.Both(a.EndedAt, now)}, [2]string{"  took", took}, [2]string{"  worker", terminal.Clean(a.Worker)},
		[2]string{"  error", failure})
	if a.Error != nil {
		writeIndented(a.Error.Message)
		writeIndented(a.Error.Stack)
	}
}

func writeEventDetail(e admin.Event, noPayload bool, now time.Time) {
	if e.Gone {
		fmt.Printf("\nEvent %s: its retention has deleted it\n", terminal.Clean(e.ID))
		return
	}
	fmt.Printf("\nEvent %s\n", terminal.Clean(e.ID))
	terminal.Fields(os.Stdout, [2]string{"  published", terminal.Both(e.CreatedAt, now)}, [2]string{"  by", terminal.Clean(e.Publisher)},
		[2]string{"  not before", terminal.Both(e.NotBefore, now)},
		[2]string{"  kept until", terminal.Both(e.ExpiresAt, now)})
	for _, key := range slices.Sorted(maps.Keys(e.Headers)) {
		fmt.Printf("  header %s: %s\n", terminal.Clean(key), terminal.Clean(e.Headers[key]))
	}
	if noPayload {
		return
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, view.Data(e.Data), "", "  ") == nil {
		writeIndented(pretty.String())
	}
}

// writeIndented prints text of several lines, of which none obeys it.
func writeIndented(text string) {
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(strings.TrimRight(terminal.CleanLines(text), "\n"), "\n") {
		fmt.Println("    " + line)
	}
}
