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

	"github.com/spf13/cobra"
)

// profiledPast is the flags of culprit profile that look at the samples of a server.
type profiledPast struct {
	past
	diff string // what to compare with: a time, the address of a server, a file
	per  string
	work string
	json bool
}

func (w *profiledPast) flags(c *cobra.Command) {
	f := c.Flags()
	w.past.flags(f, true)
	f.Lookup("from").Usage = "the samples that a server has recorded from this time on: " + momentForm
	f.Lookup("at").Usage = "those of the time that ended then, as long as --for says"
	f.StringVar(
		&w.diff, "diff", "",
		"compare recorded samples with a time of the same length that ended then (with --from: began then), with the same time at another server (its address), or with a profile in a file",
	)
	f.StringVar(
		&w.per, "per", "",
		"--diff: what the amounts are divided by: sample, cpu-second, work (default: cpu-second; sample for a file without CPU-seconds)",
	)
	f.StringVar(
		&w.work, "work", "",
		"--diff: BEFORE,AFTER, the work done during each; BEFORE is the one compared with",
	)
	f.BoolVar(&w.json, "json", false, "--diff: the ranked functions as JSON")
	w.complete(c)
}

// check says what can't be asked of the past.
func (w *profiledPast) check(c *cobra.Command, q *Profiling, o *pictured) error {
	f := c.Flags()
	if !w.given() {
		if w.diff != "" || w.per != "" || w.work != "" || w.json {
			return usagef(
				"--diff, --per, --work and --json need recorded samples: give --at, or --from and --to",
			)
		}
		return w.placed("--at, or --from and --to,")
	}
	switch {
	case q.Of != OnCPU:
		return usagef("--off-cpu, --run-queue and --locks are not recorded: only CPU samples are")
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
			"--thread, --tids and --cgroup: threads and control groups are not recorded; --pid and --process are",
		)
	case w.at != "" && q.For < time.Second:
		return usagef("--for %v: recorded samples need a whole number of seconds", q.For)
	case w.diff == "":
		if w.per != "" || w.work != "" || w.json {
			return usagef("--per, --work and --json need --diff")
		}
		return nil
	}
	format, err := o.chosen()
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

// norm gives what the amounts are divided by; before is nil until it is known.
func (w *profiledPast) norm() (profile.Norm, error) {
	d := differing{per: w.per, work: w.work}
	if w.per == "" && w.work == "" {
		d.per = "cpu-second"
	}
	return d.norm()
}

// against gives what a profile is compared with, what it is called, and how often it was sampled;
// 0: not known.
func (p Program) against(
	ctx context.Context, w *profiledPast, of *aRecorded, part profile.Part,
) (t *profile.Tree, called string, hz float64, err error) {
	other, span := past{dir: w.dir, server: w.server}, of.over.Span()
	switch _, _, notTime := parseMoment(w.diff, time.Now()); {
	case isServer(w.diff):
		other = w.past // the same time, as that machine's clock tells it
		other.dir, other.server = "", w.diff
		called = "the server at " + bare(w.diff) + ", "
	case notTime == nil && w.from != "":
		began, _, err := parseMoment(w.diff, time.Now())
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
			p.tell(
				[]string{
					w.diff + " is compared as it is: --cpu, --pid, --process, --kernel, --user and --pids choose of what was recorded alone",
				},
				nil,
			)
		}
		t, err := p.profiles(ctx, []string{w.diff}, profile.Options{})
		return t, w.diff, 0, err
	}
	before, err := p.recordedProfile(ctx, &other, span, part, false)
	if err != nil {
		return nil, "", 0, fmt.Errorf("--diff %s: %w", bare(w.diff), err)
	}
	return before.Tree, called + moments(before.over), before.hz(), nil
}

