// Accuracy measures how often the diagnosis is right: it plays the stories of the fault lab,
// appends a line per run to a file, and writes docs/ACCURACY.md of all lines. It resumes: only
// missing runs are made.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"culprit/cases"

	"golang.org/x/sys/unix"
)

func main() {
	cases.Act() // this program is also the lab's loads and guardian
	ctx, stop := signal.NotifyContext(
		context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP,
	)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "accuracy:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	program, data, page string
	runs                int // per mode; 0: those that count
	only                string
	span                time.Duration // 0: no limit
	fresh               bool
}

// run measures what is missing and writes the page.
func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	f := flag.NewFlagSet("accuracy", flag.ContinueOnError)
	f.StringVar(&o.program, "culprit", "bin/culprit", "the program under test")
	f.StringVar(&o.data, "data", "cases/accuracy/runs.jsonl", "the file of the runs")
	f.StringVar(&o.page, "page", "docs/ACCURACY.md", "the page that is written")
	f.IntVar(&o.runs, "runs", 0, "runs per story and mode; 0: 20 of the five stories, 5 of others")
	f.StringVar(&o.only, "only", "", "only stories with one of these words in their name: a,b")
	f.DurationVar(&o.span, "for", 0, "end after this time; 0: when nothing is missing")
	f.BoolVar(&o.fresh, "fresh", false, "runs of other commits do not count as made")
	if err := f.Parse(args); err != nil {
		return err
	}
	if why := cases.Needs(); why != "" {
		return fmt.Errorf("the lab needs %s", why)
	}
	if o.span > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.span)
		defer cancel()
	}
	err := o.measure(ctx, out)
	if ctx.Err() != nil {
		fmt.Fprintln(out, "ended early; the next start continues")
		err = nil
	}
	return errors.Join(err, o.write())
}

// write writes the page of all runs.
func (o *options) write() error {
	runs, err := readFile(o.data)
	if err != nil {
		return err
	}
	return os.WriteFile(o.page, []byte(document(runs)), 0o644)
}

// missing returns the modes that lack runs, and how many: those with the most missing first, of
// equally many those with the fewest loaded ones, then the five. commit is that of the tree.
func (o *options) missing(runs []Run, commit string) (lacking []mode, count map[mode]int) {
	have, tried := map[mode]int{}, map[mode]int{}
	for _, r := range runs {
		tried[mode{r.Story, r.Beside}]++
		if r.Void == "" && !r.Loaded && (!o.fresh || r.Commit == commit) {
			have[mode{r.Story, r.Beside}]++
		}
	}
	count = map[mode]int{}
	for _, story := range cases.Catalogue() {
		name := story.Name
		if !o.selects(name) {
			continue
		}
		for _, beside := range []bool{false, true} {
			m := mode{name, beside}
			if beside && name == "busy" { // both together would saturate the CPUs
				continue
			}
			if n := o.wanted(name) - have[m]; n > 0 {
				lacking, count[m] = append(lacking, m), n
			}
		}
	}
	slices.SortStableFunc(lacking, func(a, b mode) int {
		return cmp.Or(count[b]-count[a], tried[a]-tried[b],
			boolOrder(ofFive(a.story), ofFive(b.story)))
	})
	return lacking, count
}

// runsOfOther is the number of runs of a story that is not one of the five.
const runsOfOther = 5

// wanted returns the number of runs of each mode of a story.
func (o *options) wanted(story string) int {
	switch {
	case o.runs > 0:
		return o.runs
	case ofFive(story):
		return windowOfFive
	}
	return runsOfOther
}

// selects reports whether the story is one of -only.
func (o *options) selects(story string) bool {
	if o.only == "" {
		return true
	}
	return slices.ContainsFunc(strings.Split(o.only, ","), func(word string) bool {
		return word != "" && strings.Contains(story, word)
	})
}

// measure makes the missing runs, a round of all modes after another, and appends each. A mode has
// at most as many attempts as it lacks runs, so it ends on a machine that is never quiet.
func (o *options) measure(ctx context.Context, out io.Writer) error {
	runs, err := readFile(o.data)
	if err != nil {
		return err
	}
	commit, kernel := treeCommit(), kernelRelease()
	lacking, count := o.missing(runs, commit)
	left := 0
	for _, n := range count {
		left += n
	}
	fmt.Fprintf(out, "%d runs to make, about %v\n", left,
		(time.Duration(left) * 14 * time.Second).Round(time.Minute))
	for round := 0; left > 0; round++ {
		for _, m := range lacking {
			if count[m] <= round {
				continue
			}
			left--
			r, why, err := play(ctx, m, o.program)
			if err != nil {
				return err
			}
			if why != "" {
				fmt.Fprintf(out, "%s needs %s\n", m.story, why)
				continue
			}
			r.Commit, r.Kernel, r.CPUs = commit, kernel, runtime.NumCPU()
			if err := appendRun(o.data, r); err != nil {
				return err
			}
			fmt.Fprintf(out, "%4d left  %s\n", left, describe(r))
		}
	}
	return nil
}

// play makes one run. needs is what the machine lacks for the story.
func play(ctx context.Context, m mode, program string) (r Run, needs string, err error) {
	story, err := cases.Find(m.story)
	if err != nil {
		return r, "", err
	}
	if story.Needs != nil {
		if why := story.Needs(); why != "" {
			return r, why, nil
		}
	}
	r = Run{
		At: time.Now().UTC().Truncate(time.Second), Story: m.story, Fault: story.Twin != "",
		Five: ofFive(m.story), Beside: m.beside,
	}
	g, err := story.Grade(ctx, cases.Grading{Program: program, Over: "10s", Beside: m.beside})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return r, "", err
	}
	for i := range g.Wrong {
		g.Wrong[i] = strings.ReplaceAll(g.Wrong[i], program, "culprit")
	}
	r.Rank, r.Severe, r.True, r.Wrong = g.Rank, g.Severe, g.True, g.Wrong
	r.Seconds, r.Others, r.Loaded = rounded(g.Seconds), rounded(g.Others), g.Limited
	if g.Void || g.Crowded {
		r.Void, r.Wrong = strings.Join(g.Wrong, "; "), nil
	}
	if g.Crowded {
		r.Void = "another scene of the lab was played beside it"
	}
	return r, "", nil
}

// rounded returns a number with two digits after the point.
func rounded(v float64) float64 { return float64(int(v*100+0.5)) / 100 }

// describe formats a run as a line of progress.
func describe(r Run) string {
	text := r.Story
	if r.Beside {
		text += " beside"
	}
	if r.Loaded {
		text += " loaded"
	}
	switch {
	case r.Void != "":
		return text + ": void: " + r.Void
	case len(r.Wrong) > 0:
		return text + ": WRONG: " + strings.Join(r.Wrong, "; ")
	}
	return text + ": right"
}

// treeCommit returns the short hash of the tree's commit, with "+" if the tree has changes other
// than runs; "unknown" without git.
func treeCommit() string {
	out, err := exec.Command("git", "rev-parse", "--short=8", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	commit := strings.TrimSpace(string(out))
	changes, err := exec.Command("git", "status", "--porcelain", "-uno", "--", ".",
		":!cases/accuracy/runs.jsonl", ":!docs/ACCURACY.md").Output()
	if err != nil || len(changes) > 0 {
		commit += "+"
	}
	return commit
}

// kernelRelease returns what uname -r prints.
func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}
