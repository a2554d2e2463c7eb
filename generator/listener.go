package generator

import (
	"encoding/json"
	"fmt"
	"go/types"
	"strings"
	"time"

	"github.com/orionjs/orion-go/generator/internal/diag"
	"github.com/orionjs/orion-go/generator/internal/directive"
	"github.com/orionjs/orion-go/generator/internal/resolve"
)

// Listener is one registered method, or the generated function that publishes a
// type with a topic.
type Listener struct {
	Topic string `json:"topic"`
	// Kind is "event" or "batch", and "publish" for a type with a topic.
	Kind string `json:"kind"`
	// Method is the method with its package, as in "shop.(*Orders).Created", or the
	// function, as in "shop.PublishOrderCreated".
	Method string `json:"method"`
	// Payload is the type of what is received or published, as in "shop.Order".
	Payload string `json:"payload"`
	// Options are the settings that the directive gives, in the order of the table
	// of keys.
	Options Options `json:"options"`
	// File is where the directive stands, relative to Config.Dir when it lies below
	// it, and Line and Column count from 1.
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

// Position is where the directive stands, as "orders/orders.go:12:1".
func (l Listener) Position() string { return fmt.Sprintf("%s:%d:%d", l.File, l.Line, l.Column) }

// Option is one setting of a directive.
type Option struct {
	// Key is its name, such as "maxRetries".
	Key string
	// Value is a bool, int, float64 or string; durations are strings like "1m30s".
	Value any
}

// Options are the settings of a directive. In JSON they are one object.
type Options []Option

// String returns the options as a directive has them: "maxRetries=5 ordered=false".
func (o Options) String() string {
	words := make([]string, len(o))
	for i, option := range o {
		words[i] = fmt.Sprintf("%s=%v", option.Key, option.Value)
	}
	return strings.Join(words, " ")
}

// MarshalJSON writes the options as an object, in their order.
func (o Options) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, option := range o {
		if i > 0 {
			out = append(out, ',')
		}
		value, err := json.Marshal(option.Value)
		if err != nil {
			return nil, fmt.Errorf("writing the option %s: %w", option.Key, err)
		}
		out = append(append(append(out, '"'), option.Key...), '"', ':')
		out = append(out, value...)
	}
	return append(out, '}'), nil
}

func (p *pkg) listeners(dir string) []Listener {
	if p.model == nil {
		return nil
	}
	var out []Listener
	for _, s := range p.model.Services {
		for _, l := range s.Listeners {
			at := p.Fset.Position(l.Pos)
			out = append(out, Listener{
				Topic: l.Topic, Kind: string(l.Kind), Method: l.FullName, Options: options(l),
				Payload: types.TypeString(l.Params.Go, (*types.Package).Name),
				File:    diag.Relative(dir, at.Filename), Line: at.Line, Column: at.Column,
			})
		}
	}
	return out
}

// publishers are the functions that publish types with a topic.
func (p *pkg) publishers(dir string) []Listener {
	if p.model == nil {
		return nil
	}
	var out []Listener
	for _, t := range p.model.Topics {
		at := t.Position()
		out = append(out, Listener{
			Topic: t.Name, Kind: "publish", Method: p.Name + "." + t.Publish, Options: Options{},
			Payload: types.TypeString(t.Named, (*types.Package).Name),
			File:    diag.Relative(dir, at.Filename), Line: at.Line, Column: at.Column,
		})
	}
	return out
}

func options(l *resolve.Listener) Options {
	var out Options
	if l.Kind == directive.Batch {
		out = append(out, Option{string(directive.BatchSize), l.BatchSize})
	}
	for _, s := range l.Settings {
		value := s.Value
		if d, ok := value.(time.Duration); ok {
			value = durationText(d)
		}
		out = append(out, Option{string(s.Key), value})
	}
	return out
}

// durationText writes a duration as a person does: 1h, and not 1h0m0s.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
