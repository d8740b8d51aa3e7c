package term

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"culprit/changes"
	"culprit/diagnose"
	"culprit/measure"
	"culprit/view"
	"culprit/view/report"
	"culprit/view/show"

	"github.com/spf13/cobra"
)

// outcomeFormat is the version of the JSON of an outcome.
const outcomeFormat = 1

// watchCommand holds the flags of the command watch.
type watchCommand struct {
	look, span string
	netns      string
	json, exit bool
	before     string // time of the look before; "": now
	past       pastFlags
}

const watchHelp = `Shows whether a fix works, and by how much. It diagnoses for ten seconds and keeps the numbers
of the finding; then, while you change something, it diagnoses again and again, and compares: the
numbers before and now, whether they differ beyond noise, and whether the finding remains. It ends
when two looks in a row do not find it and its numbers have changed, or after --for.

FINDING is the ID of a finding as culprit diagnose --json prints it, such as link-saturated/eth0,
or a rule, if it has one finding. "No change beyond noise" means: less than three robust standard
deviations of the seconds, or a factor below 1.25.

With --before the numbers before are those that culprit serve recorded then, to measure a fix that
is already made. One look follows; with --for it goes on.

It changes nothing itself.`

// watch returns the command that watches a finding while somebody mends it.
func (p Program) watch() *cobra.Command {
	d := &watchCommand{}
	c := &cobra.Command{
		Use:   "watch FINDING",
		Short: "whether a fix works: the numbers of a finding before and after",
		Long:  reflow(watchHelp, helpWidth),
		Example: examples([]view.Example{
			{Line: "culprit watch link-saturated/eth0", Means: "then limit the sender elsewhere"},
			{
				Line:  "culprit watch cpu-saturated --for 10m --json",
				Means: "a line of JSON per look, for ten minutes",
			},
			{
				Line:  "culprit watch link-saturated/eth0 --before '10 minutes ago'",
				Means: "what a fix changed that was made since then",
			},
			{
				Line:  "culprit watch disk-saturated --before 14:00..14:10",
				Means: "against those ten minutes",
			},
		}),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("give one finding, such as link-saturated/eth0: " +
					"culprit diagnose --json prints the IDs")
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			return d.run(c.Context(), p, c, args[0])
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&d.span, "for", "2m", "how long to watch after the first look, 3s to 1h")
	f.StringVar(&d.look, "look", "10s", "length of a look, 3s to 5m: longer finds rarer faults")
	f.BoolVar(&d.json, "json", false, "one JSON object per look after the first, on one line")
	f.BoolVar(&d.exit, "exit-code", false,
		"exit status 3 if the finding remains at the end, or it is not known whether it does")
	f.StringVar(&d.before, "before", "",
		"compare with what was recorded before the fix: the end of a look, such as -10m, or "+
			"BEGIN..END")
	f.StringVar(&d.netns, "netns", "", "network namespace: a name, all, or own")
	d.past.place(f)
	return c
}

func (d *watchCommand) run(ctx context.Context, p Program, c *cobra.Command, id string) error {
	look, err := time.ParseDuration(d.look)
	if err != nil || look < 3*time.Second || look > 5*time.Minute {
		return usagef("--look %q: give a time from 3s to 5m, such as 10s", d.look)
	}
	span, err := time.ParseDuration(d.span)
	if err != nil || span < 3*time.Second || span > time.Hour {
		return usagef("--for %q: give a time from 3s to 1h, such as 2m", d.span)
	}
	options := MachineOptions{Netns: d.netns, Budget: show.DiagnosisBudget}
	switch {
	case !c.Flags().Changed("netns"):
		options.Netns = p.DiagnoseNetns
	case d.netns == "own":
		options.Netns = ""
	}
	before, done, err := d.lookBefore(ctx, p, c, look)
	if err != nil {
		return err
	}
	defer done()
	machine, err := p.Open(options)
	if err != nil {
		return err
	}
	w := &watched{d: d, p: p, span: span, once: before != nil && !c.Flags().Changed("for"),
		mended: before != nil}
	err = show.WatchFinding(ctx, machine, id, look, before, nil, w.found, w.each)
	if err != nil && !errors.Is(err, errWatched) && !(w.last != nil && ctx.Err() != nil) {
		return err
	}
	if d.exit && w.last.State == changes.Unknown {
		return errFindings{fmt.Errorf("whether %s remains is not known: %s", id, w.last.Claim)}
	}
	if d.exit && w.last.State != changes.Gone {
		return errFindings{fmt.Errorf("%s remains", id)}
	}
	return nil
}

