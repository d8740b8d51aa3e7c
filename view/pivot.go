package view

import (
	"math"
	"slices"

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
	key     []measure.Label // scratch, as the next two
	at      []int
	text    []byte

	// Of what was asked of this pivot, used again for the next in the same Room.
	pairs  []pair
	placed []bool
	folds  []folds
	folded int // of folds that are in use
	tuples keys
	counts []int32
	before sorting

	// Of the table before, in the same Room; see call.
	steady bool // all calls until now were as then
	calls  []call
	made   int      // calls until now
	ids    []string // of the rows
	texts  []wordColumn
	worded int // of texts that are in use
}

// sorting is what Sort did for the table before: which rows, of which keys, came from which order
// to which.
type sorting struct {
	keys     []measure.Label
	from, to []int
	known    bool // the rows are still those
}

// pair is a row and what it is ordered by.
type pair struct {
	n int
	v float64
}

// folds is a value for each row, made of so many.
type folds struct {
	values []float64
	counts []int32
}

// join is an answer's series beside the rows.
type join struct {
	name   string
	answer *measure.Answer
	series []int32 // row -> 1 + number of the series, 0 none; rows that came later are not in it
}

// absent marks a cell that nothing was put into, which NaN is not: a NaN of its own, never computed
// with.
const absent = 0x7ff8_0000_0ab5_e270

// NewPivot starts a pivot by the fields. A field that an answer lacks is "" there.
func NewPivot(by ...string) *Pivot {
	return &Pivot{by: by, keys: keys{width: len(by)}, key: make([]measure.Label, len(by))}
}

// columnsOf finds the pivot's fields in an answer, -1 where it lacks one. It holds until the next
// call.
func (p *Pivot) columnsOf(a *measure.Answer) []int {
	p.at = p.at[:0]
	for _, f := range p.by {
		p.at = append(p.at, a.FieldIndex(f))
	}
	return p.at
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

// Add makes a column of the answer's series that have the words (pairs of field and word); several
// series of one row add up. It gives the column's number. A row that the answer has no series for
// is NaN there, or 0 for a sparse statistic that was measured.
func (p *Pivot) Add(a *measure.Answer, where ...string) int {
	values, shape := a.Column()
	same, c := p.again(isAdd, a, shape, "", where)
	if same != nil {
		at := p.columnAgain(a)
		column := p.columns[at]
		for i, n := range same.to {
			if n >= 0 {
				column[n>>1] = values[i]
			}
		}
		return at
	}
	wanted, columns, at := newFilter(a, where), p.columnsOf(a), p.column(a)
	for i := range a.Series {
		if !wanted.has(i) {
			c.passed()
			continue
		}
		n := p.row(p.keyOf(a, columns, i))
		p.put(at, n, a.Series[i].Values[0])
		c.took(n, 0)
	}
	p.done(c)
	return at
}

// AddTwo is Add twice in one go: for the series whose field has the one word, and for those that
// have the other.
func (p *Pivot) AddTwo(a *measure.Answer, field, one, two string) (first, second int) {
	values, shape := a.Column()
	words := [...]string{one, two}
	same, c := p.again(isAddTwo, a, shape, field, words[:])
	if same != nil {
		first, second = p.columnAgain(a), p.columnAgain(a)
		ones, twos := p.columns[first], p.columns[second]
		for i, n := range same.to {
			switch {
			case n < 0:
			case n&1 == 0:
				ones[n>>1] = values[i]
			default:
				twos[n>>1] = values[i]
			}
		}
		return first, second
	}
	ones, twos, columns := newFilter(a, []string{field, one}), newFilter(a, []string{field, two}), p.columnsOf(
		a,
	)
	first, second = p.column(a), p.column(a)
	for i := range a.Series {
		at := second
		switch {
		case ones.has(i):
			at = first
		case !twos.has(i):
			c.passed()
			continue
		}
		n := p.row(p.keyOf(a, columns, i))
		p.put(at, n, a.Series[i].Values[0])
		c.took(n, at-first)
	}
	p.done(c)
	return first, second
}

// column begins a column for the answer and gives its number.
func (p *Pivot) column(a *measure.Answer) int {
	if len(p.columns) < cap(p.columns) { // of a pivot before, in the same Room
		p.columns = p.columns[:len(p.columns)+1]
	} else {
		p.columns = append(p.columns, nil)
	}
	at := len(p.columns) - 1
	values := slices.Grow(p.columns[at][:0], max(p.keys.n, 16))[:p.keys.n]
	for i := range values {
		values[i] = math.Float64frombits(absent)
	}
	p.columns[at], p.empty = values, append(p.empty, noneOf(a))
	return at
}

// put adds a value to a row of a column.
func (p *Pivot) put(column, n int, v float64) {
	values := p.columns[column]
	for n >= len(values) {
		values = append(values, math.Float64frombits(absent))
	}
	switch old := values[n]; {
	case math.Float64bits(old) == absent || old != old:
		values[n] = v
	case v == v:
		values[n] = old + v
	}
	p.columns[column] = values
}

// Join keeps the answer's series beside each row of the same key that there is already, for Word to
// read.
func (p *Pivot) Join(name string, a *measure.Answer, where ...string) {
	_, shape := a.Column()
	same, c := p.again(isJoin, a, shape, name, where)
	var series []int32
	if len(p.joins) < cap(p.joins) {
		series = p.joins[:len(p.joins)+1][len(p.joins)].series
	}
	if same != nil {
		p.joins = append(p.joins, join{name: name, answer: a, series: series})
		return
	}
	wanted, columns := newFilter(a, where), p.columnsOf(a)
	j := join{name: name, answer: a, series: slices.Grow(series[:0], p.keys.n)[:p.keys.n]}
	clear(j.series)
	for i := range a.Series {
		if !wanted.has(i) {
			continue
		}
		if n := p.keys.find(p.keyOf(a, columns, i)); n >= 0 {
			j.series[n] = int32(i + 1)
		}
	}
	p.joins = append(p.joins, j)
	p.done(c)
}

// Len gives the number of rows.
func (p *Pivot) Len() int {
	p.settle()
	return p.keys.n
}

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
	if len(p.by) == 1 {
		return p.word(row, 0)
	}
	n := p.order[row]
	if n < len(p.ids) && p.ids[n] != "" {
		return p.ids[n]
	}
	for n >= len(p.ids) {
		p.ids = append(p.ids, "")
	}
	p.text = p.text[:0]
	for k := range p.by {
		if k > 0 {
			p.text = append(p.text, ' ')
		}
		p.text = append(p.text, p.word(row, k)...)
	}
	p.ids[n] = p.words.text(p.text)
	return p.ids[n]
}

