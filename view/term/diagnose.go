package term

import (
	"context"
	"fmt"
	"slices"
	"time"

	"culprit/diagnose"
	"culprit/diagnose/experiment"
	"culprit/measure"
	"culprit/view"
	"culprit/view/report"
	"culprit/view/show"

	"github.com/spf13/cobra"
)

const exitFindings = 3 // exit status for findings with --exit-code

// errFindings sets the exit status to exitFindings.
type errFindings struct{ error }

// diagnosis holds the flags of the command diagnose.
type diagnosis struct {
	span  string
	json  bool
	exit  bool
	hosts bool // compare a host of an engine with the others
	netns string
	past  pastFlags

	noExperiment bool // measure nothing after the findings are known

	imported []string // files of captured tables; "-" is standard input
}

func (p Program) diagnose() *cobra.Command {
	d := &diagnosis{}
	c := &cobra.Command{
		Use:   "diagnose",
		Short: "watch everything for ten seconds and report what limits this machine",
		Long: reflow(
			`Watches every resource for ten seconds and prints ranked findings. A finding names the culprit
and its effect, and lists the evidence with a query for each number, what is ruled out, caveats, a
command to check it, and a fix with its undo. "Nothing is wrong here" with the list of checks is an
answer, and so is "not checked" with what is missing.
Where a finding rests on an estimate and tracing has the number, it traces that for three seconds
more, with the rights for it, and reports what this cost; --no-experiment leaves it out.
It changes nothing and needs no root; it reports what root would add. In the host's own network
namespace, and with the rights for it, it watches all namespaces; in another one, that one only.

With --from and --to, or --at, it diagnoses what culprit serve recorded then.

With --hosts and --engine it compares one host with all others that send to an engine: the statistics
in which it differs, the furthest first, and the findings that it alone has. Without --host that is
the host that differs most. The time is the last two minutes, or that of --from and --to.

`+importHelp,
			helpWidth,
		),
		Args: d.files,
		Example: examples([]view.Example{
			{Line: "culprit", Means: "the same as culprit diagnose"},
			{
				Line:  "culprit diagnose --for 30s",
				Means: "watch longer: steadier numbers, rarer problems",
			},
			{
				Line:  "culprit diagnose --json --exit-code",
				Means: "for programs: JSON, exit status 3 when there are findings",
			},
			{
				Line:  "culprit diagnose --from 14:00 --to 14:10",
				Means: "what limited the machine then, as culprit serve recorded it",
			},
			{
				Line:  "culprit diagnose --hosts --engine http://prometheus:9090",
				Means: "why one host is slow: the one furthest from the others against them",
			},
			{
				Line:  "culprit diagnose --import mpstat.txt nicstat.txt",
				Means: "what tables that somebody pasted into a ticket show",
			},
		}),
	}
	d.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(d.imported) > 0 {
			return d.importTables(p, c, append(d.imported, args...))
		}
		return d.run(c.Context(), p, c)
	}
	return c
}

func (d *diagnosis) flags(c *cobra.Command) {
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(
		&d.span, "for", "10s",
		"how long to watch: 3s to 1h; above 5m in intervals longer than a second",
	)
	f.BoolVar(&d.json, "json", false, "one JSON object; finding IDs are stable")
	f.BoolVar(&d.exit, "exit-code", false, "exit status 3 when there are findings")
	f.BoolVar(
		&d.hosts, "hosts", false,
		"--engine: compare --host, or the host that differs most, with the other hosts",
	)
	f.BoolVar(
		&d.noExperiment, "no-experiment", false,
		"do not trace for three seconds what the findings estimated",
	)
	f.StringVar(&d.netns, "netns", "", "network namespace: a name, all, or own")
	d.importFlag(f)
	d.past.flags(f, true)
	d.past.registerCompletions(c)
}

