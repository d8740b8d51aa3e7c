package flame

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
)

func columnsOf(t testing.TB, tree *Tree) []byte {
	t.Helper()
	b, err := AppendColumns(nil, tree)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A profile comes back as it was, in the order of a walk, those that one calls by name.
func TestColumns(t *testing.T) {
	b := NewBuilder()
	f := func(name, module string, kind Kind) uint32 { return b.Function([]byte(name), []byte(module), kind) }
	main, z, a, read := f("main", "prog", Code), f("z", "prog", Inlined), f("a", "", JIT), f("read", "kernel", Kernel)
	b.Stack([]uint32{main, z, read}, 2)
	b.Stack([]uint32{main, a}, 0.5)
	b.Stack([]uint32{main, z}, 1)
	b.Stack([]uint32{f("bash", "", Process), main}, 4)
	tree := b.Tree()
	tree.Functions[main].File, tree.Functions[main].Line = "main.c", 12
	tree.Seconds, tree.Samples, tree.Notes = 3.5, 8, []string{"one"}
	got, err := ParseColumns(columnsOf(t, tree))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for n := range got.Len() {
		names = append(names, strings.Repeat(" ", int(got.depths()[n]))+got.Name(n))
	}
	if want := []string{"all", " bash", "  main", " main", "  a", "  z", "   read"}; !reflect.DeepEqual(names, want) {
		t.Errorf("%q", names)
	}
	if want := []float64{7.5, 4, 4, 3.5, 0.5, 3, 2}; !reflect.DeepEqual(got.Total, want) {
		t.Errorf("totals %v", got.Total)
	}
	if g := got.Functions[got.Function[2]]; g != (Function{"main", "prog", Code, "main.c", 12}) {
		t.Errorf("%+v", g)
	}
	if got.Functions[got.Function[6]].Kind != Kernel || got.Functions[got.Function[4]].Kind != JIT || got.Functions[got.Function[5]].Kind != Inlined || got.Functions[got.Function[1]].Kind != Process {
		t.Error("kinds")
	}
	if got.Seconds != 3.5 || got.Samples != 8 || got.Unit != "samples" || got.Depth != 3 || !reflect.DeepEqual(got.Notes, tree.Notes) {
		t.Errorf("%+v", got)
	}
	if !bytes.Equal(columnsOf(t, got), columnsOf(t, tree)) {
		t.Error("what was read is written otherwise")
	}
}

// Names that would be dangerous or too long to be shown.
func TestColumnsNames(t *testing.T) {
	b := NewBuilder()
	b.Stack([]uint32{b.Function([]byte("a\x00\n\u202eb\xff"), []byte("\x1b[2J"), Code), b.Function(bytes.Repeat([]byte("x"), 10000), nil, Code)}, 1)
	got, err := ParseColumns(columnsOf(t, b.Tree()))
	if err != nil {
		t.Fatal(err)
	}
	if f := got.Functions[1]; f.Name != "a\ufffd\ufffd\ufffdb\ufffd" || f.Module != "\ufffd[2J" {
		t.Errorf("%q in %q", f.Name, f.Module)
	}
	if n := got.Functions[2].Name; len(n) > mostName+40 || !strings.HasSuffix(n, "... (10,000 bytes)") {
		t.Errorf("%d bytes: %q", len(n), n[len(n)-30:])
	}
}

// A comparison has what was before as a column, with nodes that are gone.
func TestDiffColumns(t *testing.T) {
	d, err := Compare(profileOf(t, "main;a 1\nmain;gone 3\n"), profileOf(t, "main;a 1\nmain;b 1\n"), Norm{Per: "sample"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := AppendDiffColumns(nil, d)
	if err != nil {
		t.Fatal(err)
	}
	nodes := 5
	values := b[len(b)-16*nodes:]
	if want := []float64{0, 0, 0.5, 0.5, 0, 0, 0, 0.25, 0, 0.75}; !reflect.DeepEqual(floats(values), want) {
		t.Errorf("%v", floats(values))
	}
	if _, err := ParseColumns(b); err == nil {
		t.Error("a comparison passes for a profile")
	}
	if !bytes.Contains(b, []byte(`"share":true`)) || !bytes.Contains(b, []byte("Normalised per sample")) {
		t.Errorf("%.200q", b)
	}
}

func floats(b []byte) (out []float64) {
	for ; len(b) >= 8; b = b[8:] {
		bits := uint64(0)
		for i := range 8 {
			bits |= uint64(b[i]) << (8 * i)
		}
		out = append(out, math.Float64frombits(bits))
	}
	return out
}

// Whatever is read is a whole tree, which is written as what is read again.
func FuzzColumns(f *testing.F) {
	whole := columnsOf(f, func() *Tree {
		tree, err := Read(strings.NewReader("a;b_[k] 3\na;c 2.5\nd 1\n"), "", Options{})
		if err != nil {
			f.Fatal(err)
		}
		return tree
	}())
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add([]byte("CLPF\x01\x00\x00\x00\xff\xff\xff\xff{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tree, err := ParseColumns(data)
		if err != nil {
			return
		}
		again, err := ParseColumns(columnsOf(t, tree))
		if err != nil {
			t.Fatal(err)
		}
		if again.Len() != tree.Len() || !(math.Abs(again.Sum()-tree.Sum()) <= 1e-9*tree.Sum()) {
			t.Fatalf("%d nodes of %v, and again %d of %v", tree.Len(), tree.Sum(), again.Len(), again.Sum())
		}
	})
}

func TestOfSampled(t *testing.T) {
	tree := OfSampled([]Sampled{
		{Process: "nginx", User: []string{"libc.so.6`write+0x14", "nginx`main+0x2", "nginx`0x55d0"}, Kernel: []string{"kernel`tcp_sendmsg+0x1"}, Amount: 3},
		{Process: "node", User: []string{"handle", "0x7f00"}, Amount: 1},
	})
	var got []string
	for n := 1; n < tree.Len(); n++ {
		f := tree.Functions[tree.Function[n]]
		got = append(got, string(f.Kind.letter())+" "+f.Place())
	}
	if want := []string{"p nginx", "c nginx`[nginx]", "c nginx`main", "c libc.so.6`write", "k kernel`tcp_sendmsg", "p node", "c [unknown]", "j handle"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
	if tree.Samples != 4 || tree.Sum() != 4 {
		t.Errorf("%v samples", tree.Samples)
	}
}
