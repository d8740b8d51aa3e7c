package term

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"culprit/measure"
	"culprit/view"
	"culprit/view/classic"

	"github.com/spf13/cobra"
)

// Locking is the request of `culprit locks`: which waits are measured, and which fields they have.
type Locking struct {
	CPUs      []int    // where waits began; none: all CPUs
	PIDs      []int    // none: all
	TIDs      []int    // none: all
	Processes []string // names; none: all
	Cgroups   []string // paths; none: all
	Kernel    bool     // only kernel locks
	User      bool     // only futexes
	Least     measure.Span
	Unwind    string // how to walk user stacks: auto, fp, tables

	ByProcess bool // with the waiting process
	Stacks    bool // with stacks
	Dists     bool // with distributions of the times
}

// Locker returns a machine whose statistics are waits for locks. It measures from the first Watch
// until done is called.
type Locker func(context.Context, Locking) (m Machine, done func(), err error)

func (p Program) locks() *cobra.Command {
	t := classic.Locks()
	m := &toolFlags{plan: showOptions{step: measure.Second, count: 1}}
	var q Locking
	var by []string
	var frames, least string
	var hist, coalesce bool
	c := &cobra.Command{
		Use:               t.Name + " [interval [count]]",
		Short:             t.Short,
		Long:              reflow(t.Long+"\n\n"+lockIntervals, helpWidth),
		Example:           examples(t.Examples),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := c.Flags()
	f.SortFlags = false
	f.BoolVar(&q.Kernel, "kernel", false, "only locks of the kernel")
	f.BoolVar(&q.User, "user", false, "only futexes of programs")
	f.StringSliceVar(
		&by, "by", []string{classic.LocksByKind, classic.LocksByCaller},
		"one row per combination of: caller, kind, process, pid",
	)
	f.StringVarP(
		&frames, "stacks", "s", "",
		"one row per N frames of the stack, from the caller outwards, and show them",
	)
	f.BoolVar(&hist, "hist", false, "show the distribution of times below each row")
	f.BoolVarP(&coalesce, "coalesce", "k", false, "one row per function, not per call site")
	f.StringVar(&least, "min", "0", "leave out shorter waits: 1ms, 20us")
	f.IntSliceVarP(&q.PIDs, "pid", "p", nil, "only these processes")
	f.IntSliceVar(&q.TIDs, "thread", nil, "only these threads, by ID")
	f.StringSliceVar(&q.Processes, "process", nil, "only processes and threads of this name")
	f.StringSliceVar(
		&q.Cgroups, "cgroup", nil,
		"only this cgroup and those below: its directory, or a path as in /proc/PID/cgroup",
	)
	f.IntSliceVar(&q.CPUs, "cpu", nil, "only waits that began on these CPUs")
	f.StringVar(
		&q.Unwind, "unwind", "auto",
		"how to walk user stacks: auto (unwind tables if the kernel allows), "+
			"fp (frame pointers), tables",
	)
	m.tableFlags(f)
	m.past.flags(f, true)
	// These flags of the other tools are refused with a reason.
	for _, name := range []string{
		"from", "to", "at", "dir", "server", "engine", "host", "engine-option",
	} {
		if err := f.MarkHidden(name); err != nil {
			panic(err) // pastFlags.flags made it
		}
	}
	completeWith(c, "by", classic.LocksBy())
	completeWith(c, "unwind", lockUnwinds())
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := m.times(args); err != nil {
			return err
		}
		o := view.Options{"by": by}
		for name, given := range map[string]bool{
			"kernel": q.Kernel, "user": q.User, "hist": hist, "coalesce": coalesce,
		} {
			if given {
				o[name] = []string{""}
			}
		}
		if f.Changed("stacks") {
			o["stacks"] = []string{frames}
		}
		var err error
		if q.Least, err = parseMinWait(least); err != nil {
			return err
		}
		if err := q.check(c, &m.past, o); err != nil {
			return err
		}
		q.ByProcess, q.Stacks, q.Dists = classic.LocksNeedProcesses(
			o,
		), classic.LocksNeedStacks(
			o,
		), hist
		if p.Locks == nil {
			return fmt.Errorf("this program traces nothing: %w", measure.ErrUnsupported)
		}
		machine, done, err := p.Locks(c.Context(), q)
		if err != nil {
			return err
		}
		defer done()
		return showTool(c.Context(), machine, p.Terminal, t, o, m.plan)
	}
	return c
}

const lockIntervals = `Without an interval it shows one second. With an interval it continues until Ctrl-C or until the
count, and then prints a table over all of it, in which counts and times are sums. Each table covers
the time that was measured. "-" (null in JSON) means not known; shares are ratios from 0 to 1 in JSON
and CSV.`

func lockUnwinds() []string { return []string{"auto", "fp", "tables"} }

func anyNegative(lists ...[]int) bool {
	return slices.ContainsFunc(slices.Concat(lists...), func(n int) bool { return n < 0 })
}

// check fails if flags are invalid or exclude each other.
func (q *Locking) check(c *cobra.Command, w *pastFlags, o view.Options) error {
	f := c.Flags()
	switch {
	case w.isSet() || w.dir != "" || w.server != "":
		return usagef(
			"waits for locks are not recorded: without --from, --to, --at, --dir and --server " +
				"culprit locks measures now; culprit profile --at shows recorded CPU samples",
		)
	case q.Kernel && q.User:
		return usagef("--kernel and --user exclude each other; without them it is both")
	case !slices.Contains(lockUnwinds(), q.Unwind):
		return usagef(
			"--unwind is auto, fp or tables, not %q%s", q.Unwind,
			didYouMean(q.Unwind, lockUnwinds()),
		)
	case anyNegative(q.PIDs, q.CPUs, q.TIDs):
		return usagef("--pid, --thread and --cpu take numbers from 0 on")
	case f.Changed("process") && len(q.Processes) == 0 ||
		f.Changed("cgroup") && len(q.Cgroups) == 0 ||
		slices.Contains(q.Processes, "") || slices.Contains(q.Cgroups, ""):
		return usagef("--process and --cgroup take a name")
	case len(o["by"]) == 0:
		return usagef("--by takes some of caller, kind, process, pid")
	}
	for _, by := range o["by"] {
		if !slices.Contains(classic.LocksBy(), by) {
			return usagef(
				"--by %q is none of caller, kind, process, pid%s", by,
				didYouMean(by, classic.LocksBy()),
			)
		}
	}
	if o.Has("stacks") {
		if n, err := strconv.Atoi(o.Text("stacks")); err != nil || n < 1 ||
			n > classic.MaxLockFrames {
			return usagef(
				"--stacks %q is not a number of frames from 1 to %d", o.Text("stacks"),
				classic.MaxLockFrames,
			)
		}
	}
	return nil
}
