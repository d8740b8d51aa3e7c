package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"culprit/kernel"
	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/measure"
)

// A reader is one run of a Source: its statistics, and what was added to them since the last
// reading.
type reader struct {
	source  *Source
	asked   []asked
	began   bool      // the first reading was tried
	begun   bool      // a reading succeeded, so the next has something to compare with
	last    time.Time // of the previous reading, by the monotonic clock
	drained bool      // the last rows, of the script's end, were delivered
	lost    losses    // as last reported
	index   map[string]measure.Label
	words   []string
}

// asked is one statistic of a reader.
type asked struct {
	stat    *measure.Stat
	of      *Aggregate
	tap     *tap
	by      []string
	columns []int // for each field of by, the index in the key; -1: the field has only one value
	reads   reads
}

// losses are what the script lost since its start.
type losses struct {
	dropped [ir.DropCount]uint64
	faults  uint64
}

// LossReasons are reasons of losses in the terms of a Source that is not a user's script. A kind
// without one has the reason of scripts.
type LossReasons map[ir.Drop]string

// of returns the reason of a kind; script is the reason of scripts.
func (r LossReasons) of(kind ir.Drop, script string) string { return cmp.Or(r[kind], script) }

// LossOf returns a loss of n events, or nil when n is 0.
func LossOf(reason string, n uint64) []measure.Loss {
	if n == 0 {
		return nil
	}
	return []measure.Loss{{Reason: reason, Events: n}}
}

// Reasons of losses where a map of the script was full.
const (
	lostKeys      = "more keys than fit: aggsize allows more"
	lostVariables = "more variables than fit: dynvarsize allows more"
	lostStacks    = "more different stacks than fit"
)

// list returns the losses by reason: with keys, also those of aggregations with keys; with stacks,
// also those of stacks.
func (l *losses) list(keys, stacks bool, reasons LossReasons) (out []measure.Loss) {
	add := func(reason string, n uint64) { out = append(out, LossOf(reason, n)...) }
	if keys {
		add(reasons.of(ir.DropAgg, lostKeys), l.dropped[ir.DropAgg])
	}
	if n := l.dropped[ir.DropStack]; stacks && n > 0 {
		out = append(out, measure.Loss{
			Reason: reasons.of(ir.DropStack, lostStacks), Events: n, Kind: measure.LostStacks,
		})
	}
	add(reasons.of(ir.DropDynamic, lostVariables), l.dropped[ir.DropDynamic])
	add(
		"probes fired within probes, deeper than the scratch memory allows",
		l.dropped[ir.DropNested],
	)
	add(
		"firings that the kernel left out, because the program ran already",
		l.dropped[ir.DropMissed],
	)
	add("ticks that were too late to be run", l.dropped[ir.DropLate])
	add("clauses that ended early because of a fault", l.faults)
	return out
}

// mostLabels is how many labels a reader keeps before it starts a new list.
const mostLabels = 1 << 16

func newReader(s *Source, queries []measure.Query) *reader {
	r := &reader{source: s, index: map[string]measure.Label{}}
	for _, q := range queries {
		i := slices.IndexFunc(s.stats, func(st measure.Stat) bool { return st.ID == q.Stat })
		if i < 0 {
			continue
		}
		a := asked{stat: &s.stats[i], of: s.aggs[i], by: slices.Clone(q.By)}
		if s.reads != nil {
			a.reads = s.reads[i]
		}
		for _, t := range q.Where {
			if !slices.Contains(a.by, t.Field) {
				a.by = append(a.by, t.Field)
			}
		}
		for _, f := range a.by {
			_, at := a.stat.Field(f)
			if _, fixed := a.reads.fixed[f]; fixed {
				at = -1
			}
			a.columns = append(a.columns, at)
		}
		r.asked = append(r.asked, a)
	}
	return r
}

func (r *reader) close() {
	for i, a := range r.asked {
		if a.tap != nil && r.same(i) == i {
			a.of.untap(a.tap)
		}
	}
}

