package diagnose

import "culprit/measure"

// Mean gives the mean of the values that are there, each cell weighted by its measured time, over the cells that mask
// allows (nil: all). NaN when there is none.
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

// Part gives the mean over the whole measured time of the masked cells, where a value that isn't there counts as zero: for
// amounts of things that came or went, as a process that lived for one cell of ten. NaN when the row has no value at all.
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

// Mean gives the row's mean over the masked cells (nil: all).
func (r *Row) Mean(mask []bool) float64 {
	if r == nil {
		return measure.NaN
	}
	return r.Table.Mean(r.Values, mask)
}

// Part gives Mean with absent cells as zero; see Table.part.
func (r *Row) Part(mask []bool) float64 {
	if r == nil {
		return measure.NaN
	}
	return r.Table.Part(r.Values, mask)
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
