package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/cmd/pulse/internal/eventfile"
	"github.com/orionjs/orion-go/cmd/pulse/internal/session"
	"github.com/orionjs/orion-go/cmd/pulse/internal/terminal"
	"github.com/orionjs/orion-go/cmd/pulse/internal/view"
	"github.com/orionjs/orion-go/pulse"
)

type publishCommand struct {
	session.Flags `embed:""`
	Topic         string            `arg:"" help:"Topic to publish to."`
	File          string            `arg:"" optional:"" default:"-" help:"File with JSON values, each the data of an event. Default: standard input." complete:"files"`
	Echoes        bool              `help:"Wrap each value as Echoes does: {params: VALUE}. Handlers written with Echoes need it."`
	Header        map[string]string `help:"Header of the events; may be repeated." placeholder:"KEY=VALUE" mapsep:"none" aliases:"headers"`
	ID            string            `name:"id" help:"ID of the event, of which there may be only one then. Publishing it again stores nothing." placeholder:"ID" xor:"id"`
	IDPrefix      string            `help:"Give each event the ID PREFIX-N, N counting values from 1: a repeated import then stores nothing twice." placeholder:"PREFIX" xor:"id"`
	Skip          int               `help:"Leave out the first values, to go on with an import that failed." placeholder:"N"`
	At            later             `help:"Publish later: a date, or in how long (90s, 2h, 7d). The events are stored now and appear then, by the clients that run." placeholder:"TIME"`
	Publisher     string            `help:"Name that is stored with the events." default:"pulse-cli" placeholder:"NAME"`
}

// Help is the long text of `pulse publish --help`.
func (publishCommand) Help() string {
	return `Reads JSON values, one a line (NDJSON) or spread over lines, and publishes each as an event. Relaxed Extended
JSON gives the types that JSON lacks: {"$date": "2026-01-31T12:00:00Z"}, {"$oid": "..."}, {"$numberDecimal": "1.10"}.

Values are published as they come, up to 1,000 with one command. When something is wrong with a value, those before it are stored, and
the error says how to go on behind them.

Examples:
  echo '{"orderId": "7"}' | pulse publish order.created --echoes
  pulse publish order.created orders.ndjson --id-prefix import-2026-01
  pulse publish order.created order.json --id order-7 --header source=import`
}

// Validate is called by the parser of the command line.
func (c *publishCommand) Validate() error {
	if c.Skip < 0 {
		return errors.New("--skip must not be negative")
	}
	return c.Flags.Validate()
}

// Run publishes.
func (c *publishCommand) Run() error {
	in, size, err := c.open()
	if err != nil {
		return err
	}
	defer in.Close()
	return operate(c.Flags, func(ctx context.Context, s *session.Session) error {
		client, err := s.Publisher(ctx, c.Publisher)
		if err != nil {
			return err
		}
		defer client.Close(context.WithoutCancel(ctx))
		p := &publication{command: c, client: client, size: size, began: time.Now(), progress: terminal.NewProgress(os.Stderr)}
		ahead := eventfile.ReadAhead(eventfile.NewReader(in))
		defer ahead.Stop()
		err = p.run(ctx, ahead)
		p.progress.Clear()
		if err != nil {
			return p.explain(err)
		}
		return p.report()
	})
}

// open returns the text and its size, which is 0 when it is not known.
func (c *publishCommand) open() (*os.File, int64, error) {
	if c.File == "-" {
		if _, ok := terminal.Width(os.Stdin); ok {
			fmt.Fprintln(os.Stderr, "pulse: reading JSON from the terminal; Ctrl-D ends it")
		}
		return os.Stdin, 0, nil
	}
	f, err := os.Open(c.File)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return f, 0, err
	}
	return f, info.Size(), nil
}

// publication is one run of publish.
type publication struct {
	command  *publishCommand
	client   *pulse.Client
	size     int64
	began    time.Time
	progress *terminal.Progress

	done       int // values that were skipped or are stored
	stored     int
	duplicates int
	last       string // the ID of the last event
}