// lookBefore diagnoses the time of --before; nil without the flag. The caller calls done.
func (d *watchCommand) lookBefore(
	ctx context.Context, p Program, c *cobra.Command, look time.Duration,
) (_ *show.Look, done func(), err error) {
	if d.before == "" {
		return nil, func() {}, d.past.checkTimeGiven("--before")
	}
	w := d.past
	w.flag = "--before"
	from, to, ok := strings.Cut(d.before, "..")
	switch {
	case ok && (from == "" || to == ""):
		return nil, nil, usagef("--before %q: give a time, or two as BEGIN..END", d.before)
	case ok:
		w.from, w.to = from, to
	default:
		w.at = d.before
	}
	options := MachineOptions{Netns: d.netns}
	if !c.Flags().Changed("netns") {
		options.Netns = "all" // all namespaces are recorded
	}
	length := measure.Span(look) / show.RecordedStep * show.RecordedStep
	r, err := p.archives().replay(&w, options, length)
	if err != nil {
		return nil, nil, err
	}
	printNotes(p.Terminal.Err, r.Notes)
	over := r.Over
	if w.at != "" && r.Fine > show.RecordedStep {
		over.Start = over.End.Add(-diagnosedTicks * r.Fine)
	}
	before, err := show.LookPast(ctx, r, over, r.Fine)
	if err != nil {
		r.Close()
		return nil, nil, fmt.Errorf("--before: %w", err)
	}
	return before, r.Close, nil
}

// errWatched ends a watch that has its answer.
var errWatched = errors.New("watched long enough")

// watched prints the looks of a watch.
type watched struct {
	d    *watchCommand
	p    Program
	span time.Duration
	// once: one look is enough. mended: the look before was before the fix, so that each later one
	// has values after it.
	once, mended bool
	started      time.Time
	last         *changes.Outcome
}

func (w *watched) found(_ *diagnose.Report, f *diagnose.Finding) error {
	w.started = time.Now()
	if w.d.json {
		return nil
	}
	t := w.p.Terminal
	if w.mended {
		return w.d.print(w.p, report.WatchedPast(f, t.Width, t.Colour))
	}
	return w.d.print(w.p, report.Watched(f, t.Width, t.Colour))
}

func (w *watched) each(o *changes.Outcome) error {
	// The look in which it went has values of both; the next one has those after.
	settled := o.State == changes.Gone &&
		(w.mended || w.last != nil && w.last.State == changes.Gone)
	w.last = o
	if err := w.d.outcome(w.p, o); err != nil {
		return err
	}
	if w.once || settled && o.Changed() > 0 || time.Since(w.started) >= w.span {
		return errWatched
	}
	return nil
}

// print prints a text.
func (d *watchCommand) print(p Program, text string) error {
	_, err := fmt.Fprint(p.Terminal.Out, text)
	return err
}

// outcome prints the outcome of a look.
func (d *watchCommand) outcome(p Program, o *changes.Outcome) error {
	if !d.json {
		return d.print(p, report.Outcome(o, p.Terminal.Width, p.Terminal.Colour))
	}
	return writeJSON(p.Terminal.Out, struct {
		Format int `json:"format"`
		*changes.Outcome
	}{outcomeFormat, o})
}
