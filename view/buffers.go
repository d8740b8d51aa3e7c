package view

import (
	"slices"

	"culprit/measure"
)

// Buffers holds the memory of one table for use by the next. A table made in it is valid until the
// next one is made. It is used by one goroutine.
type Buffers struct {
	columnsName string // name of the table whose columns come first in table.Columns
	ownColumns  int    // number of these columns
	table       Table
	cells       []Cell
	pivot       Pivot
	counterAt   map[[3]string]int // index of the series, by statistic, namespace and counter name
}

// maxWords bounds the texts that Buffers remembers. Processes and connections come and go.
const maxWords = 1 << 14

// NewPivot starts a pivot; see NewPivot. With Buffers a frame has one at a time.
func (f *Frame) NewPivot(by ...string) *Pivot {
	if f.Buffers == nil {
		return NewPivot(append([]string(nil), by...)...) // by must not escape
	}
	p := &f.Buffers.pivot
	p.begin(by)
	return p
}

// NewTable starts a table. columns must return the same ones whenever the name is the same. The
// caller may append more.
func (f *Frame) NewTable(name string, columns func() []Column) *Table {
	r := f.Buffers
	if r == nil {
		return &Table{View: name, Columns: columns()}
	}
	if r.columnsName != name {
		r.columnsName, r.table.Columns = name, columns()
		r.ownColumns = len(r.table.Columns)
	}
	// Columns that were appended to the table before are cut off.
	r.table = Table{View: name, Columns: r.table.Columns[:r.ownColumns], Rows: r.table.Rows[:0]}
	r.cells = r.cells[:0]
	return &r.table
}

// CopyCells returns a copy of the cells for a row.
func (f *Frame) CopyCells(CopyCells ...Cell) []Cell {
	r := f.Buffers
	if r == nil {
		return append([]Cell(nil), CopyCells...)
	}
	start := len(r.cells)
	r.cells = append(r.cells, CopyCells...)
	return r.cells[start:len(r.cells):len(r.cells)]
}

// RowCells returns n cells for a row. The caller sets all of them.
func (f *Frame) RowCells(n int) []Cell {
	r := f.Buffers
	if r == nil {
		return make([]Cell, n)
	}
	start := len(r.cells)
	if start+n > cap(r.cells) {
		r.cells = append(r.cells, make([]Cell, n)...)
	}
	r.cells = r.cells[:start+n]
	return r.cells[start : start+n : start+n]
}

// begin resets the pivot to the state after NewPivot.
func (p *Pivot) begin(by []string) {
	p.forgetMissingCalls()
	p.columns, p.empty, p.joins = p.columns[:0], p.empty[:0], p.joins[:0]
	p.foldCount, p.callCount, p.textCount = 0, 0, 0
	if len(p.words.texts) > maxWords {
		p.words, p.lastSort, p.by = words{}, sortedRows{}, nil
	}
	if len(p.calls) > 0 && slices.Equal(p.by, by) {
		p.sameCalls = true
		for i := range p.order {
			p.order[i] = i
		}
		return
	}
	p.by = append(p.by[:0], by...)
	p.keys.clear(len(by))
	p.order, p.calls, p.ids = p.order[:0], p.calls[:0], p.ids[:0]
	p.sameCalls, p.lastSort.known = false, false
	p.key = append(p.key[:0], make([]measure.Label, len(by))...)
}

// clear deletes all keys.
func (k *keys) clear(width int) {
	k.width, k.n, k.last, k.flat = width, 0, 0, k.flat[:0]
	clear(k.slots)
}
