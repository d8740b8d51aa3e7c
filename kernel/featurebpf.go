package kernel

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"unsafe"

	"culprit/measure"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// tryBPF loads, attaches or makes the smallest thing that needs the feature, and takes it away again.
func (f Feature) tryBPF(r Root) error {
	switch f {
	case RawTracepoints:
		return r.tryProgram(idle(ebpf.RawTracepoint), func(p *ebpf.Program) (*Link, error) {
			return AttachRawTracepoint(p, quietTracepoint, 0)
		})
	case TypedTracepoints:
		spec := idle(ebpf.Tracing)
		spec.AttachType, spec.AttachTo = ebpf.AttachTraceRawTp, quietTracepoint
		return r.tryProgram(spec, AttachTracing)
	case TracepointCookies:
		return r.tryProgram(idle(ebpf.RawTracepoint), func(p *ebpf.Program) (*Link, error) {
			return AttachRawTracepoint(p, quietTracepoint, 1)
		})
	case PerfPrograms, EventCookies:
		return r.tryProgram(idle(ebpf.PerfEvent), func(p *ebpf.Program) (*Link, error) {
			cpus, err := r.OnlineCPUs()
			if err != nil || len(cpus) == 0 {
				return nil, fmt.Errorf("no CPU is online: %w", measure.ErrUnclear)
			}
			cookie := uint64(0)
			if f == EventCookies {
				cookie = 1
			}
			return attachEvent(p, timerEvent(3600e9), -1, int(cpus[0]), cookie)
		})
	case Kprobe, Kretprobe:
		return r.tryProgram(idle(ebpf.Kprobe), func(p *ebpf.Program) (*Link, error) {
			return r.AttachKprobe(p, FunctionProbe{Function: quietFunction, Return: f == Kretprobe})
		})
	case KprobeMulti, KprobeSession:
		spec := idle(ebpf.Kprobe)
		spec.AttachType = ebpf.AttachTraceKprobeMulti
		if f == KprobeSession {
			spec.AttachType = ebpf.AttachTraceKprobeSession
		}
		return r.tryProgram(spec, func(p *ebpf.Program) (*Link, error) {
			return AttachKprobeMulti(p, MultiProbe{Functions: []string{quietFunction}, Cookies: []uint64{1}, Session: f == KprobeSession})
		})
	case Fentry, Fexit:
		spec := idle(ebpf.Tracing)
		spec.AttachType, spec.AttachTo = ebpf.AttachTraceFEntry, quietFunction
		if f == Fexit {
			spec.AttachType = ebpf.AttachTraceFExit
		}
		return r.tryProgram(spec, AttachTracing)
	case Uprobe:
		path, offset, err := ownCode()
		if err != nil {
			return err
		}
		return r.tryProgram(idle(ebpf.Kprobe), func(p *ebpf.Program) (*Link, error) {
			return r.AttachUprobe(p, UserProbe{Path: path, Offset: offset})
		})
	case UprobeMulti:
		spec := idle(ebpf.Kprobe)
		spec.AttachType = ebpf.AttachTraceUprobeMulti
		return r.tryProgram(spec, func(p *ebpf.Program) (*Link, error) {
			// To attach and to take off takes the kernel 60 ms, half of the start of a script that asks. A kernel that knows such links
			// looks at the file before all else that may fail, and says that a directory is none.
			link, err := AttachUprobeMulti(p, MultiUserProbe{Path: "/", Offsets: []uint64{0}})
			if errors.Is(err, unix.EBADF) {
				return nil, nil
			}
			if err == nil {
				link.Close() //nolint:errcheck // it was a trial
				err = fmt.Errorf("a directory can be probed: %w", measure.ErrUnclear)
			}
			return nil, err
		})
	case ProgramRun:
		return r.tryProgram(idle(ebpf.RawTracepoint), func(p *ebpf.Program) (*Link, error) {
			_, err := p.Run(&ebpf.RunOptions{Context: make([]byte, 96)})
			return nil, err
		})
	case RingBuffer:
		return r.tryMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: uint32(PageSize())})
	case MapInMap:
		inner := &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}
		return r.tryMap(&ebpf.MapSpec{Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: inner})
	case TaskStorage:
		return r.tryTaskStorage()
	case BPFLoop:
		return r.tryProgram(loops(), nil)
	case BPFStacks:
		return r.tryProgram(takesStack(), nil)
	case BPFStatistics:
		return r.allowed(enableStats())
	}
	return f.tryScript(r)
}

