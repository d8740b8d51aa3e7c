package profile

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// lineTexts returns the lines of a profile as text: function, file, line, own and total amount.
func lineTexts(t *Tree) []string {
	var out []string
	for _, r := range t.Lines {
		f := t.Functions[r.Function]
		out = append(out, fmt.Sprintf("%s %s:%d %v %v", f.Name, f.File, r.Line, r.Self, r.Total))
	}
	return out
}

// checkLines checks that the lines of a function have its own amount, if all its frames have lines.
func checkLines(t *testing.T, tree *Tree) {
	t.Helper()
	self, lines := map[uint32]float64{}, map[uint32]float64{}
	for n, f := range tree.Function {
		self[f] += tree.Self[n]
	}
	for _, r := range tree.Lines {
		lines[r.Function] += r.Self
		if r.Self > r.Total {
			t.Errorf("line %d has %v of %v itself", r.Line, r.Self, r.Total)
		}
	}
	for f, sum := range lines {
		if sum > self[f]*(1+1e-12) {
			t.Errorf("%s has %v, its lines %v", tree.Functions[f].Name, self[f], sum)
		}
	}
}

// TestLinesOfSpeedscope checks that a stack with a line twice counts once in its total.
func TestLinesOfSpeedscope(t *testing.T) {
	const text = `{"$schema":"https://www.speedscope.app/file-format-schema.json",
"shared":{"frames":[{"name":"f","file":"a.py","line":3},{"name":"f","file":"a.py","line":5},
{"name":"g","file":"b.py","line":2}]},"profiles":[%s]}`
	const sampled = `{"type":"sampled","name":"p","unit":"none","startValue":0,"endValue":12,
"samples":[[0,0],[0,2],[1]],"weights":[4,7,1]}`
	const evented = `{"type":"evented","name":"p","unit":"none","startValue":0,"endValue":12,
"events":[{"type":"O","frame":0,"at":0},{"type":"O","frame":0,"at":0},
{"type":"C","frame":0,"at":4},{"type":"O","frame":2,"at":4},{"type":"C","frame":2,"at":11},
{"type":"C","frame":0,"at":11},{"type":"O","frame":1,"at":11},{"type":"C","frame":1,"at":12}]}`
	want := []string{"f a.py:3 4 11", "f a.py:5 1 1", "g b.py:2 7 7"}
	for _, p := range []string{sampled, evented} {
		tree := profileOf(t, fmt.Sprintf(text, p))
		if got := lineTexts(tree); !reflect.DeepEqual(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		checkLines(t, tree)
		parsed, err := ParseColumns(columnsOf(t, tree))
		if err != nil {
			t.Fatal(err)
		}
		if got := lineTexts(parsed); !reflect.DeepEqual(got, want) {
			t.Errorf("in columns %q", got)
		}
	}
}

func TestLinesOfFirefox(t *testing.T) {
	tree := profileOf(t, geckoTimes)
	want := []string{"main app.js:7 1 3", "a app.js:9 2 2"}
	if got := lineTexts(tree); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	checkLines(t, tree)
}

// TestLinesOfPProf checks the lines of real profiles against the sums of their functions.
func TestLinesOfPProf(t *testing.T) {
	files, err := os.ReadDir("testdata/pprof")
	if err != nil {
		t.Fatal(err)
	}
	lined := 0
	for _, file := range files {
		b, err := os.ReadFile("testdata/pprof/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		tree, err := Read(context.Background(), bytes.NewReader(b), "", Options{})
		if err != nil {
			continue
		}
		checkLines(t, tree)
		if tree.HasLines() {
			lined++
		}
	}
	if lined == 0 {
		t.Error("no profile has lines")
	}
}

func TestMergedLines(t *testing.T) {
	a, b := profileOf(t, geckoTimes), profileOf(t, geckoTimes)
	sum, err := Merge(a, b)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"main app.js:7 2 6", "a app.js:9 4 4"}
	if got := lineTexts(sum); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWriteLines(t *testing.T) {
	var b strings.Builder
	if err := WriteLines(&b, profileOf(t, geckoTimes), 1); err != nil {
		t.Fatal(err)
	}
	want := "amounts are samples; shares are of 3\n" +
		"          self    self          total   total  line\n" +
		"             2  66.67%              2  66.67%  a  app.js:9\n1 more line\n"
	if b.String() != want {
		t.Errorf("%q\nwant %q", b.String(), want)
	}
}

// TestLinesOfMergedFunctions checks that there are no lines where functions of one name and line
// become one, since a stack with both would count twice.
func TestLinesOfMergedFunctions(t *testing.T) {
	b := NewBuilder()
	f, g := b.Function([]byte("f"), []byte("a"), Code), b.Function([]byte("f"), []byte("b"), Code)
	b.Lined([]uint32{f, g}, []int32{3, 3}, 5)
	tree := b.Tree()
	if len(tree.Lines) != 2 || tree.ByName().HasLines() {
		t.Errorf("%+v, by name %+v", tree.Lines, tree.ByName().Lines)
	}
}
