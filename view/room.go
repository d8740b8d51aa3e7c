package view

import (
	"slices"

	"culprit/measure"
)

// Room is what tables are made in, to be used again for the next: a table made in it lasts until
// then. Without one each table has its own. Used by one goroutine.
type Room struct {
	made   string // the table that the first columns of table are of, which nobody changes
	own    int    // columns of it
	table  Table
	cells  []Cell
	pivot  Pivot
	places map[[3]string]int // statistic, namespace and name of a counter: the series that had it
}

// mostWords bounds what a Room remembers of words, which come and go with processes and
// connections.
const mostWords = 1 << 14

// pivot starts the frame's pivot; see NewPivot. The frame has one at a time.
func (f *Frame) pivot(by ...string) *Pivot {
	if f.Room == nil {
		return NewPivot(append([]string(nil), by...)...) // by stays where it is
	}
	p := &f.Room.pivot
	p.begin(by)
	return p
}

// table starts the frame's table. columns must give the same ones whenever the name is the same; more may be appended.
func (f *Frame) table(name string, columns func() []Column) *Table {
	r := f.Room
	if r == nil {
		return &Table{View: name, Columns: columns()}
	}
	if r.made != name {
		r.made, r.table.Columns = name, columns()
		r.own = len(r.table.Columns)
	}
	// What was appended to the columns of the table before has room of its own, behind those that
	// stay.
	r.table = Table{View: name, Columns: r.table.Columns[:r.own], Rows: r.table.Rows[:0]}
	r.cells = r.cells[:0]
	return &r.table
}

// cells keeps the cells of a row.
func (f *Frame) cells(cells ...Cell) []Cell {
	r := f.Room
	if r == nil {
		return append([]Cell(nil), cells...)
	}
	start := len(r.cells)
	r.cells = append(r.cells, cells...)
	return r.cells[start:len(r.cells):len(r.cells)]
}

// row gives room for the cells of a row, all of which are to be set.
func (f *Frame) row(n int) []Cell {
	r := f.Room
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

// begin makes the pivot as NewPivot does.
func (p *Pivot) begin(by []string) {
	p.settle()
	p.columns, p.empty, p.joins, p.folded, p.made, p.worded = p.columns[:0], p.empty[:0], p.joins[:0], 0, 0, 0
	if len(p.words.texts) > mostWords {
		p.words, p.before, p.by = words{}, sorting{}, nil
	}
	if len(p.calls) > 0 && slices.Equal(p.by, by) {
		p.steady = true
		for i := range p.order {
			p.order[i] = i
		}
		return
	}
	p.by = append(p.by[:0], by...)
	p.keys.clear(len(by))
	p.order, p.calls, p.ids, p.steady, p.before.known = p.order[:0], p.calls[:0], p.ids[:0], false, false
	p.key = append(p.key[:0], make([]measure.Label, len(by))...)
}

// clear forgets all keys.
func (k *keys) clear(width int) {
	k.width, k.n, k.last, k.flat = width, 0, 0, k.flat[:0]
	clear(k.slots)
}
