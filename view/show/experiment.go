package show

import (
	"context"
	"syscall"
	"time"

	"culprit/diagnose"
	"culprit/diagnose/experiment"
	"culprit/measure"
)

// Tracing is what an experiment measures with, beside a machine.
type Tracing struct {
	// Waits measures for how long the threads of processes wait, by stack. nil: it is not measured.
	Waits func(ctx context.Context, pids []int, seconds int) ([]experiment.Wait, error)
	Began func(seconds int) // called when something is measured; nil: nothing
}

// Experiment measures for some seconds what a report of a diagnosis estimated or does not know,
// where tracing has it, and updates the findings. The report states what was measured and what that
// cost. It does nothing when no finding rests on such an estimate, or the context has ended.
// Without the rights to trace, the report states what is missing, at once.
func Experiment(ctx context.Context, m Machine, r *diagnose.Report, with Tracing) {
	plan := experiment.NewPlan(r)
	var waiting []int
	if with.Waits != nil {
		waiting = plan.Waiting()
	}
	if len(plan.Queries)+len(waiting) == 0 || ctx.Err() != nil {
		return
	}
	e := diagnose.Experiment{Findings: plan.Findings(), Statistics: plan.Queries,
		Results: []string{}}
	if len(waiting) > 0 {
		e.Statistics = append(e.Statistics, plan.Profile())
	}
	if err := canTrace(m); err != nil {
		e.Missing = err.Error()
		r.Experiments = append(r.Experiments, e)
		return
	}
	if with.Began != nil {
		with.Began(experiment.Seconds)
	}
	before, start := spent(m), time.Now()
	waits := make(chan error, 1)
	var found []experiment.Wait
	go func() {
		var err error
		if len(waiting) > 0 {
			found, err = with.Waits(ctx, waiting, experiment.Seconds)
		}
		waits <- err
	}()
	results, err := measured(ctx, m, plan)
	e.Results = append(e.Results, results...)
	if waitsErr := <-waits; waitsErr == nil && len(waiting) > 0 {
		e.Results = append(e.Results, plan.ApplyWaits(found, time.Since(start).Seconds())...)
	} else if err == nil {
		err = waitsErr
	}
	e.Seconds = diagnose.Number(time.Since(start).Seconds())
	e.CPUSeconds = diagnose.Number((spent(m) - before).Seconds())
	if err != nil {
		e.Missing = err.Error()
	}
	r.Experiments = append(r.Experiments, e)
}

// measured measures the queries of a plan and updates the findings; it returns what changed.
func measured(ctx context.Context, m Machine, plan *experiment.Plan) ([]string, error) {
	var queries []measure.Query
	for _, text := range plan.Queries {
		q, err := m.Parse(text)
		if err != nil {
			return nil, err
		}
		q.Step = measure.Second
		queries = append(queries, q)
	}
	if len(queries) == 0 {
		return nil, nil
	}
	reader, err := m.Record(ctx, queries, experiment.Seconds, nil)
	if err != nil {
		return nil, err
	}
	return plan.Apply(context.WithoutCancel(ctx), reader)
}

// canTrace returns why a machine cannot trace; nil also when it does not report that.
func canTrace(m Machine) error {
	if t, ok := m.(interface{ CanTrace() error }); ok {
		return t.CanTrace()
	}
	return nil
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
