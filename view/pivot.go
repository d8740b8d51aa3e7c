package view

import (
	"math"
	"slices"

	"culprit/measure"
)

// Pivot joins answers: it has a row for each distinct tuple of the fields in by, and a column for
// each answer.
type Pivot struct {
	by      []string
	words   words
	keys    keys
	order   []int       // position -> number of the row
	columns [][]float64 // column -> row -> value; newer rows may be missing at the end
	empty   []float64   // per column: the value of a missing cell
	joins   []join
	key     []measure.Label // scratch, like the next two
	at      []int
	text    []byte

	// Memory that the next pivot in the same Buffers uses again.
	pairs     []pair
	placed    []bool
	folds     []folds
	foldCount int // folds in use
	tuples    keys
	counts    []int32
	lastSort  sortedRows

	// The calls of the table before in the same Buffers; see pivotCall.
	sameCalls bool // all calls so far are as in the table before
	calls     []pivotCall
	callCount int      // calls so far
	ids       []string // per row
	texts     []wordColumn
	textCount int // texts in use
}

// sortedRows holds the input and the result of the last Sort.
type sortedRows struct {
	keys     []measure.Label
	from, to []int
	known    bool // the rows are still those
}

// pair is a row with its value for sorting.
type pair struct {
	n int
	v float64
}

// folds holds a value per row, and the number of values that it was made of.
type folds struct {
	values []float64
	counts []int32
}

// join holds the series of an answer for each row.
type join struct {
	name   string
	answer *measure.Answer
	// Row -> 1 + index of the series, 0: none; newer rows may be missing at the end.
	series []int32
}

// absent marks a cell without a value. It is a NaN that no computation produces.
const absent = 0x7ff8_0000_0ab5_e270

// NewPivot starts a pivot by the given fields. If an answer lacks a field, its value is "".
func NewPivot(by ...string) *Pivot {
	return &Pivot{by: by, keys: keys{width: len(by)}, key: make([]measure.Label, len(by))}
}

// columnsOf returns the index of each field of the pivot in an answer; -1 if the answer lacks it.
// The result is valid until the next call.
func (p *Pivot) columnsOf(a *measure.Answer) []int {
	p.at = p.at[:0]
	for _, f := range p.by {
		p.at = append(p.at, a.FieldIndex(f))
	}
	return p.at
}

