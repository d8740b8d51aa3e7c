package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"culprit/measure"

	"github.com/prometheus/common/model"
)

// Distributions
//
// A native histogram has buckets (lower, upper] in seconds. Those of an answer have other bounds:
// they begin at whole nanoseconds. The values of a native bucket are divided among the buckets of
// the answer that it overlaps, as if they were evenly spread:
//
//	native, schema 5     |  |  |  |  |  |  |  |  |  |  |  |  |  |  |  |  |
//	answer, Base 2       |        112 us        |         128 us         |        160 us
//
// A classic histogram has one series per upper bound, the label le. Its bounds are those of an
// answer of Base 0: each value is known to a power of two.

const (
	nativeBase, classicBase = 2, 0
	// maxRawDists is the longest time for which each sample of a distribution is read: a sample has
	// up to 4 kB. Longer times are read in coarseDists steps.
	maxRawDists = 60 * measure.Minute
	coarseDists = 240
	// cellBuckets is the number of buckets that a cell is assumed to have, for maxValues.
	cellBuckets = 64
)

// distCell is the values of a row in a cell: how many have each bucket, and their sum.
type distCell struct {
	counts map[int32]float64
	sum    float64
}

// add adds values that are evenly spread over (lower, upper], in buckets of base.
func (d *distCell) add(base uint8, lower, upper, count float64) {
	if count <= 0 || !isNumber(count) || !(lower <= upper) {
		return
	}
	if d.counts == nil {
		d.counts = map[int32]float64{}
	}
	const most = 1 << 62 // beyond is no value of a statistic
	upper = min(max(upper, 0), most)
	first := measure.BucketOf(base, uint64(max(math.Floor(min(lower, most))+1, 0)))
	last := max(first, measure.BucketOf(base, uint64(math.Ceil(upper))))
	for b := first; b <= last; b++ {
		lo := max(float64(measure.BucketStart(base, b))-1, lower)
		hi := min(float64(measure.BucketStart(base, b+1))-1, upper)
		share := 1.
		if first < last {
			share = max(hi-lo, 0) / (upper - lower)
		}
		d.counts[b] += count * share
	}
}

// dist returns the distribution with whole numbers: the count of values below each bound is
// rounded, so the total is right.
func (d *distCell) dist(base uint8) measure.Dist {
	out := measure.Dist{Base: base, Sum: d.sum}
	var buckets []int32
	for b := range d.counts {
		buckets = append(buckets, b)
	}
	slices.Sort(buckets)
	sum, rounded := 0., uint64(0)
	for _, b := range buckets {
		sum += d.counts[b]
		upTo := uint64(math.Round(sum))
		if n := upTo - rounded; n > 0 {
			if len(out.Counts) == 0 {
				out.First = b
			}
			out.Counts = append(out.Counts,
				make([]uint64, int(b-out.First)+1-len(out.Counts))...)
			out.Counts[b-out.First] = n
		}
		rounded = upTo
	}
	return out
}

// askDists answers a query of distributions.
func (h *Host) askDists(
	ctx context.Context, st *measure.Stat, m *metric, q measure.Query,
) (*measure.Answer, error) {
	found, notes, err := h.client.histograms(ctx, m, h.client.only(h.name), q)
	if err != nil {
		return nil, err
	}
	t := newTable(st, q, m, nil, intervalOf(found, h.step))
	t.notes = slices.Concat(notes, m.notes)
	d := &distTable{table: t, base: classicBase, rows: map[string]*distRow{}}
	if slices.ContainsFunc(found, func(s *model.SampleStream) bool {
		return len(s.Histograms) > 0
	}) {
		d.base = nativeBase
	}
	if err := d.read(found); err != nil {
		return nil, err
	}
	return d.answer(), nil
}

