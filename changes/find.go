package changes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"culprit/fleet"
	"culprit/measure"
)

// Value is a field value with its part of a change.
type Value struct {
	Field string `json:"field"`
	Value string `json:"value"`
	// Share is its part of the sum of the changes of all rows, without their signs: 0..1.
	Share float64 `json:"share"`
}

// Change is a statistic that differs between two ranges: the row of it that changed most, or the
// sum of all rows.
type Change struct {
	Statistic string `json:"statistic"`
	Query     string `json:"query"` // returns the values
	// Function is the innermost function of the stacks that are meant; "": no stacks, or all.
	Function   string  `json:"function"`
	Unit       string  `json:"unit"` // of the values: per second for amounts
	Before     float64 `json:"before"`
	After      float64 `json:"after"`
	Deviations float64 `json:"deviations"` // robust standard deviations; negative: less
	Score      float64 `json:"score"`      // by which the changes are ranked
	// Explains are the field values with the largest part of the change of the whole statistic,
	// at most three per field, the largest first.
	Explains []Value `json:"explains"`
	// With are other statistics of the same things that changed too.
	With []string `json:"with"`

	beyond float64 // orders rows of equal score: their scores do not grow beyond a limit
}

// Range is a time range of the report.
type Range struct {
	Start measure.Time `json:"start"`
	End   measure.Time `json:"end"`
	Host  string       `json:"host"` // "" when not given
}

// Report is how two ranges differ.
type Report struct {
	Before   Range    `json:"before"`
	After    Range    `json:"after"`
	Compared int      `json:"compared"` // statistics that both ranges have
	Changes  []Change `json:"changes"`  // the largest first
	Notes    []string `json:"notes"`
}

// ErrNothing means that no statistic was measured in both ranges.
var ErrNothing = errors.New("no statistic was recorded in both times")

// Progress is what a comparison has done so far.
type Progress struct {
	Read, Of int // statistics that were read, of all
	report   *Report
}

// Report returns what was found so far. The comparison does not change it.
func (p *Progress) Report() *Report {
	r := *p.report
	r.Changes = group(slices.Clone(r.Changes))
	r.Notes = slices.Clone(r.Notes)
	return &r
}

// Find compares all statistics of two ranges. The error is ErrNothing, the context's, or that of a
// reader. When the context's deadline passes, the report has what was compared until then, and a
// note. What the kernel does on behalf of programs is compared last.
func Find(ctx context.Context, before, after *Side) (*Report, error) {
	return FindStepwise(ctx, before, after, func(*Progress) {})
}

// FindStepwise is Find. It calls progress after each statistic. The error is ErrNothing, the
// context's, or that of a reader.
func FindStepwise(
	ctx context.Context, before, after *Side, progress func(*Progress),
) (*Report, error) {
	r := &Report{
		Before:  Range{Start: before.Over.Start, End: before.Over.End},
		After:   Range{Start: after.Over.Start, End: after.Over.End},
		Changes: []Change{}, Notes: []string{},
	}
	stats := toCompare(before.Stats)
	for i := range stats {
		err := r.add(ctx, &stats[i], before, after)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && r.Compared > 0:
			r.Notes = append(r.Notes, fmt.Sprintf(
				"only %d of %d statistics were read in the time allowed: choose shorter times",
				i, len(stats),
			))
			r.Changes = group(r.Changes)
			return r, nil
		case err != nil:
			return nil, err
		}
		progress(&Progress{Read: i + 1, Of: len(stats), report: r})
	}
	if r.Compared == 0 {
		return nil, ErrNothing
	}
	r.Changes = group(r.Changes)
	return r, nil
}

// toCompare returns the statistics that are compared, in the order in which they are: the
// kernel's internals last.
func toCompare(all []measure.Stat) []measure.Stat {
	stats := slices.Clone(all)
	stats = slices.DeleteFunc(stats, func(st measure.Stat) bool { return skipped(&st) })
	slices.SortStableFunc(stats, func(a, b measure.Stat) int {
		return cmp.Compare(weight(b.ID), weight(a.ID))
	})
	return stats
}

