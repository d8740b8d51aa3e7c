package prom

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"culprit/export"
	"culprit/measure"
	"culprit/view"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// maxCounterRows is the number of counter rows that are kept between scrapes.
const maxCounterRows = 10 * export.MaxSeries

// Scraper writes what is recorded in Prometheus's text format: the metrics that remote write sends.
// Counters are sums since the server began, up to the newest tick. Sums advance at a scrape only,
// so counters that nobody scrapes cost nothing. Safe for several goroutines.
type Scraper struct {
	api *API

	mu      sync.Mutex // guards what follows
	metrics map[string]*metricState
	kept    int // rows of all counters
	budget  export.Budget
}

// metricState is a metric between scrapes.
type metricState struct {
	first   measure.Time           // the end of its first scrape
	settled measure.Time           // the rows' sums contain all amounts up to it
	rows    map[string]*counterRow // of a counter, by labels
}

// counterRow is a row of a counter that has moved. Its value is settled + recent.
type counterRow struct {
	// born is the end of the scrape that found the row; that scrape has a 0, unless it is the
	// metric's first, so that increase() counts the amounts of a row that begins to move.
	born    measure.Time
	settled float64      // amounts up to metricState.settled
	recent  float64      // amounts after it, which late parts of ticks may still increase
	seen    measure.Time // the end of the newest scrape that had the row
}

// NewScraper returns a Scraper whose counters begin at the first scrape.
func (a *API) NewScraper() *Scraper {
	return &Scraper{api: a, metrics: map[string]*metricState{}}
}

// family is a metric in one scrape.
type family struct {
	metric  *metric
	rows    []line
	failure string // why the metric could not be read; ""
	dropped int    // rows that are omitted
}

// line is one row in the text format: its labels and value.
type line struct {
	labels string
	value  float64
}

// Append appends the exported metrics for which wanted reports true, as they are at the end of
// over; counters count from its start. Counters that never moved are left out. It appends at most
// export.MaxSeries series: culprit_server_scrape_dropped_series counts the omitted ones by metric.
// A metric that can't be read becomes a comment with the reason. The error is the context's.
func (s *Scraper) Append(ctx context.Context, b []byte, over measure.Interval,
	wanted func(measure.StatID) bool,
) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*family
	known := map[string]bool{}
	for _, m := range metrics(s.api.datasets()) {
		if !isScraped(m) {
			continue
		}
		known[m.name] = true
		if over.End == 0 || !wanted(m.stat.ID) {
			continue
		}
		f, err := s.family(ctx, m, over)
		if err != nil {
			return b, err
		}
		all = append(all, f)
	}
	for name := range s.metrics {
		if !known[name] {
			s.kept -= len(s.metrics[name].rows)
			delete(s.metrics, name) // it is not recorded any more
		}
	}
	s.limit(all)
	for _, f := range all {
		b = f.append(b)
	}
	return appendDropped(b, all), nil
}

// isScraped reports whether a metric is part of a scrape. The text format has no native histograms.
// The server writes its own metrics as they are now, in case the recording is the problem.
func isScraped(m *metric) bool {
	own := strings.HasPrefix(string(m.stat.ID), "server.")
	return m.exported && m.shape != export.Histogram && !own
}

