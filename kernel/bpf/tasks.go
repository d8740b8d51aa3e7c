package bpf

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Tasks reads counters of all threads of this PID namespace by a BPF task iterator, which writes a
// record for each. It takes 0.3 us per thread; reading an open /proc/PID/schedstat takes 2 to 5 us.
// It holds file descriptors only, so nothing remains when the process ends.
type Tasks struct {
	prog *ebpf.Program
	link *link.Iter
	rss  bool
	buf  []byte
	task Task // the argument of Each's callback
}

// A Task is one thread at that moment. Run, Wait and Count are those of
// /proc/PID/task/TID/schedstat. State, Parent, Cgroups and Resident are only for comparison: while
// they are equal, the state, parent, control groups and resident size in /proc/PID/stat are
// unchanged.
type Task struct {
	PID, TID int32  // in this PID namespace
	Run      uint64 // nanoseconds on a CPU
	Wait     uint64 // nanoseconds ready and waiting for a CPU
	Count    uint64 // times put on a CPU
	State    uint64 // the kernel's state; not the letter
	Parent   uint64 // address of its parent; not the pid
	Cgroups  uint64 // address of its set of control groups
	Resident uint64 // changes with each counter of resident pages; not their number
	Net      uint64 // inode of its network namespace, as in /proc/PID/ns/net; 0: it has ended
}

// A record is a Task, in the machine's byte order:
//
//	0     4     8     16     24      32      40       48        56         64    72
//	| pid | tid | run | wait | count | state | parent | cgroups | resident | net |
const taskRecord = 72

var _ [taskRecord]byte = [unsafe.Sizeof(Task{})]byte{}

// OpenTasks loads the program and tries it. The caller closes the Tasks. It reads the kernel's
// types: 20 ms and, until the garbage is collected, some MB.
//
// Requires Linux 5.8 with BTF (5.11 in a PID namespace below the first), CAP_BPF and CAP_PERFMON.
// errors.Is measure.ErrUnsupported or measure.ErrDenied.
func OpenTasks(r kernel.Root) (*Tasks, error) {
	if !r.Real() {
		return nil, fmt.Errorf("captured files have no tasks: %w", measure.ErrUnsupported)
	}
	types := NewTypes(r)
	at, err := taskOffsets(types)
	if err != nil {
		return nil, err
	}
	// The inode of the first PID namespace: PROC_PID_INIT_INO.
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", measure.ErrUnclear, err)
	}
	spec := &ebpf.ProgramSpec{Name: "culprit_tasks", Type: ebpf.Tracing,
		AttachType: ebpf.AttachTraceIter, AttachTo: "task", License: "GPL",
		Instructions: at.program(space == "pid:[4026531836]")}
	prog, err := NewProgram(spec)
	if err != nil {
		return nil, Classify(r, fmt.Errorf("load: %w", err))
	}
	link, err := iterator(prog, nil)
	if err != nil {
		prog.Close()
		return nil, Classify(r, err)
	}
	t := &Tasks{prog: prog, link: link, rss: len(at.rss) > 0, buf: make([]byte, 32<<10)}
	if err := t.try(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// try looks for the calling thread, whose numbers are known.
func (t *Tasks) try() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, tid := int32(os.Getpid()), int32(unix.Gettid())
	own, err := proc.NamespaceInode("/proc/thread-self/ns/net")
	if err != nil {
		return fmt.Errorf("%w: %w", measure.ErrUnclear, err)
	}
	found := false
	err = t.Each(func(k *Task) {
		found = found || k.PID == pid && k.TID == tid && k.Run > 0 && k.Count > 0 &&
			k.Parent != 0 && k.Cgroups != 0 && k.Net == own
	})
	if err == nil && !found {
		err = fmt.Errorf("the kernel's list of tasks is not as expected: %w",
			measure.ErrUnsupported)
	}
	return err
}

// Resident reports whether Task.Resident is set; some kernels count resident pages differently.
func (t *Tasks) Resident() bool { return t.rss }

// Close unloads the program. A second Close does nothing.
func (t *Tasks) Close() {
	if t == nil || t.prog == nil {
		return
	}
	t.link.Close()
	t.prog.Close()
	t.prog = nil
}

// Each calls f with each thread in ascending order of TID, including zombies. The Task is valid
// during the call only. A thread that starts or ends meanwhile may be missing. The error is the
// iterator's.
func (t *Tasks) Each(f func(*Task)) error {
	return readIterator(t.link, "walk the kernel's tasks", t.buf, func(b []byte) ([]byte, error) {
		for ; len(b) >= taskRecord; b = b[taskRecord:] {
			copy((*[taskRecord]byte)(unsafe.Pointer(&t.task))[:], b)
			f(&t.task)
		}
		return b, nil
	})
}

