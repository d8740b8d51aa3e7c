package prom

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"culprit/export"
	"culprit/measure"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// sampleSensitive are the functions whose result depends on the number or choice of samples in a
// range: they get the samples as they were recorded, however many.
// table: a constant that Go cannot express
var sampleSensitive = map[string]bool{
	"count_over_time": true, "sum_over_time": true, "stddev_over_time": true,
	"stdvar_over_time": true, "quantile_over_time": true, "mad_over_time": true, "changes": true,
	"resets": true, "irate": true, "idelta": true, "first_over_time": true,
	"ts_of_max_over_time": true, "ts_of_min_over_time": true, "ts_of_first_over_time": true,
	"ts_of_last_over_time": true, "timestamp": true,
}

// querier answers the selectors of one query. It implements storage.Querier, for one goroutine.
type querier struct {
	metrics    []*metric
	fetcher    fetcher
	now        measure.Time
	mint, maxt int64
}

// metrics returns the current metrics.
func (a *API) metrics() []*metric {
	if a.known != nil {
		return a.known
	}
	return metrics(a.datasets())
}

// Querier implements storage.Queryable, for Prometheus's engine. The error is always nil.
func (a *API) Querier(mint, maxt int64) (storage.Querier, error) {
	q := &querier{
		metrics: a.metrics(), now: measure.Time(a.now().UnixNano()), mint: mint, maxt: maxt,
	}
	q.fetcher = &asker{a.reader, q.now, maxSamples}
	if a.fetcher != nil {
		q.fetcher = a.fetcher(q.now)
	}
	return q, nil
}

// Close implements storage.Querier.
func (q *querier) Close() error { return nil }

// Select implements storage.Querier. Notes of an answer become infos, losses become warnings.
func (q *querier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints,
	matchers ...*labels.Matcher,
) storage.SeriesSet {
	h := storage.SelectHints{Start: q.mint, End: q.maxt}
	if hints != nil {
		h = *hints
	}
	set := &seriesSet{at: -1}
	seen := map[uint64]labels.Labels{}
	for _, m := range q.metrics {
		terms, rest, ok := m.plan(matchers)
		if !ok {
			continue
		}
		over, cell := q.grid(m, &h)
		if over.Start >= over.End {
			continue
		}
		for _, where := range m.where {
			terms := append(slices.Clone(where), terms...)
			t, err := q.fetcher.fetch(ctx, m, terms, over, cell, chooser(&h, m))
			if err != nil {
				return storage.ErrSeriesSet(err)
			}
			for _, l := range t.loss {
				set.warnings.Add(fmt.Errorf("%s: %s, %d lost", m.stat.ID, l.Reason, l.Events))
			}
			for _, n := range t.notes {
				set.warnings.Add(fmt.Errorf("%w: %s: %s", annotations.PromQLInfo, m.stat.ID, n))
			}
			if m.shape == export.Counter && t.falls() {
				rates := strings.TrimSuffix(m.name, m.shape.Suffix()) + export.Rate.Suffix()
				set.warnings.Add(fmt.Errorf("%s can also decrease, so %s is not a counter: use %s",
					m.stat.ID, m.name, rates))
			}
			for _, r := range t.rows {
				if !r.wanted(rest) || h.Func == "series" && !t.has(r) {
					continue
				}
				l := m.labels(r.key)
				if other, ok := seen[l.Hash()]; ok && labels.Equal(l, other) {
					continue
				}
				seen[l.Hash()] = l
				if err := charge(ctx, l); err != nil {
					return storage.ErrSeriesSet(err)
				}
				set.series = append(set.series,
					&series{labels: l, metric: m, table: t, row: r, mint: h.Start, maxt: h.End})
			}
		}
	}
	if sorted {
		slices.SortFunc(set.series, func(a, b *series) int {
			return labels.Compare(a.labels, b.labels)
		})
	}
	return set
}

