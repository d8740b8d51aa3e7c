package show

import (
	"context"
	"syscall"
	"time"

	"culprit/diagnose"
	"culprit/diagnose/experiment"
	"culprit/measure"
)

// Experiment measures for some seconds what a report of a diagnosis estimated, where a traced
// statistic has it, and updates the findings. The report states what was measured and what that
// cost. It does nothing when no finding rests on such an estimate, or the context has ended.
func Experiment(ctx context.Context, m Machine, r *diagnose.Report, began func(seconds int)) {
	plan := experiment.NewPlan(r)
	if len(plan.Queries) == 0 || ctx.Err() != nil {
		return
	}
	e := diagnose.Experiment{Findings: plan.Findings(), Statistics: plan.Queries,
		Results: []string{}}
	var queries []measure.Query
	for _, text := range plan.Queries {
		q, err := m.Parse(text)
		if err != nil {
			e.Missing = err.Error()
			r.Experiments = append(r.Experiments, e)
			return
		}
		q.Step = measure.Second
		queries = append(queries, q)
	}
	if began != nil {
		began(experiment.Seconds)
	}
	before, start := spent(m), time.Now()
	reader, err := m.Record(ctx, queries, experiment.Seconds, nil)
	e.Seconds = diagnose.Number(time.Since(start).Seconds())
	e.CPUSeconds = diagnose.Number((spent(m) - before).Seconds())
	var results []string
	if err == nil {
		results, err = plan.Apply(context.WithoutCancel(ctx), reader)
		e.Results = append(e.Results, results...)
	}
	if err != nil {
		e.Missing = err.Error()
	}
	r.Experiments = append(r.Experiments, e)
}

// spent returns the CPU time of this process, and of the BPF programs of a machine that reports it.
func spent(m Machine) measure.Span {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	all := measure.Span(u.Utime.Nano() + u.Stime.Nano())
	if o, ok := m.(interface{ ExternalCost() measure.Span }); ok {
		all += o.ExternalCost()
	}
	return all
}
