package dataset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"culprit/measure"
)

// Replay answers like a live machine from recorded data: it reports a time range tick by tick, as
// Catalogue does while it happens. Safe for concurrent use.
type Replay struct {
	reader measure.Reader
	known  *Catalogue // of descriptions only: nothing runs
	over   measure.Interval
	where  []measure.Term
}

// minGap is the unmeasured time in a cell that counts as a gap. A late tick differs by
// milliseconds; a skipped tick is missing as a whole.
const minGap = 900 * measure.Millisecond

// NewReplay returns the replay of a time range. Without a start, the range is as many steps as
// requested before the end. stats lists the statistics. Each term of where is added to the queries
// whose statistic has its field.
func NewReplay(
	r measure.Reader, stats []measure.Stat, over measure.Interval, where ...measure.Term,
) *Replay {
	return &Replay{reader: r, known: New(describedStats(stats)), over: over, where: where}
}

// describedStats are statistics that no source measures.
type describedStats []measure.Stat

func (d describedStats) Stats() []measure.Stat { return d }

func (d describedStats) Run(context.Context, []measure.Query, measure.Sink) error {
	return fmt.Errorf("measure the past: %w", measure.ErrUnsupported)
}

// Stats lists all statistics, sorted by ID. Don't modify the result.
func (p *Replay) Stats() []measure.Stat { return p.known.Stats() }

// Parse parses a query and checks it, as Catalogue.Parse. The error is a *measure.Diagnostic.
func (p *Replay) Parse(text string) (measure.Query, error) { return p.known.Parse(text) }

// Watch reports the ticks of the range in cells of the step of the first query, and returns. The
// last cell may be shorter. A tick covers the measured time of its cell; missing time is a note.
// Consecutive cells without data are one tick, whose answers have no measured time. A query that
// cannot be answered has a note on its answer while another one can. The error is that of each, or
// of the reader.
func (p *Replay) Watch(
	ctx context.Context, queries []measure.Query, each func(*measure.Tick) error,
) error {
	if len(queries) == 0 {
		return errors.New("watch: no query")
	}
	for _, q := range queries {
		if err := p.known.Check(q); err != nil {
			return err
		}
	}
	step := queries[0].Step
	over := p.span(step, 1)
	if step <= 0 || step > over.Span() {
		step = over.Span()
	}
	var gap *measure.Tick
	reportGap := func() error {
		if gap == nil {
			return nil
		}
		t := gap
		gap = nil
		note := fmt.Sprintf(
			"nothing was recorded from %s to %s", localTime(t.Over.Start), localTime(t.Over.End),
		)
		for _, a := range t.Answers {
			a.Notes = append(a.Notes, note)
		}
		return each(t)
	}
	for at := over.Start; at < over.End; {
		cell := measure.Interval{Start: at, End: min(at.Add(step), over.End)}
		t, cell, err := p.storedTick(ctx, queries, cell)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		at = cell.End
		if t == nil {
			if gap == nil {
				gap = &measure.Tick{Over: cell, Answers: p.blank(queries, cell)}
			}
			gap.Over.End = cell.End
			continue
		}
		if err := reportGap(); err != nil {
			return err
		}
		if err := each(t); err != nil {
			return err
		}
	}
	return reportGap()
}

// span returns the replayed range when n steps are requested.
func (p *Replay) span(step measure.Span, n int) measure.Interval {
	over := p.over
	if over.Start == 0 {
		over.Start = over.End.Add(-step * measure.Span(n))
	}
	return over
}

// storedTick is tick for a cell widened to the resolution of the data: old data has cells of a
// minute or an hour, and a dataset may have a longer step. It also returns the widened cell.
func (p *Replay) storedTick(
	ctx context.Context, queries []measure.Query, cell measure.Interval,
) (*measure.Tick, measure.Interval, error) {
	for _, unit := range []measure.Span{measure.Minute, 60 * measure.Minute, 0} {
		t, err := p.tick(ctx, queries, cell)
		var c *coarseError
		if !errors.As(err, &c) || unit == 0 {
			return t, cell, err
		}
		if c.step > cell.Span() {
			unit = c.step
		}
		cell.Start = floor(cell.Start, unit)
		cell.End = floor(cell.End.Add(unit-1), unit)
	}
	panic("not reached")
}

// coarseError means that a reader cannot answer a query over one cell.
type coarseError struct {
	query measure.Query
	step  measure.Span // of the answer that the reader returned
	cells int
}

func (c *coarseError) Error() string {
	return fmt.Sprintf("ask %s over one cell: the answer has %d of %v", c.query, c.cells, c.step)
}

