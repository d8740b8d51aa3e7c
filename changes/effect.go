package changes

import (
	"math"
	"slices"

	"culprit/diagnose/series"
	"culprit/fleet"
	"culprit/measure"
)

// Effect is how much the values of a row differ between two ranges.
type Effect struct {
	Before float64 // the mean of the middle 60 % of the cells
	After  float64
	// Deviations is the change in robust standard deviations of the cells: how sure it is.
	Deviations float64
	// Size is the change in steps: doublings, of at least the least difference of the unit.
	Size float64
}

const (
	// minDeviations is the change that noise does not reach. With fewer than fewCells cells the
	// spread is a guess, and the change must be fewDeviations.
	minDeviations = 3.0
	fewDeviations = 6.0
	fewCells      = 6
	// minSize is the least change that is reported, a factor of 1.25.
	minSize = 0.32
	// minSpread is the lower limit of the spread, as a share of the value.
	minSpread = 0.03
	// minApart is the least Cliff's delta: see apart.
	minApart = 0.7
)

// Compare returns the effect between the cells of two ranges, and whether it is beyond noise. Both
// need MinCells known cells; otherwise ok is false and the effect has NaN. Differences below least
// are ignored.
func Compare(before, after []float64, least float64) (e Effect, ok bool) {
	a, b := known(before), known(after)
	if len(a) < MinCells || len(b) < MinCells {
		return Effect{measure.NaN, measure.NaN, measure.NaN, measure.NaN}, false
	}
	e.Before, e.After = middle(a), middle(b)
	spread := max(series.Spread(a), series.Spread(b), least/fewDeviations,
		minSpread*max(math.Abs(e.Before), math.Abs(e.After)))
	e.Deviations = (e.After - e.Before) / spread
	e.Size = math.Log2(max(math.Abs(e.After), least/10) / max(math.Abs(e.Before), least/10))
	need := minDeviations
	if min(len(a), len(b)) < fewCells {
		need = fewDeviations
	}
	ok = math.Abs(e.After-e.Before) >= least && math.Abs(e.Deviations) >= need &&
		math.Abs(e.Size) >= minSize && math.Abs(apart(a, b)) >= minApart
	return e, ok
}

// CompareKnown is Compare for a number that is known to matter, as the evidence of a finding: it
// ignores differences below 5 % only.
func CompareKnown(before, after []float64, unit measure.Unit) (e Effect, ok bool) {
	least := fleet.LeastDifference(unit) / 1000
	if a := known(before); len(a) > 0 {
		least = max(least, 0.05*math.Abs(middle(a)))
	}
	return Compare(before, after, least)
}

// known returns the numbers of values, sorted.
func known(values []float64) []float64 {
	out := make([]float64, 0, len(values))
	for _, v := range values {
		if v == v {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// middle returns the mean of the middle 60 % of sorted values.
func middle(sorted []float64) float64 {
	cut := len(sorted) / 5
	sum := 0.0
	for _, v := range sorted[cut : len(sorted)-cut] {
		sum += v
	}
	return sum / float64(len(sorted)-2*cut)
}

// apart returns Cliff's delta of sorted values: the share of pairs with b above a, minus that with
// b below a. 1: all of b are above all of a.
func apart(a, b []float64) float64 {
	n := 0
	for _, v := range b {
		below, _ := slices.BinarySearch(a, v)
		above := len(a)
		for above > below && a[above-1] > v {
			above--
		}
		n += below - (len(a) - above)
	}
	return float64(n) / float64(len(a)*len(b))
}
