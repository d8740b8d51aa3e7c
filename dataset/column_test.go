package dataset

import (
	"testing"

	"culprit/measure"
)

// A column returns the bits that were stored, in four bytes where that is possible, and shares
// unchanged values.
func TestColumnsLoseNothing(t *testing.T) {
	for _, c := range []struct {
		cells []float64
		thin  bool
	}{
		{[]float64{0, 1, 1500, 1 << 24, measure.NaN, 37_000, -2.5}, true},
		{[]float64{0, 1<<24 + 1}, false},
		{[]float64{0.1}, false},
		{[]float64{1e300, 1}, false},
		{nil, true},
	} {
		got := columnOf(c.cells, 0, nil)
		if got.len() != len(c.cells) || (got.wide == nil) != c.thin {
			t.Errorf("%v: %d cells, in four bytes %v", c.cells, got.len(), got.wide == nil)
		}
		for i, v := range c.cells {
			if w := got.at(i); w != v && (w == w || v == v) {
				t.Errorf("%v: cell %d is %v", c.cells, i, w)
			}
		}
		again := columnOf(c.cells, 5, &got)
		if again.over != 5 || len(c.cells) > 0 && c.thin && &again.narrow[0] != &got.narrow[0] ||
			!c.thin && &again.wide[0] != &got.wide[0] {
			t.Errorf("%v: the same once more is kept a second time", c.cells)
		}
	}
}
