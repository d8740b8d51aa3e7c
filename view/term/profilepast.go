package term

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"culprit/measure"
	"culprit/profile"
	"culprit/view/show"

	"github.com/spf13/cobra"
)

// recordedFlags holds the flags of `culprit profile` for recorded samples.
type recordedFlags struct {
	pastFlags
	diff string // the profile to compare with: a time, the address of a server, or a file
	per  string
	work string
	json bool
}

func (w *recordedFlags) flags(c *cobra.Command) {
	f := c.Flags()
	w.pastFlags.flags(f, true)
	f.Lookup("from").Usage = "samples that a server recorded from this time on: " + timeFormats
	f.Lookup("at").Usage = "samples of the time that ended then, as long as --for"
	f.StringVar(
		&w.diff, "diff", "",
		"compare recorded samples with a time of the same length that ended then (with --from: "+
			"began then), with the same time at another server (its address), or with a profile "+
			"in a file",
	)
	f.StringVar(
		&w.per, "per", "",
		"--diff: what the amounts are divided by: sample, cpu-second, work "+
			"(default: cpu-second; sample for a file without CPU-seconds)",
	)
	f.StringVar(
		&w.work, "work", "",
		"--diff: BEFORE,AFTER, the work done during each; BEFORE is the one compared with",
	)
	f.BoolVar(&w.json, "json", false, "--diff: the ranked functions as JSON")
	w.registerCompletions(c)
}

// check fails if flags are invalid or exclude each other.
func (w *recordedFlags) check(c *cobra.Command, q *Profiling, o *outputFlags) error {
	f := c.Flags()
	if !w.isSet() {
		if w.diff != "" || w.per != "" || w.work != "" || w.json {
			return usagef(
				"--diff, --per, --work and --json need recorded samples: give --at, " +
					"or --from and --to",
			)
		}
		return w.checkTimeGiven("--at, or --from and --to,")
	}
	switch {
	case q.Of != OnCPU:
		return usagef(
			"--event, --off-cpu, --run-queue and --locks are not recorded: only CPU samples are",
		)
	case f.Changed("unwind"):
		return usagef("--unwind: recorded stacks are as the server walked them")
	case f.Changed("inline"):
		return usagef("--inline: recorded stacks have the inlined functions that the server found")
	case f.Changed("hz"):
		return usagef("--hz: recorded samples have the rate of `culprit serve --profile`")
	case f.Changed("for") && w.at == "":
		return usagef("--for needs --at: with --from the time ends at --to")
	case len(q.TIDs)+len(q.Cgroups) > 0 || q.ByThread:
		return usagef(
			"--thread, --tids and --cgroup: threads and control groups are not recorded; " +
				"--pid and --process are",
		)
	case w.at != "" && q.For < time.Second:
		return usagef("--for %v: recorded samples need a whole number of seconds", q.For)
	case w.diff == "":
		if w.per != "" || w.work != "" || w.json {
			return usagef("--per, --work and --json need --diff")
		}
		return nil
	}
	format, err := o.selectFormat()
	switch {
	case err != nil:
		return err
	case o.output != "" && (format.differ == nil || o.output == "-"):
		return usagef("-o %s: --diff writes svg, html or folded to a file", o.output)
	case o.table || o.format != "" && o.output == "":
		return usagef("--diff prints a table, or with -o writes svg, html or folded to a file")
	}
	_, err = w.norm()
	return err
}

// norm returns how amounts are normalized. For CPU-seconds the caller must set Before and After.
func (w *recordedFlags) norm() (profile.Norm, error) {
	d := diffFlags{per: w.per, work: w.work}
	if w.per == "" && w.work == "" {
		d.per = "cpu-second"
	}
	return d.norm()
}

// recordedProfiles makes profiles of recorded samples.
type recordedProfiles struct {
	profilePrinter
	archives
}

// comparedProfile returns the profile to compare with, its name, and its samples per second and CPU
// (0: unknown).
func (p *recordedProfiles) comparedProfile(
	ctx context.Context, w *recordedFlags, of *recordedTree, part profile.Part,
) (t *profile.Tree, called string, hz float64, err error) {
	other := pastFlags{dir: w.dir, server: w.server, insecure: w.insecure, engine: w.engine}
	span := of.over.Span()
	switch _, _, notTime := show.ParseTime(w.diff, time.Now()); {
	case isServer(w.diff):
		other = w.pastFlags // the same time by the clock of that machine
		other.dir, other.server = "", w.diff
		called = "the server at " + withoutToken(w.diff) + ", "
	case notTime == nil && w.from != "":
		began, _, err := show.ParseTime(w.diff, time.Now())
		if err != nil {
			return nil, "", 0, usagef("--diff %q: %w", w.diff, err)
		}
		other.at = began.Add(span.AsDuration()).Format(time.RFC3339)
	case notTime == nil:
		other.at = w.diff
	default:
		if _, err := os.Stat(w.diff); err != nil {
			return nil, "", 0, usagef(
				"--diff %q is not a time, the address of a server or a file: %w", w.diff, notTime,
			)
		}
		if len(part.CPUs)+len(part.PIDs)+len(part.Processes) > 0 || part.Kernel || part.User ||
			part.Numbers {
			p.printNotes(
				[]string{
					w.diff + " is compared as it is: --cpu, --pid, --process, --kernel, --user " +
						"and --pids select recorded samples only",
				},
				nil,
			)
		}
		t, err := p.profiles(ctx, []string{w.diff}, profile.Options{By: part.By})
		return t, w.diff, 0, err
	}
	before, err := p.read(ctx, &other, span, part, false)
	if err != nil {
		return nil, "", 0, fmt.Errorf("--diff %s: %w", withoutToken(w.diff), err)
	}
	return before.Tree, called + formatRange(before.over), before.Hz(), nil
}

