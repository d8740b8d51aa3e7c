package sampler

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/kernel/proc"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/ir"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/trace"
	"culprit/trace/probe"
)

// A LockTable measures waits for locks as statistics: lock.wait.count, lock.wait.time,
// lock.wait.max and lock.wait.dist for locks of the kernel, and the same of futex.wait for waits in
// futex(2) and related system calls. Waits of this process are not counted. Times are ns from begin
// to end of a wait, which is counted at its end.
type LockTable struct {
	Profile   Profile // uses Threads, CPUs, Kernel, User, Least and Unwind
	Processes bool    // rows are separate per process and pid of the waiting thread
	Stacks    bool    // rows are separate per stack: the kernel's for its locks, else the program's
	Dists     bool    // measures distributions too

	maxKeys int // keys and stacks that fit; 0: maxLockKeys
}

// maxLockKeys is how many keys of an aggregation and how many stacks fit between two readings.
const maxLockKeys = 1 << 14

// lockGather is how often counts are read at least, so that names are looked up while the processes
// exist.
const lockGather = 2 * time.Second

// lockFamilies returns the two kinds of waits: the name of the aggregation, the first part of the
// names of its statistics, and its description.
func lockFamilies() []struct{ agg, stat, of string } {
	return []struct{ agg, stat, of string }{
		{
			"lock",
			"lock.wait",
			"of waits for locks of the kernel (lock:contention_begin, lock:contention_end)",
		},
		{"futex", "futex.wait", "of waits in futex(2), futex_waitv(2) and futex_wait(2)"},
	}
}

// text returns the program.
func (t *LockTable) text(env *probe.Env) (string, error) {
	who, err := t.Profile.Threads.terms(env, atHand)
	if err != nil {
		return "", err
	}
	add := func(agg, stack, at string) func(kind, wait string) string {
		return func(kind, wait string) string {
			keys, take := []string{"this->kind"}, ""
			if t.Processes {
				keys = append(keys, "execname", "pid")
			}
			if t.Stacks {
				// One stack serves all aggregations.
				keys = append(keys, at)
				take = fmt.Sprintf("%s = %s(%d); ", at, stack, trace.MaxFrames)
			}
			key := strings.Join(keys, ", ")
			all := fmt.Sprintf(
				"this->wait = %s; this->kind = %s; %s@%s[%s] = avg(this->wait); "+
					"@%[4]s_max[%[5]s] = max(this->wait);",
				wait, kind, take, agg, key,
			)
			if t.Dists {
				all += fmt.Sprintf(" @%s_dist[%s] = quantize(this->wait);", agg, key)
			}
			return all
		}
	}
	p := t.Profile
	p.Of = Locks
	terms := append(anyOf("cpu", p.CPUs), who...)
	// In a PID namespace the kernel itself leaves out this process by its ID.
	if env != nil && !feature.InPIDNamespace(env.Root()) {
		terms = append(terms, fmt.Sprintf("pid != %d", os.Getpid()))
	}
	return p.locks(
		terms, futexCalls(env), add("lock", "stack", "this->at"),
		add("futex", "ustack", "this->userAt"),
	), nil
}

// Source loads the program into the kernel; its clauses run from Live on. It fails with a
// measure.Denied that names the missing capability, and with measure.ErrUnsupported when this
// kernel cannot do it. The caller calls Live, or Close.
func (t *LockTable) Source() (*trace.Source, error) {
	env := probe.NewEnv(kernel.Root{})
	defer env.Close() //nolint:errcheck // only read
	p := t.Profile
	env.Files = p.Files
	p.Of, p.hooks.doing = Locks, "locks"
	if err := p.checkRights(env); err != nil {
		return nil, err
	}
	text, err := t.text(env)
	if err != nil {
		return nil, err
	}
	maxKeys := cmp.Or(t.maxKeys, maxLockKeys)
	s, err := trace.NewLimitedSource(
		"locks",
		trace.Script{Text: text, Mode: syntax.Mode{Last: syntax.PartName},
			// One drain per second suffices, because nothing is printed. Strings are names of
			// threads, which have less than 32 bytes.
			Options: check.Options{
				StrSize: 32,
				All:     map[string]string{"switchrate": "1s", "unwind": cmp.Or(p.Unwind, "auto")},
			}},
		0,
		gen.Limits{Ring: 64 << 10, AggKeys: maxKeys, Stacks: maxKeys},
		env,
		io.Discard,
	)
	if err != nil {
		return nil, err
	}
	for _, skipped := range s.Attachment().Skipped {
		s.Close()
		return nil, fmt.Errorf("watch %v: %w", skipped.Probe, skipped.Err)
	}
	if err := t.describe(s, text); err != nil {
		s.Close()
		return nil, err
	}
	s.SetLossReasons(lockLossReasons())
	s.PreloadUnwindTables(p.Threads.PIDs)
	s.CollectFrames(true, false)
	s.GatherEvery(lockGather)
	s.NoteSymbols()
	return s, nil
}

