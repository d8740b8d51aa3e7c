package store

import (
	"math"
	"slices"
	"testing"

	"culprit/measure"
)

// Rollups of version 1 have the same values as those of the current version.
func TestRollupsOfVersionOneAreRead(t *testing.T) {
	s, n, w := filled(t, t.TempDir(), Options{}, 21)
	w.run(t, s, n, someTime, 4200)
	s.Settle()
	defer s.Close()
	compared, single := 0, 0
	for _, d := range s.datasets.byID {
		for _, e := range append(slices.Clone(d.index[inMinutes]), d.index[inHours]...) {
			now, err := e.read(&s.codec, s.disk.fetch, d, nil)
			if err != nil {
				t.Fatal(err)
			}
			var old [rollColumns][]float64
			var want [][rollColumns][]float64
			pack := packer{codec: &s.codec}
			open, rows, err := e.open(&s.codec, s.disk.fetch, d, nil)
			if err != nil {
				t.Fatal(err)
			}
			ring, _ := mergeKeys(d.stack, []*block{open})
			var groups [][]byte
			row := 0
			for _, count := range rows {
				for range count {
					r := rolled{}
					r.reset(len(now.cells))
					if err := now.roll(row, &r.columns); err != nil {
						t.Fatal(err)
					}
					row++
					for k, c := range r.columns {
						old[k] = slices.Clone(c)
					}
					want = append(want, old)
					// in version 1 no rate was omitted for its least
					r.spare(d.desc.Stat.Kind == measure.Level, false, now.cells)
					for _, c := range r.columns {
						pack.packRow(c)
					}
				}
				groups = append(groups, slices.Clone(pack.finish()))
			}
			head := ring.append(appendClock(nil, spanOf(e.resolution), open))
			head = appendUvarint(head, uint64(len(rows)))
			for _, n := range rows {
				head = appendUvarint(head, uint64(n))
			}
			head = s.codec.compress([]byte{1, e.resolution}, head)
			e.clock, e.keys, e.version = 0, 0, 0
			next := 0
			first, err := e.read(&s.codec, func(key, _ []byte) ([]byte, error) {
				if key[0] == kindHeader {
					return head, nil
				}
				next++
				return groups[next-1], nil
			}, d, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				r := rolled{}
				r.reset(len(first.cells))
				if err := first.roll(i, &r.columns); err != nil {
					t.Fatal(err)
				}
				for k, c := range r.columns {
					if !slices.EqualFunc(
						c,
						want[i][k],
						func(a, b float64) bool {
							return math.Float64bits(a) == math.Float64bits(b)
						},
					) {
						t.Fatalf(
							"%s row %d column %d: %v, want %v", d.desc.Query, i, k, c, want[i][k],
						)
					}
					compared += len(c)
				}
				for c, sum := range r.columns[rollSum] {
					if sum == sum && float64(first.cells[c].ticks)-r.columns[rollMissing][c] == 1 {
						single++
					}
				}
			}
		}
	}
	if compared == 0 || single == 0 {
		t.Errorf("%d values compared, %d cells of one tick", compared, single)
	}
}

// spare does what programs that wrote version 2 did. It leaves out a most that equals the least, or
// for the rate of one tick the float32 after it, and a least that is the mean of a state.
func (r *rolled) spare(level, rate bool, cells []cellInfo) {
	for c, sum := range r.columns[rollSum] {
		if sum != sum {
			continue
		}
		least, most := &r.columns[rollLeast][c], &r.columns[rollMost][c]
		n := float64(cells[c].ticks) - r.columns[rollMissing][c]
		if math.Float64bits(mostOf(*least, n, rate)) == math.Float64bits(*most) {
			*most = absent()
			if level && math.Float64bits(sum/n) == math.Float64bits(*least) {
				*least = absent()
			}
		}
	}
}
