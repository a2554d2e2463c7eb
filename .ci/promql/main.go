// Command promql does what Prometheus would do with scrapes of a service: it evaluates alert rules over them, and the
// queries of a dashboard at the last one. It reads a JSON document from the standard input and writes one to the
// standard output. It is a module of its own so that the product needs nothing of Prometheus.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/template"
)

// input is what to evaluate.
type input struct {
	// Rules is a file of alert rules, Queries are those of a dashboard, without variables.
	Rules   string
	Queries []string
	// Scrapes are what the service said, in the text format, the oldest first. They are taken Every seconds.
	Scrapes []string
	Every   int
}

// output is what came of it.
type output struct {
	// Problems are what would not be accepted, or selects nothing that the service has ever told.
	Problems []string
	// Firing has each alert once for each set of labels.
	Firing []alert
	// Queries has the labels of each query's series.
	Queries [][]map[string]string
}

type alert struct {
	Alert       string
	Labels      map[string]string
	Annotations map[string]string
	// After is the number of the scrape with which it fired first.
	After int
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "promql:", err)
		os.Exit(1)
	}
}

func run() error {
	var in input
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return err
	}
	stored, err := read(in.Scrapes, time.Duration(in.Every)*time.Second)
	if err != nil {
		return err
	}
	e := &evaluation{store: stored, parser: parser.NewParser(parser.Options{})}
	e.engine = promql.NewEngine(promql.EngineOpts{
		Logger: slog.New(slog.DiscardHandler), MaxSamples: 10_000_000, Timeout: time.Minute, Parser: e.parser,
	})
	if err := e.alerts(in.Rules); err != nil {
		return err
	}
	if err := e.queries(in.Queries); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(e.out)
}

type evaluation struct {
	store  *store
	parser parser.Parser
	engine *promql.Engine
	out    output
}

func (e *evaluation) problem(format string, args ...any) {
	e.out.Problems = append(e.out.Problems, fmt.Sprintf(format, args...))
}

// selects finds selectors that nothing has ever fitted: a metric, a label or a value of another name.
func (e *evaluation) selects(text string) error {
	expression, err := e.parser.ParseExpr(text)
	if err != nil {
		e.problem("%s: %v", text, err)
		return nil
	}
	return parser.Walk(visitor(func(node parser.Node) {
		if s, ok := node.(*parser.VectorSelector); ok && !e.store.has(s.LabelMatchers) {
			e.problem("%s: nothing is exported that %s selects", text, s)
		}
	}), expression, nil)
}

type visitor func(parser.Node)

// Visit visits every node.
func (v visitor) Visit(node parser.Node, _ []parser.Node) (parser.Visitor, error) {
	v(node)
	return v, nil
}

func (e *evaluation) at(text string, t time.Time) (promql.Vector, error) {
	query, err := e.engine.NewInstantQuery(context.Background(), e.store, nil, text, t)
	if err != nil {
		return nil, err
	}
	defer query.Close()
	result := query.Exec(context.Background())
	if result.Err != nil {
		return nil, fmt.Errorf("%s: %w", text, result.Err)
	}
	if s, ok := result.Value.(promql.Scalar); ok {
		return promql.Vector{{F: s.V}}, nil
	}
	return result.Vector()
}

// alerts evaluates the rules with each scrape. What holds for as long as the rule says fires.
func (e *evaluation) alerts(text string) error {
	groups, problems := rulefmt.Parse([]byte(text), false, model.UTF8Validation, e.parser, slog.New(slog.DiscardHandler))
	for _, p := range problems {
		e.problem("%v", p)
	}
	if len(problems) > 0 {
		return nil
	}
	for _, g := range groups.Groups {
		for _, rule := range g.Rules {
			if err := e.selects(rule.Expr); err != nil {
				return err
			}
			if err := e.alert(rule); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *evaluation) alert(rule rulefmt.Rule) error {
	since, fired := map[string]time.Time{}, map[string]bool{}
	for i, t := range e.store.times {
		vector, err := e.at(rule.Expr, t)
		if err != nil {
			return err
		}
		active := map[string]time.Time{}
		for _, sample := range vector {
			key := sample.Metric.String()
			active[key] = t
			if begun, ok := since[key]; ok {
				active[key] = begun
			}
			if t.Sub(active[key]) < time.Duration(rule.For) || fired[key] {
				continue
			}
			fired[key] = true
			a := alert{Alert: rule.Alert, Labels: sample.Metric.Map(), Annotations: map[string]string{}, After: i}
			for name, value := range rule.Annotations {
				if a.Annotations[name], err = expand(value, sample, t); err != nil {
					return fmt.Errorf("%s: the annotation %s: %w", rule.Alert, name, err)
				}
			}
			e.out.Firing = append(e.out.Firing, a)
		}
		since = active
	}
	return nil
}

// expand writes an annotation as it would be sent.
func expand(text string, sample promql.Sample, t time.Time) (string, error) {
	const names = "{{$labels := .Labels}}{{$value := .Value}}" // as Prometheus names them
	nothing := func(context.Context, string, time.Time) (promql.Vector, error) { return nil, nil }
	data := template.AlertTemplateData(sample.Metric.Map(), nil, "", sample)
	return template.NewTemplateExpander(context.Background(), names+text, "annotation", data, model.TimeFromUnixNano(t.UnixNano()), nothing, &url.URL{}, []string{"missingkey=error"}).Expand()
}

// queries evaluates what a dashboard shows after the last scrape.
func (e *evaluation) queries(texts []string) error {
	for _, text := range texts {
		before := len(e.out.Problems)
		if err := e.selects(text); err != nil {
			return err
		}
		series := []map[string]string{}
		if len(e.out.Problems) == before {
			vector, err := e.at(text, e.store.times[len(e.store.times)-1])
			if err != nil {
				return err
			}
			for _, sample := range vector {
				series = append(series, sample.Metric.MatchLabels(false, labels.MetricName).Map())
			}
		}
		e.out.Queries = append(e.out.Queries, series)
	}
	return nil
}
