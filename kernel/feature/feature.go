package feature

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"culprit/kernel"
	"culprit/kernel/netlink"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Feature is something that a kernel may lack or may forbid. It is always tried and never derived
// from a version: distributions compile features out, and containers forbid them.
type Feature uint8

// The features that culprit asks about.
const (
	Pressure  Feature = iota // pressure stall information, /proc/pressure
	SchedInfo                // time that each task waited for a CPU, /proc/PID/schedstat
	Schedstat                // scheduler statistics per CPU, /proc/schedstat
	Taskstats                // task accounting over generic netlink
	// waits for disk, swap and reclaim in taskstats; switched on by kernel.task_delayacct
	DelayAccounting
	TaskIO          // bytes read and written per process, /proc/PID/io
	OtherUsersTasks // I/O and open files of other users' processes
	InetDiag        // TCP connections with tcp_info over netlink
	// link modes, rings and driver statistics over generic netlink (5.6)
	EthtoolNetlink
	EnterNamespaces // look into other network namespaces
	Conntrack       // connection tracking: the size of its table
	Slabs           // sizes of kernel caches, /proc/slabinfo
	// perf events of all tasks on a CPU: profiles of the whole machine
	PerfEvents
	KernelAddresses // addresses in /proc/kallsyms: names in kernel stacks
	// the kernel's own types, /sys/kernel/btf/vmlinux (existence only)
	BTF
	CgroupV1       // control groups v1 with at least one controller
	CgroupV2       // control groups v2 mounted
	RawTracepoints // BPF programs at tracepoints
	// the same, with arguments that the verifier knows by BTF (tp_btf)
	TypedTracepoints
	// one program at several tracepoints can tell them apart (6.10)
	TracepointCookies
	PerfPrograms // BPF programs on perf events: timers of each CPU
	// one program on several perf events, kprobes among them, can tell them apart (5.15)
	EventCookies
	Kprobe        // BPF programs at the entry of functions of the kernel
	Kretprobe     // at their return
	KprobeMulti   // at many functions in one go
	KprobeSession // the same, one program at entry and return (6.10)
	// at the entry of a function, with arguments that the verifier knows
	Fentry
	Fexit       // at its return, with arguments and result
	Uprobe      // at places of programs and libraries
	UprobeMulti // at many of them in one go (6.6)
	ProgramRun  // programs of tracepoints run by hand (5.10)
	RingBuffer  // records out of programs, in order (5.8)
	// memory of programs that hangs on threads (5.11; in programs of tracepoints)
	TaskStorage
	MapInMap // maps that hold maps
	BPFLoop  // loops of a length that isn't known before (5.17)
	// stacks of the kernel and of processes, taken by programs (4.18)
	BPFStacks
	BPFStatistics // what BPF programs cost (5.8)
	LongKeys      // keys of hash maps that are longer than 512 bytes (5.11)
	// the current thread with the type that the verifier knows (5.11)
	CurrentTask
	AtomicFetch // atomic operations that return the old value (5.12)
	// programs that user space calls and that read the kernel's memory (5.14)
	SyscallPrograms
	TaskRegisters // registers of a thread at its entry into the kernel (5.15)
	SymbolLookup  // addresses of single symbols of the kernel (5.16)
	// tracepoints of threads that wait for locks of the kernel (5.19)
	LockContention
	// hash maps that allocate elements on demand, in programs of perf events (6.1)
	HashOnDemand
	// the number of a process's open files as the size of /proc/PID/fd (6.2)
	OpenFiles
	TaskWalk    // the threads of all processes by one BPF iterator (5.8)
	ModuleTypes // types of loaded modules, /sys/kernel/btf (5.11)
	// TCP connections by a BPF iterator over sockets that were marked (5.12)
	SocketWalk
	featureCount // how many there are
)

