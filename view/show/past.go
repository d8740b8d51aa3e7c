package show

import (
	"context"
	"errors"
	"time"

	"culprit/diagnose"
	"culprit/measure"
)

// pastTime bounds the time that reading the days before may take.
const pastTime = 10 * time.Second

// AddPast adds to a report of the replay what the recording knows from before: since when each
// finding lasts, and what is usual at this hour. A recording of an engine has no diagnoses of the
// past. The error is that of the context.
func (r *Replay) AddPast(ctx context.Context, report *diagnose.Report) error {
	if _, sent := r.Recorded.(Sent); sent || len(report.Findings) == 0 {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, pastTime)
	defer cancel()
	log := loggedFindings{r.Recorded}
	if err := diagnose.AddLogged(within, log, report); err != nil {
		return r.late(ctx, report, err)
	}
	over := measure.Interval{Start: report.Start.Add(-diagnose.UsualTime), End: report.End}
	whole := r.Recorded.Replay(over, r.netns)
	q, err := whole.Parse("system.info by host")
	if err != nil {
		return nil // another version of culprit: it knows no baseline
	}
	q.Step = measure.Minute
	reader, err := whole.Record(within, []measure.Query{q}, 1, nil)
	if err != nil {
		return nil
	}
	if err := diagnose.NewBaseline(reader, log).Add(within, report); err != nil {
		return r.late(ctx, report, err)
	}
	return nil
}

// late notes that the days before could not be read in time, or returns the error of ctx.
func (r *Replay) late(ctx context.Context, report *diagnose.Report, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		report.Notes = append(report.Notes, "What is usual at this hour is not known for all "+
			"findings: reading the days before took longer than "+pastTime.String()+".")
	}
	return nil
}

// loggedFindings are the logged diagnoses of a recording, as package diagnose reads them.
type loggedFindings struct{ r Recorded }

// Logged calls each for the diagnoses of a time range.
func (l loggedFindings) Logged(
	ctx context.Context, _ string, over measure.Interval,
	each func(at measure.Time, document []byte) error,
) error {
	return l.r.Findings(ctx, over, each)
}