// Word gives a field of the series that Join kept under the name, "" when there is none.
func (p *Pivot) Word(row int, name, field string) string {
	return p.wordOf(p.order[row], name, field)
}

// wordOf is Word of a row by its number.
func (p *Pivot) wordOf(n int, name, field string) string {
	for i := len(p.joins) - 1; i >= 0; i-- {
		if j := &p.joins[i]; j.name == name && n < len(j.series) && j.series[n] > 0 {
			return j.answer.LabelOf(int(j.series[n]-1), field)
		}
	}
	return ""
}

// Sort orders the rows by their keys, numbers within words by value: eth2 before eth10. Of the same
// rows as in the table before it knows the order.
func (p *Pivot) Sort() {
	p.settle()
	if p.steady && p.before.known {
		copy(p.order, p.before.to)
		return
	}
	p.before.known = true
	if !slices.Equal(p.order, p.before.from) || !slices.Equal(p.keys.flat, p.before.keys) {
		p.before.from, p.before.keys = append(
			p.before.from[:0],
			p.order...), append(
			p.before.keys[:0],
			p.keys.flat...)
		slices.SortStableFunc(p.order, p.compare)
		p.before.to = append(p.before.to[:0], p.order...)
		return
	}
	copy(p.order, p.before.to)
}

// compare orders two rows, by their numbers, by key.
func (p *Pivot) compare(i, j int) int {
	a, b := p.keys.key(i), p.keys.key(j)
	for k := range a {
		if a[k] != b[k] {
			x, y := p.words.texts[a[k]], p.words.texts[b[k]]
			switch {
			case Natural(x, y):
				return -1
			case Natural(y, x):
				return 1
			}
			return 0
		}
	}
	return 0
}

