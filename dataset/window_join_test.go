package dataset

import (
	"slices"
	"testing"

	"culprit/measure"
)

// When a source's reading shares the tick of its previous one, the tick has the values of both.
func TestJoinTicks(t *testing.T) {
	t.Run("distributions", func(t *testing.T) {
		dist := func(value, n uint64) measure.Dist {
			d := measure.Dist{Base: 3}
			d.Add(value, n)
			return d
		}
		k := &recordedStat{
			st:      &measure.Stat{Kind: measure.Dists},
			elapsed: []measure.Span{1 * measure.Second, 3 * measure.Second, 7 * measure.Second},
			dists: [][]measure.Dist{
				{dist(2, 3)},
				{dist(5, 11)},
				{dist(6, 13), dist(7, 17)},
			},
		}
		k.joinTicks(1)
		if want := []measure.Span{1 * measure.Second, 10 * measure.Second}; !slices.Equal(
			k.elapsed, want,
		) {
			t.Errorf("elapsed %v, want %v", k.elapsed, want)
		}
		for _, tt := range []struct {
			name      string
			tick, row int
			count     uint64
			sum       float64
		}{
			{"the tick before is unchanged", 0, 0, 3, 6},
			{"a row of both ticks", 1, 0, 24, 5*11 + 6*13},
			{"a row of the later tick", 1, 1, 17, 7 * 17},
		} {
			t.Run(tt.name, func(t *testing.T) {
				d := k.dists[tt.tick][tt.row]
				if d.Count() != tt.count || d.Sum != tt.sum {
					t.Errorf("%d values, sum %g; want %d, %g", d.Count(), d.Sum, tt.count, tt.sum)
				}
			})
		}
	})
	for _, tt := range []struct {
		name          string
		first, second measure.Span
		a, b, want    float64
	}{
		{"rates are weighted by their time", 1 * measure.Second, 3 * measure.Second, 8, 4, 5},
		{"only the first was measured", 1 * measure.Second, 3 * measure.Second, 8, measure.NaN, 8},
		{"only the second was measured", 1 * measure.Second, 3 * measure.Second, measure.NaN, 4, 4},
		{"the first has no time", 0, 3 * measure.Second, 8, 4, 4},
		{"the second has no time", 1 * measure.Second, 0, 8, 4, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &recordedStat{
				st:         &measure.Stat{Kind: measure.Level},
				sameAsKeys: 1,
				elapsed:    []measure.Span{tt.first, tt.second},
				cells: []column{
					columnOf([]float64{tt.a}, 0, nil),
					columnOf([]float64{tt.b}, 0, nil),
				},
			}
			k.joinTicks(0)
			if got := k.cell(0, 0, false); len(k.cells) != 1 || got != tt.want {
				t.Errorf("%g in the first of %d ticks, want %g", got, len(k.cells), tt.want)
			}
		})
	}
}
