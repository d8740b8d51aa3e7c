package flame

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	if n := strings.Count(s, "<script"); n != 2 {
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
		Names     []string
		Kinds     string
		Up, Fn    []int
		Total     []float64
		Self      []float64
		Unit      string
		Modules   []string
		Shades    string
		Share     bool
		Unchecked any `json:"-"`
	}
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		t.Fatal(err)
	}
	if len(data.Up) != tree.Len() || len(data.Total) != tree.Len() || data.Total[0] != tree.Sum() || len(data.Names) != len(data.Kinds) {
		t.Errorf("%d nodes, %v in all", len(data.Up), data.Total[0])
	}
	for i, up := range data.Up {
		if i > 0 && (up < 1 || up > i) {
			t.Errorf("node %d is %d behind its caller", i, up)
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
