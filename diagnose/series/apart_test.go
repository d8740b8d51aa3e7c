package series

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestApart(t *testing.T) {
	nan := math.NaN()
	for _, tt := range []struct {
		name          string
		values        []float64
		share, least  float64
		at            int
		score, median float64
	}{
		{"one is below", []float64{100, 98, 20, 102, 104}, 0.01, 0, 2, (20 - 101.0) / (1.4826 * 2), 101},
		{"one is above", []float64{7, 8, 9, 100}, 0, 0, 3, 92 / 1.4826, 8},
		{"of the others", []float64{7, 8, 9, 100}, 0, 0, 0, -2 / 1.4826, 9},
		{"equal others", []float64{50, 50, 50, 40}, 0.02, 0, 3, -10, 50},
		{"the least spread", []float64{50, 50, 50, 40}, 0.02, 5, 3, -2, 50},
		{"all are equal", []float64{3, 3, 3, 3}, 0, 0, 1, 0, 3},
		{"unknown values don't count", []float64{50, nan, 50, 50, nan, 40}, 0.02, 0, 5, -10, 50},
		{"an unknown value", []float64{50, nan, 50, 50, 40}, 0.02, 0, 1, nan, nan},
		{"two others", []float64{50, 50, nan, 40}, 0.02, 0, 3, nan, nan},
		{"none", []float64{nan}, 0, 0, 0, nan, nan},
	} {
		t.Run(tt.name, func(t *testing.T) {
			scores, medians := Apart(tt.values, tt.share, tt.least)
			if !same(scores[tt.at], tt.score) || !same(medians[tt.at], tt.median) {
				t.Errorf("%v from %v, want %v from %v", scores[tt.at], medians[tt.at], tt.score,
					tt.median)
			}
		})
	}
}

// TestApartOfMany compares with the median and spread of the others, computed for each value.
func TestApartOfMany(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := 4; n < 60; n++ {
		values := make([]float64, n)
		for i := range values {
			values[i] = math.Floor(r.ExpFloat64() * 20)
		}
		scores, medians := Apart(values, 0.02, 0.5)
		for i, v := range values {
			others := slices.Delete(slices.Clone(values), i, i+1)
			m := Median(others)
			want := (v - m) / max(Spread(others), 0.02*m, 0.5)
			if !same(scores[i], want) || medians[i] != m {
				t.Fatalf("%v of %v: %v from %v, want %v from %v", v, values, scores[i], medians[i],
					want, m)
			}
		}
	}
}

func BenchmarkApart(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	values := make([]float64, 1000)
	for i := range values {
		values[i] = r.ExpFloat64()
	}
	for b.Loop() {
		Apart(values, 0.02, 0.1)
	}
}
