package heat

import (
	"cmp"
	"fmt"
	"slices"

	"culprit/measure"
)

// Map is a heat map: a column per cell of time, each with the distribution of all rows together.
type Map struct {
	Unit    measure.Unit // of the values
	Start   measure.Time
	Step    measure.Span // length of a column
	Base    uint8        // of all distributions
	Columns []Column
}

// Column is one cell of time. Its events are those that ended within (Start+c*Step,
// Start+(c+1)*Step].
type Column struct {
	Elapsed measure.Span // the measured time; 0: a gap, nothing is known
	Dist    measure.Dist // empty in a gap, and where nothing happened
}

// Lines are the percentiles of a column, in the unit of the map; NaN without events.
type Lines struct{ P50, P90, P99, Max float64 }

// New returns the heat map of an answer with distributions. Rows are merged. Consecutive cells are
// merged so that the map has at most columns of them; 0: one column per cell. Merging adds counts,
// so no event is lost or counted twice. The error says that the answer has no distributions.
func New(a *measure.Answer, columns int) (*Map, error) {
	if a.Kind != measure.Dists {
		return nil, fmt.Errorf("%s has no distributions, its kind is %s: %w",
			a.Query.Stat, a.Kind, measure.ErrUnsupported)
	}
	cells, per := len(a.Elapsed), 1
	if columns > 0 && cells > columns {
		per = (cells + columns - 1) / columns
	}
	m := &Map{
		Unit: a.Unit, Start: a.Start, Step: a.Step * measure.Span(per), Base: baseOf(a),
		Columns: make([]Column, (cells+per-1)/per),
	}
	for c, e := range a.Elapsed {
		m.Columns[c/per].Elapsed += e
	}
	for i := range m.Columns {
		m.Columns[i].Dist.Base = m.Base
	}
	for i := range a.Series {
		for c, d := range a.Series[i].Dists() {
			if c < cells && len(d.Counts) > 0 {
				m.Columns[c/per].Dist.Merge(d)
			}
		}
	}
	return m, nil
}

// baseOf returns the coarsest base of all distributions, so that no bucket is divided.
func baseOf(a *measure.Answer) uint8 {
	base, known := uint8(0), false
	for i := range a.Series {
		for _, d := range a.Series[i].Dists() {
			if len(d.Counts) > 0 && (!known || d.Base < base) {
				base, known = d.Base, true
			}
		}
	}
	return base
}

// Whole returns the distribution of all columns.
func (m *Map) Whole() measure.Dist {
	whole := measure.Dist{Base: m.Base}
	for _, c := range m.Columns {
		whole.Merge(c.Dist)
	}
	return whole
}

// Lines returns the percentiles of the column. Max is the upper end of its highest bucket.
func (c *Column) Lines() Lines {
	d := &c.Dist
	return Lines{d.Quantile(0.5), d.Quantile(0.9), d.Quantile(0.99), d.Quantile(1)}
}

// Buckets returns the buckets that contain all events: from first up to, not including, end. Both
// are 0 without events.
func (m *Map) Buckets() (first, end int32) {
	w := m.Whole()
	return used(&w)
}

// used returns the first bucket of d with events, and the one after the last.
func used(d *measure.Dist) (first, end int32) {
	for i, n := range d.Counts {
		if n == 0 {
			continue
		}
		if b := d.First + int32(i); end == 0 {
			first, end = b, b+1
		} else {
			end = b + 1
		}
	}
	return first, end
}

// Crop returns the bucket at which a map ends when a share of its events (0.01: 1 %) may be cut off
// at the top, and the number of events cut: at most that share of all. The end is the smallest
// such bucket; with a share of 0 nothing is cut.
func (m *Map) Crop(share float64) (end int32, cut uint64) {
	w := m.Whole()
	first, end := used(&w)
	allowed := share * float64(w.Count())
	for end > first+1 {
		n := w.Counts[end-1-w.First]
		if float64(cut+n) > allowed {
			break
		}
		cut += n
		end--
	}
	return end, cut
}

// Bucket is one bucket with events: values from Low up to, not including, High.
type Bucket struct {
	Low, High float64
	Events    uint64
}

// Buckets returns the buckets of d that have events, in ascending order.
func Buckets(d *measure.Dist) []Bucket {
	var out []Bucket
	for i, n := range d.Counts {
		if n > 0 {
			b := d.First + int32(i)
			low, high := measure.BucketStart(d.Base, b), measure.BucketStart(d.Base, b+1)
			out = append(out, Bucket{float64(low), float64(high), n})
		}
	}
	return out
}

// Row is the distribution of one key over all cells of an answer.
type Row struct {
	Key  []string // one per field of the breakdown
	Dist measure.Dist
}

// Rows returns the rows of an answer that have events, as DTrace orders an aggregation: the one
// with the fewest events first.
func Rows(a *measure.Answer) []Row {
	var out []Row
	for i := range a.Series {
		r := Row{Dist: measure.Dist{Base: baseOf(a)}}
		for _, d := range a.Series[i].Dists() {
			r.Dist.Merge(d)
		}
		if r.Dist.Count() > 0 {
			for k := range a.Query.By {
				r.Key = append(r.Key, a.Label(i, k))
			}
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(x, y Row) int {
		return cmp.Or(cmp.Compare(x.Dist.Count(), y.Dist.Count()), slices.Compare(x.Key, y.Key))
	})
	return out
}
