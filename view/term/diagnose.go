package term

import (
	"context"
	"fmt"
	"time"

	"culprit/diagnose"
	"culprit/diagnose/rules"
	"culprit/measure"
	"culprit/view"

	"github.com/spf13/cobra"
)

const exitFindings = 3 // with --exit-code

const mostIntervals = 300 // of a diagnosis; up to five minutes are looked at by seconds

// errFindings ends a diagnosis with findings when --exit-code asks for it.
type errFindings struct{ error }

// diagnosis is what the diagnose command was asked.
type diagnosis struct {
	span  string
	json  bool
	exit  bool
	netns string
	past  past
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

With --from and --to, or --at, it diagnoses what culprit serve recorded then.`,
			helpWidth,
		),
		Args: cobra.NoArgs,
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
		}),
	}
	d.flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return d.run(c.Context(), p, c) }
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
	d.past.flags(f, true)
	d.past.complete(c)
}

// diagnosisStep gives the interval of a diagnosis of that length. A second is best: a state that
// lasts seconds is seen as one. A long look takes longer intervals, since each is kept whole: with
// thousands of busy connections an hour of seconds would be a gigabyte.
func diagnosisStep(span time.Duration) measure.Span {
	return measure.Second * measure.Span(1+(span-1)/mostIntervals/time.Second)
}

func (d *diagnosis) run(ctx context.Context, p Program, c *cobra.Command) error {
	span, err := time.ParseDuration(d.span)
	if err != nil || span < 3*time.Second || span > time.Hour {
		return usagef("--for %q: give a time from 3s to 1h, such as 10s", d.span)
	}
	look := Look{Netns: d.netns}
	switch {
	case !c.Flags().Changed("netns"):
		look.Netns = p.DiagnoseNetns
	case d.netns == "own":
		look.Netns = ""
	}
	if d.past.given() {
		return d.review(ctx, p, c, look, measure.Span(span))
	}
	if err := d.past.placed("--from or --at"); err != nil {
		return err
	}
	look.Alone = true
	machine, err := p.Open(look)
	if err != nil {
		return err
	}
	step := diagnosisStep(span)
	queries := asked(machine, step)
	ticks := int(span / step.AsDuration())
	progress := func(int) {}
	if p.Terminal.ErrTTY {
		progress = func(n int) {
			fmt.Fprintf(
				p.Terminal.Err, "\rlooking at everything: %d of %d s ", n*int(step/measure.Second),
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
	// A look that was interrupted is still told: with what was seen until then.
	report, err := diagnose.Run(
		context.WithoutCancel(ctx), reader, rules.Set(), measure.Interval{}, 0,
	)
	if err != nil {
		return err
	}
	return d.tell(p, report)
}

// asked gives the queries of all rules.
func asked(machine Machine, step measure.Span) (queries []measure.Query) {
	for _, sentence := range rules.Queries() {
		q, err := machine.Parse(sentence)
		if err != nil {
			continue // the rule that asks it will say that it is missing
		}
		q.Step = step
		queries = append(queries, q)
	}
	return queries
}

// review judges a time that has passed.
func (d *diagnosis) review(
	ctx context.Context, p Program, c *cobra.Command, look Look, span measure.Span,
) error {
	if d.past.at == "" && c.Flags().Changed("for") {
		return usagef("--for and --from exclude each other: the time is that from --from to --to")
	}
	if !c.Flags().Changed("netns") {
		look.Netns = "all" // that was recorded
	}
	r, err := p.replay(&d.past, look, max(span/recordedEach*recordedEach, 3*recordedEach))
	if err != nil {
		return err
	}
	defer r.close()
	over := r.over
	if over.Span() < 3*measure.Second {
		return usagef("%v is too short for a diagnosis: give 3s or more", over.Span())
	}
	tell(p.Terminal.Err, r.said)
	step := diagnosisStep(over.Span().AsDuration())
	ticks := int(over.Span() / step)
	over.Start = over.End.Add(-step * measure.Span(ticks))
	reader, err := r.Record(ctx, asked(r, step), ticks, nil)
	if err != nil {
		return err
	}
	report, err := diagnose.Run(ctx, reader, rules.Set(), over, step)
	if err != nil {
		return err
	}
	return d.tell(p, report)
}

// tell prints a report.
func (d *diagnosis) tell(p Program, report *diagnose.Report) (err error) {
	if d.json {
		err = writeJSON(p.Terminal.Out, report)
	} else {
		_, err = fmt.Fprint(p.Terminal.Out, view.Diagnosis(report, p.Terminal.Width, p.Terminal.Colour))
	}
	if err == nil && d.exit && len(report.Findings) > 0 {
		return errFindings{fmt.Errorf("%d findings", len(report.Findings))}
	}
	return err
}
