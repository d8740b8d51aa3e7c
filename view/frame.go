package view

import (
	"sort"
	"strings"

	"culprit/measure"
)

// Frame is what a tool makes one table of: the answers to its sentences for one interval, or their means over several.
type Frame struct {
	Over    measure.Interval
	Answers []*measure.Answer
}

// Of gives the answer of a statistic; one without series when it was not asked.
func (f *Frame) Of(id measure.StatID) *measure.Answer {
	for _, a := range f.Answers {
		if a.Query.Stat == id {
			return a
		}
	}
	return &measure.Answer{Query: measure.Query{Stat: id}, Elapsed: []measure.Span{0}}
}

// One gives the only value of a statistic without breakdown, or of the first row whose field has the word; NaN when there is none.
func (f *Frame) One(id measure.StatID, where ...string) float64 {
	a := f.Of(id)
	for i := range a.Series {
		if matches(a, i, where) {
			return a.Series[i].Values[0]
		}
	}
	if a.Sparse && a.Elapsed[0] > 0 {
		return 0
	}
	return measure.NaN
}

// Losses gives all losses of the answers, and Notes all their notes, each once.
func (f *Frame) Losses() []measure.Loss {
	var out []measure.Loss
	for _, a := range f.Answers {
		out = append(out, a.Loss...)
	}
	return out
}

// Notes gives the notes of all the answers, each once.
func (f *Frame) Notes() []string {
	var out []string
	seen := map[string]bool{}
	for _, a := range f.Answers {
		for _, n := range a.Notes {
			if !seen[n] {
				seen[n] = true
				out = append(out, n)
			}
		}
	}
	return out
}

// matches says whether series i has the words: pairs of field and word.
func matches(a *measure.Answer, i int, where []string) bool {
	for k := 0; k+1 < len(where); k += 2 {
		if a.Word(i, where[k]) != where[k+1] {
			return false
		}
	}
	return true
}

// Pivot lays answers side by side: a row for each distinct tuple of the fields it is by.
type Pivot struct {
	by    []string
	rows  []*pivotRow
	index map[string]*pivotRow
	empty []float64 // value of an absent cell, by column
}

type pivotRow struct {
	key    []string
	values map[int]float64
	joined map[string]joined
}

type joined struct {
	answer *measure.Answer
	series int
}

// NewPivot starts a pivot by the fields. A field that an answer lacks is "" there.
func NewPivot(by ...string) *Pivot { return &Pivot{by: by, index: map[string]*pivotRow{}} }

func (p *Pivot) row(a *measure.Answer, i int) *pivotRow {
	key := make([]string, len(p.by))
	for k, f := range p.by {
		key[k] = a.Word(i, f)
	}
	return p.rowOf(key)
}

func (p *Pivot) rowOf(key []string) *pivotRow {
	id := strings.Join(key, "\x00")
	r := p.index[id]
	if r == nil {
		r = &pivotRow{key: key, values: map[int]float64{}}
		p.index[id] = r
		p.rows = append(p.rows, r)
	}
	return r
}

// Add makes a column of the answer's series that have the words (pairs of field and word); several series of one row add up. It
// gives the column's number. A row that the answer has no series for is NaN there, or 0 for a sparse statistic that was measured.
func (p *Pivot) Add(a *measure.Answer, where ...string) int {
	col := len(p.empty)
	p.empty = append(p.empty, measure.NaN)
	if a.Sparse && len(a.Elapsed) > 0 && a.Elapsed[0] > 0 {
		p.empty[col] = 0
	}
	for i := range a.Series {
		if !matches(a, i, where) {
			continue
		}
		r, v := p.row(a, i), a.Series[i].Values[0]
		if old, ok := r.values[col]; ok && old == old && v == v {
			v += old
		} else if ok && v != v {
			v = old
		}
		r.values[col] = v
	}
	return col
}

// Join keeps the answer's series beside each row of the same key that there is already, for Word to read.
func (p *Pivot) Join(name string, a *measure.Answer, where ...string) {
	for i := range a.Series {
		if !matches(a, i, where) {
			continue
		}
		key := make([]string, len(p.by))
		for k, f := range p.by {
			key[k] = a.Word(i, f)
		}
		if r := p.index[strings.Join(key, "\x00")]; r != nil {
			if r.joined == nil {
				r.joined = map[string]joined{}
			}
			r.joined[name] = joined{a, i}
		}
	}
}

// Len gives the number of rows.
func (p *Pivot) Len() int { return len(p.rows) }

// At gives the value of a column in a row.
func (p *Pivot) At(row, col int) float64 {
	if v, ok := p.rows[row].values[col]; ok {
		return v
	}
	return p.empty[col]
}

// Key gives the word of a field of the pivot in a row.
func (p *Pivot) Key(row int, field string) string {
	for k, f := range p.by {
		if f == field {
			return p.rows[row].key[k]
		}
	}
	return ""
}

// ID gives what tells the row apart.
func (p *Pivot) ID(row int) string { return strings.Join(p.rows[row].key, " ") }

// Word gives a field of the series that Join kept under the name, "" when there is none.
func (p *Pivot) Word(row int, name, field string) string {
	j, ok := p.rows[row].joined[name]
	if !ok {
		return ""
	}
	return j.answer.Word(j.series, field)
}

// Sort orders the rows by their keys, numbers within words by value: eth2 before eth10.
func (p *Pivot) Sort() {
	sort.SliceStable(p.rows, func(i, j int) bool {
		a, b := p.rows[i].key, p.rows[j].key
		for k := range a {
			if a[k] != b[k] {
				return Natural(a[k], b[k])
			}
		}
		return false
	})
}

// SortBy orders the rows by a value, largest first, unknown last.
func (p *Pivot) SortBy(value func(row int) float64) {
	type pair struct {
		r *pivotRow
		v float64
	}
	pairs := make([]pair, len(p.rows))
	for i, r := range p.rows {
		pairs[i] = pair{r, value(i)}
	}
	sort.SliceStable(pairs, func(i, j int) bool {
		return pairs[i].v > pairs[j].v || pairs[i].v == pairs[i].v && pairs[j].v != pairs[j].v
	})
	for i := range pairs {
		p.rows[i] = pairs[i].r
	}
}

// Natural orders texts with their runs of digits compared as numbers.
func Natural(a, b string) bool {
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na > 0 && nb > 0 {
			x, y := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
			if len(x) != len(y) {
				return len(x) < len(y)
			}
			if x != y {
				return x < y
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return a[0] < b[0]
		}
		a, b = a[1:], b[1:]
	}
	return len(a) < len(b)
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
