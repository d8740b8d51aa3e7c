package flame

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestHTML(t *testing.T) {
	b := NewBuilder()
	for i, name := range hostile {
		b.Stack([]uint32{b.Named([]byte("main")), b.Function([]byte(name), []byte(name), Kind(i%5))}, float64(i+1))
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
	if data.Nodes != tree.Len() || len(data.Names) != len(data.Kinds) || len(data.Names) != len(data.Modules) || len(data.Names) != len(data.Shades) {
		t.Errorf("%d nodes, %d names", data.Nodes, len(data.Names))
	}
}

// TestPageData reads what a page is given as the page does, and wants the tree.
func TestPageData(t *testing.T) {
	for _, in := range []string{"a;b;c 3\na;b 2\na;d;c 300\ne 70000\n", "a;b 0.5\na 2\nc 1\n", "a " + strconv.Itoa(1<<53-1) + "\n", "a 2\nb 99999999999999999999\n"} {
		tree := profileOf(t, in)
		var out bytes.Buffer
		if err := WriteHTML(&out, tree, Picture{}); err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(out.String(), `id="data">`)
		text, rest, _ := strings.Cut(rest, "</script>")
		_, rest, _ = strings.Cut(rest, `id="columns">`)
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
		if got, want := strings.Join(lines, ""), folded(t, tree); got != want || len(b) != 0 || totals[0] != tree.Sum() {
			t.Errorf("%q: the page has %q, %v in all, and %d bytes more", in, got, totals[0], len(b))
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
	if n := strings.Count(out.String(), "<title>"); n != mostBoxes {
		t.Errorf("%d calls drawn, want %d", n, mostBoxes)
	}
	if want := "deep, 50,152 calls with the least left out"; !strings.Contains(out.String(), want) {
		t.Errorf("it doesn't say %q", want)
	}
}
