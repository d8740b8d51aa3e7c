package term

import (
	"context"
	"errors"
	"fmt"
	"time"

	"culprit/changes"
	"culprit/diagnose"
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
}

const watchHelp = `Shows whether a fix works, and by how much. It diagnoses for ten seconds and keeps the numbers
of the finding; then, while you change something, it diagnoses again and again, and compares: the
numbers before and now, whether they differ beyond noise, and whether the finding remains. It ends
when two looks in a row do not find it and its numbers have changed, or after --for.

FINDING is the ID of a finding as culprit diagnose --json prints it, such as link-saturated/eth0,
or a rule, if it has one finding. "No change beyond noise" means: less than three robust standard
deviations of the seconds, or a factor below 1.25.

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
	f.StringVar(&d.netns, "netns", "", "network namespace: a name, all, or own")
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
	machine, err := p.Open(options)
	if err != nil {
		return err
	}
	end := errors.New("watched long enough")
	var last *changes.Outcome
	err = show.WatchFinding(ctx, machine, id, look, nil,
		func(_ *diagnose.Report, f *diagnose.Finding) error {
			if d.json {
				return nil
			}
			return d.print(p, report.Watched(f, p.Terminal.Width, p.Terminal.Colour))
		},
		func(o *changes.Outcome) error {
			// The look in which it went has values of both; the next one has those after.
			settled := last != nil && last.State == changes.Gone && o.State == changes.Gone
			last = o
			if err := d.outcome(p, o); err != nil {
				return err
			}
			if settled && o.Changed() > 0 || o.Seconds >= span.Seconds() {
				return end
			}
			return nil
		})
	if err != nil && !errors.Is(err, end) && !(last != nil && ctx.Err() != nil) {
		return err
	}
	if d.exit && last.State == changes.Unknown {
		return errFindings{fmt.Errorf("whether %s remains is not known: %s", id, last.Claim)}
	}
	if d.exit && last.State != changes.Gone {
		return errFindings{fmt.Errorf("%s remains", id)}
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