func (d *diagnosis) run(ctx context.Context, p Program, c *cobra.Command) error {
	if d.hosts {
		return d.compareHosts(ctx, p, c)
	}
	span, err := time.ParseDuration(d.span)
	if err != nil || span < 3*time.Second || span > time.Hour {
		return usagef("--for %q: give a time from 3s to 1h, such as 10s", d.span)
	}
	look := MachineOptions{Netns: d.netns}
	switch {
	case !c.Flags().Changed("netns"):
		look.Netns = p.DiagnoseNetns
	case d.netns == "own":
		look.Netns = ""
	}
	if d.past.isSet() {
		return d.diagnosePast(ctx, p, c, look, measure.Span(span))
	}
	if err := d.past.checkTimeGiven("--from or --at"); err != nil {
		return err
	}
	look.Alone, look.Budget = true, show.DiagnosisBudget
	machine, err := p.Open(look)
	if err != nil {
		return err
	}
	step := show.DiagnosisStep(span)
	ticks := int(span / step.AsDuration())
	progress := func(int) {}
	if p.Terminal.ErrTTY {
		progress = func(n int) {
			fmt.Fprintf(
				p.Terminal.Err, "\rmeasuring: %d of %d s ", n*int(step/measure.Second),
				ticks*int(step/measure.Second),
			)
		}
		progress(0)
	}
	// After an interrupt it diagnoses what was measured before.
	report, err := show.DiagnoseNow(ctx, machine, span, progress)
	if err == nil && !d.noExperiment {
		show.Experiment(ctx, machine, report, show.Tracing{
			Waits: waitsBy(p.Profile),
			Began: func(seconds int) {
				if p.Terminal.ErrTTY {
					fmt.Fprintf(p.Terminal.Err, "\rtracing what was estimated: %d s ", seconds)
				}
			},
		})
	}
	if p.Terminal.ErrTTY {
		fmt.Fprint(p.Terminal.Err, "\r\x1b[K")
	}
	if err != nil {
		return err
	}
	return d.printReport(p, report)
}

// leastWait is the shortest wait that an experiment counts.
const leastWait = 100 * measure.Microsecond

// waitsBy returns a function that measures waits with a profiler; nil without one.
func waitsBy(profile Profiler) func(context.Context, []int, int) ([]experiment.Wait, error) {
	if profile == nil {
		return nil
	}
	return func(ctx context.Context, pids []int, seconds int) ([]experiment.Wait, error) {
		p, err := profile(ctx, Profiling{Of: OffCPU, PIDs: pids, Least: leastWait,
			For: time.Duration(seconds) * time.Second})
		if err != nil {
			return nil, err
		}
		var all []experiment.Wait
		for s := range p.Stacks {
			all = append(all, experiment.Wait{Process: s.Process, PID: s.PID, State: s.State,
				Kernel: slices.Clone(s.Kernel), User: slices.Clone(s.User),
				Amount: measure.Span(s.Amount)})
		}
		return all, nil
	}
}

// diagnosedTicks is how many samples of an engine a diagnosis of a moment reads.
const diagnosedTicks = 8

// diagnosePast diagnoses a recorded time range.
func (d *diagnosis) diagnosePast(
	ctx context.Context, p Program, c *cobra.Command, look MachineOptions, span measure.Span,
) error {
	if d.past.at == "" && c.Flags().Changed("for") {
		return usagef("--for and --from exclude each other: the time is that from --from to --to")
	}
	if !c.Flags().Changed("netns") {
		look.Netns = "all" // all namespaces are recorded
	}
	length := max(span/show.RecordedStep*show.RecordedStep, 3*show.RecordedStep)
	r, err := p.archives().replay(&d.past, look, length)
	if err != nil {
		return err
	}
	defer r.Close()
	over := r.Over
	if d.past.at != "" && r.Fine > show.RecordedStep && !c.Flags().Changed("for") {
		over.Start = over.End.Add(-diagnosedTicks * r.Fine)
	}
	if over.Span() >= 3*r.Fine {
		printNotes(p.Terminal.Err, r.Notes)
	}
	report, err := show.DiagnosePast(ctx, r, over, r.Fine)
	if err != nil {
		return err
	}
	if err := r.AddPast(ctx, report); err != nil {
		return err
	}
	if e, ok := r.Recorded.(show.Sent); ok {
		report.Host = e.Host()
	}
	return d.printReport(p, report)
}

// printReport prints a report. With --exit-code it returns errFindings if there are findings.
func (d *diagnosis) printReport(p Program, r *diagnose.Report) (err error) {
	if d.json {
		err = writeJSON(p.Terminal.Out, r)
	} else {
		text := report.Diagnosis(r, p.Terminal.Width, p.Terminal.Colour)
		_, err = fmt.Fprint(p.Terminal.Out, text)
	}
	if err == nil && d.exit && len(r.Findings) > 0 {
		return errFindings{fmt.Errorf("%d findings", len(r.Findings))}
	}
	return err
}
