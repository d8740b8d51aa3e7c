package profile

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"culprit/heapbound"
)

func columnsOf(t testing.TB, tree *Tree) []byte {
	t.Helper()
	b, err := AppendColumns(nil, tree)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestColumns checks that a profile in columns is read back in depth-first order, callees sorted by
// name.
func TestColumns(t *testing.T) {
	b := NewBuilder()
	f := func(name, module string, kind Kind) uint32 {
		return b.Function([]byte(name), []byte(module), kind)
	}
	main, z, a, read := f("main", "prog", Code), f("z", "prog", Inlined), f("a", "", JIT), f("read",
		"kernel", Kernel)
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
	if want := []string{"all", " bash", "  main", " main", "  a", "  z", "   read"}; !reflect.DeepEqual(
		names, want,
	) {
		t.Errorf("%q", names)
	}
	if want := []float64{7.5, 4, 4, 3.5, 0.5, 3, 2}; !reflect.DeepEqual(got.Total, want) {
		t.Errorf("totals %v", got.Total)
	}
	if g := got.Functions[got.Function[2]]; g != (Function{"main", "prog", Code, "main.c", 12}) {
		t.Errorf("%+v", g)
	}
	if got.Functions[got.Function[6]].Kind != Kernel ||
		got.Functions[got.Function[4]].Kind != JIT ||
		got.Functions[got.Function[5]].Kind != Inlined ||
		got.Functions[got.Function[1]].Kind != Process {
		t.Error("kinds")
	}
	if got.Seconds != 3.5 || got.Samples != 8 || got.Unit != "samples" || got.Depth != 3 ||
		!reflect.DeepEqual(got.Notes, tree.Notes) {
		t.Errorf("%+v", got)
	}
	if !bytes.Equal(columnsOf(t, got), columnsOf(t, tree)) {
		t.Error("what was read is written otherwise")
	}
}

// TestColumnsNames checks names that are dangerous or too long to be shown.
func TestColumnsNames(t *testing.T) {
	b := NewBuilder()
	b.Stack(
		[]uint32{b.Function([]byte("a\x00\n\u202eb\xff"), []byte("\x1b[2J"), Code),
			b.Function(bytes.Repeat([]byte("x"), 10000), nil, Code)},
		1,
	)
	got, err := ParseColumns(columnsOf(t, b.Tree()))
	if err != nil {
		t.Fatal(err)
	}
	if f := got.Functions[1]; f.Name != "a\ufffd\ufffd\ufffdb\ufffd" || f.Module != "\ufffd[2J" {
		t.Errorf("%q in %q", f.Name, f.Module)
	}
	if n := got.Functions[2].Name; len(n) > maxName+40 ||
		!strings.HasSuffix(n, "... (10,000 bytes)") {
		t.Errorf("%d bytes: %q", len(n), n[len(n)-30:])
	}
}

// TestDiffColumns checks that a comparison has a column of the totals before, including nodes that
// exist only there.
func TestDiffColumns(t *testing.T) {
	d, err := Compare(profileOf(t, "main;a 1\nmain;gone 3\n"), profileOf(t, "main;a 1\nmain;b 1\n"),
		Norm{Per: "sample"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := AppendDiffColumns(nil, d)
	if err != nil {
		t.Fatal(err)
	}
	nodes := 5
	values := b[len(b)-16*nodes:]
	if want := []float64{0, 0, 0.5, 0.5, 0, 0, 0, 0.25, 0, 0.75}; !reflect.DeepEqual(floats(values),
		want) {
		t.Errorf("%v", floats(values))
	}
	if _, err := ParseColumns(b); err == nil {
		t.Error("a comparison passes for a profile")
	}
	if !bytes.Contains(b, []byte(`"share":true`)) ||
		!bytes.Contains(b, []byte("Normalised per sample")) {
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

// FuzzColumns checks that any accepted input is a whole tree, which is the same when written and
// read again.
func FuzzColumns(f *testing.F) {
	whole := columnsOf(f, func() *Tree {
		tree, err := Read(
			context.Background(), strings.NewReader("a;b_[k] 3\na;c 2.5\nd 1\n"), "", Options{},
		)
		if err != nil {
			f.Fatal(err)
		}
		return tree
	}())
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add([]byte("CLPF\x01\x00\x00\x00\xff\xff\xff\xff{}"))
	heapbound.FuzzWithin(f, treeLimit(), func(t *testing.T, data []byte) {
		tree, err := ParseColumns(data)
		if err != nil {
			return
		}
		again, err := ParseColumns(columnsOf(t, tree))
		if err != nil {
			t.Fatal(err)
		}
		if again.Len() != tree.Len() || !(math.Abs(again.Sum()-tree.Sum()) <= 1e-9*tree.Sum()) {
			t.Fatalf("%d nodes of %v, and again %d of %v", tree.Len(), tree.Sum(), again.Len(),
				again.Sum())
		}
	})
}

func TestOfSampled(t *testing.T) {
	tree := FromSamples(slices.Values([]Sampled{
		{Process: "nginx", User: []string{"libc.so.6`write+0x14", "nginx`main+0x2", "nginx`0x55d0"},
			Kernel: []string{"kernel`tcp_sendmsg+0x1"}, Count: 3, Amount: 3},
		{Process: "node", User: []string{"node`inner_[i]", "handle", "[caller may be missing]", "0x7f00"}, Count: 1,
			Amount: 1},
	}), SampleTimes{})
	var got []string
	for n := 1; n < tree.Len(); n++ {
		f := tree.Functions[tree.Function[n]]
		got = append(got, string(f.Kind.colourClass())+" "+f.Qualified())
	}
	if want := []string{"p nginx", "c nginx`[nginx]", "c nginx`main", "c libc.so.6`write", "k kernel`tcp_sendmsg", "p node", "c [unknown]", "c [caller may be missing]", "j handle", "i node`inner_[i]"}; !reflect.DeepEqual(
		got, want,
	) {
		t.Errorf("%q", got)
	}
	if tree.Samples != 4 || tree.Sum() != 4 {
		t.Errorf("%v samples", tree.Samples)
	}
}

// TestOverview checks that an overview has the totals and left edges of wide calls, and merges
// adjacent narrow ones.
func TestOverview(t *testing.T) {
	b := NewBuilder()
	f := func(name string) uint32 { return b.Function([]byte(name), nil, Code) }
	main := f("main")
	for i := range 60_000 {
		b.Stack([]uint32{main, f(fmt.Sprintf("a%05d", i))}, 1) // before the wide one
		b.Stack([]uint32{main, f(fmt.Sprintf("z%05d", i)), f("deep")}, 1)
	}
	b.Stack([]uint32{main, f("m"), f("n")}, 200_000)
	b.Stack([]uint32{main}, 7)
	tree := b.Tree()
	data, any, err := AppendOverview(nil, tree)
	if err != nil || !any {
		t.Fatal(any, err)
	}
	if _, err := ParseColumns(data); err == nil {
		t.Error("an overview is accepted as a profile")
	}
	data[6] &^= isOverview
	if _, err := ParseColumns(data); err == nil {
		t.Error("function 0 is accepted for a node other than the root")
	}
	u, _ := tree.overview(tree.overviewThreshold())
	var got []string
	for n := range u.Len() {
		got = append(got, fmt.Sprint(u.Parent[n], " ", u.Name(n), " ", u.Self[n], " ", u.Total[n]))
	}
	if want := []string{"-1 all 0 320007", "0 main 7 320007", "1 all 60000 60000", "1 m 0 200000", "3 n 200000 200000", "1 all 60000 60000"}; !reflect.DeepEqual(
		got, want,
	) {
		t.Errorf("%q", got)
	}
	if small, any, err := AppendOverview(nil, tree.Prune(2)); any || err != nil || small != nil {
		t.Error("a small profile has an overview", err)
	}
	// With too many wide calls fewer remain, and no amount is lost.
	b = NewBuilder()
	for i := range 40_000 {
		b.Stack([]uint32{f2(b, i/200), f2(b, 1000+i)}, float64(1+i%7)*1000)
	}
	for i := range 12_000 {
		b.Stack([]uint32{f2(b, 9), f2(b, 100_000+i), f2(b, 7)}, 3000)
	}
	tree = b.Tree()
	data, _, err = AppendOverview(nil, tree)
	if err != nil {
		t.Fatal(err)
	}
	var h columnsHeader
	size := int(binary.LittleEndian.Uint32(data[8:]))
	if err := json.Unmarshal(data[columnsHead:columnsHead+size], &h); err != nil {
		t.Fatal(err)
	}
	if h.Of != tree.Len() || h.Nodes >= h.Of || h.Nodes > 2*maxOverviewNodes+1 {
		t.Errorf("%d of %d", h.Nodes, h.Of)
	}
	sum := 0.0
	for n := range h.Nodes {
		sum += math.Float64frombits(binary.LittleEndian.Uint64(data[len(data)-8*h.Nodes+8*n:]))
	}
	if sum != tree.Sum() {
		t.Errorf("%v of %v", sum, tree.Sum())
	}
}

func f2(b *Builder, i int) uint32 { return b.Function(fmt.Appendf(nil, "f%d", i), nil, Code) }
