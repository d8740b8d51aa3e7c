package diagnose

import (
	"math"
	"slices"
	"strings"

	"culprit/measure"
)

// Table is the answer to one query on the common grid of a diagnosis: all tables of a Look have the
// same cells. Impossible values (infinite, or negative where none can be) are NaN. A Table is never
// nil, is read-only, and belongs to one goroutine.
type Table struct {
	Query   measure.Query
	Unit    measure.Unit // of the values: of the rate, for a Delta
	Seconds []float64    // measured time in each cell; 0: nothing
	Rows    []*Row
	index   map[string]*Row              // by all words
	by      map[string]map[string][]*Row // by some fields, then by their words
	Why     string                       // why it is missing; "" when it is not
	labels  []string                     // of the answer: words of the keys
	Frames  []measure.Frame              // of the answer: keys that are stacks
	isStack []bool                       // by field of the query; nil: none
	Cached  any                          // what a rule computed from the table
	unread  string                       // the note about processes that could not be read; "" none
	notes   []string                     // of the answer
	start   measure.Time
	Step    measure.Span

	// Rows are fetched on first use: rules do not read most tables of connections.
	rows    int                             // number of rows
	numeric bool                            // any cell of any row has a value
	fill    func() (*measure.Answer, error) // nil: rows are present
	own     []float64                       // Seconds on the grid of the answer
	shift   int                             // of lay, in cells
	lay     func([]float64, float64) []float64
}

// Row is one row of a table. The nil Row has no words and no values: a missing row reads as
// unknown.
type Row struct {
	Values []float64      // one per cell; NaN: not measured
	dists  []measure.Dist // one per cell of a distribution; nil: none
	Table  *Table
	key    []measure.Label // into Table.labels, in the order of the query's fields
}

// WordAt returns the i-th word, "" when there is none: an answer of another program may be
// malformed.
func (r *Row) WordAt(i int) string {
	if i < 0 || i >= len(r.key) {
		return ""
	}
	if i < len(r.Table.isStack) && r.Table.isStack[i] {
		return measure.FoldedStack(r.Table.Frames, r.key[i])
	}
	if int(r.key[i]) >= len(r.Table.labels) {
		return ""
	}
	return r.Table.labels[r.key[i]]
}

// Stack returns the frame of a stack field, an index into Table.Frames; false when the field is no
// stack.
func (r *Row) Stack(field string) (measure.Label, bool) {
	i := r.Table.Column(field)
	if i < 0 || i >= len(r.key) || i >= len(r.Table.isStack) || !r.Table.isStack[i] ||
		int(r.key[i]) >= len(r.Table.Frames) {
		return 0, false
	}
	return r.key[i], true
}

// Words returns the words of the row, in the order of the fields of its query.
func (r *Row) Words() []string {
	out := make([]string, len(r.key))
	for i := range out {
		out[i] = r.WordAt(i)
	}
	return out
}

// Have reports whether the table was measured. A measured table may have no rows.
func (t *Table) Have() bool { return t.Why == "" }

// measured returns the number of cells in which anything was measured.
func (t *Table) measured() int {
	n := 0
	for _, sec := range t.Seconds {
		if sec > 0 {
			n++
		}
	}
	return n
}

// Column returns the index of a field in the words of the rows, -1 when the query is not broken
// down by it.
func (t *Table) Column(field string) int {
	for i, f := range t.Query.By {
		if f == field {
			return i
		}
	}
	return -1
}

// Where returns the rows with the given words: field, word, field, word ... The caller must not
// change the slice.
func (t *Table) Where(terms ...string) []*Row {
	if len(terms) < 2 {
		return t.Rows
	}
	var fields, words strings.Builder
	for i := 0; i+1 < len(terms); i += 2 {
		fields.WriteString(terms[i] + "\x00")
		words.WriteString(terms[i+1] + "\x00")
	}
	index, ok := t.by[fields.String()]
	if !ok {
		index = t.sorted(terms)
		if t.by == nil {
			t.by = map[string]map[string][]*Row{}
		}
		t.by[fields.String()] = index
	}
	return index[words.String()]
}

