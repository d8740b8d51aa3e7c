package diagnose

import (
	"slices"

	"culprit/measure"
)

// Mean returns the mean of the known values over the cells in mask (nil: all), weighted by measured
// time; NaN when none is known.
func (t *Table) Mean(values []float64, mask []bool) float64 {
	var sum, weight float64
	for c, v := range values {
		if c < len(t.Seconds) && v == v && (mask == nil || mask[c]) {
			sum += v * t.Seconds[c]
			weight += t.Seconds[c]
		}
	}
	if weight == 0 {
		return measure.NaN
	}
	return sum / weight
}

// Part returns the mean over the measured time of the cells in mask, with unknown values as zero.
// It is for amounts of things that come and go: a process that lived for one cell of ten. NaN when
// no value is known.
func (t *Table) Part(values []float64, mask []bool) float64 {
	var sum, weight float64
	any := false
	for c, s := range t.Seconds {
		if mask != nil && !mask[c] {
			continue
		}
		weight += s
		if c < len(values) && values[c] == values[c] {
			sum += values[c] * s
			any = any || s > 0
		}
	}
	if !any || weight == 0 {
		return measure.NaN
	}
	return sum / weight
}

// Mean returns the mean of the row over the cells in mask (nil: all).
func (r *Row) Mean(mask []bool) float64 {
	if r == nil {
		return measure.NaN
	}
	return r.Table.Mean(r.Values, mask)
}

// Part returns the mean with unknown values as zero; see Table.Part.
func (r *Row) Part(mask []bool) float64 {
	if r == nil {
		return measure.NaN
	}
	return r.Table.Part(r.Values, mask)
}

// Last returns the latest value, NaN when none is known.
func (r *Row) Last() float64 {
	if r != nil {
		for c := len(r.Values) - 1; c >= 0; c-- {
			if r.Values[c] == r.Values[c] {
				return r.Values[c]
			}
		}
	}
	return measure.NaN
}

// Max returns the largest value, NaN when none is known.
func (r *Row) Max() float64 {
	m := measure.NaN
	if r != nil {
		for _, v := range r.Values {
			if v == v && !(v <= m) {
				m = v
			}
		}
	}
	return m
}

// Dist returns the distribution of the values in cell c, in the unit of the table; an empty one
// when there are none or the statistic has no distributions. The caller must not change it.
func (r *Row) Dist(c int) measure.Dist {
	if r == nil || c < 0 || c >= len(r.dists) || !(r.Table.Seconds[c] > 0) {
		return measure.Dist{}
	}
	return r.dists[c]
}

// moved returns cells values: those of from, shift cells later, and empty elsewhere.
func moved[V any](from []V, empty V, cells, shift int) []V {
	out := slices.Repeat([]V{empty}, cells)
	for c, v := range from {
		if at := c + shift; at >= 0 && at < cells {
			out[at] = v
		}
	}
	return out
}
