package load

import (
	"math"
	"testing"
)

// TestStudent compares quantiles with the usual table (two-sided, 95 %).
func TestStudent(t *testing.T) {
	for freedom, want := range map[float64]float64{
		1: 12.7062, 2: 4.30265, 3: 3.18245, 4: 2.77645, 5: 2.57058, 9: 2.26216, 29: 2.04523,
		120: 1.97993, 1e6: 1.95997,
	} {
		if got := student(freedom); math.Abs(got-want) > 2e-5 {
			t.Errorf("with %g degrees of freedom %.6f, want %.6f", freedom, got, want)
		}
	}
}

func TestSpread(t *testing.T) {
	s := spreadOf([]Number{940, 942, unknown(), 944})
	// Mean 942, deviation 2; 4.30265 * 2 / sqrt(3) = 4.96827.
	if s.Runs != 3 || s.Mean != 942 || s.SD != 2 ||
		math.Abs(float64(s.High-s.Mean)-4.96827) > 1e-4 ||
		math.Abs(float64(s.Mean-s.Low)-4.96827) > 1e-4 {
		t.Errorf("%+v", s)
	}
	if s := spreadOf([]Number{1, 2}); !s.SD.Known() || s.Low.Known() || s.High.Known() {
		t.Errorf("two runs tell an interval: %+v", s)
	}
	if s := spreadOf([]Number{5}); s.Mean != 5 || s.SD.Known() {
		t.Errorf("one run has a deviation: %+v", s)
	}
	if s := spreadOf([]Number{unknown()}); s.Runs != 0 || s.Mean.Known() {
		t.Errorf("nothing has a mean: %+v", s)
	}
}

func TestRatio(t *testing.T) {
	a, b := spreadOf([]Number{100, 101, 99}), spreadOf([]Number{109, 110, 108})
	r := ratioOf(a, b)
	// ln(1.09), both sets with a relative variance of the mean of 1/3e-4 and 1/3e-4/1.09²; 3.9708
	// degrees, t = 2.7846.
	if math.Abs(float64(r.Ratio)-1.09) > 1e-12 || !r.Sure ||
		math.Abs(float64(r.High)-1.114042) > 1e-5 ||
		math.Abs(float64(r.Low)-1.066477) > 1e-5 {
		t.Errorf("%+v", r)
	}
	if r := ratioOf(a, spreadOf([]Number{100.5, 101.5, 99.5})); r.Sure || !(r.Low < 1) ||
		!(r.High > 1) {
		t.Errorf("half a percent within a deviation of one is called significant: %+v", r)
	}
	if r := ratioOf(a, spreadOf([]Number{200})); r.Ratio != 2 || r.Low.Known() || r.Sure {
		t.Errorf("one run has an interval: %+v", r)
	}
	if r := ratioOf(a, Spread{Mean: unknown()}); r.Ratio.Known() {
		t.Errorf("nothing was compared: %+v", r)
	}
}
