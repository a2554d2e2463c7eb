package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// store holds scrapes as series. It is a storage.Queryable.
type store struct {
	times  []time.Time
	series []*promql.Series
	byName map[string]*promql.Series
}

// read parses scrapes. A series that a scrape does not have any more ends there, as it does in Prometheus.
func read(scrapes []string, every time.Duration) (*store, error) {
	if len(scrapes) == 0 {
		return nil, errors.New("there is no scrape")
	}
	s := &store{byName: map[string]*promql.Series{}}
	begin := time.UnixMilli(1_800_000_000_000).UTC()
	for i, text := range scrapes {
		t := begin.Add(time.Duration(i) * every)
		s.times = append(s.times, t)
		if err := s.scrape(text, t.UnixMilli()); err != nil {
			return nil, fmt.Errorf("scrape %d: %w", i, err)
		}
	}
	slices.SortFunc(s.series, func(a, b *promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
	return s, nil
}

func (s *store) scrape(text string, at int64) error {
	parser, err := textparse.New([]byte(text), "text/plain; version=0.0.4", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return err
	}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var name labels.Labels
		parser.Labels(&name)
		_, _, v := parser.Series()
		one, ok := s.byName[name.String()]
		if !ok {
			one = &promql.Series{Metric: name}
			s.byName[name.String()] = one
			s.series = append(s.series, one)
		}
		one.Floats = append(one.Floats, promql.FPoint{T: at, F: v})
	}
	for _, one := range s.series {
		if last := one.Floats[len(one.Floats)-1]; last.T != at && !value.IsStaleNaN(last.F) {
			one.Floats = append(one.Floats, promql.FPoint{T: at, F: math.Float64frombits(value.StaleNaN)})
		}
	}
	return nil
}

// has tells whether any series fits.
func (s *store) has(matchers []*labels.Matcher) bool {
	return slices.ContainsFunc(s.series, func(one *promql.Series) bool { return fits(one, matchers) })
}

func fits(one *promql.Series, matchers []*labels.Matcher) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.Metric.Get(m.Name)) })
}

// Querier returns a querier of all that is stored.
func (s *store) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		found := &set{}
		for _, one := range s.series {
			if fits(one, matchers) {
				found.series = append(found.series, promql.NewStorageSeries(*one))
			}
		}
		return found
	}}, nil
}

// set is a result.
type set struct {
	series []storage.Series
	next   int
}

// Next goes to the next series.
func (s *set) Next() bool { s.next++; return s.next <= len(s.series) }

// At is the series.
func (s *set) At() storage.Series { return s.series[s.next-1] }

// Err is nil: nothing that is in memory fails.
func (s *set) Err() error { return nil }

// Warnings are none.
func (s *set) Warnings() annotations.Annotations { return nil }
