package profile

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestHTML(t *testing.T) {
	b := NewBuilder()
	for i, name := range hostile {
		b.Stack(
			[]uint32{b.Named([]byte("main")), b.Function([]byte(name), []byte(name), Kind(i%5))},
			float64(i+1),
		)
	}
	tree := b.Tree()
	var out bytes.Buffer
	if err := WriteHTML(&out, tree, Picture{Title: hostile[0], Note: hostile[5]}); err != nil {
		t.Fatal(err)
	}
	s := out.String()
	if n := strings.Count(s, "<script"); n != 3 {
		t.Errorf("%d scripts", n)
	}
	if m := regexp.MustCompile(`(src|href)\s*=`).FindString(strings.ReplaceAll(s, pageScript, "")); m != "" {
		t.Errorf("%s: it asks for something", m)
	}
	_, rest, _ := strings.Cut(s, `id="data">`)
	text, _, _ := strings.Cut(rest, "</script>")
	if strings.ContainsAny(text, "<>") {
		t.Error("the data can end its element")
	}
	var data struct {
		Names, Modules []string
		Kinds, Shades  string
		Nodes          int
		Whole          bool
	}
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		t.Fatal(err)
	}
	if data.Nodes != tree.Len() || len(data.Names) != len(data.Kinds) ||
		len(data.Names) != len(data.Modules) ||
		len(data.Names) != len(data.Shades) {
		t.Errorf("%d nodes, %d names", data.Nodes, len(data.Names))
	}
}

// TestPageData reads the data of a page like its script and compares them with the tree.
func TestPageData(t *testing.T) {
	for _, in := range []string{"a;b;c 3\na;b 2\na;d;c 300\ne 70000\n", "a;b 0.5\na 2\nc 1\n", "a " + strconv.Itoa(1<<53-1) + "\n", "a 2\nb 99999999999999999999\n"} {
		tree := profileOf(t, in)
		var out bytes.Buffer
		if err := WriteHTML(&out, tree, Picture{}); err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(out.String(), `id="data">`)
		text, rest, _ := strings.Cut(rest, "</script>")
		_, rest, _ = strings.Cut(rest, `id="first">`)
		packed, _, _ := strings.Cut(rest, "</script>")
		var data struct {
			Names []string
			Nodes int
			Whole bool
		}
		if err := json.Unmarshal([]byte(text), &data); err != nil {
			t.Fatal(err)
		}
		b, err := base64.StdEncoding.DecodeString(packed)
		if err != nil {
			t.Fatal(err)
		}
		next := func() int {
			v, n := binary.Uvarint(b)
			b = b[n:]
			return int(v)
		}
		amount := func() float64 {
			if data.Whole {
				return float64(next())
			}
			v := math.Float64frombits(binary.LittleEndian.Uint64(b))
			b = b[8:]
			return v
		}
		paths := make([]string, data.Nodes)
		var open []string
		for i := range data.Nodes {
			open = open[:len(open)-next()]
			open = append(open, data.Names[next()])
			paths[i] = strings.Join(open[1:], ";")
		}
		totals := make([]float64, data.Nodes)
		for i := range totals {
			totals[i] = amount()
		}
		var lines []string
		for i := range paths {
			if self := amount(); self > 0 {
				lines = append(lines, paths[i]+" "+string(AppendAmount(nil, self))+"\n")
			}
		}
		if got, want := strings.Join(lines, ""), folded(t, tree); got != want || len(b) != 0 ||
			totals[0] != tree.Sum() {
			t.Errorf("%q: the page has %q, %v in all, and %d bytes more", in, got, totals[0],
				len(b))
		}
	}
}

