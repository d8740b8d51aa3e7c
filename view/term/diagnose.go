package term

import (
	"context"
	"fmt"
	"time"

	"culprit/diagnose"
	"culprit/diagnose/rules"
	"culprit/measure"
	"culprit/view"
	"culprit/view/report"

	"github.com/spf13/cobra"
)

const exitFindings = 3 // exit status for findings with --exit-code

// maxIntervals bounds the intervals of a diagnosis. Up to five minutes, an interval is a second.
const maxIntervals = 300

// errFindings sets the exit status to exitFindings.
type errFindings struct{ error }

// diagnosis holds the flags of the command diagnose.
type diagnosis struct {
	span  string
	json  bool
	exit  bool
	netns string
	past  pastFlags

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
It changes nothing and needs no root; it reports what root would add. In the host's own network
namespace, and with the rights for it, it watches all namespaces; in another one, that one only.

With --from and --to, or --at, it diagnoses what culprit serve recorded then.

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
	f.StringVar(&d.netns, "netns", "", "network namespace: a name, all, or own")
	d.importFlag(f)
	d.past.flags(f, true)
	d.past.registerCompletions(c)
}

// diagnosisStep returns the interval of a diagnosis of the given length. One second is best, since
// short states have an interval of their own. Longer diagnoses have longer intervals, since all are
// kept in memory: with thousands of busy connections an hour of seconds takes a gigabyte.
func diagnosisStep(span time.Duration) measure.Span {
	return measure.Second * measure.Span(1+(span-1)/maxIntervals/time.Second)
}

func (d *diagnosis) run(ctx context.Context, p Program, c *cobra.Command) error {
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
	look.Alone = true
	machine, err := p.Open(look)
	if err != nil {
		return err
	}
	step := diagnosisStep(span)
	queries := ruleQueries(machine, step)
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
	reader, err := machine.Record(ctx, queries, ticks, progress)
	if p.Terminal.ErrTTY {
		fmt.Fprint(p.Terminal.Err, "\r\x1b[K")
	}
	if err != nil {
		return err
	}
	// Also diagnose what was measured before an interrupt.
	report, err := diagnose.Run(
		context.WithoutCancel(ctx), reader, rules.Set(), measure.Interval{}, 0,
	)
	if err != nil {
		return err
	}
	return d.printReport(p, report)
}

// ruleQueries returns the queries of all rules.
func ruleQueries(machine Machine, step measure.Span) (queries []measure.Query) {
	for _, text := range rules.Queries() {
		q, err := machine.Parse(text)
		if err != nil {
			continue // its rule reports it as missing
		}
		q.Step = step
		queries = append(queries, q)
	}
	return queries
}

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
	length := max(span/recordedStep*recordedStep, 3*recordedStep)
	r, err := p.archives().replay(&d.past, look, length)
	if err != nil {
		return err
	}
	defer r.close()
	over := r.over
	if over.Span() < 3*measure.Second {
		return usagef("%v is too short for a diagnosis: give 3s or more", over.Span())
	}
	printNotes(p.Terminal.Err, r.notes)
	step := diagnosisStep(over.Span().AsDuration())
	ticks := int(over.Span() / step)
	over.Start = over.End.Add(-step * measure.Span(ticks))
	reader, err := r.Record(ctx, ruleQueries(r, step), ticks, nil)
	if err != nil {
		return err
	}
	report, err := diagnose.Run(ctx, reader, rules.Set(), over, step)
	if err != nil {
		return err
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