// sorted returns an index over the fields of terms. Rules look up each device or process in turn:
// without an index a thousand devices need a million comparisons per rule.
func (t *Table) sorted(terms []string) map[string][]*Row {
	index := make(map[string][]*Row, len(t.Rows))
	columns := make([]int, 0, len(terms)/2)
	for i := 0; i+1 < len(terms); i += 2 {
		columns = append(columns, t.Column(terms[i]))
	}
	var key []byte
	for _, r := range t.Rows {
		key = key[:0]
		for _, c := range columns {
			key = append(key, r.WordAt(c)...)
			key = append(key, 0)
		}
		index[string(key)] = append(index[string(key)], r)
	}
	return index
}

// One returns the first row with the given words, nil when there is none.
func (t *Table) One(terms ...string) *Row {
	if rows := t.Where(terms...); len(rows) > 0 {
		return rows[0]
	}
	return nil
}

// Exact returns the row with exactly these words, in the order of the fields of the query; nil when
// there is none.
func (t *Table) Exact(words []string) *Row {
	if t.index == nil {
		t.index = make(map[string]*Row, len(t.Rows))
		for _, r := range t.Rows {
			t.index[strings.Join(r.Words(), "\x00")] = r
		}
	}
	return t.index[strings.Join(words, "\x00")]
}

// Word returns the word of a field, "" when the row has none.
func (r *Row) Word(field string) string {
	if r == nil {
		return ""
	}
	return r.WordAt(r.Table.Column(field))
}

// At returns the value in cell c, NaN when there is none.
func (r *Row) At(c int) float64 {
	if r == nil || c < 0 || c >= len(r.Values) {
		return measure.NaN
	}
	return r.Values[c]
}

// Query returns a query for this row alone.
func (r *Row) Query() string {
	if r == nil {
		return ""
	}
	return r.Table.asking(r.Words())
}

func (t *Table) asking(words []string) string {
	q := measure.Query{Stat: t.Query.Stat, Where: append([]measure.Term(nil), t.Query.Where...)}
	for i, f := range t.Query.By {
		if i < len(words) && !(words[i] == "" && f == "netns") && !fixed(t.Query.Where, f) {
			q.Where = append(q.Where,
				measure.Term{Field: f, Op: measure.Equal, Values: []string{words[i]}})
		}
	}
	return q.String()
}

func fixed(where []measure.Term, field string) bool {
	for _, t := range where {
		if t.Field == field && t.Op == measure.Equal {
			return true
		}
	}
	return false
}

// QueryOf returns a query of the table's statistic by the given fields, where the given words hold:
// QueryOf([]string{"mode"}, "pid", "12"). Terms for the netns "" are left out.
func (t *Table) QueryOf(by []string, terms ...string) string {
	q := measure.Query{Stat: t.Query.Stat, By: by,
		Where: append([]measure.Term(nil), t.Query.Where...)}
	for i := 0; i+1 < len(terms); i += 2 {
		if !(terms[i] == "netns" && terms[i+1] == "") && !fixed(t.Query.Where, terms[i]) {
			q.Where = append(q.Where,
				measure.Term{Field: terms[i], Op: measure.Equal, Values: []string{terms[i+1]}})
		}
	}
	return q.String()
}

// QueryIn returns a query of the table's statistic by the given fields, where a field has one of
// the words.
func (t *Table) QueryIn(by []string, field string, words []string) string {
	return measure.Query{Stat: t.Query.Stat, By: by, Where: append(
		append([]measure.Term(nil), t.Query.Where...),
		measure.Term{Field: field, Op: measure.In, Values: words})}.String()
}

// Sum adds rows cell by cell: NaN where none has a value.
func (t *Table) Sum(rows []*Row) []float64 {
	out := make([]float64, len(t.Seconds))
	for c := range out {
		out[c] = measure.NaN
		for _, r := range rows {
			if v := r.At(c); v == v {
				if out[c] != out[c] {
					out[c] = 0
				}
				out[c] += v
			}
		}
	}
	return out
}