func (p *publication) run(ctx context.Context, in *eventfile.Ahead) error {
	if p.command.ID != "" {
		return p.runOne(ctx, in)
	}
	for {
		values, err := in.Next(ctx)
		switch {
		case errors.Is(err, io.EOF) && p.done == 0:
			return errNoValue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		for len(values) > 0 && values[0].Number <= p.command.Skip {
			values = values[1:]
			p.done++
		}
		if len(values) == 0 {
			continue
		}
		if err := p.publish(ctx, values); err != nil {
			return err
		}
	}
}

var errNoValue = errors.New("there is no JSON value to publish")

// runOne publishes the only value, once it is sure to be the only one.
func (p *publication) runOne(ctx context.Context, in *eventfile.Ahead) error {
	var all []eventfile.Payload
	for {
		values, err := in.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if all = append(all, values...); len(all) > p.command.Skip+1 {
			return usageError("--id is for one event, and there are more values: use --id-prefix")
		}
	}
	if len(all) <= p.command.Skip {
		return errNoValue
	}
	return p.publish(ctx, all[p.command.Skip:])
}

func (p *publication) publish(ctx context.Context, chunk []eventfile.Payload) error {
	messages := make([]pulse.Message[bson.RawValue], len(chunk))
	for i, value := range chunk {
		id := p.command.ID
		if p.command.IDPrefix != "" {
			id = fmt.Sprintf("%s-%d", p.command.IDPrefix, value.Number)
		}
		data, err := value.Data, error(nil)
		if p.command.Echoes {
			data, err = wrap(data)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", value.Line, err)
		}
		messages[i] = pulse.Message[bson.RawValue]{ID: id, Data: data, Headers: p.command.Header, NotBefore: p.command.At.Time}
	}
	results, err := pulse.NewTopic[bson.RawValue](p.command.Topic).PublishMany(ctx, p.client, messages)
	var invalid *pulse.InvalidEventError
	if len(results) == 0 && errors.As(err, &invalid) {
		return fmt.Errorf("line %d: topic %s: %w", chunk[invalid.Index].Line, invalid.Topic, invalid.Err)
	}
	failed, inFront := 0, true
	for i, r := range results {
		if r.Err != nil {
			p.progress.Clear()
			if failed++; failed <= 10 {
				tell("line %d: %s", chunk[i].Line, withoutPackage(r.Err))
			}
			inFront = false
			continue
		}
		if inFront {
			p.done++
		}
		if err := p.tell(r.Event); err != nil {
			return err
		}
	}
	share := -1.0
	if p.size > 0 {
		share = float64(chunk[len(chunk)-1].End) / float64(p.size)
	}
	p.progress.Set(p.done, "event", share)
	if failed > 0 {
		return fmt.Errorf("%s of this chunk of %s could not be published", terminal.Plural(failed, "event"), terminal.Number(len(chunk)))
	}
	return err
}

// tell counts a stored event, and prints it for programs.
func (p *publication) tell(event *pulse.Event[bson.RawValue]) error {
	p.stored++
	p.last = event.ID
	if event.Duplicate {
		p.duplicates++
	}
	if !p.command.JSON {
		return nil
	}
	return lines().Encode(view.PublishedEvent(event))
}

// explain says what is stored in spite of an error.
func (p *publication) explain(err error) error {
	var usage usageError
	if errors.As(err, &usage) || p.stored == 0 {
		return err
	}
	again := fmt.Sprintf("--skip %d", p.done)
	if p.command.IDPrefix != "" {
		again = "the same --id-prefix, which stores nothing twice"
	}
	return fmt.Errorf("%w; %s stored before that: to go on, give the command again with %s", err, was(p.stored), again)
}

func was(n int) string {
	if n == 1 {
		return "1 event was"
	}
	return terminal.Plural(n, "event") + " were"
}

func (p *publication) report() error {
	if p.command.JSON {
		return nil
	}
	what := terminal.Plural(p.stored, "event")
	if p.stored == 1 {
		what = "event " + terminal.Clean(p.last)
	}
	text := fmt.Sprintf("published %s to %s", what, terminal.Clean(p.command.Topic))
	if p.stored > 1 {
		text += " in " + terminal.Span(time.Since(p.began))
	}
	if at := p.command.At.Time; !at.IsZero() {
		text = fmt.Sprintf("stored %s of %s, to appear %s", what, terminal.Clean(p.command.Topic), terminal.Both(at, time.Now()))
	}
	if p.duplicates > 0 {
		text += fmt.Sprintf(" (%s stored already)", map[bool]string{true: "it was", false: terminal.Number(p.duplicates) + " were"}[p.stored == 1])
	}
	fmt.Println(text)
	return nil
}

// wrap makes the data of an event of Echoes.
func wrap(params bson.RawValue) (bson.RawValue, error) {
	kind, data, err := bson.MarshalValue(bson.D{{Key: "params", Value: params}})
	return bson.RawValue{Type: kind, Value: data}, err
}