// TestLargePage reads the data of a large page: an overview that refers to calls of the whole, then
// all calls after the script. Nothing is lost.
func TestLargePage(t *testing.T) {
	b := NewBuilder()
	for i := range 60_000 {
		b.Stack([]uint32{f2(b, i%7), f2(b, 100+i), f2(b, 8)}, float64(1+i%3))
	}
	b.Stack([]uint32{f2(b, 3), f2(b, 90_000)}, 50_000)
	tree := b.Tree()
	before := profileOf(t, "f3;f90000 20000\nf1;f101;f8 7\n")
	compared, err := Compare(before, tree, Norm{Per: "sample"})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []*Diff{nil, compared} {
		var out bytes.Buffer
		if d == nil {
			err = WriteHTML(&out, tree, Picture{})
		} else {
			err = WriteDiffHTML(&out, d, Picture{})
		}
		if err != nil {
			t.Fatal(err)
		}
		s := out.String()
		if !(strings.Index(s, `id="first"`) < strings.Index(s, pageScript) && strings.Index(s, pageScript) < strings.Index(s, `id="columns"`)) {
			t.Fatal("the sketch, the script and all calls don't stand one behind the other")
		}
		element := func(id string) string {
			_, rest, _ := strings.Cut(s, `id="`+id+`">`)
			text, _, _ := strings.Cut(rest, "</script>")
			return text
		}
		var data struct {
			Nodes, First  int
			Whole, Before bool
		}
		if err := json.Unmarshal([]byte(element("data")), &data); err != nil {
			t.Fatal(err)
		}
		first, err := base64.StdEncoding.DecodeString(element("first"))
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(
			base64.NewDecoder(base64.StdEncoding, strings.NewReader(element("columns"))),
		)
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		type columns struct {
			function, depth     []int
			total, self, before []float64
		}
		read := func(b *[]byte, n int) (c columns) {
			next := func() int {
				v, n := binary.Uvarint(*b)
				*b = (*b)[n:]
				return int(v)
			}
			depth := -1
			for range n {
				depth += 1 - next()
				c.depth, c.function = append(c.depth, depth), append(c.function, next())
			}
			for i, to := range []*[]float64{&c.total, &c.self, &c.before} {
				for range n {
					if i == 2 && !data.Before {
						break
					}
					if data.Whole {
						*to = append(*to, float64(next()))
					} else {
						*to = append(*to, math.Float64frombits(binary.LittleEndian.Uint64(*b)))
						*b = (*b)[8:]
					}
				}
			}
			return c
		}
		few, whole := read(&first, data.First), read(&all, data.Nodes)
		if len(all) != 0 || data.First > data.Nodes/100 {
			t.Errorf("%d bytes more; %d nodes of %d are drawn first", len(all), data.First,
				data.Nodes)
		}
		id, runs, sum, was := 0, 0, 0.0, 0.0
		for i := range data.First {
			by, n := binary.Uvarint(first)
			first = first[n:]
			id += int(by)
			sum += few.self[i]
			if data.Before && few.depth[i] == 1 {
				was += few.before[i]
			}
			if i > 0 && few.function[i] == 0 {
				runs++
				continue
			}
			if few.function[i] != whole.function[id] || few.depth[i] != whole.depth[id] ||
				few.total[i] != whole.total[id] ||
				few.self[i] != whole.self[id] {
				t.Fatalf("node %d is not that at %d", i, id)
			}
			if data.Before && few.before[i] != whole.before[id] {
				t.Fatalf("node %d was %v, and %v", i, few.before[i], whole.before[id])
			}
		}
		if len(first) != 0 || runs == 0 || math.Abs(sum-whole.total[0]) > 1e-9*sum ||
			data.Before && math.Abs(was-whole.before[0]) > 1e-9 {
			t.Errorf("%d bytes more, %d runs, %v of %v, %v before", len(first), runs, sum,
				whole.total[0], was)
		}
	}
}

func TestHeaviest(t *testing.T) {
	tree := profileOf(t, "a;b 1\na;c 2\nd 4\ne 2\n")
	for n := 1; n <= tree.Len(); n++ {
		u, kept := tree.heaviest(n)
		if u.Len() != n || len(kept) != n || u.Sum() != tree.Sum() {
			t.Errorf("%d nodes of %d are %d", n, tree.Len(), u.Len())
		}
		for i, k := range kept {
			if u.Name(i) != tree.Name(int(k)) || u.Total[i] != tree.Total[k] {
				t.Errorf("of %d nodes %s is %s", n, u.Name(i), tree.Name(int(k)))
			}
		}
	}
}

// TestSVGLeavesOut draws more calls than a viewer can show.
func TestSVGLeavesOut(t *testing.T) {
	var in strings.Builder
	for i := range 150 {
		fmt.Fprintf(&in, "main%s;leaf%d 1\n", strings.Repeat(";f"+strconv.Itoa(i), 1000), i)
	}
	var out strings.Builder
	if err := WriteSVG(&out, profileOf(t, in.String()), Picture{Note: "deep"}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "<title>"); n != maxBoxes {
		t.Errorf("%d calls drawn, want %d", n, maxBoxes)
	}
	if want := "deep, 50,152 calls with the least left out"; !strings.Contains(out.String(), want) {
		t.Errorf("it doesn't say %q", want)
	}
}

// TestNamesAreShortenedByPackage checks that a name that is too long keeps its end, as in the page.
func TestNamesAreShortenedByPackage(t *testing.T) {
	const chars = 30
	for _, tt := range []struct{ name, want string }{
		{"main", "main"},
		{"io/netty/channel/AbstractChannel.flush", "AbstractChannel.flush"},
		{"io/netty/channel/AbstractChannelHandlerContext.flush", "AbstractChannelHandlerContex.."},
		{"std::collections::hash::map::HashMap<K,V>::insert", "HashMap<K,V>::insert"},
		{"github.com/x/y/z.(*T).Run/very/long", "z.(*T).Run/very/long"},
		{"one_long_name_without_any_package_in_it", "one_long_name_without_any_pa.."},
	} {
		if got := fitName(tt.name, chars*charWidth+0.1); got != tt.want {
			t.Errorf("%s is shown as %q, want %q", tt.name, got, tt.want)
		}
	}
}
