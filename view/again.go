package view

import (
	"slices"

	"culprit/measure"
)

// Mostly a table has the rows of the table before, and each of them the place that it had. A Pivot
// that is used again knows what was put into it then, call after call. As long as each answer has
// the shape that it had, its values go where they went; from the first on that has not, all is
// found out anew.

// call is an Add, an AddTwo or a Join, and where the series of its answer went.
type call struct {
	kind   byte
	stat   measure.StatID
	shape  measure.Shape
	field  string   // of AddTwo
	words  []string // of it; fields and words of the others
	before int      // rows that there were then
	to     []int32  // of each series: twice its row, and one more in the second column of AddTwo; -1 it is not wanted
	lone   bool     // each has a cell of its own
}

// noRows is the shape of an answer without series.
const noRows = ^measure.Shape(0)

// mostAgain bounds the series of an answer that are found again by their places.
const mostAgain = 1 << 12

const (
	isAdd byte = 1 + iota
	isAddTwo
	isJoin
)

// again gives the call of the table before, or nil and one to fill in.
func (p *Pivot) again(
	kind byte, a *measure.Answer, shape measure.Shape, field string, words []string,
) (same, fresh *call) {
	n := p.made
	p.made++
	if len(a.Series) == 0 { // also of what was not asked
		shape = noRows
	}
	if p.steady {
		if n < len(p.calls) {
			c := &p.calls[n]
			if c.kind == kind && c.shape == shape && c.lone && c.stat == a.Query.Stat &&
				c.field == field &&
				slices.Equal(c.words, words) {
				return c, nil
			}
		}
		p.unsteady(n)
	}
	if n < cap(p.calls) {
		p.calls = p.calls[:n+1]
	} else {
		p.calls = append(p.calls, call{})
	}
	c := &p.calls[n]
	*c = call{
		kind:   kind,
		stat:   a.Query.Stat,
		shape:  shape,
		field:  field,
		words:  append(c.words[:0], words...),
		before: p.keys.n,
		to:     c.to[:0],
		lone:   shape != 0 && len(a.Series) <= mostAgain,
	}
	return nil, c
}

// unsteady drops what is known of the calls from n on, and the rows that they made.
func (p *Pivot) unsteady(n int) {
	p.steady = false
	if n < len(p.calls) {
		p.cut(p.calls[n].before)
		p.calls = p.calls[:n]
	}
	p.before.known = false
	for i := range p.texts {
		p.texts[i].known = false
	}
}

// cut drops the rows from n on.
func (p *Pivot) cut(n int) {
	if n >= p.keys.n {
		return
	}
	p.keys.cut(n)
	p.order, p.ids = p.order[:n], p.ids[:min(n, len(p.ids))]
	for i := range p.order {
		p.order[i] = i
	}
}

// settle is called before the rows are looked at: there are none that calls would make which were
// not made this time.
func (p *Pivot) settle() {
	if p.steady && p.made < len(p.calls) {
		p.unsteady(p.made)
	}
}

// took notes where a series went.
func (c *call) took(row, second int) {
	if c.lone {
		c.to = append(c.to, int32(2*row+second))
	}
}

// passed notes that a series was not wanted.
func (c *call) passed() {
	if c.lone {
		c.to = append(c.to, -1)
	}
}

// done ends a call that was new.
func (p *Pivot) done(c *call) {
	if c.kind == isJoin || !c.lone {
		return
	}
	// Values that are added up need the old way.
	seen := slices.Grow(p.placed[:0], 2*p.keys.n)[:2*p.keys.n]
	clear(seen)
	p.placed = seen
	for _, n := range c.to {
		if n >= 0 {
			c.lone = c.lone && !seen[n]
			seen[n] = true
		}
	}
}

// columnAgain begins a column of the table before, and gives its number: its values will be put
// where they were.
func (p *Pivot) columnAgain(a *measure.Answer) int {
	at := len(p.columns)
	p.columns = p.columns[:at+1]
	p.empty = append(p.empty, noneOf(a))
	return at
}

// noneOf gives the value of a row that the answer has not.
func noneOf(a *measure.Answer) float64 {
	if a.Sparse && len(a.Elapsed) > 0 && a.Elapsed[0] > 0 {
		return 0
	}
	return measure.NaN
}

// wordColumn is a field of the series that Join kept, for each row.
type wordColumn struct {
	join, field string
	known       bool     // they still are that, after so many calls
	made        int      //
	words       []string // by the number of the row
}

// Words makes a column of what Word gives, for WordAt, and gives its number.
func (p *Pivot) Words(name, field string) int {
	p.settle()
	i := p.worded
	p.worded++
	if i == len(p.texts) {
		p.texts = append(p.texts, wordColumn{})
	}
	w := &p.texts[i]
	if !p.steady || !w.known || w.made != p.made || w.join != name || w.field != field {
		w.join, w.field, w.known, w.made, w.words = name, field, true, p.made, w.words[:0]
		for n := range p.keys.n {
			w.words = append(w.words, p.wordOf(n, name, field))
		}
	}
	return i
}

// WordAt gives the word of a column in a row.
func (p *Pivot) WordAt(row, column int) string { return p.texts[column].words[p.order[row]] }