// profilePast writes a profile of what was recorded, or what differs between two.
func (p Program) profilePast(
	ctx context.Context, w *profiledPast, q *Profiling, o pictured, idle, pids bool,
) error {
	part := profile.Part{
		CPUs:      q.CPUs,
		PIDs:      q.PIDs,
		Processes: q.Processes,
		Kernel:    q.Kernel,
		User:      q.User,
		Idle:      idle,
		Numbers:   pids,
	}
	after, err := p.recordedProfile(ctx, &w.past, measure.Span(q.For), part, o.table)
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
			return into(p.Terminal, o.output, func(out io.Writer) error {
				return profile.WriteTableLines(
					out, after.lines, sum, "samples: "+after.note, o.rows,
				)
			})
		}
		return o.put(p.Terminal, after.Tree, after.note)
	}
	before, called, hz, err := p.against(ctx, w, after, part)
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
			p.tell(
				[]string{
					called + " does not tell how many CPU-seconds it is of: shares are compared",
				},
				nil,
			)
		}
	}
	rate := 1.0 // how much more often after was sampled
	if n.Per != "sample" && hz > 0 && after.hz() > 0 {
		if rate = after.hz() / hz; rate > 1.01 || rate < 0.99 {
			n.After *= rate
		}
	}
	mine := moments(after.over)
	if w.server != "" {
		mine = "the server at " + bare(w.server) + ", " + mine
	}
	d, err := profile.Compare(before, after.Tree, n)
	if err != nil {
		return fmt.Errorf("compare %s with %s: %w", mine, called, err)
	}
	if rate > 1.01 || rate < 0.99 {
		d.NormText += fmt.Sprintf(
			" Before was sampled %.0f times per second, after %.0f: the amounts of after are scaled to %.0f.",
			hz, hz*rate, hz,
		)
	}
	d.NormText = "Before: " + called + ". After: " + mine + ". " + d.NormText
	format, err := o.chosen()
	if err != nil {
		return err
	}
	if o.output != "" {
		if err := into(p.Terminal, o.output, func(out io.Writer) error { return format.differ(out, d, o.picture(d.NormText)) }); err != nil {
			return err
		}
	}
	return into(p.Terminal, "", func(out io.Writer) error {
		if w.json {
			return profile.WriteChangesJSON(out, d, o.rows)
		}
		return profile.WriteChanges(out, d, o.rows)
	})
}

func moments(over measure.Interval) string { return moment(over.Start) + " to " + moment(over.End) }

// aRecorded is a profile of what was recorded, and what is said of it.
type aRecorded struct {
	*profile.Recorded
	over  measure.Interval
	note  string
	lines []profile.TableLine // when a table is wanted
}

// hz gives how often each CPU was sampled; 0: not known.
func (a *aRecorded) hz() float64 {
	if a.Tree.Seconds <= 0 {
		return 0
	}
	return a.Expected / a.Tree.Seconds
}

// recordedProfile makes a profile of the time that the flags name; --at is the end of so much of
// it. What may mislead is told.
func (p Program) recordedProfile(
	ctx context.Context, w *past, at measure.Span, part profile.Part, table bool,
) (*aRecorded, error) {
	r, err := p.replay(w, Look{Netns: "all"}, at)
	if err != nil {
		return nil, err
	}
	defer r.close()
	reader, err := r.Record(
		ctx, []measure.Query{{Stat: measure.StackSamples, Step: r.over.Span()}}, 1, nil,
	)
	if err != nil {
		return nil, err
	}
	part.Over = r.over
	got, err := profile.AskRecorded(ctx, reader, part)
	if err != nil {
		return nil, err
	}
	out := &aRecorded{Recorded: got, over: r.over}
	if table {
		if out.lines, err = profile.AskLines(ctx, reader, part); err != nil {
			return nil, err
		}
	}
	out.note = fmt.Sprintf(
		"%.0f samples in %.0f s of %d CPUs, %s", got.Samples, got.Took.Seconds(), got.CPUs,
		moments(r.over),
	)
	notes := slices.Clone(got.Tree.Notes)
	for _, s := range r.said {
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
	if lacks := r.over.Span() - got.Took; lacks >= measure.Second &&
		!slices.ContainsFunc(
			notes, func(n string) bool { return strings.Contains(n, "recorded") },
		) {
		notes = append(
			notes,
			fmt.Sprintf(
				"of the %.0f s only %.0f are recorded", r.over.Seconds(), got.Took.Seconds(),
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
	p.noted(got.Tree, p.tell(notes, got.Loss), "samples")
	return out, nil
}