// Keys returns the distinct words of a field, in the order of the rows.
func (t *Table) Keys(field string) []string {
	var out []string
	seen := map[string]bool{}
	for _, r := range t.Rows {
		if w := r.Word(field); !seen[w] {
			seen[w] = true
			out = append(out, w)
		}
	}
	return out
}

// outlined returns a table of an answer on the grid of the answer, without rows.
func outlined(a *measure.Answer, q measure.Query) *Table {
	cells := len(a.Elapsed)
	t := &Table{Query: q, Unit: a.Unit, Seconds: make([]float64, cells), start: a.Start,
		Step: a.Step}
	for c, e := range a.Elapsed {
		if e > 0 {
			t.Seconds[c] = e.Seconds()
		}
	}
	if len(a.Query.By) > 0 {
		t.Query.By = a.Query.By
	}
	return t
}

// tabulate returns a table of an answer on the grid of the answer.
func tabulate(a *measure.Answer, q measure.Query) *Table {
	t := outlined(a, q)
	t.take(a)
	t.rows, t.numeric = len(a.Series), t.HasNumbers()
	return t
}

// take moves the rows of an answer into the table. Malformed rows (too few words, an unknown label)
// are dropped: the answer may be of another program.
func (t *Table) take(a *measure.Answer) {
	by, cells := t.Query.By, len(t.Seconds)
	signed := t.Query.Stat == "cache.growth"
	t.labels, t.Frames, t.isStack = a.Labels, a.Frames, a.Stacks
	rows := make([]Row, 0, len(a.Series)) // must not grow: t.Rows points into it
	t.Rows = make([]*Row, 0, len(a.Series))
	for _, s := range a.Series {
		if len(s.Key) < len(by) {
			continue
		}
		r := Row{Table: t, key: s.Key[:len(by):len(by)]}
		if d := s.Dists(); len(d) == cells {
			r.dists = d
		}
		if r.Values = s.Values; len(s.Values) != cells {
			r.Values = slices.Repeat([]float64{measure.NaN}, cells)
			copy(r.Values, s.Values)
		}
		for c, v := range r.Values {
			if t.Seconds[c] == 0 || math.IsInf(v, 0) || v < 0 && !signed {
				r.Values[c] = measure.NaN
			}
		}
		rows = append(rows, r)
		t.Rows = append(t.Rows, &rows[len(rows)-1])
	}
}

// onto moves the table to a grid of cells cells from start. A table with another step is not moved.
// Usually it is there already.
func (t *Table) onto(start measure.Time, step measure.Span, cells int) *Table {
	shift := 0
	if t.Step > 0 && t.Step == step {
		shift = int(math.Round(float64(t.start.Sub(start)) / float64(step)))
	}
	t.start, t.Step, t.own = start, step, t.Seconds
	if shift == 0 && len(t.Seconds) == cells {
		return t
	}
	t.shift, t.lay = shift, func(from []float64, empty float64) []float64 {
		return moved(from, empty, cells, shift)
	}
	t.Seconds = t.lay(t.Seconds, 0)
	t.layRows()
	return t
}

func (t *Table) layRows() {
	if t.lay != nil {
		for _, r := range t.Rows {
			r.Values = t.lay(r.Values, measure.NaN)
			if r.dists != nil {
				r.dists = moved(r.dists, measure.Dist{}, len(r.Values), t.shift)
			}
		}
	}
}

// filled returns the table with its rows.
func (t *Table) filled() *Table {
	if t.fill == nil {
		return t
	}
	a, err := t.fill()
	t.fill = nil
	if err != nil {
		t.Why = because(err)
		return t
	}
	grid := t.Seconds
	t.Seconds = t.own
	t.take(a)
	t.Seconds = grid
	t.layRows()
	return t
}

// HasNumbers reports whether any cell of any row has a value, or any row has distributions.
func (t *Table) HasNumbers() bool {
	for _, r := range t.Rows {
		if r.dists != nil {
			return true
		}
		for _, v := range r.Values {
			if v == v {
				return true
			}
		}
	}
	return false
}

// With returns a row with the labels of r and other values.
func (r *Row) With(values []float64) *Row {
	return &Row{Values: values, Table: r.Table, key: r.key}
}