// keyOf returns the key of series i. It is valid until the next call.
func (p *Pivot) keyOf(a *measure.Answer, columns []int, i int) []measure.Label {
	for k, c := range columns {
		if c < 0 {
			p.key[k] = p.words.add("")
		} else {
			p.key[k] = p.words.numberOf(a.Labels, a.Series[i].Key[c])
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

// Add makes a column of the answer's series that match where (pairs of field and text), and returns
// its index. Series of the same row are added. A row without a series is NaN, or 0 if the statistic
// is sparse and was measured.
func (p *Pivot) Add(a *measure.Answer, where ...string) int {
	values, shape := a.Column()
	same, c := p.matchCall(isAdd, a, shape, "", where)
	if same != nil {
		at := p.reuseColumn(a)
		column := p.columns[at]
		for i, n := range same.cells {
			if n >= 0 {
				column[n>>1] = values[i]
			}
		}
		return at
	}
	wanted, columns, at := newFilter(a, where), p.columnsOf(a), p.column(a)
	for i := range a.Series {
		if !wanted.has(i) {
			c.recordSkipped()
			continue
		}
		n := p.row(p.keyOf(a, columns, i))
		p.put(at, n, a.Series[i].Values[0])
		c.recordCell(n, 0)
	}
	p.endCall(c)
	return at
}

// AddTwo is Add twice in one pass: for the series whose field is one, and for those whose field is
// two.
func (p *Pivot) AddTwo(a *measure.Answer, field, one, two string) (first, second int) {
	values, shape := a.Column()
	words := [...]string{one, two}
	same, c := p.matchCall(isAddTwo, a, shape, field, words[:])
	if same != nil {
		first, second = p.reuseColumn(a), p.reuseColumn(a)
		ones, twos := p.columns[first], p.columns[second]
		for i, n := range same.cells {
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
	ones, twos := newFilter(a, []string{field, one}), newFilter(a, []string{field, two})
	columns := p.columnsOf(a)
	first, second = p.column(a), p.column(a)
	for i := range a.Series {
		at := second
		switch {
		case ones.has(i):
			at = first
		case !twos.has(i):
			c.recordSkipped()
			continue
		}
		n := p.row(p.keyOf(a, columns, i))
		p.put(at, n, a.Series[i].Values[0])
		c.recordCell(n, at-first)
	}
	p.endCall(c)
	return first, second
}

// column starts a column for the answer and returns its index.
func (p *Pivot) column(a *measure.Answer) int {
	if len(p.columns) < cap(p.columns) {
		p.columns = p.columns[:len(p.columns)+1]
	} else {
		p.columns = append(p.columns, nil)
	}
	at := len(p.columns) - 1
	values := slices.Grow(p.columns[at][:0], max(p.keys.n, 16))[:p.keys.n]
	for i := range values {
		values[i] = math.Float64frombits(absent)
	}
	p.columns[at], p.empty = values, append(p.empty, emptyValue(a))
	return at
}

// put adds a value to a cell.
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

// Join attaches the answer's series to the rows with the same key, so that Word can read them. It
// adds no rows.
func (p *Pivot) Join(name string, a *measure.Answer, where ...string) {
	_, shape := a.Column()
	same, c := p.matchCall(isJoin, a, shape, name, where)
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
	p.endCall(c)
}

// Len returns the number of rows.
func (p *Pivot) Len() int {
	p.forgetMissingCalls()
	return p.keys.n
}

// At returns the value of a column in a row.
func (p *Pivot) At(row, col int) float64 {
	if n, c := p.order[row], p.columns[col]; n < len(c) && math.Float64bits(c[n]) != absent {
		return c[n]
	}
	return p.empty[col]
}

// word returns text k of a row's key.
func (p *Pivot) word(row, k int) string { return p.words.texts[p.keys.key(p.order[row])[k]] }

// Key returns the value of a field of the pivot in a row; "" if the pivot is not by that field.
func (p *Pivot) Key(row int, field string) string {
	if k := slices.Index(p.by, field); k >= 0 {
		return p.word(row, k)
	}
	return ""
}

// ID returns the key of a row as one text. It is the same in each table.
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
	p.ids[n] = p.words.intern(p.text)
	return p.ids[n]
}

// Word returns a field of the series that Join attached under the name; "" if there is none.
func (p *Pivot) Word(row int, name, field string) string {
	return p.wordOf(p.order[row], name, field)
}

// wordOf is Word for a row number.
func (p *Pivot) wordOf(n int, name, field string) string {
	for i := len(p.joins) - 1; i >= 0; i-- {
		if j := &p.joins[i]; j.name == name && n < len(j.series) && j.series[n] > 0 {
			return j.answer.LabelOf(int(j.series[n]-1), field)
		}
	}
	return ""
}

// Sort orders the rows by their keys. Digits within texts are compared as numbers: eth2 before
// eth10. It reuses the order of the table before if the rows are the same.
func (p *Pivot) Sort() {
	p.forgetMissingCalls()
	if p.sameCalls && p.lastSort.known {
		copy(p.order, p.lastSort.to)
		return
	}
	p.lastSort.known = true
	if !slices.Equal(p.order, p.lastSort.from) || !slices.Equal(p.keys.flat, p.lastSort.keys) {
		p.lastSort.from, p.lastSort.keys = append(
			p.lastSort.from[:0],
			p.order...), append(
			p.lastSort.keys[:0],
			p.keys.flat...)
		slices.SortStableFunc(p.order, p.compare)
		p.lastSort.to = append(p.lastSort.to[:0], p.order...)
		return
	}
	copy(p.order, p.lastSort.to)
}

// compare orders two row numbers by key.
func (p *Pivot) compare(i, j int) int {
	a, b := p.keys.key(i), p.keys.key(j)
	for k := range a {
		if a[k] != b[k] {
			x, y := p.words.texts[a[k]], p.words.texts[b[k]]
			switch {
			case NaturalLess(x, y):
				return -1
			case NaturalLess(y, x):
				return 1
			}
			return 0
		}
	}
	return 0
}

// SortBy orders the rows by a value, largest first and NaN last. Equal values other than 0 are
// ordered by key, so that the order does not depend on the order of measuring. Rows with 0 keep
// their order.
//
// If first is not 0, only the first rows are sorted. The others follow in their previous order.
func (p *Pivot) SortBy(value func(row int) float64, first int) {
	p.forgetMissingCalls()
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
			func(b, x pair) int { // after equal ones
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

// Folded returns the values of an answer by existing row: the mean, or with measure.Max the
// largest, of the series of the row; NaN if it has none. The result is valid as long as the pivot.
func (p *Pivot) Folded(fold measure.Fold, a *measure.Answer) func(row int) float64 {
	p.forgetMissingCalls()
	columns := p.columnsOf(a)
	if p.foldCount == len(p.folds) {
		p.folds = append(p.folds, folds{})
	}
	memory := &p.folds[p.foldCount]
	p.foldCount++
	values := slices.Grow(memory.values[:0], p.keys.n)[:p.keys.n]
	counts := slices.Grow(memory.counts[:0], p.keys.n)[:p.keys.n]
	memory.values, memory.counts = values, counts
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

// Distinct counts, per row, the distinct tuples of fields in the answer. A tuple counts for the row
// of its first series. The result is valid until the next call of Distinct.
func (p *Pivot) Distinct(a *measure.Answer, fields ...string) func(row int) int {
	p.forgetMissingCalls()
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
			if tuple[k] = p.words.add(""); c >= 0 {
				tuple[k] = p.words.numberOf(a.Labels, s.Key[c])
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
