package series

import (
	"math"
	"slices"
	"sort"
)

// MinOthers is the number of other values below which Apart returns no score.
const MinOthers = 3

// Apart returns for each value by how many robust standard deviations it is above the median of the
// others (negative: below), and that median. The spread is the median absolute deviation of the
// others from it, scaled to a standard deviation, and at least share of the median and at least
// least. Both are NaN if the value is unknown or fewer than three others are known. It sorts a few
// times, whatever the number of values.
func Apart(values []float64, share, least float64) (scores, medians []float64) {
	scores, medians = make([]float64, len(values)), make([]float64, len(values))
	var known []float64
	for _, v := range values {
		if v == v {
			known = append(known, v)
		}
	}
	slices.Sort(known)
	// Leaving one value out leaves one of at most three medians, each with its own distances.
	distances := map[float64][]float64{}
	for i, v := range values {
		scores[i], medians[i] = math.NaN(), math.NaN()
		if v != v || len(known) <= MinOthers {
			continue
		}
		m := medianWithout(known, v)
		away, ok := distances[m]
		if !ok {
			away = make([]float64, len(known))
			for j, k := range known {
				away[j] = math.Abs(k - m)
			}
			slices.Sort(away)
			distances[m] = away
		}
		spread := mad68 * medianWithout(away, math.Abs(v-m))
		medians[i] = m
		scores[i] = (v - m) / max(spread, share*math.Abs(m), least)
		if v == m {
			scores[i] = 0 // also when no spread is assumed
		}
	}
	return scores, medians
}

// medianWithout returns the median of sorted values without one that equals v.
func medianWithout(sorted []float64, v float64) float64 {
	at := sort.SearchFloat64s(sorted, v)
	nth := func(i int) float64 {
		if i >= at {
			i++
		}
		return sorted[i]
	}
	n := len(sorted) - 1
	if n%2 == 0 {
		return (nth(n/2-1) + nth(n/2)) / 2
	}
	return nth(n / 2)
}
