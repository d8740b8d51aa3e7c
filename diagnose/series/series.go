package series

import (
	"math"
	"sort"

	"culprit/measure"
)

// mad68 scales a median absolute deviation to a standard deviation, for normally distributed
// values.
const mad68 = 1.4826

// Median returns the median of the known values, NaN when there is none.
func Median(values []float64) float64 {
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

// Spread returns the median absolute deviation from the median, scaled to a standard deviation; NaN
// when no value is known.
func Spread(values []float64) float64 {
	m := Median(values)
	d := make([]float64, 0, len(values))
	for _, x := range values {
		d = append(d, math.Abs(x-m))
	}
	return mad68 * Median(d)
}

// Deviations returns how many robust standard deviations x is above the median of the others
// (negative: below). floor, a share of the median, is the least spread assumed: without it any
// difference from equal values would be infinite.
func Deviations(x float64, others []float64, floor float64) float64 {
	m := Median(others)
	s := math.Max(Spread(others), floor*math.Abs(m))
	if !(s > 0) {
		return measure.NaN
	}
	return (x - m) / s
}

// Correlation returns Pearson's coefficient over the cells in which both have values; NaN with
// fewer than three, or when one does not vary.
func Correlation(a, b []float64) float64 {
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

// Or returns v, or other when v is NaN.
func Or(v, other float64) float64 {
	if v == v {
		return v
	}
	return other
}

// Clamp limits v to lo and hi; NaN stays NaN.
func Clamp(v, lo, hi float64) float64 {
	if v < lo {
		return lo
	}
	if v > hi {
		return hi
	}
	return v
}

// AtOrZero returns a value of a series, 0 when unknown: for signs that count only when present.
func AtOrZero(v []float64, c int) float64 {
	if c < len(v) && v[c] == v[c] {
		return v[c]
	}
	return 0
}
