package changes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"culprit/measure"
)

// Side is one of the two time ranges, with the recording that has it.
type Side struct {
	Reader measure.Reader
	Stats  []measure.Stat // the statistics of the recording
	Over   measure.Interval
	Fine   measure.Span // the time between two ticks of the recording
}

const (
	// MinCells is the number of measured cells that a side needs: fewer have no spread.
	MinCells = 3
	// maxCells bounds the cells that are read of a row.
	maxCells = 60
	// maxRows bounds the rows that are read of a statistic: the largest.
	maxRows = 300
)

// step returns the step in which both sides are read: a multiple of the times between their ticks.
func step(a, b *Side) measure.Span {
	fine := max(a.Fine, b.Fine)
	span := min(a.Over.Span(), b.Over.Span())
	return fine * max(1, (span/maxCells+fine-1)/fine)
}

// identifiers are fields that number things rather than name them: after a restart the same thing
// has another number. Rows are folded over them.
//
// table: a constant that Go cannot express
var identifiers = []string{
	"pid", "tid", "thread", "localport", "peerport", "index", "irq", "handle", "parent", "user",
	"command", "slot", "local",
}

// skipped reports whether a statistic describes the machine or culprit itself, or what another
// statistic has by process.
func skipped(st *measure.Stat) bool {
	id := string(st.ID)
	for _, end := range []string{".info", ".access", ".name", ".uses", ".modes", ".address"} {
		if strings.HasSuffix(id, end) {
			return true
		}
	}
	for _, begin := range []string{
		// of different units: the greatest is of bytes or of processes
		"limit.",
		"server.", "finding.", "system.", "trace.", "cpu.stack.rate", "cpu.stack.busy",
		"irq.affinity",
		"process.visibility", "irq.time.cost", "thread.", "process.files.limit",
		// what a process is, not what it does
		"process.nice", "process.priority", "process.time", "process.virtual",
	} {
		if strings.HasPrefix(id, begin) {
			return true
		}
	}
	return st.Kind == measure.Dists
}

// row is a combination of field values with its values in both ranges.
type row struct {
	key           []string  // one per field of table.by
	before, after []float64 // per cell; NaN: not measured
	// Which ranges have the row; the others have 0, or NaN.
	inBefore, inAfter bool
}

// table is a statistic in both ranges.
type table struct {
	stat measure.Stat
	unit measure.Unit // of the values: per second for amounts
	by   []string
	rows []row
	cut  bool // rows beyond maxRows were left out
	// explains are values of fields that were folded over.
	explains []Value
}

// read reads a statistic in both ranges. nil: one of them did not measure it.
func read(ctx context.Context, st *measure.Stat, before, after *Side) (*table, error) {
	var by []string
	for _, f := range st.Fields {
		switch {
		case slices.Contains(identifiers, f.Name):
		case f.Type == measure.Stack && f.Name != kernelStack:
		case f.Name == "cpu" && st.AnswerUnit() != measure.Ratio: // work moves between CPUs
		default:
			by = append(by, f.Name)
		}
	}
	t, err := readBy(ctx, st, by, before, after)
	if t == nil || err != nil {
		return t, err
	}
	// Fields that name other things in each range are folded over: the new network namespaces of a
	// restart, the interfaces of another machine.
	var shared, unshared []string
	for _, f := range t.by {
		if t.sharesNames(f) {
			shared = append(shared, f)
		} else {
			unshared = append(unshared, f)
		}
	}
	if len(unshared) == 0 {
		return t, nil
	}
	folded, err := readBy(ctx, st, shared, before, after)
	if folded != nil {
		folded.explains = t.explain(unshared, mostShare)
	}
	return folded, err
}

// readBy reads a statistic by some fields, without those that a range did not record.
func readBy(
	ctx context.Context, st *measure.Stat, by []string, before, after *Side,
) (*table, error) {
	t := &table{stat: *st, unit: st.AnswerUnit()}
	a, by, err := ask(ctx, st, by, before, step(before, after))
	if a == nil || err != nil {
		return nil, err
	}
	b, both, err := ask(ctx, st, by, after, step(before, after))
	if b == nil || err != nil {
		return nil, err
	}
	if len(both) < len(by) { // the other side recorded fewer fields
		if a, by, err = ask(ctx, st, both, before, step(before, after)); a == nil || err != nil {
			return nil, err
		}
	}
	t.by, t.cut = by, a.Rest.Rows > 0 || b.Rest.Rows > 0
	t.join(a, b)
	return t, nil
}

// sharesNames reports whether a field has most of its values in both ranges, weighted by the
// amounts of their rows. A field with one value only, as the namespace of the host, does.
func (t *table) sharesNames(field string) bool {
	k := slices.Index(t.by, field)
	type sides struct{ before, after float64 }
	values := map[string]sides{}
	for _, r := range t.rows {
		v := values[r.key[k]]
		v.before += math.Abs(amount(r.before))
		v.after += math.Abs(amount(r.after))
		values[r.key[k]] = v
	}
	shared, all := 0.0, 0.0
	for _, v := range values {
		all += v.before + v.after
		if v.before > 0 && v.after > 0 {
			shared += v.before + v.after
		}
	}
	return all == 0 || shared >= all/2
}

