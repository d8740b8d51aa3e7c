// Package viewtest makes answers and compares tables, for tests.
package viewtest

import (
	"fmt"
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view"
)

// Answer returns an answer of one second from lines "word word ... value"; "-" is NaN.
func Answer(
	t *testing.T, query string, kind measure.Kind, sparse bool, lines ...string,
) *measure.Answer {
	t.Helper()
	q, err := measure.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	a := &measure.Answer{
		Query:   q,
		Kind:    kind,
		Sparse:  sparse,
		Start:   1e9,
		Step:    measure.Second,
		Elapsed: []measure.Span{measure.Second},
	}
	for _, line := range lines {
		words := strings.Fields(line)
		s := measure.Series{Values: []float64{measure.NaN}}
		if last := words[len(words)-1]; last != "-" {
			if _, err := fmt.Sscan(last, &s.Values[0]); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		for _, w := range words[:len(words)-1] {
			if w == "''" {
				w = ""
			}
			s.Key = append(s.Key, measure.Label(len(a.Labels)))
			a.Labels = append(a.Labels, w)
		}
		if len(s.Key) != len(q.By) {
			t.Fatalf("%q has not the fields of %s", line, query)
		}
		a.Series = append(a.Series, s)
	}
	return a
}

// Frame returns a frame of one second with the answers.
func Frame(answers ...*measure.Answer) *view.Frame {
	return &view.Frame{Over: measure.Interval{Start: 1e9, End: 2e9}, Answers: answers}
}

// Text returns the cells of some columns, a line per row.
func Text(tab *view.Table, names ...string) string {
	var out []string
	for _, r := range tab.Rows {
		var cells []string
		for _, n := range names {
			i := tab.Column(n)
			if i < 0 {
				cells = append(cells, n+"?")
				continue
			}
			c := tab.Columns[i]
			if c.Show == view.Plain && c.Decimals == 0 {
				c.Decimals = 3
			}
			v := c.Format(r.Cells[i])
			if strings.Contains(v, ".") && r.Cells[i].Kind == view.IsNumber {
				v = strings.TrimSuffix(strings.TrimRight(v, "0"), ".")
			}
			cells = append(cells, v)
		}
		line := strings.Join(cells, " ")
		if r.Remark != "" {
			line += " <- " + r.Remark
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// Expect fails the test if got is not want.
func Expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