// lockLossReasons returns reasons that do not mention options of scripts.
func lockLossReasons() trace.LossReasons {
	return trace.LossReasons{
		ir.DropAgg: "more rows than fit: their waits, maximum or distribution are " +
			"missing",
		ir.DropDynamic: "more waiting threads than fit",
		ir.DropStack:   "more stacks than fit: the others are counted as one without frames",
	}
}

// describe replaces the statistics of the script by those of the table.
func (t *LockTable) describe(s *trace.Source, text string) error {
	fields := []measure.Field{
		{
			Name: "kind",
			Type: measure.Word,
			Help: "of lock: mutex, spin lock, rw semaphore, to write ... or futex",
		},
	}
	if t.Processes {
		fields = append(
			fields,
			measure.Field{
				Name: "process",
				Type: measure.Word,
				Help: "name of the thread that waited",
			},
			measure.Field{
				Name: "pid",
				Type: measure.Number,
				Help: "process ID; 0: an idle CPU, in an interrupt",
			},
		)
	}
	if t.Stacks {
		fields = append(
			fields,
			measure.Field{
				Name: "stack",
				Type: measure.Stack,
				Help: "functions, of the kernel or of the program that waited",
			},
		)
	}
	locks := Profile{Of: Locks}
	kinds := map[string]func(string) string{"kind": func(flags string) string {
		n, err := strconv.ParseInt(flags, 10, 64)
		if err != nil {
			return flags
		}
		return locks.state(n)
	}}
	part := func(i int) func([]int64) float64 {
		return func(data []int64) float64 { return float64(data[i]) }
	}
	var definitions []trace.Definition
	for _, family := range lockFamilies() {
		stat := func(agg, name, help string, st measure.Stat, value func([]int64) float64) {
			if !s.HasAggregation(agg) {
				return
			}
			st.ID, st.Help = measure.StatID(family.stat+"."+name), help+" "+family.of
			st.Fields, st.Traced, st.Program = fields, true, text
			definitions = append(
				definitions,
				trace.Definition{Stat: st, Aggregation: agg, Value: value, Words: kinds},
			)
		}
		// The data of an avg() are the count and the sum.
		stat(
			family.agg, "count", "number",
			measure.Stat{Kind: measure.Delta, Unit: measure.Events, Sparse: true}, part(0),
		)
		stat(
			family.agg, "time", "time",
			measure.Stat{Kind: measure.Delta, Unit: measure.Nanoseconds, Sparse: true}, part(1),
		)
		stat(
			family.agg+"_max", "max", "longest",
			measure.Stat{Kind: measure.Level, Unit: measure.Nanoseconds, Fold: measure.Max}, nil,
		)
		stat(
			family.agg+"_dist", "dist", "distribution, in powers of two of ns,",
			measure.Stat{Kind: measure.Dists, Unit: measure.Nanoseconds, Sparse: true}, nil,
		)
	}
	return s.Define(definitions)
}

// noContention returns an error when a kernel does not report waits for its locks, with a hint on
// what still works.
func noContention(events []proc.Event, release string) error {
	has := func(name string) bool {
		return slices.ContainsFunc(
			events, func(e proc.Event) bool { return e.Subsystem == "lock" && e.Name == name },
		)
	}
	if has("contention_begin") && has("contention_end") {
		return nil
	}
	return fmt.Errorf(
		"this kernel, Linux %s, does not report waits for its locks: the tracepoints "+
			"lock:contention_begin and lock:contention_end came with 5.19; "+
			"--user, waits in futex(2), works: %w",
		release, measure.ErrUnsupported,
	)
}
