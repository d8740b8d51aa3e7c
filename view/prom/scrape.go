package prom

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"

	"culprit/measure"
	"culprit/view"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

const (
	// mostScraped is how many series a scrape has at most: of more, the widest metrics are left out.
	mostScraped = 2000
	// mostKept is how many rows of counters are kept between scrapes.
	mostKept = 10 * mostScraped
)

// Scraper writes what is recorded in Prometheus's text format: the metrics that remote write sends. Counters are summed from
// when the server began, up to the newest tick of each scrape, so they cost nothing while nobody scrapes. Safe for several
// goroutines.
type Scraper struct {
	api *API

	mu      sync.Mutex // guards what follows
	metrics map[string]*scraped
	kept    int            // rows of all counters
	out     map[string]cut // what the newest scrape left out, by metric
}

// scraped is a metric between scrapes.
type scraped struct {
	settled measure.Time      // up to which amounts are in the rows' sums for good
	rows    map[string]*tally // of a counter, by labels
}

// tally is a row of a counter. Its value is settled + recent.
type tally struct {
	settled float64      // amounts up to scraped.settled
	recent  float64      // amounts after it, which late parts of ticks may still raise
	seen    measure.Time // the end of the newest scrape that had the row
}

// cut is how much of a metric is left out.
type cut uint8

const (
	zeros cut = iota + 1 // the counters that have never moved
	whole
)

// NewScraper returns a scraper that has not been asked yet.
func (a *API) NewScraper() *Scraper {
	return &Scraper{api: a, metrics: map[string]*scraped{}, out: map[string]cut{}}
}

// family is a metric of one scrape: the lines of its rows.
type family struct {
	metric  *metric
	rows    []line
	failure string // why there are no rows; "" for none
	dropped int    // rows that are left out
}

// line is the text of a row, its labels and value.
type line struct {
	labels string
	value  float64
}

// Append appends the metrics that are wanted, by the ID of their statistic, as they are at the end of over; counters since its
// start. At most mostScraped series come: culprit_server_scrape_dropped_series says how many of which metric are left out. The
// error is the context's; a metric that can't be read is a comment with the reason.
func (s *Scraper) Append(ctx context.Context, b []byte, over measure.Interval, wanted func(measure.StatID) bool) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*family
	known := map[string]bool{}
	for _, m := range metrics(s.api.datasets()) {
		if !isWritten(m) {
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
			delete(s.metrics, name) // it is no longer recorded
		}
	}
	s.fit(all)
	for _, f := range all {
		b = f.append(b)
	}
	return appendDropped(b, all), nil
}

