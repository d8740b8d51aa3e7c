package profile

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestStackSet builds trees of random stacks in both ways: with nodes at once, and of sorted stacks
// at the end.
func TestStackSet(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		one, other, s := NewBuilder(), NewBuilder(), &stackSet{}
		for range r.IntN(60) {
			var a, b []uint32
			for range r.IntN(6) {
				name := []byte(fmt.Sprint("f", r.IntN(4)))
				a, b = append(a, one.Function(name, nil, Code)), append(b,
					other.Function(name, []byte("lib"), Code))
			}
			amount := float64(r.IntN(5))
			one.Stack(a, amount)
			s.add(s.stack(b), amount)
		}
		least := float64(r.IntN(4)) / 20
		want := one.Tree()
		got := s.tree(other, least)
		checkTree(t, got)
		if !got.inWalkOrder() {
			t.Fatal("the nodes are in no order of a walk")
		}
		want = want.Prune(least * want.Sum())
		if got.Sum() != want.Sum() || got.Len() != want.Len() || got.Depth != want.Depth ||
			totals(got) != totals(want) {
			t.Fatalf("least %v: %d nodes, depth %d:\n%s\nwant %d, %d:\n%s", least, got.Len(),
				got.Depth, totals(got), want.Len(), want.Depth, totals(want))
		}
	}
}

// totals returns a line for each node: its stack, own amount and total.
func totals(t *Tree) string {
	names := make([][]byte, len(t.Functions))
	for i, f := range t.Functions {
		names[i] = []byte(f.Name)
	}
	var out strings.Builder
	t.lines(names, func(node int32, line []byte) {
		fmt.Fprintln(&out, string(line), t.Self[node], t.Total[node])
	})
	return out.String()
}
