package classic

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"culprit/measure"
	"culprit/view"
)

// The fields by which waits for locks can be grouped.
const (
	LocksByCaller  = "caller"
	LocksByKind    = "kind"
	LocksByProcess = "process"
	LocksByPID     = "pid"
)

// LocksBy returns the fields by which waits for locks can be grouped.
func LocksBy() []string { return []string{LocksByCaller, LocksByKind, LocksByProcess, LocksByPID} }

// MaxLockFrames is the maximum number of frames of a stack.
const MaxLockFrames = 127

// Locks returns the tool locks, like lockstat. Its options are by, a list of LocksBy; stacks, a
// number of frames; hist; coalesce; kernel; user. It is not in Tools, since its queries run on a
// machine of their own.
func Locks() *view.Tool {
	return &view.Tool{
		Name:  "locks",
		Short: "waits for locks of the kernel and futexes of programs: where and how long (lockstat)",
		Long: `One row for each kind of lock and each place in code that waited for one. Count is the number of
waits that ended; indv is the row's share of all waited time; cuml adds that of the rows above it;
wait is the total time; mean and max are per wait; Lock is the kind. Caller is the innermost function
that is not part of locks, of the scheduler or of the C library. Waits of several threads add up: ten
threads that wait all the time wait ten seconds per second.

A wait is counted when it ends, whenever it began. One that began before the tool, or has not ended,
is in no row. Waits for locks of the kernel are the times from lock:contention_begin to
lock:contention_end (Linux 5.19), spinning and sleeping; taking a free lock is no wait. Waits of
programs, futex, are the times in futex(2), futex_waitv(2) and futex_wait(2). Condition variables,
joins and idle threads of pools wait there too: the caller shows which. The waits of culprit itself
are left out.

In lockstat's words: Count, indv and cuml are the same (rows are sorted by time, as with its -P);
nsec is mean; -s is --stacks, -h is --hist, -k is --coalesce, -n is --rows. Single locks have no
names here, only kinds.

It needs root, or CAP_BPF and CAP_PERFMON, and CAP_SYS_PTRACE to name functions in processes of other
users.`,
		Examples: []view.Example{
			{Line: "culprit locks 1", Means: "waits for locks, every second"},
			{
				Line:  "culprit locks --kernel -s 5 10 1",
				Means: "ten seconds of the kernel's own locks, with five callers each",
			},
			{
				Line:  "culprit locks --user --process mysqld --hist 5",
				Means: "where its threads wait, with the distribution of the times",
			},
			{Line: "culprit locks --by process 1", Means: "which processes wait"},
			{
				Line:  "culprit locks --min 1ms --json 1",
				Means: "waits of a millisecond or longer, as JSON",
			},
		},
		MaxRows: 20,
		Peaks:   []measure.StatID{"lock.wait.max", "futex.wait.max"},
		Ask:     locksAsk,
		Table:   locksTable,
		Stack: func(f *measure.Frame) string {
			if f.Module != "" && f.Symbol != "["+f.Module+"]" {
				return f.Module + "`" + f.Symbol
			}
			return f.Symbol
		},
	}
}

// locksFamilies returns the statistics to query: of kernel locks, of futexes, or both.
func locksFamilies(o view.Options) []string {
	switch {
	case o.Has("kernel"):
		return []string{"lock.wait"}
	case o.Has("user"):
		return []string{"futex.wait"}
	}
	return []string{"lock.wait", "futex.wait"}
}

// LocksNeedStacks reports whether the queries need stacks.
func LocksNeedStacks(o view.Options) bool { return o.Has("stacks") || lockRows(o, LocksByCaller) }

// LocksNeedProcesses reports whether the queries need the waiting process.
func LocksNeedProcesses(o view.Options) bool {
	return lockRows(o, LocksByProcess) || lockRows(o, LocksByPID)
}

// lockRows reports whether rows are grouped by a field.
func lockRows(o view.Options, by string) bool {
	if !o.Has("by") {
		return by == LocksByCaller || by == LocksByKind
	}
	return slices.Contains(o["by"], by)
}

func locksAsk(o view.Options) (all []string) {
	by := []string{"kind"}
	if LocksNeedProcesses(o) {
		by = append(by, "process", "pid")
	}
	if LocksNeedStacks(o) {
		by = append(by, "stack")
	}
	for _, family := range locksFamilies(o) {
		for _, what := range []string{"count", "time", "max", "dist"} {
			if what != "dist" || o.Has("hist") {
				all = append(all, family+"."+what+" by "+strings.Join(by, ","))
			}
		}
	}
	return all
}