// family reads a metric. A question that fails is told in the family; the error is the context's.
func (s *Scraper) family(ctx context.Context, m *metric, over measure.Interval) (*family, error) {
	f := &family{metric: m}
	var err error
	if m.shape == counter {
		err = s.counter(ctx, f, over)
	} else {
		var all []reading
		cells := 1 + (latePart+m.step-1)/m.step
		all, err = s.read(ctx, m, measure.Interval{Start: over.End.Add(-m.step * cells), End: over.End}, m.step)
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

// reading is the value of a row over a time: of a gauge, or the mean rate of a counter, and how much of the time was measured.
type reading struct {
	labels  string
	value   float64
	elapsed measure.Span
}

// read asks for the rows of a metric over a time, in cells of a length; it returns those of the newest cell in which the metric was
// measured: the newest tick may not be there yet, or be missing.
func (s *Scraper) read(ctx context.Context, m *metric, over measure.Interval, step measure.Span) ([]reading, error) {
	if over.Span() <= 0 {
		return nil, nil
	}
	var all []reading
	seen := map[string]bool{} // two datasets may have a row
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

// counter adds what came since the scrape before to the rows of a counter, and writes those that are there: in the newest
// seconds, or for a sparse statistic in the last idleRow.
func (s *Scraper) counter(ctx context.Context, f *family, over measure.Interval) error {
	m := f.metric
	c := s.metrics[m.name]
	if c == nil {
		c = &scraped{settled: over.Start, rows: map[string]*tally{}}
		s.metrics[m.name] = c
	}
	until := max(c.settled, over.End.Add(-latePart))
	settled, err := s.read(ctx, m, measure.Interval{Start: c.settled, End: until}, until.Sub(c.settled))
	if err != nil {
		return err
	}
	recent, err := s.read(ctx, m, measure.Interval{Start: until, End: over.End}, over.End.Sub(until))
	if err != nil {
		return err
	}
	for _, r := range settled {
		if row := s.row(c, r.labels, until); row != nil {
			row.settled += m.amount(r.value, r.elapsed)
		}
	}
	c.settled = until
	for _, r := range c.rows {
		r.recent = 0
	}
	for _, r := range recent {
		if row := s.row(c, r.labels, over.End); row != nil {
			row.recent = m.amount(r.value, r.elapsed)
		} else {
			f.dropped++
		}
	}
	stays := measure.Span(0)
	if m.stat.Sparse {
		stays = idleRow
	}
	for labels, r := range c.rows {
		if r.seen.Add(stays) < over.End {
			delete(c.rows, labels)
			s.kept--
			continue
		}
		f.rows = append(f.rows, line{labels, m.value(r.settled + r.recent)})
	}
	return nil
}

// row returns the row of a counter that was seen up to a time; nil when there are mostKept.
func (s *Scraper) row(c *scraped, labels string, at measure.Time) *tally {
	r := c.rows[labels]
	if r == nil {
		if s.kept >= mostKept {
			return nil
		}
		r = &tally{}
		c.rows[labels] = r
		s.kept++
	}
	r.seen = max(r.seen, at)
	return r
}

// fit leaves out what is beyond mostScraped: of the widest metrics first the counters that have never moved, then whole
// metrics. What was left out before comes back only when there is a tenth of mostScraped to spare, so that no metric comes and goes.
func (s *Scraper) fit(all []*family) {
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b *family) int { return cmp.Compare(len(b.rows), len(a.rows)) })
	total := 0
	for _, f := range all {
		total += len(f.rows)
	}
	out := map[string]cut{}
	for _, level := range []cut{zeros, whole} {
		for _, f := range order {
			limit := mostScraped
			if s.out[f.metric.name] >= level {
				limit -= mostScraped / 10
			}
			if total <= limit {
				continue
			}
			if n := f.leave(level); n > 0 {
				total -= n
				out[f.metric.name] = level
			}
		}
	}
	s.out = out
}

// leave leaves rows out and returns how many.
func (f *family) leave(level cut) int {
	n := len(f.rows)
	f.rows = slices.DeleteFunc(f.rows, func(l line) bool {
		return level == whole || f.metric.shape == counter && l.value == 0
	})
	n -= len(f.rows)
	f.dropped += n
	return n
}

// append appends the metric in the text format.
func (f *family) append(b []byte) []byte {
	if f.failure != "" {
		return view.AppendMetricComment(b, string(f.metric.stat.ID)+" is missing: "+f.failure)
	}
	help := string(f.metric.stat.ID) + ": " + f.metric.stat.Help
	switch f.metric.shape {
	case counter:
		help += "; since the server began"
	case rate:
		help += "; per second of measured time"
	}
	b = view.AppendMetric(b, f.metric.name, f.metric.shape.kind(), help)
	for _, l := range f.rows {
		b = view.AppendSample(b, f.metric.name, l.labels, l.value)
	}
	return b
}

// appendDropped appends how many series of which metric are left out.
func appendDropped(b []byte, all []*family) []byte {
	const name = "culprit_server_scrape_dropped_series"
	b = view.AppendMetric(b, name, "gauge", "Series that this scrape leaves out, by metric: a scrape has at most "+
		strconv.Itoa(mostScraped)+". Of the widest metrics the counters that are 0 are left out first; remote write sends all.")
	for _, f := range all {
		if f.dropped > 0 {
			b = view.AppendSample(b, name, string(view.AppendLabel(nil, "metric", f.metric.name)), float64(f.dropped))
		}
	}
	return b
}

// labelText returns labels as the text format has them, without the metric's name and the braces: field="text",... "" without
// fields.
func labelText(all labels.Labels) string {
	var b []byte
	all.Range(func(l labels.Label) {
		if l.Name != model.MetricNameLabel {
			b = view.AppendLabel(b, l.Name, l.Value)
		}
	})
	return string(b)
}
