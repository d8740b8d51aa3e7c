package profile

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestTextTree adds stacks of few functions with many common prefixes and compares the tree with
// sums computed line by line.
func TestTextTree(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		names := []string{"a", "b", "aa", "", "a b", strings.Repeat("c", 40)}[:2+r.IntN(5)]
		deepest := 1 + r.IntN(12)
		if seed%10 == 0 {
			deepest = 200
		}
		var lines []string
		for range 1 + r.IntN(200) {
			stack := []string{[]string{"m", "mm"}[r.IntN(2)]}
			for range r.IntN(deepest) {
				stack = append(stack, names[r.IntN(len(names))*r.IntN(2)])
			}
			if len(lines) > 0 && r.IntN(3) == 0 { // extends another
				stack[0] = lines[r.IntN(len(lines))]
			}
			lines = append(lines, strings.Join(stack, ";"))
		}
		if seed%3 == 0 {
			slices.Sort(lines)
		}
		// Every prefix of a stack is a node.
		total, self := map[string]float64{}, map[string]float64{}
		p := newTextTree(nil)
		sum := 0.0
		for _, l := range lines {
			n := float64(r.IntN(4))
			p.add([]byte(l), n)
			self[l] += n
			sum += n
			for at := range l + ";" {
				if at == len(l) || l[at] == ';' {
					total[l[:at]] += n
				}
			}
		}
		least := 0.0
		if seed%4 == 1 {
			least = 0.02
		}
		tree := p.tree(least)
		if tree.Sum() != sum {
			t.Fatalf("seed %d: %v in all, want %v", seed, tree.Sum(), sum)
		}
		paths, depth := make([]string, tree.Len()), 0
		for i := 1; i < tree.Len(); i++ {
			up := tree.Parent[i]
			if int(up) >= i {
				t.Fatalf("seed %d: node %d stands before its caller %d", seed, i, up)
			}
			paths[i] = tree.Name(i)
			if up > 0 {
				paths[i] = paths[up] + ";" + tree.Name(i)
			}
			depth = max(depth, 1+strings.Count(paths[i], ";"))
			if tree.Total[i] != total[paths[i]] || tree.Self[i] != self[paths[i]] {
				t.Fatalf("seed %d: %q has %v (%v in itself), want %v (%v)", seed, paths[i],
					tree.Total[i], tree.Self[i], total[paths[i]], self[paths[i]])
			}
			delete(total, paths[i])
		}
		if depth != tree.Depth {
			t.Fatalf("seed %d: depth %d, want %d", seed, tree.Depth, depth)
		}
		for path, n := range total {
			if n >= least*sum {
				t.Fatalf("seed %d: %q, which has %v of %v, is no node, or is two", seed, path, n,
					sum)
			}
		}
	}
}

// TestLeast reads stacks without those that an SVG does not show, and expects the same picture.
func TestLeast(t *testing.T) {
	var in strings.Builder
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 5000 {
		fmt.Fprintf(&in, "main;f%d;g%d;h%d;leaf%d %d\n", r.IntN(3), r.IntN(30), r.IntN(300), i,
			1+r.IntN(40))
	}
	for _, p := range []Picture{{}, {Width: 300}, {Width: 5000}} {
		var pictures [2]bytes.Buffer
		var nodes [2]int
		for i, o := range []Options{{}, {Least: p.Least()}} {
			tree, err := Read(never, strings.NewReader(in.String()), "", o)
			if err != nil {
				t.Fatal(err)
			}
			nodes[i] = tree.Len()
			if err := WriteSVG(&pictures[i], tree, p); err != nil {
				t.Fatal(err)
			}
		}
		if pictures[0].String() != pictures[1].String() {
			t.Errorf("width %d: the picture is another", p.Width)
		}
		if p.Width < 1000 && nodes[1] >= nodes[0] {
			t.Errorf("width %d: %d nodes, and %d of what is shown", p.Width, nodes[0], nodes[1])
		}
	}
}
