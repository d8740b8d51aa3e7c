package engine

import (
	"math"
	"testing"

	"culprit/measure"

	"github.com/prometheus/common/model"
)

// at makes samples from pairs of seconds and values.
func at(pairs ...float64) (out []model.SamplePair) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, model.SamplePair{
			Timestamp: model.Time(pairs[i] * 1e3), Value: model.SampleValue(pairs[i+1]),
		})
	}
	return out
}

const second = measure.Second

func TestCounterCells(t *testing.T) {
	g := grid{start: measure.Time(100 * second), step: 10 * second, cells: 3}
	for _, tt := range []struct {
		name    string
		samples []model.SamplePair
		sums    [3]float64
		covered [3]float64 // seconds
	}{
		{"at the edges", at(100, 7, 110, 17, 120, 37, 130, 77), [3]float64{10, 20, 40}, [3]float64{10, 10, 10}},
		{"between the edges", at(95, 0, 105, 10, 115, 50, 125, 60, 135, 90), [3]float64{5 + 20, 20 + 5, 5 + 15}, [3]float64{10, 10, 10}},
		{"one sample in each of two cells", at(105, 3, 115, 13), [3]float64{5, 5, 0}, [3]float64{5, 5, 0}},
		{"a reset to what has come since", at(100, 70, 110, 90, 120, 6, 130, 9), [3]float64{20, 6, 3}, [3]float64{10, 10, 10}},
		{"a reset to 0 begins anew", at(100, 70, 110, 90, 115, 0, 120, 6, 130, 9), [3]float64{20, 6, 3}, [3]float64{10, 5, 10}},
		{"a sample just in time", at(100, 1, 110, 2, 125.9, 17.9), [3]float64{1, 10, 5.9}, [3]float64{10, 10, 5.9}},
		{"a missing sample", at(100, 1, 110, 2, 126.1, 18.1), [3]float64{1, 0, 0}, [3]float64{10, 0, 0}},
		{"no number", at(100, 1, 110, math.NaN(), 120, 5, 130, 9), [3]float64{0, 0, 4}, [3]float64{0, 0, 10}},
		{"a constant", at(100, 5, 110, 5, 120, 5, 130, 5), [3]float64{}, [3]float64{10, 10, 10}},
		{"outside", at(50, 1, 60, 2, 70, 3), [3]float64{}, [3]float64{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkCells(t, g.counter(tt.samples, 10*second), tt.sums, tt.covered)
		})
	}
}

func TestGaugeCells(t *testing.T) {
	g := grid{start: measure.Time(100 * second), step: 10 * second, cells: 3}
	for _, tt := range []struct {
		name    string
		samples []model.SamplePair
		sums    [3]float64 // values multiplied by seconds
		covered [3]float64
	}{
		{"at the edges", at(110, 3, 120, 5, 130, 7), [3]float64{30, 50, 70}, [3]float64{10, 10, 10}},
		{"between the edges", at(105, 3, 115, 5, 125, 7), [3]float64{15 + 25, 25 + 35, 35}, [3]float64{10, 10, 5}},
		{"a missing sample", at(110, 3, 130, 7), [3]float64{30, 0, 70}, [3]float64{10, 0, 10}},
		{"no number", at(110, 3, 120, math.Inf(1), 130, 7), [3]float64{30, 0, 70}, [3]float64{10, 0, 10}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkCells(t, g.gauge(tt.samples, 10*second), tt.sums, tt.covered)
		})
	}
}

func checkCells(t *testing.T, r *row, sums, covered [3]float64) {
	t.Helper()
	for c := range sums {
		if math.Abs(r.sum[c]-sums[c]) > 1e-9 || math.Abs(r.covered[c].Seconds()-covered[c]) > 1e-9 {
			t.Errorf("cell %d: %v in %v s, want %v in %v s", c, r.sum[c], r.covered[c].Seconds(),
				sums[c], covered[c])
		}
	}
}

func TestInterval(t *testing.T) {
	for _, tt := range []struct {
		name    string
		samples []model.SamplePair
		want    measure.Span
	}{
		{"none", nil, 15 * second},
		{"one sample", at(15, 1), 15 * second},
		{"a scraper's", at(15.003, 1, 30.001, 2, 45.004, 3), 15 * second},
		{"one is missing", at(5, 1, 10, 2, 20, 3, 25, 4, 30, 5), 5 * second},
		{"less than a second", at(0, 1, 0.2, 2, 0.4, 3), second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := intervalOf(model.Matrix{{Values: tt.samples}}, 0); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// A metric without samples has the interval of its host: its cells must not be longer than those of
// the others.
func TestIntervalOfTheHost(t *testing.T) {
	if got := intervalOf(nil, 5*second); got != 5*second {
		t.Errorf("%v, want 5s", got)
	}
}

func TestGrid(t *testing.T) {
	over := func(from, to measure.Span) measure.Interval {
		return measure.Interval{Start: measure.Time(from * second), End: measure.Time(to * second)}
	}
	for _, tt := range []struct {
		name string
		q    measure.Query
		want grid
	}{
		{"longer than samples", measure.Query{Over: over(7, 47), Step: 20 * second}, grid{measure.Time(7 * second), 20 * second, 2}},
		{"the last cell is partly outside", measure.Query{Over: over(7, 48), Step: 20 * second}, grid{measure.Time(7 * second), 20 * second, 3}},
		{"shorter than samples", measure.Query{Over: over(17, 47), Step: second}, grid{measure.Time(15 * second), 15 * second, 3}},
		{"one second", measure.Query{Over: over(31, 32), Step: second}, grid{measure.Time(30 * second), 15 * second, 1}},
		{"no step", measure.Query{Over: over(30, 60)}, grid{measure.Time(30 * second), 15 * second, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := gridOf(tt.q, 15*second); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}