// String returns the name of the feature, as docs/KERNELS.md has it.
func (f Feature) String() string {
	switch f {
	case Pressure:
		return "pressure"
	case SchedInfo:
		return "sched_info"
	case Schedstat:
		return "schedstat"
	case Taskstats:
		return "taskstats"
	case DelayAccounting:
		return "delay_accounting"
	case TaskIO:
		return "task_io"
	case OtherUsersTasks:
		return "other_users_tasks"
	case InetDiag:
		return "inet_diag"
	case EthtoolNetlink:
		return "ethtool_netlink"
	case EnterNamespaces:
		return "enter_namespaces"
	case Conntrack:
		return "conntrack"
	case Slabs:
		return "slabs"
	case PerfEvents:
		return "perf_events"
	case KernelAddresses:
		return "kernel_addresses"
	case BTF:
		return "btf"
	case CgroupV1:
		return "cgroup_v1"
	case CgroupV2:
		return "cgroup_v2"
	case RawTracepoints:
		return "raw_tracepoints"
	case TypedTracepoints:
		return "typed_tracepoints"
	case TracepointCookies:
		return "tracepoint_cookies"
	case PerfPrograms:
		return "perf_programs"
	case EventCookies:
		return "event_cookies"
	case Kprobe:
		return "kprobe"
	case Kretprobe:
		return "kretprobe"
	case KprobeMulti:
		return "kprobe_multi"
	case KprobeSession:
		return "kprobe_session"
	case Fentry:
		return "fentry"
	case Fexit:
		return "fexit"
	case Uprobe:
		return "uprobe"
	case UprobeMulti:
		return "uprobe_multi"
	case ProgramRun:
		return "program_run"
	case RingBuffer:
		return "ring_buffer"
	case TaskStorage:
		return "task_storage"
	case MapInMap:
		return "map_in_map"
	case BPFLoop:
		return "bpf_loop"
	case BPFStacks:
		return "bpf_stacks"
	case BPFStatistics:
		return "bpf_statistics"
	case LongKeys:
		return "long_keys"
	case CurrentTask:
		return "current_task"
	case AtomicFetch:
		return "atomic_fetch"
	case SyscallPrograms:
		return "syscall_programs"
	case TaskRegisters:
		return "task_registers"
	case SymbolLookup:
		return "symbol_lookup"
	case LockContention:
		return "lock_contention"
	case HashOnDemand:
		return "hash_on_demand"
	case OpenFiles:
		return "open_files"
	case TaskWalk:
		return "task_walk"
	case ModuleTypes:
		return "module_types"
	case SocketWalk:
		return "socket_walk"
	}
	return fmt.Sprintf("feature %d", uint8(f))
}

// Have tries the feature; nil means yes. errors.Is measure.ErrUnsupported: the kernel lacks it, or
// it is switched off and the text says how to switch it on. measure.ErrDenied: a measure.Denied
// names the missing right. measure.ErrUnclear: the attempt failed, or captured files can't say.
//
// It takes microseconds to a few milliseconds, up to 50 ms where it attaches BPF to functions. It
// caches nothing, since a sysctl may change the answer; only features.Have... of cilium/ebpf do.
func (f Feature) Have(r kernel.Root) error {
	err := f.try(r)
	major, minor := f.since()
	err = older(r, major, minor, err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, measure.ErrUnsupported), errors.Is(err, measure.ErrDenied),
		errors.Is(err, measure.ErrUnclear):
	default:
		err = fmt.Errorf("%w: %w", measure.ErrUnclear, err)
	}
	return fmt.Errorf("%s: %w", f, err)
}

func (f Feature) try(r kernel.Root) error {
	switch f {
	case Pressure:
		_, err := proc.ReadProc(r, "pressure/cpu", nil)
		if errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("switched off at boot, psi=1 on the kernel's command line switches "+
				"it on: %w", measure.ErrUnsupported)
		}
		return readable(err, "compiled without CONFIG_PSI")
	case SchedInfo:
		return trySchedInfo(r)
	case Schedstat:
		_, err := proc.ReadProc(r, "schedstat", nil)
		return readable(err, "compiled without CONFIG_SCHEDSTATS")
	case DelayAccounting:
		return tryDelayAccounting(r)
	case TaskIO:
		_, err := proc.ReadProc(r, "self/io", nil)
		return readable(err, "compiled without CONFIG_TASK_IO_ACCOUNTING")
	case Conntrack:
		_, err := proc.ReadProc(r, "sys/net/netfilter/nf_conntrack_count", nil)
		return readable(err, "nf_conntrack is not loaded")
	case Slabs:
		_, err := proc.ReadProc(r, "slabinfo", nil)
		if errors.Is(err, measure.ErrDenied) {
			return kernel.Refused("read /proc/slabinfo", "root", unix.CAP_DAC_OVERRIDE) // mode 0400
		}
		return readable(err, "no /proc/slabinfo")
	case KernelAddresses:
		return tryKallsyms(r)
	case BTF:
		file, err := proc.OpenSys(r, "kernel/btf/vmlinux")
		file.Close()
		return readable(err, "compiled without CONFIG_DEBUG_INFO_BTF")
	case CgroupV1, CgroupV2:
		return tryCgroups(r, f == CgroupV2)
	}
	if r.Captured() {
		return fmt.Errorf("a captured tree can't tell: %w", measure.ErrUnclear)
	}
	switch f {
	case OtherUsersTasks:
		return tryOthers(r)
	case Taskstats:
		return tryTaskstats()
	case InetDiag:
		return tryInetDiag()
	case EthtoolNetlink:
		return tryFamily("ethtool")
	case EnterNamespaces:
		return netlink.TryEnter()
	case PerfEvents:
		return tryPerf(r)
	case LockContention:
		return tryContention(r)
	case OpenFiles:
		return tryOpenFiles(r)
	case ModuleTypes:
		return tryModuleTypes(r)
	}
	return f.tryBPF(r)
}

