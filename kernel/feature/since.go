package feature

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"culprit/kernel"
	"culprit/kernel/bpf"
	"culprit/kernel/proc"
	"culprit/measure"
)

// A Need is a part of the kernel that culprit uses and that only newer kernels have.
type Need struct {
	Name         string  // of the Feature, or of the file and the word in it
	Feature      Feature // as it is tried; not used where File is set
	File         string  // below /proc
	Word         string  // that the file has to contain; "" means that the file has to exist
	Major, Minor int     // the version of Linux that brought it
	Without      string  // what culprit does on an older kernel
}

// Needs returns the parts in the order of the versions that brought them. docs/KERNELS.md and
// messages about missing features are made from it.
func Needs() []Need {
	return []Need{ // table: one row per part of the kernel
		{Name: "typed_tracepoints", Feature: TypedTracepoints, Major: 5, Minor: 5,
			Without: "raw tracepoints"},
		{Name: "fentry", Feature: Fentry, Major: 5, Minor: 5, Without: "kprobes"},
		{Name: "ethtool_netlink", Feature: EthtoolNetlink, Major: 5, Minor: 6,
			Without: "driver names and counters by ioctl"},
		{Name: "ring_buffer", Feature: RingBuffer, Major: 5, Minor: 8,
			Without: "no `trace`, `profile` or traced statistics"},
		{Name: "bpf_statistics", Feature: BPFStatistics, Major: 5, Minor: 8,
			Without: "the cost of BPF programs is unknown"},
		{Name: "task_walk", Feature: TaskWalk, Major: 5, Minor: 8,
			Without: "/proc is read for each process"},
		{Name: "program_run", Feature: ProgramRun, Major: 5, Minor: 10,
			Without: "no BEGIN, END and ticks"},
		{Name: "task_storage", Feature: TaskStorage, Major: 5, Minor: 11,
			Without: "a hash by thread"},
		{Name: "long_keys", Feature: LongKeys, Major: 5, Minor: 11,
			Without: "stacks and keys are stored in pieces, same results"},
		{Name: "current_task", Feature: CurrentTask, Major: 5, Minor: 11,
			Without: "members of the current thread are copied"},
		{Name: "module_types", Feature: ModuleTypes, Major: 5, Minor: 11,
			Without: "arguments of tracepoints and functions in modules have no types"},
		{Name: "atomic_fetch", Feature: AtomicFetch, Major: 5, Minor: 12,
			Without: "slots are taken with a lock"},
		{Name: "socket_walk", Feature: SocketWalk, Major: 5, Minor: 12,
			Without: "the kernel's table of connections is read (inet_diag)"},
		{Name: "pressure/cpu full", File: "pressure/cpu", Word: "full", Major: 5, Minor: 13,
			Without: "no row of cpu pressure with scope full"},
		{Name: "syscall_programs", Feature: SyscallPrograms, Major: 5, Minor: 14,
			Without: "kernel code that is not in kallsyms has no names"},
		{Name: "sys/kernel/task_delayacct", File: "sys/kernel/task_delayacct", Major: 5, Minor: 14,
			Without: "delay accounting is set at boot, and on by default"},
		{Name: "event_cookies", Feature: EventCookies, Major: 5, Minor: 15,
			Without: "one program per kprobe or uprobe"},
		{Name: "task_registers", Feature: TaskRegisters, Major: 5, Minor: 15,
			Without: "no unwind tables: stacks follow frame pointers"},
		{Name: "symbol_lookup", Feature: SymbolLookup, Major: 5, Minor: 16,
			Without: "addresses of BPF programs have no names"},
		{Name: "bpf_loop", Feature: BPFLoop, Major: 5, Minor: 17,
			Without: "no unwind tables: stacks follow frame pointers"},
		{Name: "kprobe_multi", Feature: KprobeMulti, Major: 5, Minor: 18,
			Without: "one kprobe per function"},
		{Name: "lock_contention", Feature: LockContention, Major: 5, Minor: 19,
			Without: "no waits for kernel locks; `locks --user` (futex) works"},
		{Name: "hash_on_demand", Feature: HashOnDemand, Major: 6, Minor: 1,
			Without: "maps have all elements from the start; no unwind tables"},
		{Name: "sys/net/ipv4/tcp_ehash_entries", File: "sys/net/ipv4/tcp_ehash_entries", Major: 6,
			Minor: 1, Without: "`caches` has no buckets of TCP"},
		{Name: "sys/net/ipv4/udp_hash_entries", File: "sys/net/ipv4/udp_hash_entries", Major: 6,
			Minor: 2, Without: "`caches` has no buckets of UDP"},
		{Name: "open_files", Feature: OpenFiles, Major: 6, Minor: 2,
			Without: "open files are listed, which takes root for other users' processes"},
		{Name: "uprobe_multi", Feature: UprobeMulti, Major: 6, Minor: 6,
			Without: "one uprobe per place"},
		{Name: "tracepoint_cookies", Feature: TracepointCookies, Major: 6, Minor: 10,
			Without: "one program per tracepoint"},
		{Name: "kprobe_session", Feature: KprobeSession, Major: 6, Minor: 10,
			Without: "one kprobe at the entry and one at the return"},
	}
}

