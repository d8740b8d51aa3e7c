package classic

import (
	"math"
	"testing"

	"culprit/measure"
	"culprit/view"
)

// What Tool.Shown leaves out is in no column that a terminal of the width shows: with it and
// without, the table looks the same.
func TestShownLeavesOutOnlyWhatIsHidden(t *testing.T) {
	words := map[string][]string{
		"direction": {"rx", "tx", "read", "write", "in", "out"},
		"mode":      cpuModes(),
		"cpu":       {"0", "1"},
		"admin":     {"up"},
		"kind":      {"disk"},
		"type": {
			"minor",
			"major",
		},
		"scope":    {"some"},
		"resource": {"memory"},
		"from":     {"ethtool"},
		"duplex":   {"full"},
	}
	answers := func(sentences []string) (all []*measure.Answer) {
		for _, s := range sentences {
			q, err := measure.ParseQuery(s)
			if err != nil {
				t.Fatal(err)
			}
			a := &measure.Answer{Query: q, Elapsed: []measure.Span{measure.Second}}
			rows := [][]measure.Label{nil}
			for _, field := range q.By {
				choice := words[field]
				if choice == nil {
					choice = []string{"x", "y"}
				}
				var longer [][]measure.Label
				for _, w := range choice {
					a.Labels = append(a.Labels, w)
					for _, row := range rows {
						longer = append(
							longer,
							append(
								append([]measure.Label(nil), row...),
								measure.Label(len(a.Labels)-1),
							),
						)
					}
				}
				rows = longer
			}
			for i, row := range rows {
				a.Series = append(
					a.Series, measure.Series{Key: row, Values: []float64{float64(1 + i + len(s))}},
				)
			}
			all = append(all, a)
		}
		return all
	}
	left := 0
	for _, tool := range All() {
		for _, width := range []int{80, 95, 125, 200, math.MaxInt} {
			for _, o := range []view.Options{nil, {"extended": {""}}} {
				whole, shown := tool.Ask(o), tool.VisibleQueries(o, width)
				left += len(whole) - len(shown)
				if len(shown) == len(whole) {
					continue
				}
				want := tool.Table(o, &view.Frame{Answers: answers(whole)})
				got := tool.Table(o, &view.Frame{Answers: answers(shown)})
				if len(got.Rows) != len(want.Rows) || len(want.Rows) == 0 {
					t.Errorf(
						"%s, %d wide: %d rows, want %d, more than none", tool.Name, width,
						len(got.Rows), len(want.Rows),
					)
					continue
				}
				for i, c := range want.Columns {
					if c.Head == "" || c.MinWidth > width {
						continue
					}
					for r := range want.Rows {
						g, w := c.Format(got.Rows[r].Cells[i]), c.Format(want.Rows[r].Cells[i])
						if g != w {
							t.Errorf(
								"%s, %d wide: %s of row %d is %s, want %s", tool.Name, width,
								c.Head, r, g, w,
							)
						}
					}
				}
			}
		}
	}
	if left == 0 {
		t.Error("nothing was ever left out")
	}
}