// lockRow is a row of the table before it is formatted.
type lockRow struct {
	kind, process, pid, caller string
	// From the caller outwards, at most the number of frames to show.
	stack              []string
	count, nanos, most float64
	dist               measure.Dist
}

func locksColumns(o view.Options) []view.Column {
	columns := []view.Column{
		{Name: "count", Head: "Count", Width: 7, Help: "waits that ended"},
		{Name: "count_per_s", Help: "waits that ended, per second"},
		{
			Name:     "indv_ratio",
			Head:     "indv",
			Show:     view.Percent,
			Decimals: 1,
			Width:    5,
			Help:     "share of all waited time",
		},
		{
			Name:     "cuml_ratio",
			Head:     "cuml",
			Show:     view.Percent,
			Decimals: 1,
			Width:    5,
			Help:     "share of this row and those above it",
		},
		{
			Name:  "wait_ns",
			Head:  "wait",
			Show:  view.Brief,
			Width: 6,
			Help:  "total time of the waits",
		},
		{Name: "mean_ns", Head: "mean", Show: view.Brief, Width: 6, Help: "mean time of a wait"},
		{Name: "max_ns", Head: "max", Show: view.Brief, Width: 6, Help: "the longest wait"},
	}
	if lockRows(o, LocksByKind) {
		columns = append(
			columns, view.Column{Name: "kind", Help: "kind of lock"},
			view.Column{Head: "Lock", Width: 13, Left: true, Help: "the same, shortened"},
		)
	}
	if lockRows(o, LocksByProcess) {
		columns = append(
			columns,
			view.Column{
				Name:  "process",
				Head:  "Process",
				Width: 15,
				Left:  true,
				Help:  "name of the thread that waited",
			},
		)
	}
	if lockRows(o, LocksByPID) {
		columns = append(columns, view.Column{Name: "pid", Head: "PID", Width: 7, Help: "process"})
	}
	if lockRows(o, LocksByCaller) {
		columns = append(
			columns,
			view.Column{
				Name: "caller",
				Help: "innermost function outside locks: module, function, offset",
			},
			view.Column{
				Head:  "Caller",
				Width: 12,
				Left:  true,
				Cut:   true,
				Help:  "the same; without a module: of the kernel",
			},
		)
	}
	if o.Has("stacks") {
		columns = append(
			columns, view.Column{Name: "stack", Help: "functions from the caller outwards"},
		)
	}
	if o.Has("hist") {
		columns = append(
			columns, view.Column{Name: "hist", Help: "waits from from_ns up to twice that time"},
		)
	}
	return columns
}

func locksTable(o view.Options, f *view.Frame) *view.Table {
	t := &view.Table{View: "locks", Columns: locksColumns(o)}
	depth, _ := strconv.Atoi(o.Text("stacks")) // checked by the command
	rows := map[string]*lockRow{}
	over := measure.Span(0)
	for _, family := range locksFamilies(o) {
		for _, what := range []string{"count", "time", "max", "dist"} {
			a := f.Of(measure.StatID(family + "." + what))
			if len(a.Elapsed) > 0 {
				over = max(over, a.Elapsed[0])
			}
			for i := range a.Series {
				r := lockRow{kind: a.LabelOf(i, "kind")}
				id := ""
				if lockRows(o, LocksByKind) {
					id = r.kind
				}
				if lockRows(o, LocksByProcess) {
					r.process = a.LabelOf(i, "process")
				}
				if lockRows(o, LocksByPID) {
					r.pid = a.LabelOf(i, "pid")
				}
				if LocksNeedStacks(o) {
					frames := innermostFirst(a.LabelOf(i, "stack"))
					at := max(0, WaitFrame(frames, family == "futex.wait"))
					r.stack = frames[at:]
					r.stack = r.stack[:min(depth, len(r.stack))]
					if o.Has("coalesce") {
						frames, r.stack = withoutOffsets(frames), withoutOffsets(r.stack)
					}
					if lockRows(o, LocksByCaller) {
						r.caller = "[no frames]"
						if len(frames) > 0 {
							r.caller = frames[at]
						}
					}
				}
				id += "\x00" + r.process + "\x00" + r.pid + "\x00" + r.caller + "\x00" +
					strings.Join(r.stack, ";")
				row := rows[id]
				if row == nil {
					row = &r
					rows[id] = row
				}
				row.add(what, &a.Series[i], a.Elapsed[0])
			}
		}
	}
	all := make([]*lockRow, 0, len(rows))
	count, nanos := 0.0, 0.0
	for _, r := range rows {
		if r.count > 0 {
			all = append(all, r)
			count, nanos = count+r.count, nanos+r.nanos
		}
	}
	slices.SortFunc(all, func(a, b *lockRow) int {
		switch {
		case a.nanos != b.nanos:
			return int(math.Copysign(1, b.nanos-a.nanos))
		case a.count != b.count:
			return int(math.Copysign(1, b.count-a.count))
		}
		return strings.Compare(
			a.kind+a.caller+a.process+a.pid+strings.Join(a.stack, ";"),
			b.kind+b.caller+b.process+b.pid+strings.Join(b.stack, ";"),
		)
	})
	t.Title, t.Totals = "not measured", true
	if over > 0 {
		waits := "waits"
		if count == 1 {
			waits = "wait"
		}
		t.Title = fmt.Sprintf(
			"%.0f %s in %.1f s (%.*f/s), %s waited", count, waits, over.Seconds(),
			rateDecimals(count/over.Seconds()), count/over.Seconds(), view.FormatNanos(nanos),
		)
	}
	cumulative := 0.0
	for _, r := range all {
		cumulative += r.nanos
		t.Rows = append(t.Rows, r.row(o, over, nanos, cumulative))
	}
	return t
}

