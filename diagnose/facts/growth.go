package facts

import "culprit/diagnose"

// GrowthBetween returns the growth per second between two cells; NaN when one has no value.
func GrowthBetween(t *diagnose.Table, r *diagnose.Row, from, to int) float64 {
	seconds := 0.0
	for c := from + 1; c <= to; c++ {
		seconds += t.Seconds[c]
	}
	return (r.At(to) - r.At(from)) / seconds
}

// PerSecond returns the growth per second over all cells; NaN when it is not known.
func PerSecond(t *diagnose.Table, r *diagnose.Row) float64 {
	first := 0
	for first < len(t.Seconds) && r.At(first) != r.At(first) {
		first++
	}
	last := len(t.Seconds) - 1
	for last > first && r.At(last) != r.At(last) {
		last--
	}
	return GrowthBetween(t, r, first, last)
}