// offsets are the byte offsets of the members of kernel structs that the program reads.
type offsets struct {
	// task_struct
	pid, tgid, run, wait, count, state, exit, parent, cgroups, mm, thread, signal, proxy int16
	stateSize                                                                            asm.Size
	// signal_struct: pids[PIDTYPE_TGID]
	pids int16
	// pid
	level, numbers int16
	// size of upid, and nr in it
	upid, nr int16
	// nsproxy: net_ns; net: ns.inum
	net, inode int16
	// mm_struct: the counters
	rss []int16
	// they are 8 bytes each, one behind the other
	plain bool
}

// taskOffsets finds the offsets in the kernel's types.
func taskOffsets(types *Types) (*offsets, error) {
	spec, err := types.Kernel()
	if err != nil {
		return nil, err
	}
	w := &structWalk{spec: spec}
	task := w.named("task_struct")
	o := &offsets{pid: w.at(task, "pid"), tgid: w.at(task, "tgid"),
		run: w.at(task, "se", "sum_exec_runtime"), wait: w.at(task, "sched_info", "run_delay"),
		count: w.at(task, "sched_info", "pcount"), exit: w.at(task, "exit_state"),
		parent: w.at(task, "real_parent"), cgroups: w.at(task, "cgroups"),
		mm: w.at(task, "mm"), thread: w.at(task, "thread_pid"), signal: w.at(task, "signal"),
		proxy: w.at(task, "nsproxy"),
		net:   w.at(w.named("nsproxy"), "net_ns"), inode: w.at(w.named("net"), "ns", "inum")}
	o.stateSize = asm.Word
	if w.has(task, "__state") { // since 5.14
		o.state = w.at(task, "__state")
	} else {
		o.state, o.stateSize = w.at(task, "state"), asm.DWord // a long
	}
	pid, upid := w.named("pid"), w.named("upid")
	o.pids = w.at(w.named("signal_struct"), "pids") + 8 // PIDTYPE_TGID is 1, since 4.19
	o.level, o.numbers, o.nr = w.at(pid, "level"), w.at(pid, "numbers"), w.at(upid, "nr")
	if upid != nil {
		o.upid = int16(upid.Size)
	}
	if w.err != nil {
		return nil, w.err
	}
	o.rss, o.plain = w.residents()
	return o, nil
}

// structWalk looks up members; the first that there isn't is kept in err.
type structWalk struct {
	spec *btf.Spec
	err  error
}

func (w *structWalk) named(name string) *btf.Struct {
	var s *btf.Struct
	if err := w.spec.TypeByName(name, &s); err != nil && w.err == nil {
		w.err = fmt.Errorf("struct %s of this kernel: %w: %w", name, err, measure.ErrUnsupported)
	}
	return s
}

func (w *structWalk) has(s *btf.Struct, member string) bool {
	_, _, ok := memberOf(s, member)
	return ok
}

// at returns the offset of a member, or of a member within it.
func (w *structWalk) at(s *btf.Struct, path ...string) (off int16) {
	var in btf.Type = s
	for _, name := range path {
		at, typ, ok := memberOf(in, name)
		if !ok || int(off)+at > 1<<15-1 {
			if w.err == nil {
				w.err = fmt.Errorf("this kernel's structs have no %s: %w", name,
					measure.ErrUnsupported)
			}
			return 0
		}
		off, in = off+int16(at), typ
	}
	return off
}

// residents returns the offsets of the page counters in mm_struct: of file, anon, swap and shmem.
// They are struct percpu_counter (since 6.2) or atomic_long_t (plain); none if they are neither.
func (w *structWalk) residents() (all []int16, plain bool) {
	var mm *btf.Struct
	if w.spec.TypeByName("mm_struct", &mm) != nil {
		return nil, false
	}
	at, typ, ok := memberOf(mm, "rss_stat")
	// struct mm_rss_stat { atomic_long_t count[] }
	if s, is := btf.UnderlyingType(typ).(*btf.Struct); ok && is {
		var in int
		in, typ, ok = memberOf(s, "count")
		at += in
	}
	if !ok {
		return nil, false
	}
	array, is := btf.UnderlyingType(typ).(*btf.Array)
	if !is || array.Nelems != 4 {
		return nil, false
	}
	size, err := btf.Sizeof(array.Type)
	if err != nil {
		return nil, false
	}
	in := 0
	if _, _, per := memberOf(array.Type, "counters"); per { // struct percpu_counter
		var ok bool
		if in, _, ok = memberOf(array.Type, "count"); !ok {
			return nil, false
		}
	} else if size != 8 {
		return nil, false
	}
	plain = in == 0 && size == 8
	for i := range 4 {
		off := at + i*size + in
		if off > 1<<15-1 {
			return nil, false
		}
		all = append(all, int16(off))
	}
	return all, plain
}

// memberOf returns the offset and type of a member, also of one in an unnamed struct or union.
func memberOf(t btf.Type, name string) (at int, typ btf.Type, ok bool) {
	var members []btf.Member
	switch s := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		if s == nil {
			return 0, nil, false
		}
		members = s.Members
	case *btf.Union:
		members = s.Members
	}
	for _, m := range members {
		if m.Name == name {
			return int(m.Offset.Bytes()), m.Type, m.BitfieldSize == 0
		}
		if m.Name == "" {
			if in, typ, ok := memberOf(m.Type, name); ok {
				return int(m.Offset.Bytes()) + in, typ, true
			}
		}
	}
	return 0, nil, false
}

