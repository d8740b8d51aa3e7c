package procfs

import (
	"testing"
)

func TestNameValuesFollowsChangedLines(t *testing.T) {
	n := NameValues{Slots: map[string]int{"a": 0, "b": 1, "c": 2}}
	var v [3]uint64
	var seen [3]bool
	for _, c := range []struct {
		text string
		want [3]uint64
	}{
		{"a 1\nx 5\nb 2\nc 3\n", [3]uint64{1, 2, 3}}, {"a 1\nx 5\nb 2\nc 3\n", [3]uint64{1, 2, 3}},
		{"x 5\na 4\nc: 3 kB\n", [3]uint64{4, 0, 3}}, {"b 7\nb x\na\n\n  c 9", [3]uint64{0, 7, 9}},
	} {
		if n.Parse([]byte(c.text), v[:], seen[:]); v != c.want {
			t.Errorf("%q: %v, want %v", c.text, v, c.want)
		}
	}
}

func FuzzNameValues(f *testing.F) {
	f.Add([]byte("a 1\nb: 2 kB\n"), []byte("b 3\n\na x\n"))
	f.Add([]byte(" "), []byte(" 0 1"))
	f.Add([]byte("a: 1"), []byte("a:x 5"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
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
