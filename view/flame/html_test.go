package flame

import (
	"bytes"
	"encoding/json"
	"regexp"
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

func TestHTMLLeavesOut(t *testing.T) {
	tree := profileOf(t, "a;b 1\na;c 2\nd 4\n")
	if least := tree.least(3); least <= 2 || least > 3 {
		t.Errorf("three nodes of five are those from %v on", least)
	}
}
