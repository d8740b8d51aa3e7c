package profile

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"culprit/heapbound"
)

// fold reads a text and returns it folded.
func fold(t *testing.T, text string, o Options) string {
	t.Helper()
	tree, err := Read(never, strings.NewReader(text), "", o)
	if err != nil {
		t.Fatal(err)
	}
	return folded(t, tree)
}

// folded returns the stacks without the comment with their unit.
func folded(t *testing.T, tree *Tree) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteFolded(&b, tree); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if strings.HasPrefix(text, unitComment) {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

// Folded stacks, pprof and speedscope keep the unit of events, and profiles of different events are
// not compared.
func TestUnitsOfEvents(t *testing.T) {
	of := func(unit string) *Tree {
		tree := FromSamples(slices.Values([]Sampled{
			{Process: "p", User: []string{"p`leaf", "p`main"}, Count: 3, Amount: 300}}),
			SampleTimes{})
		tree.Unit = unit
		return tree
	}
	read := func(t *testing.T, write func(io.Writer, *Tree) error, unit string) *Tree {
		t.Helper()
		var b bytes.Buffer
		if err := write(&b, of(unit)); err != nil {
			t.Fatal(err)
		}
		back, err := Read(t.Context(), &b, "", Options{})
		if err != nil {
			t.Fatal(err)
		}
		return back
	}
	formats := map[string]func(io.Writer, *Tree) error{
		"folded": WriteFolded, "pprof": WritePProf,
		"speedscope": func(w io.Writer, t *Tree) error { return WriteSpeedscope(w, t, "") },
	}
	for name, write := range formats {
		for _, unit := range []string{"page-faults", "sched:sched_switch", "syscall::read:entry"} {
			t.Run(name+" "+unit, func(t *testing.T) {
				if back := read(t, write, unit); back.Unit != unit && name != "speedscope" ||
					back.Sum() != 300 {
					t.Errorf("%v %s", back.Sum(), back.Unit)
				}
			})
		}
	}
	plain := read(t, WriteFolded, "samples") // a file that does not say what it counts
	for _, tt := range []struct {
		name   string
		a, b   *Tree
		per    string
		refuse bool
	}{
		{"same", of("page-faults"), of("page-faults"), "sample", false},
		{"time", of("cycles"), of("ns"), "sample", false},
		{"time, amounts", of("cycles"), of("ns"), "work", true},
		{"events", of("page-faults"), of("context-switches"), "sample", true},
		{"event and time", of("page-faults"), of("samples"), "sample", true},
		{"unknown", of("page-faults"), plain, "sample", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Compare(tt.a, tt.b, Norm{Per: tt.per, Before: 1, After: 1})
			if (err != nil) != tt.refuse {
				t.Errorf("%v", err)
			}
		})
	}
}

// Events of perf are named without their modifiers; tracepoints have a colon.
func TestEventUnit(t *testing.T) {
	for event, want := range map[string]string{
		"cycles:u": "cycles", "page-faults": "page-faults", "cpu-clock:ppp": "ns",
		"sched:sched_switch": "sched:sched_switch", "": "samples",
	} {
		if got := eventUnit(event); got != want {
			t.Errorf("%s: %s, want %s", event, got, want)
		}
	}
}

func TestFolded(t *testing.T) {
	for _, c := range []struct{ name, in, out string }{
		{"one", "a;b;c 3\n", "a;b;c 3\n"},
		{"no line end", "a;b;c 3", "a;b;c 3\n"},
		{"sorted and added up", "b 1\na;c 2\na;b 1\na;c 3\n", "a;b 1\na;c 5\nb 1\n"},
		{"a frame that begins like another", "a;bc 1\na;b 2\na;bc;d 4\n", "a;b 2\na;bc 1\na;bc;d 4\n"},
		{"prefix to the last byte", "a;b;c 1\na;b 2\na;b;c;d 1\na 5\n", "a 5\na;b 2\na;b;c 1\na;b;c;d 1\n"},
		{"fractions", "a 0.5\na 1.25\n", "a 1.75\n"},
		{"carriage returns", "a;b 1\r\na;c 2\r\n", "a;b 1\na;c 2\n"},
		{"empty frames", "a;;b 1\n;x 2\n", "-;x 2\na;-;b 1\n"},
		{"blanks in names", "operator new(unsigned long);a b 7\n", "operator new(unsigned long);a b 7\n"},
		{"a name that ends with a blank", "a;b  7\n", "a;b  7\n"},
		{"comments and junk", "# made by x\n\na 1\njunk\n", "a 1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fold(t, c.in, Options{}); got != c.out {
				t.Errorf("got %q, want %q", got, c.out)
			}
		})
	}
}

func TestTotals(t *testing.T) {
	tree, err := Read(
		context.Background(), strings.NewReader("a;b 1\na;b;c 2\nd 4\n"), "", Options{},
	)
	if err != nil {
		t.Fatal(err)
	}
	if tree.Sum() != 7 || tree.Len() != 5 || tree.Depth != 3 {
		t.Fatalf("sum %v, %d nodes, depth %d", tree.Sum(), tree.Len(), tree.Depth)
	}
	for i := 1; i < tree.Len(); i++ {
		if tree.Parent[i] >= int32(i) {
			t.Errorf("node %d stands before its caller", i)
		}
		want := map[string]float64{"a": 3, "b": 3, "c": 2, "d": 4}[tree.Name(i)]
		if tree.Total[i] != want {
			t.Errorf("%s: total %v, want %v", tree.Name(i), tree.Total[i], want)
		}
	}
}