// since returns the version of Linux that brought a feature; 0: all kernels that culprit runs on
// may have it.
func (f Feature) since() (major, minor int) {
	for _, n := range Needs() {
		if n.File == "" && n.Feature == f {
			return n.Major, n.Minor
		}
	}
	return 0, 0
}

// Since returns "Linux X.Y brought it" for a feature that the running kernel is too old for; ""
// otherwise.
func (f Feature) Since(r kernel.Root) string {
	if major, minor := f.since(); major > 0 && r.Before(major, minor) {
		return fmt.Sprintf("Linux %d.%d brought it", major, minor)
	}
	return ""
}

// FileSince returns "Linux X.Y brought it" for a file below /proc that the running kernel is too
// old for; "" otherwise.
func FileSince(r kernel.Root, file string) string {
	for _, n := range Needs() {
		if n.File == file && n.Word == "" && r.Before(n.Major, n.Minor) {
			return fmt.Sprintf("Linux %d.%d brought it", n.Major, n.Minor)
		}
	}
	return ""
}

// Have tries the part. The errors are those of Feature.Have.
func (n Need) Have(r kernel.Root) error {
	if n.File == "" {
		return n.Feature.Have(r)
	}
	b, err := proc.ReadProc(r, n.File, nil)
	if err == nil && n.Word != "" && !bytes.Contains(b, []byte(n.Word)) {
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", n.Name, older(r, n.Major, n.Minor,
			fmt.Errorf("not in /proc: %w", measure.ErrUnsupported)))
	}
	return err
}

// older returns err, or, where the running kernel is older than major.minor, an error that names
// that version.
func older(r kernel.Root, major, minor int, err error) error {
	if major > 0 && errors.Is(err, measure.ErrUnsupported) && r.Before(major, minor) {
		return fmt.Errorf("this kernel is Linux %s, and %d.%d brought it: %w",
			proc.Line(r, "sys/kernel/osrelease"), major, minor, measure.ErrUnsupported)
	}
	return err
}

// tryContention looks for the tracepoints of threads that begin and end to wait for a lock.
func tryContention(r kernel.Root) error {
	t, err := proc.OpenTracefs(r)
	if err != nil {
		return err
	}
	defer t.Close() //nolint:errcheck // it was only read
	for _, name := range [...]string{"contention_begin", "contention_end"} {
		if _, err := t.Format("lock", name); err != nil {
			return readable(err, "no tracepoint lock:"+name)
		}
	}
	return nil
}

// tryOpenFiles asks for the open files of this process, which has some.
func tryOpenFiles(r kernel.Root) error {
	proc, err := proc.OpenProcDir(r, "")
	if err != nil {
		return err
	}
	defer proc.Close()
	n, err := proc.OpenFiles(int32(os.Getpid()))
	if err == nil && n == 0 {
		return fmt.Errorf("/proc/PID/fd has no size: %w", measure.ErrUnsupported)
	}
	return err
}

// tryModuleTypes looks for the types of one loaded module.
func tryModuleTypes(r kernel.Root) error {
	loaded, err := proc.ReadProc(r, "modules", nil)
	if err != nil {
		return readable(err, "compiled without CONFIG_MODULES")
	}
	if len(loaded) == 0 {
		return fmt.Errorf("no module is loaded: %w", measure.ErrUnclear)
	}
	names, err := bpf.NewTypes(r).Modules()
	if err == nil && len(names) == 0 {
		return fmt.Errorf("modules have no types, for lack of CONFIG_DEBUG_INFO_BTF_MODULES: %w",
			measure.ErrUnsupported)
	}
	return err
}