// grid returns the interval to query and the length of its cells. The cells are as recorded, or
// longer where the answer is the same and there would be more than budget. They are short enough
// for five samples in a range, one in a step of a graph, and one in the time that the engine looks
// back from a moment.
func (q *querier) grid(m *metric, h *storage.SelectHints,
) (over measure.Interval, cell measure.Span) {
	end := min(fromMS(h.End), q.now.Add(measure.Minute))
	start := max(fromMS(h.Start), m.oldest)
	if end <= start {
		return over, m.step
	}
	want := max(end.Sub(start)/budget, m.step)
	limit := lookback / 2
	switch {
	case h.Func == "series":
		want, limit = max(end.Sub(start)/60, m.step), 60*measure.Minute
	case h.Range > 0:
		limit = measure.Span(h.Range) * measure.Millisecond / 5
	case h.Step > 0:
		limit = min(limit, measure.Span(h.Step)*measure.Millisecond)
	}
	cell = m.step
	if !sampleSensitive[h.Func] {
		for _, s := range steps {
			if s > cell && cell < want && s <= limit && s%m.step == 0 {
				cell = s
			}
		}
	}
	// The interval starts at a whole minute, which the coarser resolutions have too, and a cell
	// before the first: this shows whether a row was present before. It ends a cell after the last,
	// at whose start a row may appear.
	grain := max(measure.Minute, cell)
	return measure.Interval{Start: floor(start.Add(-cell), grain),
		End: floor(end, cell).Add(cell)}, cell
}

func fromMS(t int64) measure.Time {
	const most = int64(1<<62) / 1e6
	return measure.Time(min(max(t, -most), most)) * 1e6
}

// chooser returns which values of a cell are selected: the greatest for max_over_time, the least
// for min_over_time, the means for others.
func chooser(h *storage.SelectHints, m *metric) choice {
	switch {
	case m.shape == export.Counter:
	case h.Func == "max_over_time":
		return greatest
	case h.Func == "min_over_time":
		return least
	}
	return means
}

// LabelValues implements storage.Querier. Names of metrics are listed without a query for rows.
func (q *querier) LabelValues(ctx context.Context, name string, _ *storage.LabelHints,
	matchers ...*labels.Matcher,
) ([]string, annotations.Annotations, error) {
	values := map[string]bool{}
	other := func(m *labels.Matcher) bool { return m.Name != model.MetricNameLabel }
	if name == model.MetricNameLabel && !slices.ContainsFunc(matchers, other) {
		for _, m := range q.metrics {
			if matches(matchers, model.MetricNameLabel, m.name) {
				values[m.name] = true
			}
		}
		return keys(values), nil, nil
	}
	present, err := labels.NewMatcher(labels.MatchNotEqual, name, "")
	if err != nil {
		return nil, nil, err
	}
	hints := &storage.SelectHints{Start: q.mint, End: q.maxt, Func: "series"}
	set := q.Select(ctx, false, hints, append(slices.Clone(matchers), present)...)
	for set.Next() {
		values[set.At().Labels().Get(name)] = true
	}
	return keys(values), set.Warnings(), set.Err()
}

// LabelNames implements storage.Querier. Without matchers it returns the fields of all metrics,
// without a query for rows.
func (q *querier) LabelNames(ctx context.Context, _ *storage.LabelHints,
	matchers ...*labels.Matcher,
) ([]string, annotations.Annotations, error) {
	names := map[string]bool{}
	if len(matchers) == 0 {
		for _, m := range q.metrics {
			names[model.MetricNameLabel] = true
			for _, f := range m.by {
				names[f] = true
			}
		}
		return keys(names), nil, nil
	}
	hints := &storage.SelectHints{Start: q.mint, End: q.maxt, Func: "series"}
	set := q.Select(ctx, false, hints, matchers...)
	for set.Next() {
		set.At().Labels().Range(func(l labels.Label) { names[l.Name] = true })
	}
	return keys(names), set.Warnings(), set.Err()
}