// SortBy orders the rows by a value, largest first, unknown last. Equal ones that are not 0, as the
// two ends of a connection on one machine, go by key, so that the order is the same whoever
// measured; those of 0, thousands on a quiet machine, stay as they come. Where first is not 0, only
// so many rows get their places, and the others stand behind them as they stood.
func (p *Pivot) SortBy(value func(row int) float64, first int) {
	p.settle()
	pairs := slices.Grow(p.pairs[:0], len(p.order))[:len(p.order)]
	p.pairs = pairs
	for i, n := range p.order {
		pairs[i] = pair{n, value(i)}
	}
	order := func(a, b pair) int {
		switch {
		case a.v > b.v || a.v == a.v && b.v != b.v:
			return -1
		case a.v < b.v || a.v != a.v && b.v == b.v:
			return 1
		case a.v == 0 || a.v != a.v:
			return 0
		}
		return p.compare(a.n, b.n)
	}
	if first <= 0 || first >= len(pairs) {
		slices.SortStableFunc(pairs, order)
		for i := range pairs {
			p.order[i] = pairs[i].n
		}
		return
	}
	best := make([]pair, 0, first+1)
	for _, x := range pairs {
		if len(best) == first && order(x, best[first-1]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(
			best,
			x,
			func(b, x pair) int { // behind those that are equal
				if order(b, x) <= 0 {
					return -1
				}
				return 1
			},
		)
		if best = slices.Insert(best, at, x); len(best) > first {
			best = best[:first]
		}
	}
	placed := slices.Grow(p.placed[:0], p.keys.n)[:p.keys.n]
	clear(placed)
	p.placed = placed
	for i, x := range best {
		p.order[i], placed[x.n] = x.n, true
	}
	next := first
	for _, x := range pairs {
		if !placed[x.n] {
			p.order[next] = x.n
			next++
		}
	}
}

// Folded gives an answer's values by the rows that there are: of several series of one row the mean
// or the largest. NaN: it has none. What it gives is good as long as the pivot.
func (p *Pivot) Folded(fold measure.Fold, a *measure.Answer) func(row int) float64 {
	p.settle()
	columns := p.columnsOf(a)
	if p.folded == len(p.folds) {
		p.folds = append(p.folds, folds{})
	}
	room := &p.folds[p.folded]
	p.folded++
	values, counts := slices.Grow(room.values[:0], p.keys.n)[:p.keys.n], slices.Grow(room.counts[:0], p.keys.n)[:p.keys.n]
	room.values, room.counts = values, counts
	for i := range values {
		values[i], counts[i] = measure.NaN, 0
	}
	for i, s := range a.Series {
		n := p.keys.find(p.keyOf(a, columns, i))
		if v := s.Values[0]; n >= 0 && v == v {
			counts[n]++
			switch old := values[n]; {
			case counts[n] == 1:
				values[n] = v
			case fold == measure.Max:
				values[n] = max(old, v)
			default:
				values[n] = old + (v-old)/float64(counts[n])
			}
		}
	}
	return func(row int) float64 { return values[p.order[row]] }
}

// Distinct counts for each row the tuples of fields that come up in the answer, each where it comes
// up first. What it gives is good until the next call, and as long as the pivot.
func (p *Pivot) Distinct(a *measure.Answer, fields ...string) func(row int) int {
	p.settle()
	columns, seen := p.columnsOf(a), &p.tuples
	seen.clear(len(fields))
	var at []int
	for _, f := range fields {
		at = append(at, a.FieldIndex(f))
	}
	counts, tuple := slices.Grow(p.counts[:0], p.keys.n)[:p.keys.n], make(
		[]measure.Label, len(fields),
	)
	clear(counts)
	p.counts = counts
	for i, s := range a.Series {
		for k, c := range at {
			if tuple[k] = p.words.word(""); c >= 0 {
				tuple[k] = p.words.of(a.Labels, s.Key[c])
			}
		}
		before := seen.n
		if seen.number(tuple); seen.n == before {
			continue
		}
		if n := p.keys.find(p.keyOf(a, columns, i)); n >= 0 {
			counts[n]++
		}
	}
	return func(row int) int { return int(counts[p.order[row]]) }
}
