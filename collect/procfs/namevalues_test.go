package procfs

import (
	"fmt"
	"testing"

	"culprit/heapbound"
)

func TestNameValuesFollowsChangedLines(t *testing.T) {
	n := NameValues{Slots: map[string]int{"a": 0, "b": 1, "c": 2}}
	var v [3]uint64
	var seen [3]bool
	for _, c := range []struct {
		text string
		want [3]uint64
		seen [3]bool
	}{
		{"a 1\nx 5\nb 2\nc 3\n", [3]uint64{1, 2, 3}, [3]bool{true, true, true}},
		{"a 1\nx 5\nb 2\nc 3\n", [3]uint64{1, 2, 3}, [3]bool{true, true, true}},
		{"x 5\na 4\nc: 3 kB\n", [3]uint64{4, 0, 3}, [3]bool{true, false, true}},
		{"b 7\nb x\na\n\n  c 9", [3]uint64{0, 7, 9}, [3]bool{false, true, true}},
		{"b 0\nb 2\nb 3\n", [3]uint64{0, 5, 0}, [3]bool{false, true, false}},
		{"b 4\nb:\nb", [3]uint64{0, 4, 0}, [3]bool{false, true, false}},
		{"bb 1\nb:2\na:: 3\n", [3]uint64{}, [3]bool{}},
		{"b 1\nb:\na 3\n", [3]uint64{3, 1, 0}, [3]bool{true, true, false}},
		{"b 4\nb: 5\na 6", [3]uint64{6, 9, 0}, [3]bool{true, true, false}},
	} {
		if n.Parse([]byte(c.text), v[:], seen[:]); v != c.want || seen != c.seen {
			t.Errorf("%q: %v %v, want %v %v", c.text, v, seen, c.want, c.seen)
		}
	}
}

// TestNameValuesLearns checks that a file with the same lines allocates nothing when it is read
// again, and that a file with endless names is not kept.
func TestNameValuesLearns(t *testing.T) {
	n := NameValues{Slots: map[string]int{"name4000": 0, "name5000": 1}}
	var text []byte
	for i := range 6000 {
		text = fmt.Appendf(text, "name%d %d\n", i, i)
	}
	var v [2]uint64
	var seen [2]bool
	for range 2 {
		if n.Parse(text, v[:], seen[:]); v != [2]uint64{4000, 5000} {
			t.Errorf("%v", v)
		}
	}
	if len(n.lines) != 4096 || len(n.known) != 4096 {
		t.Errorf("%d lines and %d names are kept", len(n.lines), len(n.known))
	}
	few := NameValues{Slots: map[string]int{"name3": 0}}
	short := text[:len("name0 0\n")*4]
	few.Parse(short, v[:1], seen[:1])
	again := func() { few.Parse(short, v[:1], seen[:1]) }
	if allocs := testing.AllocsPerRun(10, again); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func FuzzNameValues(f *testing.F) {
	f.Add([]byte("a 1\nb: 2 kB\n"), []byte("b 3\n\na x\n"))
	f.Add([]byte(" "), []byte(" 0 1"))
	f.Add([]byte("a: 1"), []byte("a:x 5"))
	heapbound.Fuzz(f, func(t *testing.T, a, b []byte) {
		n := NameValues{Slots: map[string]int{"a": 0, "b": 1, "": 2}}
		var learnt, fresh [3]uint64
		var seen [3]bool
		n.Parse(a, learnt[:], seen[:])
		n.Parse(b, learnt[:], seen[:])
		(&NameValues{Slots: n.Slots}).Parse(b, fresh[:], seen[:])
		if learnt != fresh {
			t.Fatalf("%v after another text, %v without", learnt, fresh)
		}
	})
}
