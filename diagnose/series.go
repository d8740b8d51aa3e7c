package diagnose

import (
	"math"
	"sort"

	"culprit/measure"
)

// mad68 makes a median absolute deviation comparable with a standard deviation, for values spread normally.
const mad68 = 1.4826

// mean gives the mean of the values that are there, each cell weighted by its measured time, over the cells that mask
// allows (nil: all). NaN when there is none.
func (t *Table) mean(values []float64, mask []bool) float64 {
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

// part gives the mean over the whole measured time of the masked cells, where a value that isn't there counts as zero: for
// amounts of things that came or went, as a process that lived for one cell of ten. NaN when the row has no value at all.
func (t *Table) part(values []float64, mask []bool) float64 {
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

// Mean gives the row's mean over the masked cells (nil: all).
func (r *Row) Mean(mask []bool) float64 {
	if r == nil {
		return measure.NaN
	}
	return r.table.mean(r.Values, mask)
}

// Part gives Mean with absent cells as zero; see Table.part.
func (r *Row) Part(mask []bool) float64 {
	if r == nil {
		return measure.NaN
	}
	return r.table.part(r.Values, mask)
}

// Last gives the latest value, NaN when there is none.
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

// Max gives the largest value, NaN when there is none.
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

// median gives the median of the values that are numbers, NaN when there is none.
func median(values []float64) float64 {
	var v []float64
	for _, x := range values {
		if x == x {
			v = append(v, x)
		}
	}
	if len(v) == 0 {
		return measure.NaN
	}
	sort.Float64s(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// spread gives the median absolute deviation from the median, scaled to be comparable with a standard deviation; NaN
// when there is no value.
func spread(values []float64) float64 {
	m := median(values)
	d := make([]float64, 0, len(values))
	for _, x := range values {
		d = append(d, math.Abs(x-m))
	}
	return mad68 * median(d)
}

// away gives how many robust standard deviations x lies from the others' median (negative: below). floor, a share of the
// median, is the least spread assumed: equals are never perfectly equal, and without it any difference would be infinite.
func away(x float64, others []float64, floor float64) float64 {
	m := median(others)
	s := math.Max(spread(others), floor*math.Abs(m))
	if !(s > 0) {
		return measure.NaN
	}
	return (x - m) / s
}

// correlation gives Pearson's coefficient of the cells in which both have values; NaN with fewer than three, or when one
// of them does not vary.
func correlation(a, b []float64) float64 {
	var n, sa, sb float64
	for c := 0; c < len(a) && c < len(b); c++ {
		if a[c] == a[c] && b[c] == b[c] {
			n, sa, sb = n+1, sa+a[c], sb+b[c]
		}
	}
	if n < 3 {
		return measure.NaN
	}
	ma, mb := sa/n, sb/n
	var ab, aa, bb float64
	for c := 0; c < len(a) && c < len(b); c++ {
		if a[c] == a[c] && b[c] == b[c] {
			da, db := a[c]-ma, b[c]-mb
			ab, aa, bb = ab+da*db, aa+da*da, bb+db*db
		}
	}
	if aa <= 0 || bb <= 0 {
		return measure.NaN
	}
	return ab / math.Sqrt(aa*bb)
}

// or gives v, or other when v is not known.
func or(v, other float64) float64 {
	if v == v {
		return v
	}
	return other
}

// clamp keeps v within lo and hi; NaN stays NaN.
func clamp(v, lo, hi float64) float64 {
	if v < lo {
		return lo
	}
	if v > hi {
		return hi
	}
	return v
}
