package view

import (
	"math"
	"slices"
	"sort"
	"strings"

	"culprit/measure"
)

// Pivot lays answers side by side: a row for each distinct tuple of the fields it is by.
type Pivot struct {
	by      []string
	words   words
	keys    keys
	order   []int       // place -> number of the row
	columns [][]float64 // column -> row -> value; rows that came later are not in it
	empty   []float64   // value of an absent cell, by column
	joins   []join
	key     []measure.Label // scratch
}

// join is an answer's series beside the rows.
type join struct {
	name   string
	answer *measure.Answer
	series []int32 // row -> 1 + number of the series, 0 none; rows that came later are not in it
}

// absent marks a cell that nothing was put into, which NaN is not: a NaN of its own, never computed with.
const absent = 0x7ff8_0000_0ab5_e270

// NewPivot starts a pivot by the fields. A field that an answer lacks is "" there.
func NewPivot(by ...string) *Pivot {
	return &Pivot{by: by, keys: keys{width: len(by)}, key: make([]measure.Label, len(by))}
}

// columnsOf finds the pivot's fields in an answer, -1 where it lacks one.
func (p *Pivot) columnsOf(a *measure.Answer) []int {
	columns := make([]int, len(p.by))
	for k, f := range p.by {
		columns[k] = a.By(f)
	}
	return columns
}

// keyOf gives the key of series i, until the next call.
func (p *Pivot) keyOf(a *measure.Answer, columns []int, i int) []measure.Label {
	for k, c := range columns {
		if c < 0 {
			p.key[k] = p.words.word("")
		} else {
			p.key[k] = p.words.of(a.Labels, a.Series[i].Key[c])
		}
	}
	return p.key
}

func (p *Pivot) row(key []measure.Label) int {
	n := p.keys.number(key)
	for len(p.order) < p.keys.n {
		p.order = append(p.order, len(p.order))
	}
	return n
}

// Add makes a column of the answer's series that have the words (pairs of field and word); several series of one row add up. It
// gives the column's number. A row that the answer has no series for is NaN there, or 0 for a sparse statistic that was measured.
func (p *Pivot) Add(a *measure.Answer, where ...string) int {
	none := measure.NaN
	if a.Sparse && len(a.Elapsed) > 0 && a.Elapsed[0] > 0 {
		none = 0
	}
	wanted, columns := newFilter(a, where), p.columnsOf(a)
	values := make([]float64, p.keys.n, max(p.keys.n, 16))
	for i := range values {
		values[i] = math.Float64frombits(absent)
	}
	for i := range a.Series {
		if !wanted.has(i) {
			continue
		}
		n, v := p.row(p.keyOf(a, columns, i)), a.Series[i].Values[0]
		for n >= len(values) {
			values = append(values, math.Float64frombits(absent))
		}
		switch old := values[n]; {
		case math.Float64bits(old) == absent || old != old:
			values[n] = v
		case v == v:
			values[n] = old + v
		}
	}
	p.columns, p.empty = append(p.columns, values), append(p.empty, none)
	return len(p.columns) - 1
}

// Join keeps the answer's series beside each row of the same key that there is already, for Word to read.
func (p *Pivot) Join(name string, a *measure.Answer, where ...string) {
	wanted, columns := newFilter(a, where), p.columnsOf(a)
	j := join{name: name, answer: a, series: make([]int32, p.keys.n)}
	for i := range a.Series {
		if !wanted.has(i) {
			continue
		}
		if n := p.keys.find(p.keyOf(a, columns, i)); n >= 0 {
			j.series[n] = int32(i + 1)
		}
	}
	p.joins = append(p.joins, j)
}

// Len gives the number of rows.
func (p *Pivot) Len() int { return p.keys.n }

// At gives the value of a column in a row.
func (p *Pivot) At(row, col int) float64 {
	if n, c := p.order[row], p.columns[col]; n < len(c) && math.Float64bits(c[n]) != absent {
		return c[n]
	}
	return p.empty[col]
}

// word gives the k-th word of a row's key.
func (p *Pivot) word(row, k int) string { return p.words.texts[p.keys.key(p.order[row])[k]] }

// Key gives the word of a field of the pivot in a row.
func (p *Pivot) Key(row int, field string) string {
	if k := slices.Index(p.by, field); k >= 0 {
		return p.word(row, k)
	}
	return ""
}

// ID gives what tells the row apart.
func (p *Pivot) ID(row int) string {
	all := make([]string, len(p.by))
	for k := range all {
		all[k] = p.word(row, k)
	}
	return strings.Join(all, " ")
}

// Word gives a field of the series that Join kept under the name, "" when there is none.
func (p *Pivot) Word(row int, name, field string) string {
	n := p.order[row]
	for i := len(p.joins) - 1; i >= 0; i-- {
		if j := &p.joins[i]; j.name == name && n < len(j.series) && j.series[n] > 0 {
			return j.answer.Word(int(j.series[n]-1), field)
		}
	}
	return ""
}

// Sort orders the rows by their keys, numbers within words by value: eth2 before eth10.
func (p *Pivot) Sort() {
	sort.SliceStable(p.order, func(i, j int) bool {
		a, b := p.keys.key(p.order[i]), p.keys.key(p.order[j])
		for k := range a {
			if a[k] != b[k] {
				return Natural(p.words.texts[a[k]], p.words.texts[b[k]])
			}
		}
		return false
	})
}

// SortBy orders the rows by a value, largest first, unknown last.
func (p *Pivot) SortBy(value func(row int) float64) {
	type pair struct {
		n int
		v float64
	}
	pairs := make([]pair, len(p.order))
	for i, n := range p.order {
		pairs[i] = pair{n, value(i)}
	}
	sort.SliceStable(pairs, func(i, j int) bool {
		return pairs[i].v > pairs[j].v || pairs[i].v == pairs[i].v && pairs[j].v != pairs[j].v
	})
	for i := range pairs {
		p.order[i] = pairs[i].n
	}
}
