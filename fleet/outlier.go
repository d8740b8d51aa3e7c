package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"culprit/diagnose/series"
	"culprit/measure"
)

// A host differs from the others by the thresholds of peer-slow (docs/DIAGNOSIS.md).
const (
	minDeviation = 6.0  // robust standard deviations from the median of the others
	minFactor    = 2.0  // twice the median, or half of it
	ofEquals     = 12.0 // robust standard deviations that need no factor of two
	equalsFactor = 1.25 // but this one
	minSpread    = 0.02 // lower limit of the spread, as a share of the median
	maxPerHost   = 2    // outliers per host
)

// Outlier is a host that differs from the others in a quantity.
type Outlier struct {
	Host, Quantity int // indices
	// Score is the number of robust standard deviations above the median of the others; negative:
	// below.
	Score  float64
	Median float64 // of the others
	Others int     // hosts with a value
}

// Apart returns the distance from the others, without its sign.
func (o *Outlier) Apart() float64 { return math.Abs(o.Score) }

// Outliers returns the hosts that differ from the others, the largest difference first, at most two
// quantities per host. Fewer than four hosts don't differ.
func (o *Overview) Outliers() []Outlier {
	var out []Outlier
	values := make([]float64, len(o.Hosts))
	for k, q := range Quantities() {
		for i := range o.Hosts {
			values[i] = measure.NaN
			if v := o.Hosts[i].Values; o.Hosts[i].Reports && k < len(v) {
				values[i] = v[k]
			}
		}
		for _, n := range Apart(values, q.Least) {
			n.Quantity = k
			out = append(out, n)
		}
	}
	slices.SortStableFunc(out, func(a, b Outlier) int { return cmp.Compare(b.Apart(), a.Apart()) })
	count := map[int]int{}
	return slices.DeleteFunc(out, func(n Outlier) bool {
		count[n.Host]++
		return count[n.Host] > maxPerHost
	})
}

// Apart returns the values that differ from the others by six robust standard deviations, by a
// factor of two and by least. Logarithms are compared too: hosts of different kinds differ by
// factors, and that is normal. Host is the index of the value.
func Apart(values []float64, least float64) []Outlier {
	return apart(values, least, minDeviation, minFactor)
}

// ApartFromEquals returns what Apart returns, and the values that differ by twelve robust standard
// deviations and a factor of 1.25. With the lower limit of the spread these are values a quarter
// away from others that are equal within a few percent: one client of ten that gets 1.15 MB/s
// while the others get 1.65.
func ApartFromEquals(values []float64, least float64) []Outlier {
	near := apart(values, least, ofEquals, equalsFactor)
	for _, o := range Apart(values, least) {
		if !slices.ContainsFunc(near, func(n Outlier) bool { return n.Host == o.Host }) {
			near = append(near, o)
		}
	}
	slices.SortFunc(near, func(a, b Outlier) int { return cmp.Compare(a.Host, b.Host) })
	return near
}

// apart returns the values that differ from the others by deviation robust standard deviations, by
// factor and by least, in the order of their indices.
func apart(values []float64, least, deviation, factor float64) (out []Outlier) {
	logs := make([]float64, len(values))
	known := 0
	for i, v := range values {
		if logs[i] = measure.NaN; v == v {
			logs[i] = math.Log(max(v, least/10))
			known++
		}
	}
	scores, medians := series.Apart(values, minSpread, least/minDeviation)
	logScores, _ := series.Apart(logs, 0, minSpread)
	for i, v := range values {
		m := medians[i]
		score := min(math.Abs(scores[i]), math.Abs(logScores[i]))
		if !(score >= deviation) || math.Abs(v-m) < least || v < factor*m && v > m/factor {
			continue
		}
		n := Outlier{Host: i, Median: m, Score: math.Copysign(score, v-m), Others: known - 1}
		out = append(out, n)
	}
	return out
}

// Describe returns the difference as a sentence: "its busiest interface sends 1.2 MB/s, 88 % less
// than the median of the 9 others, 10.1 MB/s".
func (o *Overview) Describe(n Outlier) string {
	q := Quantities()[n.Quantity]
	v := o.Hosts[n.Host].Values[n.Quantity]
	return fmt.Sprintf("%s %s, %s the median of the %d others, %s", q.Verb, q.Format(v),
		Versus(v, n.Median), n.Others, q.Format(n.Median))
}

// Versus compares a value with a median: "88 % less than", "3.1 times", "far from".
func Versus(v, m float64) string {
	switch {
	case m == 0:
		return "far from"
	case v > m:
		return threeDigits(v/m) + " times"
	}
	return fmt.Sprintf("%.0f %% less than", 100*(1-v/m))
}