// same returns the first statistic of the same aggregation, whose tap they share.
func (r *reader) same(i int) int {
	return slices.IndexFunc(r.asked, func(a asked) bool { return a.of == r.asked[i].of })
}

// read takes a reading and returns its batches; the first reading returns none. While the session
// is alive, it runs on the session's goroutine.
func (r *reader) read(alive bool) []*measure.Batch {
	s := r.source
	if !r.began {
		r.begin(alive)
		return nil
	}
	now := time.Now()
	var failed error
	switch {
	case alive:
		failed = errors.Join(
			s.session.reportDrops(&delivery{session: s.session, to: s.listener}), s.account(),
			s.session.Gather(),
		)
		now = s.session.aggs.cut
	case r.begun && !r.drained: // the last rows, up to the end of the script
		r.drained = true
	default:
		failed = s.gone()
	}
	if failed == nil && !r.begun {
		r.begun, r.last = true, now
		r.take()
		failed = errors.New("the previous reading failed, so there is nothing to compare with")
	}
	over := measure.Interval{End: measure.Time(now.UnixNano())}
	if failed != nil { // the rows stay for the next reading, which covers both intervals
		return r.blind(over.End, failed)
	}
	over.Start = over.End.Add(-measure.Span(now.Sub(r.last)))
	r.last = now
	if len(r.words) > mostLabels {
		r.words, r.index = nil, map[string]measure.Label{}
	}
	rows, losses := r.take(), r.losses()
	var out []*measure.Batch
	for i := range r.asked {
		out = append(out, r.batch(&r.asked[i], rows[i], losses, over))
	}
	for _, b := range out {
		b.Labels = r.words
		if s.session.stacks.frames != nil {
			b.Frames = s.session.stacks.frames.all
		}
		s.addNotes(b, alive)
	}
	s.session.trimFrames()
	return out
}

// begin takes the first reading: it adds the taps and discards what was added before.
func (r *reader) begin(alive bool) {
	r.began = true
	if alive {
		for i := range r.asked {
			if first := r.same(i); first < i {
				r.asked[i].tap = r.asked[first].tap
				continue
			}
			r.asked[i].tap = r.asked[i].of.tap()
		}
		r.begun = r.source.session.Gather() == nil
		r.last = r.source.session.aggs.cut
		r.take()
	}
	r.losses()
}

// addNotes adds the notes of the source to a batch.
func (s *Source) addNotes(b *measure.Batch, alive bool) {
	if s.notes != nil && alive {
		b.Notes = append(b.Notes, s.notes()...)
	}
	if less := s.session.Shrunk(); less != "" {
		b.Notes = append(b.Notes, less)
	}
	b.Notes = append(b.Notes, s.session.StackNotes()...)
	if why := s.session.symbols.pointers; why != "" &&
		(slices.Contains(b.By, "user") || slices.Contains(b.By, "stack")) {
		b.Notes = append(b.Notes, why)
	}
}

// gone returns the error of a reading after the script has ended.
func (s *Source) gone() error {
	if s.why != nil {
		return fmt.Errorf("the script %s has ended: %w", s.name, s.why)
	}
	return fmt.Errorf("the script %s has ended", s.name)
}

// blind returns empty batches of a reading that failed at a moment.
func (r *reader) blind(at measure.Time, why error) (out []*measure.Batch) {
	for _, a := range r.asked {
		out = append(
			out,
			&measure.Batch{
				Stat:   a.stat.ID,
				By:     a.by,
				Over:   measure.Interval{Start: at, End: at},
				Labels: r.words,
				Notes:  []string{why.Error()},
			},
		)
	}
	return out
}

