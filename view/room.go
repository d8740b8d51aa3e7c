package view

import "culprit/measure"

// Room is what tables are made in, to be used again for the next: a table made in it lasts until then. Without one each table
// has its own. Used by one goroutine.
type Room struct {
	made    string // the table whose columns are in columns
	columns []Column
	table   Table
	cells   []Cell
	pivot   Pivot
	places  map[[3]string]int // statistic, namespace and name of a counter: the series that had it
}

// mostWords bounds what a Room remembers of words, which come and go with processes and connections.
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
		r.made, r.columns = name, columns()
	}
	// What was appended to the columns of the table before has room of its own, behind those that stay.
	r.table = Table{View: name, Columns: append(r.table.Columns[:0], r.columns...), Rows: r.table.Rows[:0]}
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

// begin makes the pivot as NewPivot does.
func (p *Pivot) begin(by []string) {
	p.by = append(p.by[:0], by...)
	p.keys.clear(len(by))
	p.order, p.columns, p.empty, p.joins, p.folded = p.order[:0], p.columns[:0], p.empty[:0], p.joins[:0], 0
	p.key = append(p.key[:0], make([]measure.Label, len(by))...)
	if len(p.words.texts) > mostWords {
		p.words, p.before = words{}, sorting{}
	}
}

// clear forgets all keys.
func (k *keys) clear(width int) {
	k.width, k.n, k.last, k.flat = width, 0, 0, k.flat[:0]
	clear(k.slots)
}
