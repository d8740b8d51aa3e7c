package rules

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"culprit/diagnose"
	"culprit/diagnose/threshold"
)

// An edge is a pair of canned machines, just below and just above a threshold. It is a part of a
// file testdata/RULE/thresholds.edges:
//
//	edge NAME from FILE     of the threshold NAME; the machine starts with all that FILE has
//	above TEXT              the report above the threshold contains TEXT, the other does not
//	below TEXT              the report below the threshold contains TEXT, the other does not
//	A> LINE                 a line of the machine above alone
//	B> LINE                 a line of the machine below alone
//	LINE                    a line of both machines
//
// A value "=EXPR" of a row is an expression of x, which is Threshold.Below or Threshold.Above.
// "=EXPR@3" repeats it three times.
type edge struct {
	name, base, file string
	lines            []string
	above, below     []string
}

func readEdges(t *testing.T) []edge {
	t.Helper()
	files, err := filepath.Glob("testdata/*/*.edges")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of edges, %v", len(files), err)
	}
	var all []edge
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(b), "\n") {
			word, rest, _ := strings.Cut(line, " ")
			switch {
			case word == "edge":
				name, base, ok := strings.Cut(rest, " from ")
				if !ok {
					t.Fatalf("%s:%d: want edge NAME from FILE", file, n+1)
				}
				base = filepath.Join(filepath.Dir(file), base)
				all = append(all, edge{name: name, base: base, file: file})
			case strings.TrimSpace(line) == "" || line[0] == '#':
			case len(all) == 0:
				t.Fatalf("%s:%d: no edge", file, n+1)
			case word == "above":
				all[len(all)-1].above = append(all[len(all)-1].above, rest)
			case word == "below":
				all[len(all)-1].below = append(all[len(all)-1].below, rest)
			default:
				all[len(all)-1].lines = append(all[len(all)-1].lines, line)
			}
		}
	}
	return all
}

// report diagnoses the machine of an edge at a value of its threshold.
func (e edge) report(t *testing.T, x float64, only, other string) string {
	t.Helper()
	var lines []string
	for _, line := range e.lines {
		if strings.HasPrefix(line, other) {
			continue
		}
		fields := strings.Split(strings.TrimPrefix(line, only), " ")
		for i, f := range fields {
			if expr, ok := strings.CutPrefix(f, "="); ok && i > 0 {
				fields[i] = at(t, expr, x)
			}
		}
		lines = append(lines, strings.Join(fields, " "))
	}
	c := readLines(t, e.file, lines, readCanned(t, e.base, nil))
	rep, err := diagnose.Run(context.Background(), c, Set(), c.over(), c.step)
	if err != nil {
		t.Fatal(err)
	}
	text := render(rep)
	for _, n := range rep.Notes {
		text += "note: " + n + "\n"
	}
	return text
}

// at evaluates the expression of a cell.
func at(t *testing.T, text string, x float64) string {
	t.Helper()
	text, times, repeated := strings.Cut(text, "@")
	expr, err := parser.ParseExpr(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var eval func(ast.Expr) float64
	eval = func(e ast.Expr) float64 {
		switch e := e.(type) {
		case *ast.BasicLit:
			v, err := strconv.ParseFloat(e.Value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		case *ast.Ident:
			return x
		case *ast.ParenExpr:
			return eval(e.X)
		case *ast.BinaryExpr:
			a, b := eval(e.X), eval(e.Y)
			switch e.Op {
			case token.ADD:
				return a + b
			case token.SUB:
				return a - b
			case token.MUL:
				return a * b
			case token.QUO:
				return a / b
			}
		}
		t.Fatalf("%s: not an expression of numbers and x", text)
		return 0
	}
	value := strconv.FormatFloat(eval(expr), 'g', 9, 64)
	if repeated {
		value += "*" + times
	}
	return value
}

// differ checks that one report contains a text and the other does not.
func differ(t *testing.T, text, with, without string) {
	t.Helper()
	if !strings.Contains(with, text) {
		t.Errorf("%q is missing in\n%s", text, with)
	}
	if strings.Contains(without, text) {
		t.Errorf("%q is in\n%s", text, without)
	}
}

// TestEdges: rules decide differently just below and just above each threshold.
func TestEdges(t *testing.T) {
	thresholds, tested := map[string]threshold.Threshold{}, map[string]bool{}
	for _, x := range threshold.All() {
		thresholds[x.Name] = x
	}
	for i, e := range readEdges(t) {
		x, ok := thresholds[e.name]
		if !ok {
			t.Errorf("%s: no threshold %s", e.file, e.name)
			continue
		}
		tested[e.name] = true
		t.Run(fmt.Sprintf("%s/%d", e.name, i), func(t *testing.T) {
			below := e.report(t, x.Below, "B> ", "A> ")
			above := e.report(t, x.Above, "A> ", "B> ")
			if len(e.above)+len(e.below) == 0 {
				t.Error("the edge states no difference")
			}
			for _, text := range e.above {
				differ(t, text, above, below)
			}
			for _, text := range e.below {
				differ(t, text, below, above)
			}
		})
	}
	for name, x := range thresholds {
		switch {
		case x.Untested == "" && !tested[name]:
			t.Errorf("%s has no edge: write one, or state in the table why there is none", name)
		case x.Untested != "" && tested[name]:
			t.Errorf("%s has an edge, and the table calls it untested", name)
		}
	}
}

// TestThresholdsAreBetweenTheirEdges: each value is between its two sides, and the upper one is
// within 12 %. A threshold that is raised by that much is above both.
func TestThresholdsAreBetweenTheirEdges(t *testing.T) {
	for _, x := range threshold.All() {
		if x.Untested != "" {
			continue
		}
		least, most := min(x.Below, x.Above), max(x.Below, x.Above)
		if x.Value < least || x.Value > most || least == most {
			t.Errorf("%s: %v is not between %v and %v", x.Name, x.Value, x.Below, x.Above)
		}
		if x.Value != float64(int(x.Value)) && most > 1.12*x.Value {
			t.Errorf("%s: %v is far above %v", x.Name, most, x.Value)
		}
	}
}
