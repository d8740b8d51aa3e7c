package facts

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestGroupsPartFullDisks: each full disk is in exactly one group, whatever is on what.
func TestGroupsPartFullDisks(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		tree := DiskTree{lower: map[string][]string{}, Head: map[string]string{}}
		var full []*Disk
		for i := range 8 {
			name := fmt.Sprint("d", i)
			full = append(full, &Disk{Name: name})
			for range r.IntN(3) {
				tree.lower[name] = append(tree.lower[name], fmt.Sprint("d", r.IntN(9)))
			}
		}
		in := map[string]int{}
		for _, g := range tree.Groups(full, func(string) bool { return r.IntN(2) == 0 }) {
			for _, d := range g.Members {
				in[d.Name]++
			}
			if g.Representative(tree) == nil {
				t.Fatalf("seed %d: a group of %d without a speaker", seed, len(g.Members))
			}
		}
		for _, d := range full {
			if in[d.Name] != 1 {
				t.Fatalf("seed %d: %s is in %d groups", seed, d.Name, in[d.Name])
			}
		}
	}
}
