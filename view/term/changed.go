package term

import (
	"context"
	"fmt"
	"strings"

	"culprit/changes"
	"culprit/measure"
	"culprit/view"
	"culprit/view/report"
	"culprit/view/show"

	"github.com/spf13/cobra"
)

// changesFormat is the version of the JSON of a comparison of two times.
const changesFormat = 1

// changedCommand holds the flags of the command changed.
type changedCommand struct {
	past    pastFlags
	netns   string
	against string // "C..D"
	// Where the other recording is; "": in the same one.
	dir, server, host string
	json              bool
}

const changedHelp = `Compares two recorded times, or two machines at one time, and lists the statistics that
changed, the largest change first: before, after, and the field values with the largest part of the
change. All recorded statistics are compared.

--from and --to are the time in question. --against C..D is the time to compare with; without it,
that is the equally long time before --from. With --against-dir, --against-server or --against-host
it is another recording: a slow machine against a fast one, at the same time without --against.

A value is the mean of the middle 60 % of the intervals. A change is reported if it is beyond noise:
three robust standard deviations of the intervals (six of fewer than six intervals), a factor of
1.25, and an amount that depends on the unit (5 % of a resource, 0.1 MB/s, 64 MB, 10 per second).
The order is that of factor and amount, weighted by how sure the change is; counters of the kernel's
own work weigh half. Statistics of the same things are one entry: "also". Processes and interfaces
that only one of the times has are no entries; they are listed where they explain a sum.`

// changed returns the command that compares two times.
func (p Program) changed() *cobra.Command {
	d := &changedCommand{}
	c := &cobra.Command{
		Use:   "changed --from A --to B [--against C..D]",
		Short: "which statistics changed between two recorded times, or differ between two machines",
		Long:  reflow(changedHelp, helpWidth),
		Args:  cobra.NoArgs,
		Example: examples([]view.Example{
			{
				Line:  "culprit changed --from 14:00 --to 14:10 --against 13:00..13:10",
				Means: "what is different since an hour ago",
			},
			{Line: "culprit changed --from -5m", Means: "the last five minutes against those before"},
			{
				Line:  "culprit changed --from -10m --against-server https://fast:7410",
				Means: "this machine against another one, at the same time",
			},
			{
				Line:  "culprit changed --from -10m --engine URL --host slow --against-host fast",
				Means: "two hosts of an engine",
			},
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return d.run(c.Context(), p) },
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&d.past.from, "from", "", "begin of the time in question: "+timeFormats)
	f.StringVar(&d.past.to, "to", "", "its end (default: now)")
	f.StringVar(&d.against, "against", "", "the time to compare with, BEGIN..END")
	f.BoolVar(&d.json, "json", false, "one JSON object with all changes")
	f.StringVar(&d.netns, "netns", "all", "network namespace: a name, all, or own")
	d.past.place(f)
	f.StringVar(&d.dir, "against-dir", "", "compare with the recording in this directory")
	f.StringVar(&d.server, "against-server", "", "compare with the recording of this server")
	f.StringVar(&d.host, "against-host", "", "--engine: compare with this host")
	d.past.registerCompletions(c)
	return c
}

// check reports flags that exclude each other, and a time that is missing.
func (d *changedCommand) check() error {
	from, to, ok := strings.Cut(d.against, "..")
	switch {
	case d.past.from == "":
		return usagef("which time? give --from A --to B, such as --from -5m")
	case d.against != "" && (!ok || from == "" || to == ""):
		return usagef("--against %q: give two times as BEGIN..END, such as 13:00..13:10", d.against)
	case d.dir != "" && d.server != "":
		return usagef("--against-dir and --against-server exclude each other")
	case d.host != "" && !d.past.engine.isSet():
		return usagef("--against-host needs --engine: it has several hosts")
	case d.host != "" && (d.dir != "" || d.server != ""):
		return usagef("--against-host excludes --against-dir and --against-server")
	}
	return nil
}

// other returns the flags of the recording to compare with, and the time there. over is the time in
// question.
func (d *changedCommand) other(over measure.Interval) *pastFlags {
	w := d.past
	elsewhere := d.dir != "" || d.server != "" || d.host != ""
	switch {
	case d.against != "":
		w.from, w.to, _ = strings.Cut(d.against, "..")
	case elsewhere:
		w.from, w.to = formatExact(over.Start), formatExact(over.End)
	default:
		w.from, w.to = formatExact(over.Start.Add(-over.Span())), formatExact(over.Start)
	}
	switch {
	case d.host != "":
		w.engine.Host = d.host
	case elsewhere:
		w.dir, w.server, w.engine = d.dir, d.server, EngineHost{}
	}
	return &w
}

// formatExact formats a time so that show.ParseTime reads the same.
func formatExact(t measure.Time) string {
	return t.AsTime().UTC().Format("2006-01-02T15:04:05Z")
}

func (d *changedCommand) run(ctx context.Context, p Program) error {
	if err := d.check(); err != nil {
		return err
	}
	if d.netns == "own" {
		d.netns = ""
	}
	said := map[string]bool{}
	after, closeAfter, err := d.open(p, &d.past, said)
	if err != nil {
		return err
	}
	defer closeAfter()
	flags := d.other(after.Over)
	before, closeBefore, err := d.open(p, flags, said)
	if err != nil {
		return fmt.Errorf("--against: %w", err)
	}
	defer closeBefore()
	found, err := changes.Find(ctx, before, after)
	if err != nil {
		return err
	}
	found.Before.Host, found.After.Host = flags.name(), d.past.name()
	if found.Before.Host == found.After.Host {
		found.Before.Host, found.After.Host = "", ""
	}
	if d.json {
		return writeJSON(p.Terminal.Out, struct {
			Format int `json:"format"`
			*changes.Report
		}{changesFormat, found})
	}
	text := report.Changes(found, p.Terminal.Width, p.Terminal.Colour)
	_, err = fmt.Fprint(p.Terminal.Out, text)
	return err
}

// name returns what the flags call the recording: its host, server or directory; "": this machine.
func (w *pastFlags) name() string {
	switch {
	case w.engine.isSet():
		return w.engine.Host
	case w.server != "":
		return withoutToken(w.server)
	}
	return w.dir
}

// open opens a side of the comparison; the caller calls done. It prints the notes that are not in
// said.
func (d *changedCommand) open(
	p Program, w *pastFlags, said map[string]bool,
) (_ *changes.Side, done func(), err error) {
	r, err := p.archives().replay(w, MachineOptions{Netns: d.netns}, show.RecordedStep)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range r.Notes {
		if !said[n] {
			printNotes(p.Terminal.Err, []string{n})
		}
		said[n] = true
	}
	over := r.Over
	over.End = over.End.Add(-measure.Span(over.End) % r.Fine)
	if least := changes.MinCells * r.Fine; over.Span() < least {
		r.Close()
		return nil, nil, usagef("%v is too short: give %v or more", over.Span(), least)
	}
	reader, err := r.Record(context.Background(), []measure.Query{{Step: r.Fine}}, 1, nil)
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	return &changes.Side{Reader: reader, Stats: r.Stats(), Over: over, Fine: r.Fine}, r.Close, nil
}
