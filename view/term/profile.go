package term

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"culprit/measure"
	"culprit/view"

	"github.com/spf13/cobra"
)

// A ProfileOf is the kind of a profile.
type ProfileOf uint8

// The kinds of profiles. Amounts of the first are samples, of the second events, those of the
// others nanoseconds.
const (
	OnCPU    ProfileOf = iota // what CPUs execute
	OnEvent                   // events: page faults, context switches, tracepoints, probes
	OffCPU                    // from leaving the CPU until running again
	RunQueue                  // from being able to run until running
	Locks                     // waiting for locks
)

// Profiling is the request of `culprit profile`: the kind, the CPUs and threads, the rate and the
// duration.
type Profiling struct {
	Of        ProfileOf
	Hz        int
	Event     string // OnEvent: a name as sampler.Event has it
	Every     uint64 // OnEvent: events per sample; 0: the event's default
	For       time.Duration
	CPUs      []int    // none: all
	PIDs      []int    // none: all; the processes that they start belong to them
	TIDs      []int    // none: all
	Processes []string // names; none: all
	Cgroups   []string // paths; none: all
	Kernel    bool     // only samples in the kernel; for waits, only kernel stacks
	User      bool     // only samples in programs; for waits, only user stacks
	ByCPU     bool     // stacks are grouped by CPU
	ByThread  bool     // stacks are grouped by thread
	By        []string // fields at the root, as profile.Roots.By; nil: the thread's name
	Wakers    bool     // OffCPU: stacks are grouped by the thread that woke them
	Least     measure.Span
	Unwind    string // how to walk user stacks: auto, fp, tables
	Inline    bool   // inlined functions are frames of their own
	// Command is started, and profiled until its end; nil: none. For 0: no limit but its end.
	Command  []string
	Progress func(ProfileProgress) // called each second; nil: nothing
}

// A ProfileProgress is what a running profile has gathered.
type ProfileProgress struct {
	Took    time.Duration
	Samples int64 // 0 for waits
	Unnamed int64 // samples of programs at addresses that have no name
}

// Profiled is a measured profile.
type Profiled struct {
	Stacks iter.Seq[ProfiledStack] // can be read several times
	Began  measure.Time
	Took   measure.Span
	Unit   string // OnEvent: of amounts, a name of the event
	Every  uint64 // OnEvent: events per sample
	CPUs   int    // number of sampled CPUs
	Frames int    // maximum number of frames; a stack of this length may be cut
	Away   int64  // OffCPU: threads that were off the CPU at the end; their waits are in no stack
	Loss   []measure.Loss
	Notes  []string
}

// A ProfiledStack is a stack with its amount. Frames are as DTrace prints them, the innermost
// first. They are valid until the next stack is read.
type ProfiledStack struct {
	Process       string // name of the thread
	Leader        string // name of the process; "": not requested
	Cgroup        string // path of its control group; "": not requested, or not known
	PID, TID, CPU int    // TID, CPU -1: not known
	State         string // for waits: how the thread waited, or the kind of lock
	Kernel, User  []string
	Waker         *ProfiledWaker // nil: not known
	Count         int64          // samples, or waits
	Amount        int64          // samples, events, or nanoseconds
}

// A ProfiledWaker is the thread that ended a wait.
type ProfiledWaker struct {
	Process      string
	PID          int
	Kernel, User []string
}

// Profiler samples stacks until the context ends or the time is over.
type Profiler func(context.Context, Profiling) (*Profiled, error)

const (
	minHz, maxHz   = 1, 10000
	maxProfileTime = 24 * time.Hour
	maxMinWait     = measure.Span(time.Hour)
)