// add compares a statistic. A note names one with too many rows to be read.
func (r *Report) add(ctx context.Context, st *measure.Stat, before, after *Side) error {
	t, err := read(ctx, st, before, after)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, measure.ErrTooLarge):
		r.Notes = append(r.Notes, string(st.ID)+" has too many rows to be compared")
		return nil
	case err != nil || t == nil:
		return err
	}
	r.Compared++
	if c := t.change(); c != nil {
		r.Changes = append(r.Changes, *c)
	}
	return nil
}

// change returns the largest change of a statistic; nil: none is beyond noise. It considers the sum
// of all rows, the sums by one field, and the rows. What one range lacks is not considered: it
// explains a sum.
func (t *table) change() *Change {
	var best *Change
	consider := func(by, key []string, r *row) {
		e, ok := Compare(r.before, r.after, fleet.LeastDifference(t.unit))
		if !ok {
			return
		}
		c := t.describe(by, key, e)
		if slices.ContainsFunc(key, isSlab) {
			c.Score /= 2 // what uses the kernel's memory is a row too
		}
		if best == nil || c.Score > best.Score || c.Score == best.Score && c.beyond >= best.beyond {
			best = c
		}
	}
	if total := t.total(); total != nil {
		consider(nil, nil, total)
		if len(t.by) > 1 {
			for k, f := range t.by {
				for _, r := range t.sumsBy(k) {
					consider([]string{f}, r.key, &r)
				}
			}
		}
	}
	for i := range t.rows {
		if r := &t.rows[i]; r.inBefore && r.inAfter {
			consider(t.by, r.key, r)
		}
	}
	if best != nil {
		best.Explains = append(t.explain(t.by, minShare), t.explains...)
	}
	return best
}

// sumsBy returns the sums of the rows by field k whose value both ranges have.
func (t *table) sumsBy(k int) (out []row) {
	type side struct{ before, after bool }
	index, has := map[string]int{}, map[string]side{}
	for _, r := range t.rows {
		v := r.key[k]
		i, ok := index[v]
		if !ok {
			i = len(out)
			index[v] = i
			out = append(out, row{key: []string{v}})
		}
		out[i].before, out[i].after = sum(out[i].before, r.before), sum(out[i].after, r.after)
		h := has[v]
		has[v] = side{h.before || r.inBefore, h.after || r.inAfter}
	}
	return slices.DeleteFunc(out, func(r row) bool {
		h := has[r.key[0]]
		return !h.before || !h.after
	})
}

// adds reports whether the rows are parts of one amount: counters of all kinds, and groups within
// groups, are not.
func (t *table) adds() bool {
	return t.stat.Overcounts(measure.Query{Stat: t.stat.ID}) == "" &&
		!strings.HasPrefix(string(t.stat.ID), "net.protocol.")
}

// isSlab reports whether a value of the field cache is a cache of the kernel's allocator.
func isSlab(value string) bool { return strings.HasPrefix(value, "slab:") }

// total returns the sum of all rows; nil if they do not add up to something, or are cut. A sum of
// limits only counts the things that have one.
func (t *table) total() *row {
	if strings.HasSuffix(string(t.stat.ID), ".limit") || !t.adds() {
		return nil
	}
	if t.stat.Fold != measure.Sum || t.cut || len(t.rows) < 2 {
		return nil
	}
	total := &row{}
	for _, r := range t.rows {
		total.before, total.after = sum(total.before, r.before), sum(total.after, r.after)
	}
	return total
}

