package view

import (
	"culprit/measure"
)

// Stat returns the tool that shows one query: a column for each field, then the value.
func Stat(q measure.Query, st *measure.Stat) *Tool {
	unit := st.AnswerUnit()
	return &Tool{
		Name:    "stat",
		Ask:     func(Options) []string { return []string{q.String()} },
		MaxRows: 40,
		Table: func(_ Options, f *Frame) *Table {
			if st.Kind == measure.Dists {
				return distTable(q, st, f.Answers[0])
			}
			t := &Table{View: "stat"}
			for _, by := range q.By {
				t.Columns = append(t.Columns, Column{Name: by, Head: by, Width: 10, Left: true})
			}
			t.Columns = append(
				t.Columns,
				Column{
					Name:     "value",
					Head:     string(unit),
					Decimals: decimals(unit),
					Width:    14,
					Help:     st.Help,
				},
			)
			a := f.Answers[0]
			p := NewPivot(q.By...)
			col := p.Add(a)
			p.Sort()
			p.SortBy(func(r int) float64 { return p.At(r, col) }, 0)
			for r := range p.Len() {
				row := Row{Key: p.ID(r)}
				for _, by := range q.By {
					row.Cells = append(row.Cells, T(p.Key(r, by)))
				}
				row.Cells = append(row.Cells, N(p.At(r, col)))
				t.Rows = append(t.Rows, row)
			}
			if len(t.Rows) == 0 && measuredNothing(a) {
				t.Notes = append(t.Notes, "no rows: measured, nothing matched")
			}
			return t
		},
	}
}

// measuredNothing reports whether an answer without rows was measured. If it was not, its notes
// have the reason.
func measuredNothing(a *measure.Answer) bool {
	return len(a.Notes) == 0 || len(a.Elapsed) == 0 || a.Elapsed[0] > 0
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

// distTable returns the table of distributions: per row the number of values, their mean, and the
// 50th, 90th and 99th percentile.
func distTable(q measure.Query, st *measure.Stat, a *measure.Answer) *Table {
	t := &Table{View: "stat"}
	for _, by := range q.By {
		t.Columns = append(t.Columns, Column{Name: by, Head: by, Width: 10, Left: true})
	}
	unit, shown := string(st.Unit), decimals(st.Unit)
	t.Columns = append(
		t.Columns,
		Column{Name: "values", Head: "values", Width: 8, Help: "number of values"},
		Column{Name: "mean", Head: "mean " + unit, Decimals: shown, Width: 10, Help: st.Help},
		Column{
			Name:     "p50",
			Head:     "p50",
			Decimals: shown,
			Width:    10,
			MinWidth: 1,
			Help:     "half of the values are below it, within the width of a bucket",
		},
		Column{
			Name:     "p90",
			Head:     "p90",
			Decimals: shown,
			Width:    10,
			MinWidth: 100,
			Help:     "like p50",
		},
		Column{Name: "p99", Head: "p99", Decimals: shown, Width: 10, MinWidth: 1, Help: "like p50"},
		Column{
			Name:     "max",
			Head:     "max",
			Decimals: shown,
			Width:    10,
			MinWidth: 1,
			Help:     "upper end of the highest bucket",
		},
	)
	p := NewPivot(q.By...)
	dists := map[int]*measure.Dist{}
	columns := p.columnsOf(a)
	for i, s := range a.Series {
		cells := s.Dists()
		if len(cells) == 0 || len(cells[0].Counts) == 0 {
			continue
		}
		n := p.row(p.keyOf(a, columns, i))
		if dists[n] == nil {
			dists[n] = &measure.Dist{Base: cells[0].Base}
		}
		dists[n].Merge(cells[0])
	}
	p.Sort()
	p.SortBy(func(r int) float64 { return float64(dists[p.order[r]].Count()) }, 0)
	for r := range p.Len() {
		d := dists[p.order[r]]
		row := Row{Key: p.ID(r)}
		for _, by := range q.By {
			row.Cells = append(row.Cells, T(p.Key(r, by)))
		}
		row.Cells = append(
			row.Cells, N(float64(d.Count())), N(d.Mean()), N(d.Quantile(0.5)), N(d.Quantile(0.9)),
			N(d.Quantile(0.99)), N(d.Quantile(1)),
		)
		t.Rows = append(t.Rows, row)
	}
	if len(t.Rows) == 0 && measuredNothing(a) {
		t.Notes = append(t.Notes, "no rows: measured, nothing matched")
	}
	return t
}