// amount returns the mean of the known values; 0 if there are none.
func amount(values []float64) float64 {
	if some := known(values); len(some) > 0 {
		return middle(some)
	}
	return 0
}

// kernelStack is the field whose stacks are compared by their innermost functions.
const kernelStack = "kernel"

// ask returns the answer of a side by the fields, without those that it did not record, and the
// fields. nil: it did not measure the statistic in enough cells.
func ask(
	ctx context.Context, st *measure.Stat, by []string, side *Side, step measure.Span,
) (*measure.Answer, []string, error) {
	query := func(by []string) (*measure.Answer, error) {
		return side.Reader.Ask(ctx, measure.Query{
			Stat: st.ID, By: by, Over: side.Over, Step: step, Top: maxRows,
		})
	}
	a, err := query(by)
	if isLacking(err) && len(by) > 0 {
		recorded := []string{}
		for _, f := range by {
			if _, err := query([]string{f}); err == nil {
				recorded = append(recorded, f)
			}
		}
		by = recorded
		a, err = query(by)
	}
	switch {
	case isLacking(err):
		return nil, by, nil
	case err != nil:
		return nil, by, fmt.Errorf("read %s: %w", st.ID, err)
	}
	measured := 0
	for _, e := range a.Elapsed {
		if e > 0 {
			measured++
		}
	}
	if measured < MinCells {
		return nil, by, nil
	}
	return a, by, nil
}

// isLacking reports whether an error means that a recording lacks a statistic or a field.
func isLacking(err error) bool {
	var d *measure.Diagnostic
	return errors.Is(err, measure.ErrUnsupported) || errors.Is(err, measure.ErrUnclear) ||
		errors.Is(err, measure.ErrDenied) || errors.As(err, &d)
}

// join makes the rows of two answers. A row that one of them lacks is 0 there where its absence
// means so; otherwise, and if rows were cut, it is left out.
func (t *table) join(a, b *measure.Answer) {
	index := map[string]int{}
	place := func(answer *measure.Answer, i int) *row {
		key := t.keyOf(answer, i)
		text := strings.Join(key, "\x00")
		at, ok := index[text]
		if !ok {
			at = len(t.rows)
			index[text] = at
			t.rows = append(t.rows, row{key: key})
		}
		return &t.rows[at]
	}
	for i := range a.Series {
		r := place(a, i)
		r.before = sum(r.before, a.Series[i].Values)
	}
	for i := range b.Series {
		r := place(b, i)
		r.after = sum(r.after, b.Series[i].Values)
	}
	// What has no limit for a while did not have one of 0.
	zero := !t.cut && (t.stat.Kind == measure.Delta || t.stat.Fold == measure.Sum) &&
		!strings.HasSuffix(string(t.stat.ID), ".limit")
	zerosA, zerosB := zeros(a.Elapsed), zeros(b.Elapsed)
	t.rows = slices.DeleteFunc(t.rows, func(r row) bool {
		return !zero && (r.before == nil || r.after == nil)
	})
	for i := range t.rows {
		r := &t.rows[i]
		r.inBefore, r.inAfter = r.before != nil, r.after != nil
		r.before, r.after = fill(r.before, zerosA, zero), fill(r.after, zerosB, zero)
	}
}

// userMode is the text of the function of samples without a kernel stack.
const userMode = "user mode"

// keyOf returns the texts of the key of a series. A stack is its innermost function.
func (t *table) keyOf(a *measure.Answer, i int) []string {
	key := make([]string, len(t.by))
	for k := range key {
		key[k] = a.Label(i, k)
		if k < len(a.Stacks) && a.Stacks[k] {
			key[k] = cmp.Or(key[k][strings.LastIndexByte(key[k], ';')+1:], userMode)
		}
	}
	return key
}

// sum adds values to those of a row with the same key. Keys are equal only of stacks.
func sum(to, values []float64) []float64 {
	if to == nil {
		return slices.Clone(values)
	}
	for c := range to {
		switch v := values[c]; {
		case to[c] != to[c]:
			to[c] = v
		case v == v:
			to[c] += v
		}
	}
	return to
}

// zeros returns 0 for each measured cell and NaN for the others.
func zeros(elapsed []measure.Span) []float64 {
	out := make([]float64, len(elapsed))
	for c, e := range elapsed {
		if e <= 0 {
			out[c] = measure.NaN
		}
	}
	return out
}

// fill returns the values with 0 in measured cells without a value, if absence means 0.
func fill(values, zeros []float64, zero bool) []float64 {
	if values == nil {
		return slices.Clone(zeros)
	}
	for c := range values {
		if zero && values[c] != values[c] {
			values[c] = zeros[c]
		}
	}
	return values
}