// tryScript tries what programs of scripts use beyond the ways to attach them.
func (f Feature) tryScript(r Root) error {
	switch f {
	case LongKeys:
		return r.tryMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 520, ValueSize: 8, MaxEntries: 1}) // beyond MAX_BPF_STACK
	case CurrentTask:
		return r.tryCode(ebpf.RawTracepoint, asm.FnGetCurrentTaskBtf.Call(), asm.LoadMem(asm.R0, asm.R0, 16, asm.Word))
	case AtomicFetch:
		add := asm.FetchAdd.Mem(asm.R10, asm.R1, asm.DWord, -8)
		add.Constant = int64(asm.FetchAdd >> 8) // which cilium/ebpf v0.22 leaves out
		return r.tryCode(ebpf.RawTracepoint, asm.Mov.Imm(asm.R1, 1), asm.StoreMem(asm.R10, -8, asm.R1, asm.DWord), add)
	case TaskRegisters:
		return r.tryCode(ebpf.PerfEvent, asm.FnGetCurrentTaskBtf.Call(), asm.Mov.Reg(asm.R1, asm.R0), asm.FnTaskPtRegs.Call(),
			asm.LoadMem(asm.R0, asm.R0, 8*16, asm.DWord))
	case HashOnDemand:
		m, err := NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 8, MaxEntries: 1, Flags: unix.BPF_F_NO_PREALLOC})
		if err != nil {
			return r.allowed(err)
		}
		defer m.Close()
		return r.tryCode(ebpf.PerfEvent, asm.LoadMapPtr(asm.R1, m.FD()))
	case SyscallPrograms:
		m, err := NewMemory()
		m.Close()
		return err
	case SymbolLookup:
		n, err := NewNamer()
		n.Close()
		return err
	case TaskWalk:
		t, err := r.OpenTasks()
		if err == nil {
			t.Close()
		}
		return err
	case SocketWalk:
		c, err := r.OpenConnections()
		if err == nil {
			c.Close()
		}
		return err
	}
	return fmt.Errorf("no such feature: %w", measure.ErrUnclear)
}

// What is attached to for a moment: a tracepoint and a function that every kernel has, and that fire seldom. A program there
// does nothing.
const (
	quietTracepoint = "sched_process_exec"
	quietFunction   = "vfs_fallocate"
)

// idle is a program that does nothing.
func idle(t ebpf.ProgramType) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{Type: t, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}}
}

// loops is a program that calls bpf_loop, with a function that does nothing.
func loops() *ebpf.ProgramSpec {
	none := &btf.FuncProto{Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}}
	spec := idle(ebpf.RawTracepoint)
	spec.Instructions = asm.Instructions{
		btf.WithFuncMetadata(asm.Mov.Imm(asm.R1, 1).WithSymbol("main"), &btf.Func{Name: "main", Type: none, Linkage: btf.GlobalFunc}),
		asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R2, Src: asm.PseudoFunc, Constant: -1}.WithReference("body"),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnLoop.Call(),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
		btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, 0).WithSymbol("body"), &btf.Func{Name: "body", Type: none, Linkage: btf.StaticFunc}),
		asm.Return(),
	}
	return spec
}

// takesStack is a program that takes the kernel's stack and the process's.
func takesStack() *ebpf.ProgramSpec {
	spec := idle(ebpf.RawTracepoint)
	spec.Instructions = asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	for _, user := range []int32{0, 1 << 8} { // BPF_F_USER_STACK
		spec.Instructions = append(spec.Instructions,
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -64),
			asm.Mov.Imm(asm.R3, 64),
			asm.Mov.Imm(asm.R4, user),
			asm.FnGetStack.Call())
	}
	spec.Instructions = append(spec.Instructions, asm.Mov.Imm(asm.R0, 0), asm.Return())
	return spec
}

// tryProgram loads a program, and attaches it unless attach is nil.
func (r Root) tryProgram(spec *ebpf.ProgramSpec, attach func(*ebpf.Program) (*Link, error)) error {
	prog, err := NewProgram(spec)
	if err != nil {
		return r.allowed(fmt.Errorf("load: %w", err))
	}
	defer prog.Close()
	if attach == nil {
		return nil
	}
	link, err := attach(prog)
	if err != nil {
		return r.allowed(fmt.Errorf("attach: %w", err))
	}
	return link.Close()
}

// tryCode loads a program of the instructions that returns 0.
func (r Root) tryCode(t ebpf.ProgramType, ins ...asm.Instruction) error {
	spec := idle(t)
	spec.Instructions = append(asm.Instructions(ins), spec.Instructions...)
	return r.tryProgram(spec, nil)
}

func (r Root) tryMap(spec *ebpf.MapSpec) error {
	m, err := NewMap(spec)
	if err != nil {
		return r.allowed(err)
	}
	return m.Close()
}

// tryTaskStorage makes a map that hangs on tasks, and loads a program for raw tracepoints that looks the current one up.
func (r Root) tryTaskStorage() error {
	m, err := NewMap(&ebpf.MapSpec{
		Type: ebpf.TaskStorage, KeySize: 4, ValueSize: 8, Flags: unix.BPF_F_NO_PREALLOC,
		Key: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, Value: &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed},
	})
	if err != nil {
		return r.allowed(err)
	}
	defer m.Close()
	spec := idle(ebpf.RawTracepoint)
	spec.Instructions = asm.Instructions{
		asm.FnGetCurrentTaskBtf.Call(),
		asm.Mov.Reg(asm.R2, asm.R0),
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, 1), // BPF_LOCAL_STORAGE_GET_F_CREATE
		asm.FnTaskStorageGet.Call(),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
	}
	err = r.tryProgram(spec, nil)
	runtime.KeepAlive(m)
	return err
}