func (p Program) profile() *cobra.Command {
	o := outputFlags{page: p.ProfilePage}
	var q Profiling
	var w recordedFlags
	var every, least, perSample string
	var idle, pids, offCPU, runQueue, locks bool
	c := &cobra.Command{
		Use:   "profile [flags] [-- COMMAND ARG...]",
		Short: "stacks of what the CPUs execute, of events, or of what threads wait for",
		Long: reflow(
			`Samples what each CPU executes, counts the stacks in the kernel, and writes them like culprit
flame: a picture, a page, a table, or a format of other tools. The default rate is 99 per second,
which is in step with no timer of a program. Ctrl-C ends it early and writes the samples so far.
Samples of idle CPUs are left out and counted in a note.

With a command it starts the command and profiles it, and the processes that it starts, until it
ends. --pid includes the processes that the named ones start meanwhile.

With --at, or --from and --to, the profile consists of the samples that `+"`culprit serve`"+` recorded
in that time, with --server on another machine: the same formats, without offsets within functions.
With --diff it is compared with another time of the same length, with the same time of another
machine, or with a file. That needs only the right to read what was recorded.

With --event the stacks are of events instead of a timer's: page-faults, major-faults,
context-switches, cpu-migrations; cycles, instructions, cache-misses, branch-misses, LLC-load-misses
where the machine has hardware counters; a tracepoint, sched:sched_process_exec; or a probe of D,
syscall::read:entry, pid$target:libc.so.6:malloc:entry. Amounts are events; with --every N each Nth
makes a sample, which counts as N.

With --off-cpu the profile is the time that threads are off the CPU, in ns, by the stack with which
they left it and by how: sleeping, uninterruptible, preempted. --wakers adds the thread that woke
them. With --run-queue it is the time from when a thread can run until it does. With --locks it is
the time of waits for locks of the kernel, and of programs in futex(2). A wait is counted when it
ends: a wait that began before the profile or ends after it is in no stack.

It needs root, or CAP_BPF and CAP_PERFMON; and CAP_SYS_PTRACE to name functions in processes of other
users and to walk their stacks by the unwind tables of their files, which needs no frame pointers.`,
			helpWidth,
		),
		Example: examples([]view.Example{
			{
				Line:  "culprit profile --for 30s -o out.html",
				Means: "a page of the whole machine, to zoom and search",
			},
			{
				Line:  "culprit profile --cpu 23 --kernel --hz 997 --for 60s -o out.svg",
				Means: "what one CPU does in the kernel",
			},
			{Line: "culprit profile --pid 1234 --user", Means: "a process, as a call tree"},
			{
				Line:  "culprit profile -o make.html -- make -j4",
				Means: "a command and all that it starts, from begin to end",
			},
			{
				Line:  "culprit profile --event page-faults --pid 1234 -o faults.html",
				Means: "which functions use memory for the first time",
			},
			{
				Line:  "culprit profile --event 'pid$target:libc.so.6:malloc:entry' -- ./program",
				Means: "who calls malloc in a command",
			},
			{
				Line:  "culprit profile --table",
				Means: "Count indv cuml CPU Caller, like lockstat -I",
			},
			{
				Line:  "culprit profile --at 14:03:22 --for 30s -o then.html",
				Means: "the half minute before that time, as a server recorded it",
			},
			{
				Line:  "culprit profile --at now --for 1m --diff -1h",
				Means: "the last minute compared with one an hour ago",
			},
			{
				Line:  "culprit profile --at now --for 1m --server https://slow:7410/ --diff https://fast:7410/",
				Means: "one machine compared with another one",
			},
			{
				Line:  "culprit profile --off-cpu --process postgres --min 1ms -o wait.svg",
				Means: "its waits of a millisecond or longer",
			},
			{
				Line:  "culprit profile --off-cpu --wakers --pid 1234",
				Means: "also the threads that wake it",
			},
			{
				Line:  "culprit profile --by container,process,thread -o pods.html",
				Means: "by container, process and thread; threads of a pool are one",
			},
			{Line: "culprit profile --run-queue --tids", Means: "which threads wait for a CPU"},
			{
				Line:  "culprit profile --locks --table",
				Means: "Count indv cuml nsec Lock Caller, like lockstat",
			},
		}),
		Args:              commandArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := c.Flags()
	f.SortFlags = false
	f.IntVar(&q.Hz, "hz", 99, "samples per second and CPU")
	f.StringVar(&every, "for", "10s", "duration: seconds, or with a unit; of a command: its own")
	f.StringVar(
		&q.Event, "event", "",
		"stacks of an event: page-faults, cycles, sched:sched_switch, syscall::read:entry",
	)
	f.StringVar(
		&perSample, "every", "",
		"--event: one sample per N events (default: 1; hardware events: 100000 or 1000000)",
	)
	f.BoolVar(&offCPU, "off-cpu", false, "time off the CPU, in ns, by the stack that left it")
	f.BoolVar(&q.Wakers, "wakers", false, "--off-cpu: also the thread that woke it, with its stack")
	f.BoolVar(&runQueue, "run-queue", false, "time waiting for a CPU, in ns")
	f.BoolVar(&locks, "locks", false, "time waiting for locks, in ns")
	f.StringVar(
		&least, "min", "0", "--off-cpu, --run-queue, --locks: leave out shorter waits: 1ms, 20us",
	)
	f.IntSliceVar(&q.CPUs, "cpu", nil, "only these CPUs")
	f.IntSliceVarP(&q.PIDs, "pid", "p", nil, "only these processes, and those that they start")
	f.IntSliceVar(&q.TIDs, "thread", nil, "only these threads, by ID")
	f.StringSliceVar(&q.Processes, "process", nil, "only processes and threads of this name")
	f.StringSliceVar(
		&q.Cgroups, "cgroup", nil,
		"only this cgroup and those below: its directory, or a path as in /proc/PID/cgroup",
	)
	f.BoolVar(
		&q.Kernel, "kernel", false,
		"only samples in the kernel; for waits, only kernel stacks and locks",
	)
	f.BoolVar(
		&q.User, "user", false, "only samples in programs; for waits, only user stacks and locks",
	)
	f.StringVar(
		&q.Unwind, "unwind", "auto",
		"how to walk user stacks: auto (unwind tables if the kernel allows), "+
			"fp (frame pointers), tables",
	)
	f.BoolVar(
		&q.Inline, "inline", true,
		"show inlined functions as frames, name_[i], where a program has debug information",
	)
	f.BoolVar(&idle, "idle", false, "also idle CPUs; --off-cpu: also idle kernel threads")
	f.BoolVar(&pids, "pids", false, "one root per process ID")
	f.BoolVar(&q.ByThread, "tids", false, "one root per thread ID")
	byFlag(c, &q.By)
	o.flags(c)
	w.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if _, err := o.selectFormat(); err != nil {
			return err
		}
		span, err := parseInterval(every)
		if err != nil {
			return usagef("--for: %w", err)
		}
		q.For = time.Duration(span)
		if q.Least, err = parseMinWait(least); err != nil {
			return err
		}
		if q.Every, err = parseEvery(perSample); err != nil {
			return err
		}
		kinds := 0
		if f.Changed("event") {
			q.Of = OnEvent
			kinds++
		}
		flags := map[ProfileOf]bool{OffCPU: offCPU, RunQueue: runQueue, Locks: locks}
		for of, given := range flags {
			if given {
				q.Of = of
				kinds++
			}
		}
		switch {
		case kinds > 1:
			return usagef("--event, --off-cpu, --run-queue and --locks exclude each other")
		case q.Of == OnEvent && f.Changed("hz"):
			return usagef("--hz is for the timer: --every N samples one in N events")
		case q.Of != OnEvent && f.Changed("every"):
			return usagef("--every needs --event")
		case q.Of == OnEvent && (q.Event == "" || !printable(q.Event)):
			return usagef("--event takes the name of an event, such as page-faults")
		case q.Of == OnEvent && f.Changed("idle"):
			return usagef("--idle is for CPUs and waits: events of idle CPUs are never left out")
		case q.Of > OnEvent && c.Flags().Changed("hz"):
			return usagef("--hz is for samples: waits are all counted")
		case q.Of <= OnEvent && c.Flags().Changed("min"):
			return usagef("--min needs --off-cpu, --run-queue or --locks")
		case q.Wakers && q.Of != OffCPU:
			return usagef("--wakers needs --off-cpu")
		case q.Hz < minHz || q.Hz > maxHz:
			return usagef("--hz %d is out of range: %d to %d", q.Hz, minHz, maxHz)
		case q.For > maxProfileTime:
			return usagef("--for %s is longer than a day", every)
		case !slices.Contains([]string{"auto", "fp", "tables"}, q.Unwind):
			return usagef("--unwind is auto, fp or tables, not %q", q.Unwind)
		case q.Kernel && q.User:
			return usagef("--kernel and --user exclude each other; without them it is both")
		case anyNegative(q.PIDs, q.CPUs, q.TIDs):
			return usagef("--pid, --thread and --cpu take numbers from 0 on")
		case f.Changed("process") && len(q.Processes) == 0 ||
			f.Changed("cgroup") && len(q.Cgroups) == 0 ||
			slices.Contains(q.Processes, "") || slices.Contains(q.Cgroups, ""):
			return usagef("--process and --cgroup take a name")
		}
		if err := checkBy(c, q.By); err != nil {
			return err
		}
		if o.table && len(q.By) > 0 {
			return usagef("--by is for stacks: --table has none")
		}
		if err := w.check(c, &q, &o); err != nil {
			return err
		}
		if err := q.useCommand(args, w.isSet(), f.Changed("for")); err != nil {
			return err
		}
		if w.isSet() {
			recorded := recordedProfiles{p.profilePrinter(), *p.archives()}
			return recorded.writeRecorded(c.Context(), &w, &q, o, idle, pids)
		}
		if p.Profile == nil {
			return fmt.Errorf("this program samples nothing: %w", measure.ErrUnsupported)
		}
		q.ByCPU = o.table && q.Of <= OnEvent
		q.Progress = profileProgress(p.Terminal, q.For)
		got, err := p.Profile(c.Context(), q)
		if p.Terminal.ErrTTY {
			fmt.Fprint(p.Terminal.Err, clearLine)
		}
		if err != nil {
			return err
		}
		printer := p.profilePrinter()
		return printer.writeSamples(got, q, o, idle, pids)
	}
	return c
}

// parseMinWait parses the shortest wait that counts.
func parseMinWait(text string) (measure.Span, error) {
	seconds, err := strconv.ParseFloat(text, 64)
	span := measure.Span(seconds * 1e9)
	if err != nil {
		d, derr := time.ParseDuration(text)
		if derr != nil {
			return 0, usagef("--min %q is not a time (write 1ms, 20us or 0.5)", text)
		}
		span = measure.Span(d)
	}
	if !(seconds >= 0) || span < 0 || span > maxMinWait {
		return 0, usagef("--min %q is out of range: 0 to 1h", text)
	}
	return span, nil
}