// program writes a record for the task of each step. first: this is the first PID namespace, whose
// numbers stand in the task itself.
//
//	r6 the context, r7 the task, r8 how far into pid.numbers this namespace's are
func (o *offsets) program(first bool) asm.Instructions {
	const rec = -taskRecord
	p := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, 8, asm.DWord), // struct bpf_iter__task { meta, task }
		asm.JEq.Imm(asm.R7, 0, "end"),
	}
	if first {
		p = append(p,
			asm.LoadMem(asm.R1, asm.R7, o.tgid, asm.Word),
			asm.StoreMem(asm.RFP, rec, asm.R1, asm.Word),
			asm.LoadMem(asm.R1, asm.R7, o.pid, asm.Word),
			asm.StoreMem(asm.RFP, rec+4, asm.R1, asm.Word))
	} else {
		number := func(at int16) asm.Instructions { // of the struct pid in r3, to the record
			return asm.Instructions{
				asm.Add.Imm(asm.R3, int32(o.numbers+o.nr)),
				asm.Add.Reg(asm.R3, asm.R8),
				asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(at)),
				asm.Mov.Imm(asm.R2, 4),
				asm.FnProbeReadKernel.Call(),
				asm.JNE.Imm(asm.R0, 0, "end"),
			}
		}
		p = append(p,
			asm.FnGetCurrentTaskBtf.Call(),
			asm.LoadMem(asm.R1, asm.R0, o.thread, asm.DWord),
			asm.LoadMem(asm.R8, asm.R1, o.level, asm.Word),
			asm.Mul.Imm(asm.R8, int32(o.upid)),
			asm.LoadMem(asm.R3, asm.R7, o.signal, asm.DWord),
			asm.LoadMem(asm.R3, asm.R3, o.pids, asm.DWord))
		p = append(p, number(rec)...)
		p = append(p, asm.LoadMem(asm.R3, asm.R7, o.thread, asm.DWord))
		p = append(p, number(rec+4)...)
	}
	for _, c := range [...]struct{ at, from int16 }{{rec + 8, o.run}, {rec + 16, o.wait},
		{rec + 24, o.count}, {rec + 40, o.parent}, {rec + 48, o.cgroups}} {
		p = append(p, asm.LoadMem(asm.R1, asm.R7, c.from, asm.DWord),
			asm.StoreMem(asm.RFP, c.at, asm.R1, asm.DWord))
	}
	p = append(p,
		asm.LoadMem(asm.R1, asm.R7, o.state, o.stateSize),
		asm.LoadMem(asm.R2, asm.R7, o.exit, asm.Word),
		asm.LSh.Imm(asm.R2, 32),
		asm.Xor.Reg(asm.R1, asm.R2),
		asm.StoreMem(asm.RFP, rec+32, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R1, 0))
	if len(o.rss) > 0 {
		p = append(p,
			asm.LoadMem(asm.R2, asm.R7, o.mm, asm.DWord),
			asm.JEq.Imm(asm.R2, 0, "resident")) // a thread of the kernel, or one that has ended
		base, at := asm.R2, o.rss
		// before 6.2 verifiers don't walk into a typedef: they are read to the stack, below the
		// record
		if o.plain {
			const below = rec - 32
			p = append(p,
				asm.Mov.Reg(asm.R3, asm.R2), asm.Add.Imm(asm.R3, int32(o.rss[0])),
				asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, below),
				asm.Mov.Imm(asm.R2, 32),
				asm.FnProbeReadKernel.Call(),
				asm.JNE.Imm(asm.R0, 0, "end"),
				asm.Mov.Imm(asm.R1, 0))
			base, at = asm.RFP, []int16{below, below + 8, below + 16, below + 24}
		}
		for _, from := range at {
			p = append(p,
				asm.LoadMem(asm.R3, base, from, asm.DWord),
				asm.Mul.Imm(asm.R1, 1_000_003),
				asm.Add.Reg(asm.R1, asm.R3))
		}
	}
	return append(p,
		asm.StoreMem(asm.RFP, rec+56, asm.R1, asm.DWord).WithSymbol("resident"),
		// NULL in one that has ended: what is read by way of it is 0
		asm.LoadMem(asm.R1, asm.R7, o.proxy, asm.DWord),
		asm.LoadMem(asm.R1, asm.R1, o.net, asm.DWord),
		asm.LoadMem(asm.R1, asm.R1, o.inode, asm.Word),
		asm.StoreMem(asm.RFP, rec+64, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R6, 0, asm.DWord), // meta
		asm.LoadMem(asm.R1, asm.R1, 0, asm.DWord), // struct bpf_iter_meta { seq }
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, rec),
		asm.Mov.Imm(asm.R3, taskRecord),
		asm.FnSeqWrite.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return())
}