// histograms returns the samples of a distribution, and those of the heartbeat: a time without
// values has no samples of the distribution.
func (c *Client) histograms(
	ctx context.Context, m *metric, hosts string, q measure.Query,
) (model.Matrix, []string, error) {
	named := *m
	named.name = ""
	beats, _, _ := strings.Cut(heartbeat, "{")
	names := anyOf([]string{m.name, m.name + "_bucket", m.name + "_sum"})
	series := named.selector(matcher("__name__", "=~", names) + "," + hosts)
	query := fmt.Sprintf("%s or %s", series, beat(hosts))
	if span := q.Over.Span(); span > maxRawDists {
		step := defaultInterval
		step *= (span/coarseDists + step - 1) / step
		return c.steps(ctx, query, measure.Interval{
			Start: floor(q.Over.Start, step).Add(-step), End: floor(q.Over.End.Add(step-1), step),
		}, step)
	}
	from, to := q.Over.Start.Add(-lead), q.Over.End.Add(lead/2)
	seconds := (to.Sub(from) + measure.Second - 1) / measure.Second
	found, notes, err := c.matrix(ctx, fmt.Sprintf("%s[%ds]", series, seconds), to)
	if err != nil {
		return nil, nil, err
	}
	alive, _, err := c.matrix(ctx, fmt.Sprintf("%s[%ds]", beat(hosts), seconds), to)
	for _, s := range alive {
		s.Metric = model.Metric{model.MetricNameLabel: model.LabelValue(beats)}
	}
	return append(found, alive...), notes, err
}

// distRow is a row of an answer of distributions.
type distRow struct {
	key     []measure.Label
	cells   []distCell
	classic map[string]map[float64][]float64 // cumulative counts per cell, by series, by bound
}

// distTable collects the rows of an answer of distributions.
type distTable struct {
	*table
	base  uint8
	rows  map[string]*distRow
	order []*distRow
}

// read reads all series.
func (d *distTable) read(found model.Matrix) error {
	if len(found)*d.cells > maxValues/cellBuckets {
		return fmt.Errorf("%d distributions of %d cells: ask for a shorter time, longer cells or "+
			"fewer fields: %w", len(found), d.cells, measure.ErrTooLarge)
	}
	beats, _, _ := strings.Cut(heartbeat, "{")
	var alive []model.SamplePair
	for _, s := range found {
		name := string(s.Metric[model.MetricNameLabel])
		switch {
		case name == beats:
			alive = append(alive, s.Values...)
		case !d.metric.matches(s.Metric):
		case len(s.Histograms) > 0:
			d.native(d.rowOf(s.Metric), s.Histograms)
		case name == d.metric.name+"_sum":
			sums := d.counter(s.Values, d.interval)
			row := d.rowOf(s.Metric)
			for c, v := range sums.sum {
				row.cells[c].sum += v * d.metric.per
			}
		case name == d.metric.name+"_bucket":
			d.bucket(d.rowOf(s.Metric), s)
		}
	}
	for _, row := range d.order {
		row.fromClassic(d.base)
	}
	d.measured(found, alive)
	return nil
}

// measured sets the measured time of the cells: that in which the host was alive, between the first
// and the last sample of the distribution. What is outside may not have been recorded, and is no
// time without values.
func (d *distTable) measured(found model.Matrix, alive []model.SamplePair) {
	first, last := model.Latest, model.Earliest
	for _, s := range found {
		if !strings.HasPrefix(string(s.Metric[model.MetricNameLabel]), d.metric.name) {
			continue
		}
		if n := len(s.Values); n > 0 {
			first, last = min(first, s.Values[0].Timestamp), max(last, s.Values[n-1].Timestamp)
		}
		if n := len(s.Histograms); n > 0 {
			first = min(first, s.Histograms[0].Timestamp)
			last = max(last, s.Histograms[n-1].Timestamp)
		}
	}
	var within []model.SamplePair
	for _, s := range alive {
		if s.Timestamp >= first && s.Timestamp <= last {
			within = append(within, model.SamplePair{Timestamp: s.Timestamp, Value: 1})
		}
	}
	d.elapsed = d.counter(within, d.interval).covered
	if len(within) == 0 {
		d.notes = append(d.notes, fmt.Sprintf("the engine has no samples of %s in this time: its "+
			"server does not record it, or there were no values", d.stat.ID))
	}
}

// rowOf returns the row of a series' labels.
func (d *distTable) rowOf(labels model.Metric) *distRow {
	words := make([]string, len(d.query.By))
	for i, f := range d.query.By {
		words[i] = valueOf(labels, f)
	}
	text := strings.Join(words, "\xff")
	row := d.rows[text]
	if row == nil {
		row = &distRow{cells: make([]distCell, d.cells)}
		for _, w := range words {
			row.key = append(row.key, d.label(w))
		}
		d.rows[text] = row
		d.order = append(d.order, row)
	}
	return row
}