// enableStats lets the kernel count what BPF programs cost, for as long as the descriptor is open: here for a moment.
func enableStats() error {
	closer, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		return err
	}
	return closer.Close()
}

// allowed turns what the kernel said of something of BPF into the three answers. EPERM for one who has the rights means that this
// kernel forbids it to everybody; "invalid" and "too big" are what a kernel says that has never heard of it.
func (r Root) allowed(err error) error {
	if limit, ok := errors.AsType[*MemoryLimit](err); ok {
		return limit
	}
	switch {
	case err == nil, errors.Is(err, measure.ErrUnsupported), errors.Is(err, measure.ErrUnclear):
		return err
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		have, lookErr := r.Capabilities()
		if lookErr == nil && !have.mayBPF() {
			return refused(have, "use BPF", "root", []int{unix.CAP_BPF, unix.CAP_PERFMON})
		}
		if _, known := errors.AsType[*ebpf.VerifierError](err); known && errors.Is(err, unix.EACCES) {
			return fmt.Errorf("%s: %w", unwrapped(err), measure.ErrUnsupported)
		}
		if r.filtered() {
			return &measure.Denied{Doing: "use BPF", Needs: "bpf(2) and perf_event_open(2), which a filter of system calls keeps from this process (a container's, or SystemCallFilter= of a unit)"}
		}
		return fmt.Errorf("forbidden by this kernel, also to who has the right: %w", measure.ErrUnsupported)
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL), errors.Is(err, unix.E2BIG), errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESRCH),
		errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS), errors.Is(err, fs.ErrNotExist), errors.Is(err, btf.ErrNotFound), errors.Is(err, unix.Errno(524)):
		return fmt.Errorf("%s: %w", unwrapped(err), measure.ErrUnsupported)
	}
	return err
}

// unwrapped gives what the kernel said, without what a library put before it.
func unwrapped(err error) error {
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return e
	}
	return err
}

// ownCode gives a place in this program that is executed once, before all else: its first instruction.
func ownCode() (path string, offset uint64, err error) {
	path = "/proc/self/exe"
	f, err := elf.Open(path)
	if err != nil {
		return "", 0, fmt.Errorf("%w: %w", measure.ErrUnclear, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Vaddr <= f.Entry && f.Entry < p.Vaddr+p.Filesz {
			return path, f.Entry - p.Vaddr + p.Off, nil
		}
	}
	return "", 0, fmt.Errorf("this program has no first instruction: %w", measure.ErrUnclear)
}

// A MultiUserProbe is many places of a program or library that one program is attached to in one go (uprobe.multi, Linux 6.6).
type MultiUserProbe struct {
	Path       string
	Offsets    []uint64 // in the file
	Semaphores []uint64 // see UserProbe; nil: none
	Cookies    []uint64 // nil: none
	Return     bool
	PID        int // only this process; 0: all
}

// AttachUprobeMulti attaches a program to all of the places, or to none.
func AttachUprobeMulti(prog *ebpf.Program, m MultiUserProbe) (*Link, error) {
	if len(m.Offsets) == 0 || m.Semaphores != nil && len(m.Semaphores) != len(m.Offsets) || m.Cookies != nil && len(m.Cookies) != len(m.Offsets) {
		return nil, fmt.Errorf("%d places, %d semaphores, %d cookies: %w", len(m.Offsets), len(m.Semaphores), len(m.Cookies), fs.ErrInvalid)
	}
	// The part of union bpf_attr for BPF_LINK_CREATE.
	var attr struct {
		prog, target, kind, flags          uint32
		path, offsets, semaphores, cookies uint64
		count, multiFlags, pid             uint32
		_                                  uint32
	}
	var keep keeper
	defer keep.Unpin()
	var err error
	if attr.path, err = keep.text(m.Path); err != nil {
		return nil, err
	}
	attr.prog, attr.kind = uint32(prog.FD()), unix.BPF_TRACE_UPROBE_MULTI
	attr.count, attr.pid = uint32(len(m.Offsets)), uint32(m.PID)
	attr.offsets = keep.at(unsafe.Pointer(&m.Offsets[0]))
	if m.Semaphores != nil {
		attr.semaphores = keep.at(unsafe.Pointer(&m.Semaphores[0]))
	}
	if m.Cookies != nil {
		attr.cookies = keep.at(unsafe.Pointer(&m.Cookies[0]))
	}
	if m.Return {
		attr.multiFlags = unix.BPF_F_UPROBE_MULTI_RETURN
	}
	fd, err := bpf(unix.BPF_LINK_CREATE, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	runtime.KeepAlive(prog)
	if err != nil {
		return nil, err
	}
	return &Link{fd: fd}, nil
}
