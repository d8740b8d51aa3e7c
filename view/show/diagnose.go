package show

import (
	"context"
	"time"

	"culprit/diagnose"
	"culprit/diagnose/rules"
	"culprit/measure"
)

// maxIntervals bounds the intervals of a diagnosis. Up to five minutes, an interval is a second.
const maxIntervals = 300

// DiagnosisBudget is the share of one CPU that each family of traced statistics may use during a
// diagnosis. Counting failed calls runs a program at the end of each system call, a quarter of a
// microsecond: machines with more than 100,000 calls per second do without it.
const DiagnosisBudget = 0.03

// DiagnosisStep returns the interval of a diagnosis of the given length. One second is best, since
// short states have an interval of their own. Longer diagnoses have longer intervals, since all are
// kept in memory: with thousands of busy connections an hour of seconds takes a gigabyte.
func DiagnosisStep(span time.Duration) measure.Span {
	return measure.Second * measure.Span(1+(span-1)/maxIntervals/time.Second)
}

// RuleQueries returns the queries of all rules. A rule whose query the machine does not know
// reports it as missing.
func RuleQueries(m Machine, step measure.Span) (queries []measure.Query) {
	for _, text := range rules.Queries() {
		q, err := m.Parse(text)
		if err != nil {
			continue
		}
		q.Step = step
		queries = append(queries, q)
	}
	return queries
}

// DiagnoseNow watches a machine for span and diagnoses it. progress is called after each interval;
// nil: not called. If the context ends earlier, it diagnoses what was measured until then. The
// error is that of the machine.
func DiagnoseNow(
	ctx context.Context, m Machine, span time.Duration, progress func(tick int),
) (*diagnose.Report, error) {
	look, err := lookNow(ctx, m, span, nil, progress)
	if err != nil {
		return nil, err
	}
	return look.Report, nil
}

// lookNow is DiagnoseNow, which also measures more queries, with the numbers of all.
func lookNow(
	ctx context.Context, m Machine, span time.Duration, more []measure.Query,
	progress func(tick int),
) (*Look, error) {
	step := DiagnosisStep(span)
	queries := RuleQueries(m, step)
	for _, q := range more {
		q.Step = step
		queries = append(queries, q)
	}
	reader, err := m.Record(ctx, queries, int(span/step.AsDuration()), progress)
	if err != nil {
		return nil, err
	}
	report, err := diagnose.Run(
		context.WithoutCancel(ctx), reader, rules.Set(), measure.Interval{}, 0,
	)
	if err != nil {
		return nil, err
	}
	return &Look{report, reader}, nil
}

// DiagnosePast diagnoses a time range of a recording that has a tick each fine. The error is a
// UsageError if the range is shorter than three ticks, or that of the machine.
func DiagnosePast(
	ctx context.Context, m Machine, over measure.Interval, fine measure.Span,
) (*diagnose.Report, error) {
	look, err := LookPast(ctx, m, over, fine)
	if err != nil {
		return nil, err
	}
	return look.Report, nil
}

// Look is a diagnosis with the numbers that it was made of.
type Look struct {
	Report *diagnose.Report
	reader measure.Reader // of the time range and the step of the diagnosis
}

// LookPast is DiagnosePast, with the numbers. The errors are the same.
func LookPast(
	ctx context.Context, m Machine, over measure.Interval, fine measure.Span,
) (*Look, error) {
	if least := 3 * fine; over.Span() < least {
		return nil, Usagef("%v is too short for a diagnosis: give %v or more", over.Span(), least)
	}
	step := DiagnosisStep(over.Span().AsDuration())
	step = (step + fine - 1) / fine * fine
	over.End = over.End.Add(-measure.Span(over.End) % fine) // samples are at multiples
	ticks := int(over.Span() / step)
	over.Start = over.End.Add(-step * measure.Span(ticks))
	reader, err := m.Record(ctx, RuleQueries(m, step), ticks, nil)
	if err != nil {
		return nil, err
	}
	report, err := diagnose.Run(ctx, reader, rules.Set(), over, step)
	if err != nil {
		return nil, err
	}
	return &Look{report, ranged{reader, over, step}}, nil
}

// ranged is a reader with a default time range and step.
type ranged struct {
	measure.Reader
	over measure.Interval
	step measure.Span
}

// Ask implements measure.Reader.
func (r ranged) Ask(ctx context.Context, q measure.Query) (*measure.Answer, error) {
	if q.Over == (measure.Interval{}) {
		q.Over = r.over
	}
	if q.Step == 0 {
		q.Step = r.step
	}
	return r.Reader.Ask(ctx, q)
}