// native adds the samples of a native histogram: what was added between two of them, spread evenly
// over the time between them. A count below the one before is a reset.
func (d *distTable) native(row *distRow, samples []model.SampleHistogramPair) {
	for i := 1; i < len(samples); i++ {
		old, now := samples[i-1].Histogram, samples[i].Histogram
		from := measure.Time(int64(samples[i-1].Timestamp) * 1e6)
		to := measure.Time(int64(samples[i].Timestamp) * 1e6)
		if old == nil || now == nil || isHole(to.Sub(from), d.interval) {
			continue
		}
		if now.Count < old.Count {
			old = &model.SampleHistogram{}
			if now.Count == 0 {
				continue
			}
		}
		type limits struct{ lower, upper float64 }
		added := map[limits]float64{}
		for _, b := range now.Buckets {
			added[limits{float64(b.Lower), float64(b.Upper)}] += float64(b.Count)
		}
		for _, b := range old.Buckets {
			added[limits{float64(b.Lower), float64(b.Upper)}] -= float64(b.Count)
		}
		whole := float64(to.Sub(from))
		d.spread(from, to, func(c int, part measure.Span) {
			share := float64(part) / whole
			cell := &row.cells[c]
			for l, n := range added {
				cell.add(d.base, l.lower*d.metric.per, l.upper*d.metric.per, n*share)
			}
			cell.sum += float64(now.Sum-old.Sum) * d.metric.per * share
		})
	}
}

// bucket keeps the samples of one bound of a classic histogram. A bound that is no number is
// ignored.
func (d *distTable) bucket(row *distRow, s *model.SampleStream) {
	upTo, err := strconv.ParseFloat(string(s.Metric["le"]), 64)
	if err != nil || math.IsNaN(upTo) {
		return
	}
	labels := s.Metric.Clone()
	delete(labels, "le")
	if row.classic == nil {
		row.classic = map[string]map[float64][]float64{}
	}
	of := row.classic[labels.String()]
	if of == nil {
		of = map[float64][]float64{}
		row.classic[labels.String()] = of
	}
	of[upTo*d.metric.per] = d.counter(s.Values, d.interval).sum
}

// fromClassic adds the buckets of classic histograms to the cells. Values above the last finite
// bound count at it.
func (row *distRow) fromClassic(base uint8) {
	for _, bounds := range row.classic {
		var limits []float64
		for b := range bounds {
			limits = append(limits, b)
		}
		slices.Sort(limits)
		for c := range row.cells {
			below, lower := 0., -1.
			for _, upper := range limits {
				count := bounds[upper][c]
				if math.IsInf(upper, 1) {
					upper = lower + 1
				}
				// A bound such as 1.023e-06 s is 1023 ns, but for rounding.
				upper = math.Round(upper)
				row.cells[c].add(base, lower, upper, count-below)
				below, lower = max(below, count), upper
			}
		}
	}
}

// answer returns the answer. A cell in which the host was measured and had no value is empty.
func (d *distTable) answer() *measure.Answer {
	a := &measure.Answer{
		Query: d.query, Kind: d.stat.Kind, Unit: d.stat.AnswerUnit(), Sparse: d.stat.Sparse,
		Start: d.start, Step: d.step, Elapsed: d.elapsed, Labels: d.labels, Notes: d.notes,
	}
	counts := map[*measure.Label]uint64{}
	for i, row := range d.order {
		dists := make([]measure.Dist, d.cells)
		var count uint64
		for c := range row.cells {
			dists[c] = row.cells[c].dist(d.base)
			count += dists[c].Count()
		}
		s := measure.Series{Key: row.key}
		s.SetDists(dists)
		a.Series = append(a.Series, s)
		if len(row.key) > 0 {
			counts[&d.order[i].key[0]] = count
		}
	}
	if n := d.query.Top; n > 0 && len(a.Series) > n {
		slices.SortStableFunc(a.Series, func(x, y measure.Series) int {
			return cmp.Compare(counts[&y.Key[0]], counts[&x.Key[0]])
		})
		a.Rest.Rows = len(a.Series) - n
		a.Series = a.Series[:n:n]
	}
	return a
}