// writeRecorded writes the profile of recorded samples, or its difference from another profile.
func (p *recordedProfiles) writeRecorded(
	ctx context.Context, w *recordedFlags, q *Profiling, o outputFlags, idle, pids bool,
) error {
	part := profile.Part{
		CPUs:      q.CPUs,
		PIDs:      q.PIDs,
		Processes: q.Processes,
		Kernel:    q.Kernel,
		User:      q.User,
		Idle:      idle,
		Numbers:   pids,
		By:        q.By,
	}
	if f, err := o.selectFormat(); err == nil && w.diff == "" {
		part.Times = f.name == "html"
	}
	after, err := p.read(ctx, &w.pastFlags, measure.Span(q.For), part, o.table)
	if err != nil {
		return err
	}
	if w.diff == "" {
		if len(after.lines) == 0 && after.Tree.Sum() == 0 {
			return fmt.Errorf("no samples match, in %.0f s", after.Took.Seconds())
		}
		if o.table {
			sum := 0.0
			for _, l := range after.lines {
				sum += l.Count
			}
			return writeFile(p.terminal, o.output, func(out io.Writer) error {
				return profile.WriteTableLines(
					out, after.lines, sum, "samples: "+after.note, o.rows,
				)
			})
		}
		return o.write(p.terminal, after.Tree, after.note)
	}
	before, called, hz, err := p.comparedProfile(ctx, w, after, part)
	if err != nil {
		return err
	}
	n, err := w.norm()
	if err != nil {
		return err
	}
	if n.Per == "cpu-second" {
		if n.Before, n.After = before.Seconds, after.Tree.Seconds; n.Before == 0 && w.per == "" {
			n = profile.Norm{Per: "sample"}
			p.printNotes(
				[]string{
					called + " does not contain its CPU-seconds: shares are compared",
				},
				nil,
			)
		}
	}
	mine := formatRange(after.over)
	if w.server != "" {
		mine = "the server at " + withoutToken(w.server) + ", " + mine
	}
	d, err := profile.CompareSampled(before, after.Tree, hz, after.Hz(), n)
	if err != nil {
		return fmt.Errorf("compare %s with %s: %w", mine, called, err)
	}
	d.NormText = "Before: " + called + ". After: " + mine + ". " + d.NormText
	format, err := o.selectFormat()
	if err != nil {
		return err
	}
	if o.output != "" {
		err := writeFile(p.terminal, o.output, func(out io.Writer) error {
			return format.differ(out, d, o.picture(d.NormText))
		})
		if err != nil {
			return err
		}
	}
	return writeFile(p.terminal, "", func(out io.Writer) error {
		if w.json {
			return profile.WriteChangesJSON(out, d, o.rows)
		}
		return profile.WriteChanges(out, d, o.rows)
	})
}

func formatRange(over measure.Interval) string {
	return formatTime(over.Start) + " to " + formatTime(over.End)
}

// recordedTree is the profile of recorded samples with its description.
type recordedTree struct {
	*profile.Recorded
	over  measure.Interval
	note  string
	lines []profile.TableLine // set if a table is printed
}

// read returns the profile of the time range that the flags select. With --at alone, the
// range is as long as span. It prints notes.
func (p *recordedProfiles) read(
	ctx context.Context, w *pastFlags, span measure.Span, part profile.Part, table bool,
) (*recordedTree, error) {
	r, err := p.replay(w, MachineOptions{Netns: "all"}, span)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	reader, err := r.Record(
		ctx, []measure.Query{{Stat: measure.StackSamples, Step: r.Over.Span()}}, 1, nil,
	)
	if err != nil {
		return nil, err
	}
	part.Over = r.Over
	got, err := profile.AskRecorded(ctx, reader, part)
	if err != nil {
		return nil, err
	}
	out := &recordedTree{Recorded: got, over: r.Over}
	if table {
		if out.lines, err = profile.AskLines(ctx, reader, part); err != nil {
			return nil, err
		}
	}
	out.note = fmt.Sprintf(
		"%.0f samples in %.0f s of %d CPUs, %s", got.Samples, got.Took.Seconds(), got.CPUs,
		formatRange(r.Over),
	)
	notes := slices.Clone(got.Tree.Notes)
	for _, s := range r.Notes {
		if !slices.Contains(notes, s) {
			notes = append(notes, s)
		}
	}
	if got.Idle > 0 && !part.Idle {
		notes = append(
			notes,
			fmt.Sprintf(
				"%.0f of %.0f samples are of idle CPUs and left out; --idle shows them", got.Idle,
				got.Samples,
			),
		)
	}
	if lacks := r.Over.Span() - got.Took; lacks >= measure.Second &&
		!slices.ContainsFunc(
			notes, func(n string) bool { return strings.Contains(n, "recorded") },
		) {
		notes = append(
			notes,
			fmt.Sprintf(
				"of the %.0f s only %.0f are recorded", r.Over.Seconds(), got.Took.Seconds(),
			),
		)
	}
	if whole := len(part.PIDs)+len(part.Processes) == 0; whole && got.Samples < 0.9*got.Expected &&
		got.Expected > 20 {
		notes = append(
			notes,
			fmt.Sprintf(
				"%.0f of %.0f expected samples: shares are of those", got.Samples, got.Expected,
			),
		)
	}
	p.attachNotes(got.Tree, p.printNotes(notes, got.Loss), "samples")
	return out, nil
}
