package measure

import (
	"math"
	"testing"

	"culprit/heapbound"
)

func TestDifference(t *testing.T) {
	for _, c := range []struct {
		whole float64
		parts []float64
		want  float64
	}{
		{100, []float64{30, 50}, 20},
		{100, nil, 100},
		{0, []float64{0}, 0},
		{100, []float64{100.9}, 0},
		{100, []float64{101.1}, NaN},
		{0, []float64{18446744073709551488}, NaN},
		{100, []float64{-1}, NaN},
		{-1, nil, NaN},
		{NaN, []float64{1}, NaN},
		{100, []float64{NaN}, NaN},
	} {
		if got := Difference(c.whole, c.parts...); got != c.want &&
			!(got != got && c.want != c.want) {
			t.Errorf("%v less %v: %v, want %v", c.whole, c.parts, got, c.want)
		}
	}
}

func FuzzDifference(f *testing.F) {
	f.Add(100.0, 30.0, 50.0)
	f.Add(0.0, 18446744073709551488.0, 0.0)
	heapbound.Fuzz(f, func(t *testing.T, whole, a, b float64) {
		if math.IsInf(whole, 0) {
			return
		}
		d := Difference(whole, a, b)
		valid := a+b <= whole && whole >= 0 && a >= 0 && b >= 0
		if d < 0 || d > whole || valid && d != d {
			t.Errorf("%v - %v - %v = %v", whole, a, b, d)
		}
	})
}
