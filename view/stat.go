package view

import (
	"culprit/measure"
)

// Stat makes the tool that shows one sentence as it is: a column for each field, then the value.
func Stat(q measure.Query, st *measure.Stat) *Tool {
	unit := st.AnswerUnit()
	return &Tool{
		Name: "stat",
		Ask:  func(Options) []string { return []string{q.String()} },
		Most: 40,
		Table: func(_ Options, f *Frame) *Table {
			t := &Table{View: "stat"}
			for _, by := range q.By {
				t.Columns = append(t.Columns, Column{Name: by, Head: by, Width: 10, Left: true})
			}
			t.Columns = append(t.Columns, Column{Name: "value", Head: string(unit), Decimals: decimals(unit), Width: 14, Help: st.Help})
			a := f.Answers[0]
			p := NewPivot(q.By...)
			col := p.Add(a)
			p.Sort()
			p.SortBy(func(r int) float64 { return p.At(r, col) })
			for r := range p.Len() {
				row := Row{Key: p.ID(r)}
				for _, by := range q.By {
					row.Cells = append(row.Cells, T(p.Key(r, by)))
				}
				row.Cells = append(row.Cells, N(p.At(r, col)))
				t.Rows = append(t.Rows, row)
			}
			if len(t.Rows) == 0 {
				t.Notes = append(t.Notes, "nothing here has this statistic, or no row is as the sentence wants it")
			}
			return t
		},
	}
}

func decimals(u measure.Unit) int {
	switch u {
	case measure.Ratio:
		return 4
	case measure.Bytes, measure.BitsPerSec, measure.Nanoseconds:
		return 0
	}
	return 2
}
