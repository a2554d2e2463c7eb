package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// expression is PromQL from one of the files, with the labels that are shown of its result.
type expression struct {
	where, text string
	shown       []string
}

var (
	inLegend  = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}`)
	variables = regexp.MustCompile(`label_values\((\w+), (\w+)\)`)
)

func shownIn(text string) []string {
	var labels []string
	for _, m := range inLegend.FindAllStringSubmatch(text, -1) {
		labels = append(labels, m[1])
	}
	return labels
}

// expressions reads the dashboard and the rules.
func expressions(t *testing.T) []expression {
	t.Helper()
	is := is.New(t)
	var all []expression
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
			all = append(all, expression{p.Title, target.Expr, shownIn(target.LegendFormat)})
		}
	}
	for _, v := range dashboard.Templating.List {
		if m := variables.FindStringSubmatch(v.Definition); m != nil {
			all = append(all, expression{"variable " + v.Name, fmt.Sprintf("sum by (%s) (%s)", m[2], m[1]), []string{m[2]}})
		}
	}
	text, err = os.ReadFile("alerts.yml")
	is.NoErr(err)
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	is.NoErr(yaml.Unmarshal(text, &rules))
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			var shown []string
			for _, text := range r.Annotations {
				shown = append(shown, shownIn(text)...)
			}
			all = append(all, expression{r.Alert, r.Expr, shown})
		}
	}
	return all
}

var (
	byLabels = regexp.MustCompile(`\bby \(([^)]*)\)`)
	selector = regexp.MustCompile(`\b((?:pulse|messaging)_\w+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)(=~|!=|=)"([^"]*)"`)
)

// problems says what of the expression the families do not have.
func (e expression) problems(families map[string]*dto.MetricFamily) []string {
	var problems []string
	wrong := func(format string, args ...any) {
		problems = append(problems, e.where+": "+fmt.Sprintf(format, args...))
	}
	var grouped []string
	for _, by := range byLabels.FindAllStringSubmatch(e.text, -1) {
		grouped = append(grouped, strings.Split(by[1], ", ")...)
	}
	selected := selector.FindAllStringSubmatch(byLabels.ReplaceAllString(e.text, ""), -1)
	if len(selected) == 0 {
		wrong("%q selects no metric", e.text)
	}
	for _, s := range selected {
		labels, ok := labelsOf(families, s[1])
		if !ok {
			wrong("the metric %s is not exported", s[1])
			continue
		}
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			values, known := labels[m[1]]
			if !known {
				wrong("%s has no label %s", s[1], m[1])
			}
			for _, value := range strings.Split(m[3], "|") {
				if known && m[2] != "!=" && !strings.HasPrefix(value, "$") && !slices.Contains(values, value) {
					wrong("%s is never %q in %s, but one of %q", m[1], value, s[1], values)
				}
			}
		}
		for _, label := range grouped {
			if _, known := labels[label]; !known {
				wrong("%s has no label %s", s[1], label)
			}
		}
	}
	for _, label := range e.shown {
		if !slices.Contains(grouped, label) {
			wrong("it shows the label %s, which its result does not have", label)
		}
	}
	return problems
}

// labelsOf returns the labels of a metric with their values; of a histogram by the names of its series.
func labelsOf(families map[string]*dto.MetricFamily, name string) (map[string][]string, bool) {
	family, ok := families[name]
	bucket := false
	if !ok {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base, cut := strings.CutSuffix(name, suffix)
			if f := families[base]; cut && f != nil && f.GetType() == dto.MetricType_HISTOGRAM {
				family, ok, bucket = f, true, suffix == "_bucket"
			}
		}
	}
	if !ok || family.GetType() == dto.MetricType_HISTOGRAM && families[name] != nil {
		return nil, false // a histogram has no series of its own name
	}
	labels := map[string][]string{}
	if bucket {
		labels["le"] = nil
	}
	for _, m := range family.GetMetric() {
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
		}
	}
	return labels, true
}

// scrape does what Prometheus does.
func (w *watched) scrape(t *testing.T) map[string]*dto.MetricFamily {
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
	return families
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

// Every metric, label and value that the dashboard and the rules name is one that the running service exports, and
// what went wrong is counted where the alerts look.
func TestTelemetry_DashboardAndAlertsNameWhatIsExported(t *testing.T) {
	is := is.New(t)
	w := watch(t)
	for _, body := range []string{
		`{"id": "1", "article": "tea", "cents": 490}`, `{"id": "2", "article": "flaky", "cents": 1}`, `{"id": "3", "article": "tea", "cents": -1}`,
	} {
		is.Equal(w.order(t.Context(), t, body), http.StatusAccepted)
	}
	is.Equal(w.order(t.Context(), t, `{"id": "1", "article": "another", "cents": 1}`), http.StatusServiceUnavailable) // the ID is taken
	is.Equal(w.order(t.Context(), t, `{}`), http.StatusBadRequest)
	w.spans.waitFor(t, "process receipt.wanted", 4) // one of them again
	var families map[string]*dto.MetricFamily
	pulsetest.Eventually(t, "all is settled and told", func(ctx context.Context) error {
		families = w.scrape(t)
		receipts := map[string]string{"messaging_destination_name": "receipt.wanted"}
		with := func(name, value string) map[string]string {
			return map[string]string{"messaging_destination_name": "receipt.wanted", name: value}
		}
		if n := valueOf(families, "pulse_attempts_total", receipts); n != 4 {
			return fmt.Errorf("%v attempts", n)
		}
		for outcome, want := range map[string]float64{"success": 2, "retry": 1, "error": 1} {
			if n := valueOf(families, "pulse_attempts_total", with("pulse_outcome", outcome)); n != want {
				return fmt.Errorf("%v attempts with the outcome %s", n, outcome)
			}
		}
		if n := valueOf(families, "pulse_backlog", with("pulse_state", "failed")); n != 1 {
			return fmt.Errorf("%v failed deliveries", n)
		}
		return nil
	})
	all := expressions(t)
	is.True(len(all) > 25)
	for _, e := range all {
		for _, problem := range e.problems(families) {
			t.Error(problem)
		}
	}
}

// What is not exported would be found.
func TestTelemetry_WhatIsNotExportedIsFound(t *testing.T) {
	is := is.New(t)
	label := func(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }
	histogram := dto.MetricType_HISTOGRAM
	families := map[string]*dto.MetricFamily{
		"pulse_a": {Metric: []*dto.Metric{{Label: []*dto.LabelPair{label("state", "on")}}}},
		"pulse_h": {Type: &histogram, Metric: []*dto.Metric{{}}},
	}
	for text, found := range map[string]int{
		`sum by (state) (pulse_a{state="on"})`:         0,
		`sum by (state) (pulse_a{state=~"$state|on"})`: 0,
		`pulse_a{state!="off"}`:                        0,
		`sum by (le) (rate(pulse_h_bucket[5m]))`:       0,
		`pulse_h_sum / pulse_h_count`:                  0,
		`pulse_b`:                                      1,
		`pulse_h`:                                      1,
		`pulse_h_total`:                                1,
		`pulse_a{state="off"}`:                         1,
		`pulse_a{other="on"}`:                          1,
		`sum by (other) (pulse_a)`:                     1,
		`sum by (le) (pulse_h_sum)`:                    1,
		`up`:                                           1,
	} {
		is.Equal(len(expression{text: text}.problems(families)), found) // of the text
	}
	is.Equal(len(expression{text: "sum(pulse_a)", shown: []string{"state"}}.problems(families)), 1)
	is.Equal(shownIn("{{state}} {{ $labels.topic }} {{ $value }}"), []string{"state", "topic"})
}