// rateDecimals returns the number of decimals to print of a rate.
func rateDecimals(rate float64) int {
	if rate > 0 && rate < 10 {
		return 1
	}
	return 0
}

// add adds the value of a series to the row.
func (r *lockRow) add(what string, s *measure.Series, over measure.Span) {
	if what == "dist" {
		if d := s.Dists(); len(d) > 0 {
			r.dist.Merge(d[0])
		}
		return
	}
	if len(s.Values) == 0 || s.Values[0] != s.Values[0] {
		return
	}
	switch v := s.Values[0]; what {
	case "count":
		r.count += math.Round(v * over.Seconds())
	case "time":
		r.nanos += math.Round(v * float64(over))
	case "max":
		r.most = max(r.most, v)
	}
}

// row formats the row. total is the time of all rows, cumulative that of this row and those above
// it.
func (r *lockRow) row(o view.Options, over measure.Span, total, cumulative float64) view.Row {
	share := func(v float64) view.Cell {
		if total == 0 {
			return view.N(measure.NaN)
		}
		return view.N(v / total)
	}
	// The kernel's maps are read one after the other. A wait that ends meanwhile may be the longest
	// of this interval, and its time in the next.
	if r.most > r.nanos || r.most < math.Floor(r.nanos/r.count) {
		r.most = measure.NaN
	}
	cells := []view.Cell{
		view.N(r.count),
		view.N(r.count / over.Seconds()),
		share(r.nanos),
		share(cumulative),
		view.N(r.nanos),
		view.N(r.nanos / r.count),
		view.N(r.most),
	}
	if lockRows(o, LocksByKind) {
		cells = append(
			cells,
			view.T(r.kind),
			view.T(
				strings.NewReplacer("semaphore, to", "sem,", "lock, to", "lock,").Replace(r.kind),
			),
		)
	}
	if lockRows(o, LocksByProcess) {
		cells = append(cells, view.T(r.process))
	}
	if lockRows(o, LocksByPID) {
		cells = append(cells, view.I(r.pid))
	}
	if lockRows(o, LocksByCaller) {
		cells = append(cells, view.T(r.caller), view.T(kernelFrame(r.caller)))
	}
	if o.Has("stacks") {
		cells = append(cells, J(r.stack))
	}
	type bucket struct {
		From  uint64 `json:"from_ns"`
		Count uint64 `json:"count"`
	}
	if o.Has("hist") {
		buckets := []bucket{}
		for i, n := range r.dist.Counts {
			if n > 0 {
				buckets = append(
					buckets, bucket{measure.BucketStart(r.dist.Base, r.dist.First+int32(i)), n},
				)
			}
		}
		cells = append(cells, J(buckets))
	}
	return view.Row{
		Key: strings.Join(
			[]string{r.kind, r.process, r.pid, r.caller, strings.Join(r.stack, ";")}, "\x00",
		),
		Cells:   cells,
		Details: r.details(o),
	}
}