func TestErrorsHavePlaces(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "f:1: there is nothing in it",
		"one\ntwo\n":                 "f:1: no known format of stacks",
		"\n\nhello world\n":          "f:3: no known format of stacks",
		"\x00\x01\x02":               "f:byte 0: neither text",
		"\x1f\x8bnot really":         "f:byte 0: damaged gzip",
		"a;b nothing\nc;d nothing\n": "f:1: no known format",
	} {
		_, err := Read(never, strings.NewReader(in), "f", Options{})
		var p *ParseError
		if !errors.As(err, &p) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", in, err, want)
		}
	}
}

// hostile are names that must have no effect where they are shown.
var hostile = []string{ // table: what a program's symbols may be
	`<script>alert(1)</script>`, `"><svg onload=alert(1)>`, `'onmouseover='alert(1)`, "a\x00b\x1b[31m", "]]>--><!--", "</title></style><script>x</script>",
	"\u202eevil", "\xff\xfe", strings.Repeat("x", 10000), "${alert(1)}", "\u2028", "&lt;", "`", "\\u003cscript\\u003e", "__proto__", "constructor",
}

func TestSVGIsXML(t *testing.T) {
	b := NewBuilder()
	for i, name := range hostile {
		b.Stack(
			[]uint32{b.Named([]byte("main")), b.Function([]byte(name), []byte(name), Kind(i%5))},
			float64(i+1),
		)
	}
	var out bytes.Buffer
	if err := WriteSVG(&out, b.Tree(), Picture{Title: hostile[0], Note: hostile[1]}); err != nil {
		t.Fatal(err)
	}
	checkXML(t, out.Bytes())
}

// checkXML checks that a picture is XML without elements or attributes that can run code, but for
// the script of the search.
func checkXML(t *testing.T, b []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(b))
	scripts := 0
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			if scripts != 1 {
				t.Fatalf("%d scripts", scripts)
			}
			return
		}
		if err != nil {
			t.Fatalf("not XML: %v", err)
		}
		if e, ok := tok.(xml.StartElement); ok {
			switch e.Name.Local {
			case "svg", "g", "title", "rect", "text", "style":
			case "script":
				scripts++
				if text, err := d.Token(); err != nil ||
					string(text.(xml.CharData)) != searchScript {
					t.Fatalf("another script: %v, %v", text, err)
				}
			default:
				t.Fatalf("element %s", e.Name.Local)
			}
			for _, a := range e.Attr {
				if strings.HasPrefix(strings.ToLower(a.Name.Local), "on") ||
					strings.Contains(a.Name.Local, "href") {
					t.Fatalf("attribute %s", a.Name.Local)
				}
			}
		}
	}
}

func FuzzFolded(f *testing.F) {
	f.Add("a;b;c 3\na;b 2\n")
	f.Add("a;bc 1\na;b 2\na;bc;d 4\n;;; 1\n")
	f.Add("a 0.5\na 1.25 \n# x\n 7\n")
	f.Add("i0000\x15 1") // with a line's end it is the length of a protobuf field
	f.Add("2\t\x0400000 1")
	f.Add("2\x12\xef\xef\xef\xef\xef\xef\xef\xef\xef\xef\xef\xef\xef\xef\xef\xef 1")
	f.Add("000000+0000000\n7") // a function that is called 000000
	f.Add("{ 1\n")
	f.Add("{\"[< 1\n")
	heapbound.FuzzWithin(f, treeLimit(), func(t *testing.T, text string) {
		tree, err := Read(never, strings.NewReader(text), "", Options{})
		if err != nil {
			return
		}
		checkTree(t, tree)
		once := folded(t, tree)
		again, err := Read(never, strings.NewReader(once), "", Options{})
		// Names that end with a number look like two amounts, names that are numbers like a table.
		if once == "" || DetectFormat([]byte(once), true) == FoldedTwice ||
			tableAdvice([]byte(once)) != nil {
			return
		}
		if err != nil {
			t.Fatalf("%q was written, and not read: %v", once, err)
		}
		if twice := folded(t, again); lines(twice) != lines(once) {
			t.Errorf("%q became %q", once, twice)
		}
		var out bytes.Buffer
		if err := WriteSVG(&out, tree, Picture{}); err != nil {
			t.Fatal(err)
		}
		checkXML(t, out.Bytes())
	})
}

// lines returns the sorted lines of folded text, with equal stacks added: in folded text different
// names can become equal.
func lines(text string) string {
	sums := map[string]float64{}
	for line := range strings.Lines(text) {
		stack, count, _ := cutCount([]byte(strings.TrimSuffix(line, "\n")))
		sums[string(stack)] += count
	}
	var out []string
	for stack, sum := range sums {
		out = append(out, fmt.Sprintf("%q %.9g\n", stack, sum))
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

// checkTree checks the invariants of a tree.
func checkTree(t *testing.T, tree *Tree) {
	t.Helper()
	n := tree.Len()
	if n == 0 || len(tree.Function) != n || len(tree.Self) != n || len(tree.Total) != n ||
		tree.Parent[0] != -1 ||
		tree.Function[0] != 0 {
		t.Fatalf("columns of %d nodes: %d %d %d", n, len(tree.Function), len(tree.Self),
			len(tree.Total))
	}
	for i := 1; i < n; i++ {
		if p := tree.Parent[i]; p < 0 || p >= int32(i) {
			t.Fatalf("node %d has caller %d", i, p)
		}
		if f := tree.Function[i]; f == 0 || int(f) >= len(tree.Functions) {
			t.Fatalf("node %d has function %d of %d", i, f, len(tree.Functions))
		}
		if s := tree.Self[i]; s != s || s < 0 || tree.Total[i] < s {
			t.Fatalf("node %d has itself %v of %v", i, s, tree.Total[i])
		}
	}
}