// readable returns the answer for the error of reading a file: a missing file is a missing feature.
func readable(err error, why string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", why, measure.ErrUnsupported)
	}
	return err
}

func trySchedInfo(r kernel.Root) error {
	b, err := proc.ReadProc(r, "thread-self/schedstat", nil)
	if err != nil {
		return readable(err, "compiled without CONFIG_SCHED_INFO")
	}
	c := proc.Scan(b)
	if ran := c.Uint(); c.Err() != nil {
		return c.Err()
	} else if ran == 0 { // "0 0 0": sched_info_on() said no, for a thread that runs
		return fmt.Errorf("switched off: %w", measure.ErrUnsupported)
	}
	return nil
}

func tryDelayAccounting(r kernel.Root) error {
	b, err := proc.ReadProc(r, "sys/kernel/task_delayacct", nil)
	if errors.Is(err, fs.ErrNotExist) {
		// Before 5.14 there is no switch: compiled in means on, unless switched off at boot.
		if line, err := proc.ReadProc(r, "cmdline", nil); err == nil &&
			hasWord(line, "nodelayacct") {
			return fmt.Errorf("switched off at boot by nodelayacct: %w", measure.ErrUnsupported)
		}
		return fmt.Errorf("no kernel.task_delayacct: either on for good or not compiled in: %w",
			measure.ErrUnclear)
	}
	if err != nil {
		return err
	}
	c := proc.Scan(b)
	if c.Uint() == 0 && c.Err() == nil {
		return fmt.Errorf("switched off, sysctl kernel.task_delayacct=1 switches it on: %w",
			measure.ErrUnsupported)
	}
	return c.Err()
}

func hasWord(line []byte, word string) bool {
	for c := proc.Scan(line); ; {
		switch w := c.Word(); {
		case w == nil:
			return false
		case string(w) == word:
			return true
		}
	}
}

// tryOthers reads the first process of another user.
func tryOthers(r kernel.Root) error {
	proc, err := proc.OpenProcDir(r, "")
	if err != nil {
		return err
	}
	defer proc.Close()
	if _, err := proc.ReadFile("self/io", nil); err != nil {
		return readable(err, "compiled without CONFIG_TASK_IO_ACCOUNTING")
	}
	pids, err := proc.ListPIDs(nil)
	if err != nil {
		return err
	}
	if len(pids) > 0 && pids[0] != 1 {
		return &measure.Denied{Doing: "see processes of other users",
			Needs: "/proc mounted without hidepid"}
	}
	me := uint32(os.Geteuid())
	for _, pid := range pids {
		var st unix.Stat_t
		if unix.Stat(r.InProc(fmt.Sprint(pid)), &st) != nil || st.Uid == me {
			continue
		}
		switch _, err := proc.ReadPIDOne(pid, "io", nil); {
		case err == nil:
			return nil
		case errors.Is(err, measure.ErrDenied):
			return kernel.Unreadable(fmt.Sprintf("read io of process %d", pid))
		}
	}
	// Nobody else is here: what would be asked is whether the capability is there
	// (ptrace_may_access).
	if c, err := r.Capabilities(); err != nil {
		return err
	} else if !c.Has(unix.CAP_SYS_PTRACE) {
		return kernel.Refused("look into processes of other users", "", unix.CAP_SYS_PTRACE)
	}
	return nil
}

