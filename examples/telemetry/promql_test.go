package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// evaluation is what Prometheus makes of scrapes: .ci/promql has its parser and its engine.
type evaluation struct {
	Problems []string
	Firing   []struct {
		Alert               string
		Labels, Annotations map[string]string
		After               int
	}
	Queries [][]map[string]string
}

// evaluate evaluates the rules, and queries, over scrapes that are taken so many seconds from each other.
func evaluate(t *testing.T, every int, scrapes, queries []string) evaluation {
	t.Helper()
	is := is.New(t)
	rules, err := os.ReadFile("alerts.yml")
	is.NoErr(err)
	in, err := json.Marshal(map[string]any{"Rules": string(rules), "Queries": queries, "Scrapes": scrapes, "Every": every})
	is.NoErr(err)
	command := exec.CommandContext(t.Context(), "go", "run", "-C", "../../.ci/promql", ".")
	var said bytes.Buffer
	command.Stdin, command.Stderr = bytes.NewReader(in), &said
	text, err := command.Output()
	if err != nil {
		t.Fatalf("evaluate: %v\n%s", err, &said)
	}
	var out evaluation
	is.NoErr(json.Unmarshal(text, &out))
	return out
}

// fired are the names of the alerts, with the topic that they are about.
func (e evaluation) fired() []string {
	fired := []string{}
	for _, a := range e.Firing {
		fired = append(fired, strings.TrimSpace(a.Alert+" "+a.Labels["messaging_destination_name"]))
	}
	return fired
}

// query is one of the dashboard's, with the labels that are shown of its result.
type query struct {
	where, text string
	shown       []string
}

var (
	inLegend  = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
	variables = regexp.MustCompile(`label_values\((\w+), (\w+)\)`)
	// What Grafana puts in place of its variables when all groups and topics are chosen.
	chosen = strings.NewReplacer("$group", ".*", "$topic", ".*", "$__rate_interval", "1m")
)

// queries reads the dashboard.
func queries(t *testing.T) []query {
	t.Helper()
	is := is.New(t)
	var all []query
	text, err := os.ReadFile("dashboard.json")
	is.NoErr(err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	is.NoErr(json.Unmarshal(text, &dashboard))
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			q := query{where: p.Title, text: chosen.Replace(target.Expr)}
			for _, m := range inLegend.FindAllStringSubmatch(target.LegendFormat, -1) {
				q.shown = append(q.shown, m[1])
			}
			all = append(all, q)
		}
	}
	for _, v := range dashboard.Templating.List {
		if m := variables.FindStringSubmatch(v.Definition); m != nil {
			all = append(all, query{"variable " + v.Name, fmt.Sprintf("sum by (%s) (%s)", m[2], m[1]), []string{m[2]}})
		}
	}
	return all
}

// scrape does what Prometheus does, and returns the text and what is in it.
func (w *watched) scrape(t *testing.T) (string, map[string]*dto.MetricFamily) {
	t.Helper()
	is := is.New(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/metrics", nil)
	is.NoErr(err)
	resp, err := http.DefaultClient.Do(req)
	is.NoErr(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	is.NoErr(err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	is.NoErr(err)
	return string(text), families
}

// valueOf is the sum of a counter or gauge over the series with all these labels.
func valueOf(families map[string]*dto.MetricFamily, name string, labels map[string]string) float64 {
	sum := 0.0
	for _, m := range families[name].GetMetric() {
		matched := 0
		for _, l := range m.GetLabel() {
			if labels[l.GetName()] == l.GetValue() {
				matched++
			}
		}
		if matched == len(labels) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}