// tick answers all queries over one cell; nil when nothing was recorded in it. The error is a
// *coarseError when the data is too coarse.
func (p *Replay) tick(
	ctx context.Context, queries []measure.Query, cell measure.Interval,
) (*measure.Tick, error) {
	t := &measure.Tick{Over: measure.Interval{Start: cell.End, End: cell.End}}
	var refused error
	answered, looked := false, false
	var longest measure.Span
	for _, q := range queries {
		a, err := p.ask(ctx, q, cell, cell.Span())
		switch {
		case errors.Is(err, measure.ErrUnclear),
			errors.Is(err, measure.ErrUnsupported),
			errors.Is(err, measure.ErrDenied):
			st := p.known.Stat(q.Stat)
			note := err.Error()
			if st.Traced && errors.Is(err, measure.ErrUnclear) {
				note = fmt.Sprintf(
					"%s is recorded only on request: culprit datasets add '%s'", q.Stat, q.String(),
				)
			}
			a = &measure.Answer{
				Kind:   st.Kind,
				Unit:   st.AnswerUnit(),
				Sparse: st.Sparse,
				Stacks: st.Stacks(q.By),
				Notes:  []string{note},
			}
			refused = err
		case err != nil:
			return nil, err
		default:
			// a caveat on the query itself does not show that something was recorded
			over := p.known.Stat(q.Stat).Overcounts(q)
			a.Notes = slices.DeleteFunc(
				slices.Clone(a.Notes), func(n string) bool { return n == over },
			)
			answered = true
			looked = looked || len(a.Series) > 0 || len(a.Notes) > 0 || len(a.Loss) > 0
		}
		if n := len(a.Elapsed); n > 1 ||
			n == 1 && (a.Start != cell.Start || a.Step != cell.Span()) && err == nil {
			return nil, &coarseError{q, a.Step, n}
		}
		ordered(a)
		if len(a.Elapsed) == 0 {
			a.Elapsed, a.Series = []measure.Span{0}, nil
		}
		a.Query, a.Step = q, a.Elapsed[0]
		a.Start = cell.End.Add(-a.Step)
		longest = max(longest, a.Step)
		t.Answers = append(t.Answers, a)
	}
	switch {
	case !answered:
		return nil, refused
	case longest == 0 && !looked:
		return nil, nil
	}
	t.Over.Start = cell.End.Add(-longest)
	for _, a := range t.Answers {
		if longest-a.Elapsed[0] >= minGap &&
			(a.Elapsed[0] > 0 || len(a.Notes) == 0 && len(a.Loss) == 0) {
			a.Notes = append(
				slices.Clip(a.Notes),
				string(a.Query.Stat)+" was not recorded in all of the time that is shown",
			)
		}
	}
	if lacks := cell.Span() - longest; longest > 0 && lacks >= minGap {
		note := fmt.Sprintf(
			"of the %.0f s to %s only %.0f s are recorded", cell.Span().Seconds(),
			localTime(cell.End), longest.Seconds(),
		)
		for _, a := range t.Answers {
			a.Notes = append(slices.Clip(a.Notes), note)
		}
	}
	for _, a := range t.Answers {
		warn(a, p.known.Stat(a.Query.Stat).Overcounts(a.Query))
	}
	return t, nil
}

// ordered sorts the rows by their keys. Readers return different orders, and the output of a tool
// must not depend on the reader.
func ordered(a *measure.Answer) {
	text := func(k int, l measure.Label) string {
		if k < len(a.Stacks) && a.Stacks[k] {
			return "" // in the order of the frames
		}
		return a.Labels[l]
	}
	slices.SortFunc(a.Series, func(x, y measure.Series) int {
		for k, l := range x.Key {
			if c := strings.Compare(text(k, l), text(k, y.Key[k])); c != 0 {
				return c
			}
		}
		return slices.Compare(x.Key, y.Key)
	})
}

// blank returns an answer without measured time for each query.
func (p *Replay) blank(queries []measure.Query, cell measure.Interval) []*measure.Answer {
	var all []*measure.Answer
	for _, q := range queries {
		st := p.known.Stat(q.Stat)
		all = append(all, &measure.Answer{
			Query:   q,
			Kind:    st.Kind,
			Unit:    st.AnswerUnit(),
			Sparse:  st.Sparse,
			Stacks:  st.Stacks(q.By),
			Start:   cell.Start,
			Elapsed: []measure.Span{0},
		})
	}
	return all
}

// ask queries the reader, with the terms that apply to all queries.
func (p *Replay) ask(
	ctx context.Context, q measure.Query, over measure.Interval, step measure.Span,
) (*measure.Answer, error) {
	q.Over, q.Step = over, step
	if st := p.known.Stat(q.Stat); st != nil {
		for _, t := range p.where {
			if _, i := st.Field(t.Field); i >= 0 {
				q.Where = append(slices.Clip(q.Where), t)
			}
		}
	}
	return p.reader.Ask(ctx, q)
}

// localTime formats a time in the local time zone.
func localTime(t measure.Time) string { return t.AsTime().Local().Format("2006-01-02 15:04:05") }

// Record returns a reader of the range. A query without a time covers the whole range; one without
// a step has the step of queries. Nothing is copied. n is the number of steps, for a Replay without
// a start. It returns an error when there is no query.
func (p *Replay) Record(
	_ context.Context, queries []measure.Query, n int, _ func(tick int),
) (measure.Reader, error) {
	if len(queries) == 0 {
		return nil, errors.New("record: no query")
	}
	return &replayReader{p, p.span(queries[0].Step, n), queries[0].Step}, nil
}

// replayReader is a Replay with a default range and step.
type replayReader struct {
	past *Replay
	over measure.Interval
	step measure.Span
}

// Ask implements measure.Reader. A note reports the number of cells in which nothing was measured.
// The error is the reader's.
func (s *replayReader) Ask(ctx context.Context, q measure.Query) (*measure.Answer, error) {
	over, step := q.Over, q.Step
	if over == (measure.Interval{}) {
		over = s.over
	}
	if step == 0 {
		step = s.step
	}
	a, err := s.past.ask(ctx, q, over, step)
	if err != nil {
		return nil, err
	}
	a.Query = q
	a.Query.Over, a.Query.Step = over, step
	measured := 0
	for _, e := range a.Elapsed {
		if e > 0 {
			measured++
		}
	}
	if all := int(over.Span() / max(step, 1)); step > 0 && measured < all && measured > 0 {
		a.Notes = append(slices.Clip(a.Notes), fmt.Sprintf(
			"of the %d intervals of %v to %s only %d are recorded", all, step, localTime(over.End),
			measured,
		))
	}
	return a, nil
}
