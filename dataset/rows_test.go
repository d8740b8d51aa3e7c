package dataset

import (
	"math/rand/v2"
	"slices"
	"testing"

	"culprit/measure"
)

// TestKeptRows: statistics that share their keys number their rows independently, in the order in
// which the rows came, whether they have the rows of the others or not.
func TestKeptRows(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		shared := newRows(2)
		stats := make([]*recordedStat, 3)
		numbers := make([]map[[2]measure.Label]int, len(stats))
		for i := range stats {
			stats[i], numbers[i] = &recordedStat{keys: shared}, map[[2]measure.Label]int{}
		}
		misses := random.IntN(4) // 0: all have all
		for range 6 {
			for _, k := range stats {
				k.next = 0
			}
			for n := range 1 + random.IntN(12) {
				key := [2]measure.Label{measure.Label(n), measure.Label(random.IntN(1 + misses))}
				for i, k := range stats {
					if misses > 0 && random.IntN(4*misses) == 0 {
						continue
					}
					want, known := numbers[i][key]
					if !known {
						want = len(numbers[i])
						numbers[i][key] = want
					}
					if got, fresh := k.row(key[:]); got != want || fresh == known {
						t.Fatalf(
							"seed %d: key %v of statistic %d is row %d (fresh %v), want %d", seed,
							key, i, got, fresh, want,
						)
					}
				}
			}
		}
		for i, k := range stats {
			if k.len() != len(numbers[i]) {
				t.Fatalf("seed %d: %d rows, want %d", seed, k.len(), len(numbers[i]))
			}
			for key, n := range numbers[i] {
				if !slices.Equal(k.key(n), key[:]) {
					t.Fatalf("seed %d: row %d has key %v, want %v", seed, n, k.key(n), key)
				}
			}
		}
		if misses == 0 && (stats[2].rowKeys != nil || stats[2].len() == 0) {
			t.Fatalf("seed %d: a statistic that has all rows keeps a list of them", seed)
		}
	}
}
