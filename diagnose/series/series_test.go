package series

import (
	"math"
	"testing"
)

var nan = math.NaN()

// same reports whether two numbers are equal to nine digits, or both NaN.
func same(a, b float64) bool {
	return a == b || a != a && b != b || math.Abs(a-b) <= 1e-9*math.Abs(b)
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"no values", nil, nan},
		{"no known value", []float64{nan, nan}, nan},
		{"one", []float64{7}, 7},
		{"two", []float64{3, 10}, 6.5},
		{"odd, unsorted", []float64{9, 1, 4}, 4},
		{"even, unsorted", []float64{20, 1, 6, 3}, 4.5},
		{"unknown values are left out", []float64{nan, 5, nan, 2, 100}, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Median(tt.values); !same(got, tt.want) {
				t.Errorf("%g, want %g", got, tt.want)
			}
		})
	}
	values := []float64{3, 1, 2}
	if Median(values); values[0] != 3 || values[1] != 1 {
		t.Errorf("Median has sorted its input: %v", values)
	}
}

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"no values", nil, nan},
		{"one", []float64{7}, 0},
		{"deviations 3, 1, 0, 2, 9 of the median 4", []float64{1, 3, 4, 6, 13}, 1.4826 * 2},
		{"an unknown value", []float64{nan, 1, 3, 4, 6, 13}, 1.4826 * 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Spread(tt.values); !same(got, tt.want) {
				t.Errorf("%g, want %g", got, tt.want)
			}
		})
	}
}

// The spread of normally distributed values is their standard deviation.
func TestSpreadIsAStandardDeviation(t *testing.T) {
	const n, sigma = 2001, 5.0
	var values []float64
	for i := 1; i < n; i++ { // quantiles of the normal distribution, mean 100
		values = append(values, 100+sigma*math.Sqrt2*math.Erfinv(2*float64(i)/n-1))
	}
	if got := Spread(values); math.Abs(got-sigma) > 0.01*sigma {
		t.Errorf("%g, want %g", got, sigma)
	}
}

func TestDeviations(t *testing.T) {
	others := []float64{1, 3, 4, 6, 13} // median 4, spread 2.9652
	for _, tt := range []struct {
		name   string
		x      float64
		others []float64
		floor  float64
		want   float64
	}{
		{"above", 10, others, 0, 6 / 2.9652},
		{"below", -2, others, 0, -6 / 2.9652},
		{"the floor is larger", 10, others, 2, 6.0 / 8},
		{"the floor is smaller", 10, others, 0.5, 6 / 2.9652},
		{"equal others", 6, []float64{5, 5, 5}, 0.1, 2},
		{"equal negative others", -4, []float64{-5, -5, -5}, 0.1, 2},
		{"a spread below 1", 0.9, []float64{0.3, 0.4, 0.5}, 0, 0.5 / 0.14826},
		{"equal others without floor", 6, []float64{5, 5, 5}, 0, nan},
		{"no others", 6, nil, 1, nan},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Deviations(tt.x, tt.others, tt.floor); !same(got, tt.want) {
				t.Errorf("%g, want %g", got, tt.want)
			}
		})
	}
}

func TestCorrelation(t *testing.T) {
	for _, tt := range []struct {
		name string
		a, b []float64
		want float64
	}{
		{"rising together", []float64{1, 2, 4}, []float64{10, 20, 40}, 1},
		{"one rises, one falls", []float64{1, 2, 4}, []float64{-3, -6, -12}, -1},
		// deviations of a: -3 -1 1 3; of b: -3 1 -1 3; products 9 -1 -1 9; squares 20 and 20
		{"partly", []float64{1, 3, 5, 7}, []float64{2, 6, 4, 8}, 16.0 / 20},
		// deviations of b: -6 2 -2 6; products 18 -2 -2 18; squares 20 and 80
		{"partly, other scale", []float64{1, 3, 5, 7}, []float64{5, 13, 9, 17}, 32.0 / 40},
		{"unrelated", []float64{-1, 1, -1, 1}, []float64{-1, -1, 1, 1}, 0},
		{"unknown cells of either", []float64{1, nan, 2, 9, 4}, []float64{1, 7, 2, nan, 4}, 1},
		{"cells that only one has", []float64{1, 2, 4, 100, 7}, []float64{1, 2, 4}, 1},
		{"cells that only the other has", []float64{1, 2, 4}, []float64{1, 2, 4, 100, 7}, 1},
		{"two cells", []float64{1, 2}, []float64{1, 2}, nan},
		{"the first does not vary", []float64{3, 3, 3}, []float64{1, 2, 4}, nan},
		{"the second does not vary", []float64{1, 2, 4}, []float64{3, 3, 3}, nan},
		{"none", nil, nil, nan},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Correlation(tt.a, tt.b); !same(got, tt.want) {
				t.Errorf("%g, want %g", got, tt.want)
			}
		})
	}
}

func TestSmallHelpers(t *testing.T) {
	for _, tt := range []struct {
		name      string
		got, want float64
	}{
		{"Or of a value", Or(3, 5), 3},
		{"Or of NaN", Or(nan, 5), 5},
		{"Clamp below", Clamp(1, 2, 4), 2},
		{"Clamp within", Clamp(3, 2, 4), 3},
		{"Clamp above", Clamp(5, 2, 4), 4},
		{"Clamp of NaN", Clamp(nan, 2, 4), nan},
		{"AtOrZero", AtOrZero([]float64{6, 8}, 1), 8},
		{"AtOrZero, unknown", AtOrZero([]float64{6, nan}, 1), 0},
		{"AtOrZero, past the end", AtOrZero([]float64{6, 8}, 2), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !same(tt.got, tt.want) {
				t.Errorf("%g, want %g", tt.got, tt.want)
			}
		})
	}
}
