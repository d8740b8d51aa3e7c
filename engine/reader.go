package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"culprit/measure"

	"github.com/prometheus/common/model"
)

const (
	// lead is the time before a query in which its first sample is looked for: a counter needs one
	// before the first cell. It fits two samples a minute apart.
	lead = 150 * measure.Second
	// maxRaw is the longest time that is read sample by sample: 1,440 samples per series at 15 s.
	// Longer times are read in coarsePoints steps.
	maxRaw       = 360 * measure.Minute
	coarsePoints = 960
	// maxValues bounds the cells of all rows of an answer.
	maxValues = 8 << 20
)

// Host is the recording of one host in an engine. It is a measure.Reader. Safe for concurrent use.
type Host struct {
	client *Client
	name   string // value of the client's label
	stats  map[measure.StatID]*measure.Stat
	over   measure.Interval // the time with samples, when it was opened
	step   measure.Span     // the time between two samples
}

// Ask implements measure.Reader. Cells are at least as long as the time between two samples; they
// then begin at multiples of their length. Values within a cell are interpolated between samples.
// The error is ErrUnsupported if servers do not send the statistic or one of the fields,
// ErrTooLarge, or that of the engine.
func (h *Host) Ask(ctx context.Context, q measure.Query) (*measure.Answer, error) {
	a, err := h.ask(ctx, q)
	if err != nil && !errors.Is(err, measure.ErrUnsupported) { // which has the query
		err = fmt.Errorf("ask %s: %w", q, err)
	}
	return a, err
}

func (h *Host) ask(ctx context.Context, q measure.Query) (*measure.Answer, error) {
	st := h.stats[q.Stat]
	if st == nil {
		return nil, fmt.Errorf("%s is not sent to engines: %w", q.Stat, measure.ErrUnsupported)
	}
	m, err := metricOf(st, q)
	if err != nil {
		return nil, err
	}
	if q.Over == (measure.Interval{}) {
		q.Over = h.over
	}
	if q.Over.Span() <= 0 {
		return nil, fmt.Errorf("the time %v is empty", q.Over)
	}
	if m.isDist {
		return h.askDists(ctx, st, &m, q)
	}
	found, notes, err := h.client.samples(ctx, &m, h.client.only(h.name), q)
	if err != nil {
		return nil, err
	}
	t := newTable(st, q, &m, found, intervalOf(found, h.step))
	t.notes = append(notes, m.notes...)
	return t.answer(found)
}

// only returns the matcher of one host.
func (c *Client) only(name string) string { return matcher(c.label, "=", name) }

// samples returns the samples of the series of a query within its time and a little more, oldest
// first, and the warnings of the engine.
func (c *Client) samples(
	ctx context.Context, m *metric, hosts string, q measure.Query,
) (model.Matrix, []string, error) {
	series := m.selector(hosts)
	if span := q.Over.Span(); span > maxRaw {
		step := defaultInterval
		step *= (span/coarsePoints + step - 1) / step
		if !m.counter {
			series = fmt.Sprintf("avg_over_time(%s[%ds])", series, step/measure.Second)
		}
		over := measure.Interval{
			Start: floor(q.Over.Start, step).Add(-step), End: floor(q.Over.End.Add(step-1), step),
		}
		return c.steps(ctx, series, over, step)
	}
	from, to := q.Over.Start.Add(-lead), q.Over.End.Add(lead/2)
	seconds := (to.Sub(from) + measure.Second - 1) / measure.Second
	return c.matrix(ctx, fmt.Sprintf("%s[%ds]", series, seconds), to)
}

// floor returns the greatest multiple of s that is not after t.
func floor(t measure.Time, s measure.Span) measure.Time { return t - t%measure.Time(s) }

// table collects the rows of an answer.
type table struct {
	grid
	stat     *measure.Stat
	query    measure.Query
	metric   *metric
	interval measure.Span // between samples
	notes    []string

	elapsed []measure.Span
	labels  []string
	index   map[string]measure.Label
	rows    map[string]*folded
	order   []*folded
}

// folded is a row of the answer, to which one series or more fold.
type folded struct {
	key    []measure.Label
	values []float64
	count  []int32 // series with a value, per cell
}

func newTable(
	st *measure.Stat, q measure.Query, m *metric, found model.Matrix, interval measure.Span,
) *table {
	t := &table{stat: st, query: q, metric: m, interval: interval}
	t.index, t.rows = map[string]measure.Label{}, map[string]*folded{}
	t.grid = gridOf(q, t.interval)
	t.elapsed = make([]measure.Span, t.cells)
	return t
}