// RunUnavailable sends a batch without rows and with the note why at each tick until the context
// ends. It fails when sink does.
func RunUnavailable(
	ctx context.Context, stats []measure.Stat, queries []measure.Query, sink measure.Sink,
	why string,
) error {
	plan := kernel.PlanTicks(ctx, queries[0].Step, queries[0].Over.Start)
	for first := true; plan.Wait(); first = false {
		if first {
			continue
		}
		at := measure.Time(time.Now().UnixNano())
		var out []*measure.Batch
		for _, st := range stats {
			if !slices.ContainsFunc(
				queries, func(q measure.Query) bool { return q.Stat == st.ID },
			) {
				continue
			}
			b := &measure.Batch{
				Stat:  st.ID,
				Over:  measure.Interval{Start: at, End: at},
				Notes: []string{why},
			}
			for _, f := range st.Fields {
				b.By = append(b.By, f.Name)
			}
			out = append(out, b)
		}
		if err := sink.Accept(out); err != nil {
			return err
		}
	}
	return nil
}

// take returns the rows of each statistic that were added since the last call.
func (r *reader) take() []map[string]tapped {
	out := make([]map[string]tapped, len(r.asked))
	for i, a := range r.asked {
		switch first := r.same(i); {
		case first < i:
			out[i] = out[first]
		case a.tap != nil:
			out[i] = a.tap.take()
		}
	}
	return out
}

// losses returns what was lost since the last call.
func (r *reader) losses() losses {
	r.source.usage.mu.Lock()
	now := r.source.usage.lost
	r.source.usage.mu.Unlock()
	d := losses{faults: now.faults - r.lost.faults}
	for k := range d.dropped {
		d.dropped[k] = now.dropped[k] - r.lost.dropped[k]
	}
	r.lost = now
	return d
}

// batch returns the batch of a statistic without its labels, which read sets when all batches are
// complete.
func (r *reader) batch(
	a *asked, rows map[string]tapped, lost losses, over measure.Interval,
) *measure.Batch {
	b := &measure.Batch{Stat: a.stat.ID, By: a.by, Over: over}
	at := map[string]int{}
	var values [][]int64
	var id strings.Builder
	for _, row := range rows {
		id.Reset()
		for _, c := range a.columns {
			if c >= 0 {
				id.WriteString(row.words[c])
				id.WriteByte(0)
			}
		}
		n, ok := at[id.String()]
		if !ok {
			n = len(values)
			at[id.String()] = n
			values = append(values, a.of.fresh())
			for k, c := range a.columns {
				if c < 0 {
					b.Keys = append(b.Keys, r.label(a.reads.fixed[a.by[k]]))
					continue
				}
				if a.stat.Fields[c].Type == measure.Stack {
					n, _ := strconv.Atoi(row.words[c]) // as tap.named wrote it
					b.Keys = append(b.Keys, measure.Label(n))
					continue
				}
				word := row.words[c]
				if say := a.reads.words[a.stat.Fields[c].Name]; say != nil {
					word = say(word)
				}
				b.Keys = append(b.Keys, r.label(word))
			}
		}
		a.of.join(values[n], row.data)
	}
	below := uint64(0)
	for _, data := range values {
		if a.stat.Kind == measure.Dists {
			d, under := a.of.distribution(data)
			b.Dists = append(b.Dists, d)
			below += under
			continue
		}
		if a.reads.value != nil {
			b.Values = append(b.Values, a.reads.value(data))
			continue
		}
		b.Values = append(b.Values, a.of.number(data))
	}
	stacks := slices.ContainsFunc(
		a.of.Of.Key.Fields,
		func(f ir.TupleField) bool { _, ok := f.Type.(check.StackType); return ok },
	)
	b.Loss = append(
		LossOf("values below 0, which a distribution cannot have", below),
		lost.list(len(a.of.Of.Key.Fields) > 0, stacks, r.source.lossReasons)...)
	return b
}

func (r *reader) label(w string) measure.Label {
	l, ok := r.index[w]
	if !ok {
		l = measure.Label(len(r.words))
		r.index[w] = l
		r.words = append(r.words, w)
	}
	return l
}
