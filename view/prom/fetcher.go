package prom

import (
	"context"

	"culprit/measure"
	"culprit/wire"
)

// choice says which values of a series are those of its cells.
type choice uint8

// The choices.
const (
	means choice = iota
	greatest
	least
)

// of returns the chosen values of a series; the means if each cell is one measurement.
func (c choice) of(s *measure.Series) []float64 {
	switch {
	case c == greatest && s.Max() != nil:
		return s.Max()
	case c == least && s.Min() != nil:
		return s.Min()
	}
	return s.Values
}

// fetcher returns the rows of a metric: see asker.fetch.
type fetcher interface {
	fetch(ctx context.Context, m *metric, terms []measure.Term, over measure.Interval,
		cell measure.Span, choose choice) (*table, error)
}

// wanted is what a worker asks the server: the arguments of asker.fetch.
type wanted struct {
	metric string
	terms  []measure.Term
	over   measure.Interval
	cell   measure.Span
	choose choice
	left   int
	now    measure.Time
}

func (q *wanted) append(b []byte) []byte {
	b = wire.AppendUint(wire.AppendString(b, q.metric), uint64(len(q.terms)))
	for _, t := range q.terms {
		b = wire.AppendStrings(append(wire.AppendString(b, t.Field), byte(t.Op)), t.Values)
	}
	for _, n := range []int64{
		int64(q.over.Start), int64(q.over.End), int64(q.cell), int64(q.left), int64(q.now),
	} {
		b = wire.AppendInt(b, n)
	}
	return append(b, byte(q.choose))
}

// readWanted reads what wanted.append has written.
func readWanted(d *wire.Decoder) (q wanted) {
	q.metric = d.String()
	for range d.Count(3) {
		t := measure.Term{Field: d.String(), Op: measure.Op(d.Byte()), Values: d.Strings()}
		if t.Op < measure.Equal || t.Op > measure.In || len(t.Values) == 0 {
			d.Fail("comparison %d with %d values", t.Op, len(t.Values))
		}
		q.terms = append(q.terms, t)
	}
	q.over.Start, q.over.End = measure.Time(d.Int()), measure.Time(d.Int())
	q.cell, q.left, q.now = measure.Span(d.Int()), int(d.Int()), measure.Time(d.Int())
	if q.choose = choice(d.Byte()); q.choose > least || q.cell <= 0 || q.left < 0 {
		d.Fail("choice %d of cells of %v, %d values", q.choose, q.cell, q.left)
	}
	return q
}

// remoteFetcher fetches by asking the server.
type remoteFetcher struct {
	job  *job
	now  measure.Time
	left int // values that may still be loaded
}

// fetch implements fetcher.
func (f *remoteFetcher) fetch(_ context.Context, m *metric, terms []measure.Term,
	over measure.Interval, cell measure.Span, choose choice,
) (*table, error) {
	q := wanted{m.name, terms, over, cell, choose, f.left, f.now}
	b, err := f.job.ask(q.append([]byte{askRows}))
	if err != nil {
		return nil, err
	}
	d := wire.Decoder{Rest: b}
	f.left = int(d.Int())
	t := readTable(&d, m)
	t.cell, t.now = cell, f.now
	return t, d.End()
}
