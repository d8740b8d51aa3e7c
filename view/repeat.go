package view

import (
	"slices"

	"culprit/measure"
)

// Most tables have the rows of the table before, in the same order. A Pivot that is used again
// remembers its calls and the cell of each series. While each answer has the Shape that it had in
// the table before, its values go to the same cells. From the first answer with another Shape on,
// the pivot looks the rows up by their keys.

// pivotCall is an Add, an AddTwo or a Join, with the cells of its answer.
type pivotCall struct {
	kind       byte
	stat       measure.StatID
	shape      measure.Shape
	field      string   // of AddTwo, or the name of a Join
	words      []string // the other arguments
	rowsBefore int      // number of rows before the call
	// Per series: twice its row, plus one for the second column; -1 if filtered out.
	cells        []int32
	singleValues bool // no cell gets two values
}

// noRows is the shape of an answer without series.
const noRows = ^measure.Shape(0)

// maxRepeatedSeries bounds the series of an answer whose cells are remembered.
const maxRepeatedSeries = 1 << 12

const (
	isAdd byte = 1 + iota
	isAddTwo
	isJoin
)

// matchCall returns the call of the table before, if it is the same one. Otherwise it returns a
// fresh call for the caller to fill.
func (p *Pivot) matchCall(
	kind byte, a *measure.Answer, shape measure.Shape, field string, words []string,
) (same, fresh *pivotCall) {
	n := p.callCount
	p.callCount++
	if len(a.Series) == 0 { // also if it was not asked
		shape = noRows
	}
	if p.sameCalls {
		if n < len(p.calls) {
			c := &p.calls[n]
			if c.kind == kind && c.shape == shape && c.singleValues && c.stat == a.Query.Stat &&
				c.field == field &&
				slices.Equal(c.words, words) {
				return c, nil
			}
		}
		p.forgetCalls(n)
	}
	if n < cap(p.calls) {
		p.calls = p.calls[:n+1]
	} else {
		p.calls = append(p.calls, pivotCall{})
	}
	c := &p.calls[n]
	*c = pivotCall{
		kind:         kind,
		stat:         a.Query.Stat,
		shape:        shape,
		field:        field,
		words:        append(c.words[:0], words...),
		rowsBefore:   p.keys.n,
		cells:        c.cells[:0],
		singleValues: shape != 0 && len(a.Series) <= maxRepeatedSeries,
	}
	return nil, c
}

// forgetCalls deletes the calls from n on, and the rows that they added.
func (p *Pivot) forgetCalls(n int) {
	p.sameCalls = false
	if n < len(p.calls) {
		p.truncate(p.calls[n].rowsBefore)
		p.calls = p.calls[:n]
	}
	p.lastSort.known = false
	for i := range p.texts {
		p.texts[i].known = false
	}
}

// truncate deletes the rows from n on.
func (p *Pivot) truncate(n int) {
	if n >= p.keys.n {
		return
	}
	p.keys.cut(n)
	p.order, p.ids = p.order[:n], p.ids[:min(n, len(p.ids))]
	for i := range p.order {
		p.order[i] = i
	}
}

// forgetMissingCalls deletes the calls of the table before that this table did not repeat, with
// their rows. It runs before the rows are read.
func (p *Pivot) forgetMissingCalls() {
	if p.sameCalls && p.callCount < len(p.calls) {
		p.forgetCalls(p.callCount)
	}
}

// recordCell records the cell of the next series; second is 1 for the second column.
func (c *pivotCall) recordCell(row, second int) {
	if c.singleValues {
		c.cells = append(c.cells, int32(2*row+second))
	}
}

// recordSkipped records that the next series is filtered out.
func (c *pivotCall) recordSkipped() {
	if c.singleValues {
		c.cells = append(c.cells, -1)
	}
}

// endCall ends a fresh call. If a cell got two values, the call will not be repeated: its values
// must be added.
func (p *Pivot) endCall(c *pivotCall) {
	if c.kind == isJoin || !c.singleValues {
		return
	}
	seen := slices.Grow(p.placed[:0], 2*p.keys.n)[:2*p.keys.n]
	clear(seen)
	p.placed = seen
	for _, n := range c.cells {
		if n >= 0 {
			c.singleValues = c.singleValues && !seen[n]
			seen[n] = true
		}
	}
}

// reuseColumn starts a column with the cells of the table before, and returns its index.
func (p *Pivot) reuseColumn(a *measure.Answer) int {
	at := len(p.columns)
	p.columns = p.columns[:at+1]
	p.empty = append(p.empty, emptyValue(a))
	return at
}

// emptyValue returns the value of a row that the answer lacks: 0 if it is sparse and measured, else
// NaN.
func emptyValue(a *measure.Answer) float64 {
	if a.Sparse && len(a.Elapsed) > 0 && a.Elapsed[0] > 0 {
		return 0
	}
	return measure.NaN
}

// wordColumn holds a field of the series of a Join, per row.
type wordColumn struct {
	join, field string
	known       bool // words is valid if callCount equals made
	made        int  //
	words       []string
}

// Words makes a column of the results of Word and returns its index for WordAt.
func (p *Pivot) Words(name, field string) int {
	p.forgetMissingCalls()
	i := p.textCount
	p.textCount++
	if i == len(p.texts) {
		p.texts = append(p.texts, wordColumn{})
	}
	w := &p.texts[i]
	if !p.sameCalls || !w.known || w.made != p.callCount || w.join != name || w.field != field {
		w.join, w.field, w.known, w.made, w.words = name, field, true, p.callCount, w.words[:0]
		for n := range p.keys.n {
			w.words = append(w.words, p.wordOf(n, name, field))
		}
	}
	return i
}

// WordAt returns the text of a column of Words in a row.
func (p *Pivot) WordAt(row, column int) string { return p.texts[column].words[p.order[row]] }