// describe returns the change of the rows with the values key of the fields by.
func (t *table) describe(by, key []string, e Effect) *Change {
	q, function := measure.Query{Stat: t.stat.ID}, ""
	for k, v := range key {
		f := by[k]
		if _, i := t.stat.Field(f); i >= 0 && t.stat.Fields[i].Type == measure.Stack {
			q.By = append(q.By, f) // stacks can't be compared: Function names the row
			function = v
			continue
		}
		q.Where = append(q.Where, measure.Term{
			Field: f, Op: measure.Equal, Values: []string{v},
		})
	}
	return &Change{
		Statistic: string(t.stat.ID), Query: q.String(), Function: function, Unit: string(t.unit),
		Before: e.Before, After: e.After, Deviations: e.Deviations, Score: score(t.stat.ID, e, t.unit),
		With:   []string{},
		beyond: math.Abs(e.Size) * math.Abs(e.After-e.Before),
	}
}

// The parts of a score do not grow beyond these limits: a factor of 16, and 255 times the least
// difference of the unit. Deviations beyond maxDeviations make a change no surer.
const (
	maxSize       = 4.0
	maxAmount     = 8.0
	maxDeviations = 12.0
)

// score returns 0..1: the geometric mean of factor and amount, weighted by how sure the change is,
// and by what the statistic counts.
func score(id measure.StatID, e Effect, unit measure.Unit) float64 {
	amount := math.Log2(1 + math.Abs(e.After-e.Before)/fleet.LeastDifference(unit))
	sure := min(math.Abs(e.Deviations), maxDeviations) / maxDeviations
	return weight(id) * sure *
		math.Sqrt(min(math.Abs(e.Size), maxSize)/maxSize*min(amount, maxAmount)/maxAmount)
}

// internals are statistics of how the kernel works. They follow from what programs do and devices
// carry, so they weigh half.
//
// table: a constant that Go cannot express
var internals = []string{
	"net.protocol.", "softirq.", "softnet.", "irq.", "process.switches", "process.faults",
	"sched.switches", "cpu.interrupts", "net.qdisc.", "net.sockets", "memory.faults",
	"memory.paging", "process.state", "process.count",
}

// weight returns the weight of the changes of a statistic.
func weight(id measure.StatID) float64 {
	for _, begin := range internals {
		if strings.HasPrefix(string(id), begin) {
			return 0.5
		}
	}
	return 1
}

// explain returns the values of fields with the largest parts of the change, at least a share.
func (t *table) explain(fields []string, least float64) []Value {
	out := []Value{}
	if !t.adds() {
		return out
	}
	all := 0.0
	changes := make([]float64, len(t.rows))
	for i, r := range t.rows {
		a, b := known(r.before), known(r.after)
		if len(a) < MinCells || len(b) < MinCells {
			continue
		}
		changes[i] = math.Abs(middle(b) - middle(a))
		all += changes[i]
	}
	if all == 0 {
		return out
	}
	for _, f := range fields {
		k := slices.Index(t.by, f)
		parts := map[string]float64{}
		for i, r := range t.rows {
			parts[r.key[k]] += changes[i]
		}
		var some []Value
		for v, part := range parts {
			if share := part / all; share >= least {
				some = append(some, Value{Field: f, Value: v, Share: share})
			}
		}
		slices.SortFunc(some, func(a, b Value) int {
			return cmp.Or(cmp.Compare(b.Share, a.Share), strings.Compare(a.Value, b.Value))
		})
		out = append(out, some[:min(len(some), 3)]...)
	}
	return out
}

const (
	// minShare is the least part of a change that explains it.
	minShare = 0.1
	// mostShare is that of a value which one range alone has: all of these explain a restart.
	mostShare = 0.5
)

// group sorts changes and puts those of the same things below the largest: net.device.packets of
// eth0 below net.device.bytes of eth0.
func group(all []Change) []Change {
	slices.SortStableFunc(all, func(a, b Change) int { return cmp.Compare(b.Score, a.Score) })
	out := []Change{}
	first := map[string]int{}
	for _, c := range all {
		words := strings.SplitN(c.Statistic, ".", 3)
		key := strings.Join(words[:min(2, len(words))], ".")
		if i, ok := first[key]; ok {
			out[i].With = append(out[i].With, c.Statistic)
			continue
		}
		first[key] = len(out)
		out = append(out, c)
	}
	return out
}