// family reads a metric. A query that fails sets the family's failure; the error is the context's.
func (s *Scraper) family(ctx context.Context, m *metric, over measure.Interval) (*family, error) {
	f := &family{metric: m}
	var err error
	if m.shape == export.Counter {
		err = s.counter(ctx, f, over)
	} else {
		var all []reading
		cells := 1 + (maxLateness+m.step-1)/m.step
		newest := measure.Interval{Start: over.End.Add(-m.step * cells), End: over.End}
		all, err = s.read(ctx, m, newest, m.step)
		for _, r := range all {
			f.rows = append(f.rows, line{r.labels, m.value(r.value)})
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		f.failure, f.rows = err.Error(), nil
	}
	slices.SortFunc(f.rows, func(a, b line) int { return cmp.Compare(a.labels, b.labels) })
	return f, nil
}

// reading is the value of a row over an interval.
type reading struct {
	labels  string
	value   float64      // of a gauge; the mean rate of a counter
	elapsed measure.Span // how much of the interval was measured
}

// read queries the rows of a metric over an interval, in cells of the given length. It returns the
// rows of the newest measured cell: the newest tick may not be recorded yet.
func (s *Scraper) read(ctx context.Context, m *metric, over measure.Interval, step measure.Span,
) ([]reading, error) {
	if over.Span() <= 0 {
		return nil, nil
	}
	var all []reading
	seen := map[string]bool{} // two datasets may have the same row
	k := asker{reader: s.api.reader, now: over.End, left: maxSamples}
	for _, where := range m.where {
		a, err := k.ask(ctx, m, where, over, step)
		if err != nil {
			return nil, err
		}
		c := len(a.Elapsed) - 1
		for c >= 0 && a.Elapsed[c] <= 0 {
			c--
		}
		if c < 0 {
			continue
		}
		key := make([]string, len(a.Query.By))
		for i := range a.Series {
			series := &a.Series[i]
			if len(series.Values) <= c || series.Values[c] != series.Values[c] {
				continue
			}
			for j, l := range series.Key {
				key[j] = a.Labels[l]
			}
			if text := labelText(m.labels(key)); !seen[text] {
				seen[text] = true
				all = append(all, reading{text, series.Values[c], a.Elapsed[c]})
			}
		}
	}
	return all, nil
}

// counter adds the amounts since the scrape before to the rows of a counter, and sets the lines of
// present rows. A row is present when the newest seconds have it, or the last sparseHold of a
// sparse statistic.
func (s *Scraper) counter(ctx context.Context, f *family, over measure.Interval) error {
	m := f.metric
	c := s.metrics[m.name]
	if c == nil {
		c = &metricState{first: over.End, settled: over.Start, rows: map[string]*counterRow{}}
		s.metrics[m.name] = c
	}
	until := max(c.settled, over.End.Add(-maxLateness))
	settled, err := s.read(ctx, m, measure.Interval{Start: c.settled, End: until},
		until.Sub(c.settled))
	if err != nil {
		return err
	}
	recent, err := s.read(ctx, m, measure.Interval{Start: until, End: over.End},
		over.End.Sub(until))
	if err != nil {
		return err
	}
	for _, r := range settled {
		amount := m.amount(r.value, r.elapsed)
		if row := s.row(c, r.labels, amount, until, over.End); row != nil {
			row.settled += amount
		}
	}
	c.settled = until
	for _, r := range c.rows {
		r.recent = 0
	}
	for _, r := range recent {
		amount := m.amount(r.value, r.elapsed)
		if row := s.row(c, r.labels, amount, over.End, over.End); row != nil {
			row.recent = amount
		} else if amount != 0 {
			f.dropped++
		}
	}
	hold := measure.Span(0)
	if m.stat.Sparse {
		hold = sparseHold
	}
	for labels, r := range c.rows {
		if r.seen.Add(hold) < over.End {
			delete(c.rows, labels)
			s.kept--
			continue
		}
		value := m.value(r.settled + r.recent)
		if r.born == over.End && c.first != over.End {
			value = 0
		}
		f.rows = append(f.rows, line{labels, value})
	}
	return nil
}

// row returns the row of a counter and marks it as seen up to at. It returns nil for a row that
// never moved, and when a new row would exceed maxCounterRows. end is the end of the scrape.
func (s *Scraper) row(c *metricState, labels string, amount float64, at, end measure.Time,
) *counterRow {
	r := c.rows[labels]
	if r == nil {
		if amount == 0 || s.kept >= maxCounterRows {
			return nil
		}
		r = &counterRow{born: end}
		c.rows[labels] = r
		s.kept++
	}
	r.seen = max(r.seen, at)
	return r
}

// limit omits the metrics that the budget omits.
func (s *Scraper) limit(all []*family) {
	var widths []export.Width
	for _, f := range all {
		e := &f.metric.entry
		widths = append(widths, export.Width{
			Metric: f.metric.name, Series: len(f.rows), Bound: e.Bound, Keep: e.Keep,
		})
	}
	omitted := s.budget.Choose(widths)
	for _, f := range all {
		if omitted[f.metric.name] {
			f.dropped += len(f.rows)
			f.rows = nil
		}
	}
}

// append appends the metric in the text format.
func (f *family) append(b []byte) []byte {
	if f.failure != "" {
		return view.AppendMetricComment(b, string(f.metric.stat.ID)+" is missing: "+f.failure)
	}
	if len(f.rows) == 0 {
		return b
	}
	help := string(f.metric.stat.ID) + ": " + f.metric.stat.Help
	switch f.metric.shape {
	case export.Counter:
		help += "; since the server began"
	case export.Rate:
		help += "; per second of measured time"
	}
	b = view.AppendMetric(b, f.metric.name, f.metric.shape.Type(), help)
	for _, l := range f.rows {
		b = view.AppendSample(b, f.metric.name, l.labels, l.value)
	}
	return b
}

// appendDropped appends the number of omitted series by metric.
func appendDropped(b []byte, all []*family) []byte {
	const name = "culprit_server_scrape_dropped_series"
	help := "Series omitted from this scrape, by metric: a scrape has at most " +
		strconv.Itoa(export.MaxSeries) + ", and a metric at most its bound of docs/METRICS.md."
	b = view.AppendMetric(b, name, "gauge", help)
	for _, f := range all {
		if f.dropped > 0 {
			labels := string(view.AppendLabel(nil, "metric", f.metric.name))
			b = view.AppendSample(b, name, labels, float64(f.dropped))
		}
	}
	return b
}

// labelText returns labels in the text format, without the metric's name and the braces:
// field="text",... It returns "" without fields.
func labelText(all labels.Labels) string {
	var b []byte
	all.Range(func(l labels.Label) {
		if l.Name != model.MetricNameLabel {
			b = view.AppendLabel(b, l.Name, l.Value)
		}
	})
	return string(b)
}