func keys(m map[string]bool) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func matches(matchers []*labels.Matcher, name, text string) bool {
	for _, m := range matchers {
		if m.Name == name && !m.Matches(text) {
			return false
		}
	}
	return true
}

// check is a matcher that the reader cannot decide, with the index of its field in the key.
type check struct {
	at      int
	matcher *labels.Matcher
}

// plan divides matchers into terms for the reader and checks for the rows. It reports false when no
// row of the metric can match.
func (m *metric) plan(matchers []*labels.Matcher) (terms []measure.Term, rest []check, ok bool) {
	for _, l := range matchers {
		at := slices.Index(m.by, l.Name)
		switch {
		case l.Name == model.MetricNameLabel:
			if !l.Matches(m.name) {
				return nil, nil, false
			}
		case at < 0:
			if !l.Matches("") {
				return nil, nil, false
			}
		default:
			t, same := term(l)
			if same {
				terms = append(terms, t...)
			} else {
				rest = append(rest, check{at, l})
			}
		}
	}
	return terms, rest, true
}

// term returns a matcher as terms, and whether any are exactly equivalent.
func term(l *labels.Matcher) ([]measure.Term, bool) {
	op, values := measure.Equal, []string{l.Value}
	switch l.Type {
	case labels.MatchNotEqual:
		op = measure.NotEqual
	case labels.MatchRegexp, labels.MatchNotRegexp:
		op, values = measure.In, l.SetMatches()
		if len(values) == 0 || len(values) > 1000 {
			return nil, false
		}
	}
	values = slices.Clone(values)
	for i, v := range values {
		var ok bool
		if values[i], ok = export.Value(l.Name, v); !ok {
			return nil, false
		}
	}
	if l.Type != labels.MatchNotRegexp {
		return []measure.Term{{Field: l.Name, Op: op, Values: values}}, true
	}
	var terms []measure.Term
	for _, v := range values {
		not := measure.Term{Field: l.Name, Op: measure.NotEqual, Values: []string{v}}
		terms = append(terms, not)
	}
	return terms, true
}

// wanted reports whether a row passes all checks.
func (r *row) wanted(rest []check) bool {
	for _, c := range rest {
		if !c.matcher.Matches(export.Label(c.matcher.Name, r.key[c.at])) {
			return false
		}
	}
	return true
}

// labels returns the labels of a row. As in Prometheus, an empty value is no label.
func (m *metric) labels(key []string) labels.Labels {
	b := labels.NewScratchBuilder(len(key) + 1)
	b.Add(model.MetricNameLabel, m.name)
	for i, f := range m.by {
		if key[i] != "" {
			b.Add(f, export.Label(f, key[i]))
		}
	}
	b.Sort()
	return b.Labels()
}

// has reports whether a row has any value.
func (t *table) has(r *row) bool {
	for n := range t.stretches {
		number := func(v float64) bool { return v == v }
		if r.dists[n] != nil || slices.ContainsFunc(r.values[n], number) {
			return true
		}
	}
	return false
}

// falls reports whether an amount is negative.
func (t *table) falls() bool {
	for _, r := range t.rows {
		for _, vs := range r.values {
			if slices.ContainsFunc(vs, func(v float64) bool { return v < 0 }) {
				return true
			}
		}
	}
	return false
}

// seriesSet is the result of a selector.
type seriesSet struct {
	series   []*series
	at       int
	warnings annotations.Annotations
}

// Next implements storage.SeriesSet.
func (s *seriesSet) Next() bool { s.at++; return s.at < len(s.series) }

// At implements storage.SeriesSet.
func (s *seriesSet) At() storage.Series { return s.series[s.at] }

// Err implements storage.SeriesSet.
func (s *seriesSet) Err() error { return nil }

// Warnings implements storage.SeriesSet.
func (s *seriesSet) Warnings() annotations.Annotations { return s.warnings }