func tryKallsyms(r kernel.Root) error {
	f, err := os.Open(r.InProc("kallsyms"))
	if err != nil {
		return readable(kernel.AsError(err), "compiled without CONFIG_KALLSYMS")
	}
	defer f.Close()
	var page [4096]byte // the first symbols are enough: all addresses are hidden or none
	n, err := f.Read(page[:])
	if err != nil && !errors.Is(err, io.EOF) {
		return kernel.AsError(err)
	}
	for c := proc.Scan(page[:n]); !c.End(); c.NextLine() {
		if c.Hex() != 0 {
			return nil
		}
	}
	if n == 0 {
		return fmt.Errorf("/proc/kallsyms is empty: %w", measure.ErrUnsupported)
	}
	const doing = "read addresses in /proc/kallsyms"
	or, v := "", sysctl(r, "kernel/kptr_restrict")
	switch {
	case v != nil && *v > 1: // then not even who holds the capability may
		return &measure.Denied{Doing: doing,
			Needs: fmt.Sprintf("kernel.kptr_restrict below 2 (is %d)", *v)}
	case v != nil:
		or = fmt.Sprintf("kernel.kptr_restrict 0 (is %d) and kernel.perf_event_paranoid below 2",
			*v)
	}
	have, err := r.Capabilities()
	if err != nil {
		have = 0
	}
	return have.Refused(doing, or, unix.CAP_SYSLOG)
}

func tryCgroups(r kernel.Root, v2 bool) error {
	mounts, err := proc.Cgroups(r)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if m.V2 == v2 && (v2 || len(m.Controllers) > 0) {
			return nil
		}
	}
	return fmt.Errorf("not mounted: %w", measure.ErrUnsupported)
}

func tryFamily(name string) error {
	c, err := netlink.Dial(unix.NETLINK_GENERIC, netlink.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Family(name)
	return err
}

func tryTaskstats() error {
	c, err := netlink.Dial(unix.NETLINK_GENERIC, netlink.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	family, err := c.Family("TASKSTATS")
	if err != nil {
		return err
	}
	var q netlink.Request
	q.BeginGeneric(family, unix.TASKSTATS_CMD_GET, 0)
	q.AttrUint32(unix.TASKSTATS_CMD_ATTR_PID, uint32(os.Getpid()))
	return c.Get(&q, nil)
}

func tryInetDiag() error {
	c, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, netlink.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	var q netlink.Request
	q.Begin(unix.SOCK_DIAG_BY_FAMILY, 0)
	h := q.Extend(56) // struct inet_diag_req_v2; no state asked for, so that no table is walked
	h[0], h[1] = unix.AF_INET, unix.IPPROTO_TCP
	return c.Dump(&q, nil)
}

func tryPerf(r kernel.Root) error {
	cpus, err := proc.OnlineCPUs(r)
	if err != nil {
		return err
	}
	if len(cpus) == 0 {
		return fmt.Errorf("no CPU is online: %w", measure.ErrUnclear)
	}
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Bits: unix.PerfBitDisabled}
	attr.Size = unix.PERF_ATTR_SIZE_VER0
	fd, err := unix.PerfEventOpen(&attr, -1, int(cpus[0]), -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err == nil {
		unix.Close(fd)
		return nil
	}
	err = kernel.AsError(err)
	if errors.Is(err, measure.ErrDenied) {
		or := ""
		if v := sysctl(r, "kernel/perf_event_paranoid"); v != nil {
			or = fmt.Sprintf("kernel.perf_event_paranoid below 1 (is %d)", *v)
		}
		return kernel.Refused("open perf events of a CPU", or, unix.CAP_PERFMON)
	}
	return readable(err, "compiled without CONFIG_PERF_EVENTS")
}

// sysctl reads a number of /proc/sys; nil where it can't be read.
func sysctl(r kernel.Root, name string) *int {
	b, err := proc.ReadProc(r, "sys/"+name, nil)
	if err != nil {
		return nil
	}
	c := proc.Scan(b)
	v := int(c.Int())
	if c.Err() != nil {
		return nil
	}
	return &v
}