// gridOf returns the cells of a query over samples of an interval.
func gridOf(q measure.Query, interval measure.Span) grid {
	step, over := q.Step, q.Over
	switch {
	case step <= 0:
		step = max(interval, over.Span()/coarsePoints)
		fallthrough
	case step < interval:
		step = max(step, interval)
		over.Start = floor(over.Start, step)
		over.End = floor(over.End.Add(step-1), step)
	}
	n := (over.Span() + step - 1) / step
	return grid{over.Start, step, int(n)}
}

// answer returns the answer from the series.
func (t *table) answer(found model.Matrix) (*measure.Answer, error) {
	if len(found) > 0 && t.cells > maxValues/len(found) {
		return nil, fmt.Errorf("%d rows of %d cells: ask for a shorter time, longer cells or "+
			"fewer fields: %w", len(found), t.cells, measure.ErrTooLarge)
	}
	read := make([]*row, len(found))
	for i, s := range found {
		if !t.metric.matches(s.Metric) {
			continue
		}
		if t.metric.counter {
			read[i] = t.counter(s.Values, t.interval)
		} else {
			read[i] = t.gauge(s.Values, t.interval)
		}
		for c, covered := range read[i].covered {
			t.elapsed[c] = max(t.elapsed[c], covered)
		}
	}
	for i, r := range read {
		if r != nil {
			t.fold(t.row(found[i].Metric), r)
		}
	}
	a := &measure.Answer{
		Query: t.query, Kind: t.stat.Kind, Unit: t.stat.AnswerUnit(), Sparse: t.stat.Sparse,
		Start: t.start, Step: t.step, Elapsed: t.elapsed, Labels: t.labels, Notes: t.notes,
	}
	for _, f := range t.order {
		a.Series = append(a.Series, measure.Series{Key: f.key, Values: t.values(f)})
	}
	t.top(a)
	return a, nil
}

// row returns the row of a series' labels.
func (t *table) row(labels model.Metric) *folded {
	words := make([]string, len(t.query.By))
	for i, f := range t.query.By {
		words[i] = valueOf(labels, f)
	}
	text := strings.Join(words, "\xff")
	f := t.rows[text]
	if f == nil {
		f = &folded{values: make([]float64, t.cells), count: make([]int32, t.cells)}
		for _, w := range words {
			f.key = append(f.key, t.label(w))
		}
		t.rows[text] = f
		t.order = append(t.order, f)
	}
	return f
}

func (t *table) label(text string) measure.Label {
	l, ok := t.index[text]
	if !ok {
		l = measure.Label(len(t.labels))
		t.index[text] = l
		t.labels = append(t.labels, text)
	}
	return l
}

// fold adds a series to a row. An amount is per second of the time that was measured of any series,
// a level is the mean of the time that was measured of this one.
func (t *table) fold(f *folded, r *row) {
	for c, covered := range r.covered {
		if covered == 0 {
			continue
		}
		if t.metric.counter {
			covered = t.elapsed[c]
		}
		v := r.sum[c] / covered.Seconds()
		if !t.metric.counter {
			v *= t.metric.per
		}
		sum, n := t.stat.Fold.Combine(f.values[c], int(f.count[c]), v)
		f.values[c], f.count[c] = sum, int32(n)
	}
}

// values returns the values of a row. A cell without a sample is unknown; 0 if rows that are 0 are
// left out and something was measured.
func (t *table) values(f *folded) []float64 {
	for c, n := range f.count {
		if n == 0 && !(t.stat.Sparse && t.elapsed[c] > 0) {
			f.values[c] = measure.NaN
		}
	}
	return f.values
}

// top leaves out the rows beyond Query.Top, those with the smallest means.
func (t *table) top(a *measure.Answer) {
	n := t.query.Top
	if n <= 0 || len(a.Series) <= n {
		return
	}
	means := map[*float64]float64{}
	for i := range a.Series {
		means[&a.Series[i].Values[0]] = a.Mean(i)
	}
	slices.SortStableFunc(a.Series, func(x, y measure.Series) int {
		return cmp.Compare(means[&y.Values[0]], means[&x.Values[0]]) // NaN is last
	})
	rest := a.Series[n:]
	a.Series = a.Series[:n:n]
	a.Rest.Rows = len(rest)
	if !t.stat.AddsUp(t.query) {
		return
	}
	a.Rest.Values = make([]float64, t.cells)
	for c := range a.Rest.Values {
		sum, n := measure.NaN, 0
		for i := range rest {
			sum, n = measure.Sum.Combine(sum, n, rest[i].Values[c])
		}
		a.Rest.Values[c] = sum
	}
}