// details returns the lines below the row: the distribution and the stack side by side, as lockstat
// prints them.
func (r *lockRow) details(o view.Options) string {
	var left, right []string
	if o.Has("hist") {
		left = append(left, "      nsec ------ Time Distribution ------ count   ")
		if len(r.dist.Counts) > 0 {
			for i, n := range r.dist.Counts {
				bar := strings.Repeat("@", int(math.Round(30*float64(n)/float64(r.dist.Count()))))
				left = append(
					left,
					fmt.Sprintf(
						"%10d |%-30s%-8d", measure.BucketStart(r.dist.Base, r.dist.First+int32(i)),
						bar, n,
					),
				)
			}
		}
	}
	if o.Has("stacks") {
		if o.Has("hist") {
			right = append(right, "Stack")
		}
		for _, frame := range r.stack {
			right = append(right, kernelFrame(frame))
		}
	}
	var b strings.Builder
	for i := range max(len(left), len(right)) {
		indent := strings.Repeat(" ", 12)
		if o.Has("hist") {
			indent = strings.Repeat(" ", 51)
		}
		line := indent
		if i < len(left) {
			line = fmt.Sprintf("%-51s", left[i])
		}
		if i < len(right) {
			line += right[i]
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// kernelFrame returns a frame without its module if that is the kernel itself.
func kernelFrame(frame string) string { return strings.TrimPrefix(frame, "vmlinux`") }

// innermostFirst splits a folded stack.
func innermostFirst(folded string) []string {
	if folded == "" {
		return nil
	}
	frames := strings.Split(folded, ";")
	slices.Reverse(frames)
	return frames
}

func withoutOffsets(frames []string) []string {
	out := make([]string, len(frames))
	for i, f := range frames {
		module, name, _ := FrameParts(f)
		if out[i] = name; module != "" {
			out[i] = module + "`" + name
		}
	}
	return out
}

// FrameParts splits a frame as DTrace prints it: module`function+0x1f. An address is returned as
// the function.
func FrameParts(line string) (module, name, offset string) {
	if m, rest, ok := strings.Cut(line, "`"); ok {
		module, line = m, rest
	}
	// The offset in [program+0x1240] is not split off.
	if i := strings.LastIndex(line, "+0x"); i > 0 && !strings.HasSuffix(line, "]") {
		line, offset = line[:i], line[i:]
	}
	return module, line, offset
}

// WaitFrame returns the index of the frame that shows what a thread waits for, in a stack with the
// innermost frame first. It is the first frame that is not part of the scheduler, of a lock or,
// with user, of the C library. It returns -1 if there is none.
func WaitFrame(frames []string, user bool) int {
	for i, line := range frames {
		module, name, _ := FrameParts(line)
		if user && module == "" && strings.HasPrefix(name, "[") &&
			strings.Contains(name, ": ") { // the reason why the stack ends
			continue
		}
		if user && !isLibraryWait(module, name) || !user && !isKernelWait(name) {
			return i
		}
	}
	return -1
}

// isLibraryWait reports whether a user function belongs to the implementation of waiting.
func isLibraryWait(module, name string) bool {
	bare := strings.TrimLeft(name, "_") // also in statically linked programs
	return strings.HasPrefix(module, "libc.") || strings.HasPrefix(module, "libc-") ||
		strings.HasPrefix(module, "libpthread") || strings.HasPrefix(module, "ld-") ||
		strings.HasPrefix(name, "runtime.futex") ||
		strings.HasPrefix(name, "runtime.note") ||
		strings.HasPrefix(bare, "lll_lock") ||
		strings.HasPrefix(bare, "pthread_")
}

// isKernelWait reports whether a kernel function belongs to the scheduler or to locks.
func isKernelWait(name string) bool {
	name = strings.TrimLeft(name, "_")
	for _, prefix := range []string{
		"schedule", "io_schedule", "preempt_schedule", "cond_resched", "mutex_lock", "down_read",
		"down_write", "down_interruptible", "down_killable", "down_timeout", "down_trylock",
		"rwsem_down_", "percpu_down_", "percpu_rwsem_wait", "raw_spin_lock", "raw_read_lock",
		"raw_write_lock", "native_queued_spin_lock", "pv_queued_spin_lock", "queued_spin_lock",
		"queued_read_lock", "queued_write_lock", "rt_mutex_", "rt_spin_lock", "rtlock_",
		"rt_read_lock", "rt_write_lock", "do_raw_", "pi_cond_resched", "ww_mutex_lock",
		"osq_lock", "traceiter_contention_",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "down"
}

// J returns a cell with a list, as JSON; terminals do not show it. v consists of texts and numbers.
func J(v any) view.Cell {
	b, err := measure.MarshalJSON(v)
	if err != nil {
		panic(err) // texts and numbers always marshal
	}
	return view.Cell{Text: string(b), Kind: view.IsJSON}
}
