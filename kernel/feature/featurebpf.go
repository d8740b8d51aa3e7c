package feature

import (
	"debug/elf"
	"fmt"

	"culprit/kernel"
	"culprit/kernel/bpf"
	"culprit/kernel/proc"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// tryBPF loads, attaches or makes the smallest object that needs the feature, and removes it.
func (f Feature) tryBPF(r kernel.Root) error {
	switch f {
	case RawTracepoints:
		return tryProgram(r, idle(ebpf.RawTracepoint), func(p *ebpf.Program) (*bpf.Link, error) {
			return bpf.AttachRawTracepoint(p, quietTracepoint, 0)
		})
	case TypedTracepoints:
		spec := idle(ebpf.Tracing)
		spec.AttachType, spec.AttachTo = ebpf.AttachTraceRawTp, quietTracepoint
		return tryProgram(r, spec, bpf.AttachTracing)
	case TracepointCookies:
		return tryProgram(r, idle(ebpf.RawTracepoint), func(p *ebpf.Program) (*bpf.Link, error) {
			return bpf.AttachRawTracepoint(p, quietTracepoint, 1)
		})
	case PerfPrograms, EventCookies:
		return tryProgram(r, idle(ebpf.PerfEvent), func(p *ebpf.Program) (*bpf.Link, error) {
			cpus, err := proc.OnlineCPUs(r)
			if err != nil || len(cpus) == 0 {
				return nil, fmt.Errorf("no CPU is online: %w", measure.ErrUnclear)
			}
			cookie := uint64(0)
			if f == EventCookies {
				cookie = 1
			}
			return bpf.AttachTimer(p, cpus[0], 3600*measure.Second, cookie)
		})
	case Kprobe, Kretprobe:
		return tryProgram(r, idle(ebpf.Kprobe), func(p *ebpf.Program) (*bpf.Link, error) {
			return bpf.AttachKprobe(r, p, bpf.FunctionProbe{Function: quietFunction,
				Return: f == Kretprobe})
		})
	case KprobeMulti:
		return probe(r, features.HaveBPFLinkKprobeMulti)
	case KprobeSession:
		return probe(r, features.HaveBPFLinkKprobeSession)
	case Fentry, Fexit:
		spec := idle(ebpf.Tracing)
		spec.AttachType, spec.AttachTo = ebpf.AttachTraceFEntry, quietFunction
		if f == Fexit {
			spec.AttachType = ebpf.AttachTraceFExit
		}
		return tryProgram(r, spec, bpf.AttachTracing)
	case Uprobe:
		path, offset, err := ownCode()
		if err != nil {
			return err
		}
		return tryProgram(r, idle(ebpf.Kprobe), func(p *ebpf.Program) (*bpf.Link, error) {
			return bpf.AttachUprobe(p, bpf.UserProbe{Path: path, Offset: offset})
		})
	case UprobeMulti:
		return probe(r, features.HaveBPFLinkUprobeMulti)
	case ProgramRun:
		return tryProgram(r, idle(ebpf.RawTracepoint), func(p *ebpf.Program) (*bpf.Link, error) {
			_, err := p.Run(&ebpf.RunOptions{Context: make([]byte, 96)})
			return nil, err
		})
	case RingBuffer:
		return probe(r, func() error { return features.HaveMapType(ebpf.RingBuf) })
	case MapInMap:
		return probe(r, func() error { return features.HaveMapType(ebpf.ArrayOfMaps) })
	case TaskStorage:
		return probe(r, func() error {
			if err := features.HaveMapType(ebpf.TaskStorage); err != nil {
				return err
			}
			return features.HaveProgramHelper(ebpf.RawTracepoint, asm.FnTaskStorageGet)
		})
	case BPFLoop:
		return tryProgram(r, loops(), nil)
	case BPFStacks:
		return probe(r, func() error {
			return features.HaveProgramHelper(ebpf.RawTracepoint, asm.FnGetStack)
		})
	case BPFStatistics:
		return bpf.Classify(r, enableStats())
	}
	return f.tryScript(r)
}

// tryScript tries what programs of scripts use apart from attach methods.
func (f Feature) tryScript(r kernel.Root) error {
	switch f {
	case LongKeys:
		// beyond MAX_BPF_STACK
		return tryMap(r, &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 520, ValueSize: 8, MaxEntries: 1})
	case CurrentTask:
		return tryCode(r, ebpf.RawTracepoint, asm.FnGetCurrentTaskBtf.Call(),
			asm.LoadMem(asm.R0, asm.R0, 16, asm.Word))
	case AtomicFetch:
		add := asm.FetchAdd.Mem(asm.R10, asm.R1, asm.DWord, -8)
		add.Constant = int64(asm.FetchAdd >> 8) // which cilium/ebpf v0.22 leaves out
		return tryCode(r, ebpf.RawTracepoint, asm.Mov.Imm(asm.R1, 1),
			asm.StoreMem(asm.R10, -8, asm.R1, asm.DWord), add)
	case TaskRegisters:
		return tryCode(r, ebpf.PerfEvent, asm.FnGetCurrentTaskBtf.Call(),
			asm.Mov.Reg(asm.R1, asm.R0), asm.FnTaskPtRegs.Call(),
			asm.LoadMem(asm.R0, asm.R0, 8*16, asm.DWord))
	case HashOnDemand:
		m, err := bpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 8, MaxEntries: 1,
			Flags: unix.BPF_F_NO_PREALLOC})
		if err != nil {
			return bpf.Classify(r, err)
		}
		defer m.Close()
		return tryCode(r, ebpf.PerfEvent, asm.LoadMapPtr(asm.R1, m.FD()))
	case SyscallPrograms:
		m, err := bpf.NewMemory()
		m.Close()
		return err
	case SymbolLookup:
		n, err := bpf.NewNamer()
		n.Close()
		return err
	case TaskWalk:
		t, err := bpf.OpenTasks(r)
		if err == nil {
			t.Close()
		}
		return err
	case SocketWalk:
		c, err := bpf.OpenConnections(r)
		if err == nil {
			c.Close()
		}
		return err
	}
	return fmt.Errorf("no such feature: %w", measure.ErrUnclear)
}

// What is attached to for a moment: a tracepoint and a function that every kernel has, and that
// fire seldom. A program there does nothing.
const (
	quietTracepoint = "sched_process_exec"
	quietFunction   = "vfs_fallocate"
)

// idle returns a program that does nothing.
func idle(t ebpf.ProgramType) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{Type: t, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}}
}

// loops returns a program that calls bpf_loop with a function that does nothing.
func loops() *ebpf.ProgramSpec {
	none := &btf.FuncProto{Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}}
	spec := idle(ebpf.RawTracepoint)
	spec.Instructions = asm.Instructions{
		btf.WithFuncMetadata(asm.Mov.Imm(asm.R1, 1).WithSymbol("main"),
			&btf.Func{Name: "main", Type: none, Linkage: btf.GlobalFunc}),
		asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R2, Src: asm.PseudoFunc,
			Constant: -1}.WithReference("body"),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnLoop.Call(),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
		btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, 0).WithSymbol("body"),
			&btf.Func{Name: "body", Type: none, Linkage: btf.StaticFunc}),
		asm.Return(),
	}
	return spec
}

// tryProgram loads a program, and attaches it unless attach is nil.
func tryProgram(r kernel.Root, spec *ebpf.ProgramSpec,
	attach func(*ebpf.Program) (*bpf.Link, error)) error {
	prog, err := bpf.NewProgram(spec)
	if err != nil {
		return bpf.Classify(r, fmt.Errorf("load: %w", err))
	}
	defer prog.Close()
	if attach == nil {
		return nil
	}
	link, err := attach(prog)
	if err != nil {
		return bpf.Classify(r, fmt.Errorf("attach: %w", err))
	}
	return link.Close()
}

// tryCode loads a program of the instructions that returns 0.
func tryCode(r kernel.Root, t ebpf.ProgramType, ins ...asm.Instruction) error {
	spec := idle(t)
	spec.Instructions = append(asm.Instructions(ins), spec.Instructions...)
	return tryProgram(r, spec, nil)
}

func tryMap(r kernel.Root, spec *ebpf.MapSpec) error {
	m, err := bpf.NewMap(spec)
	if err != nil {
		return bpf.Classify(r, err)
	}
	return m.Close()
}

// probe asks cilium/ebpf's features for one. It remembers that a feature is there or is not, and
// asks again after any other error.
func probe(r kernel.Root, have func() error) error { return bpf.Classify(r, bpf.Locking(r, have)) }

// enableStats makes the kernel count the run time of BPF programs for a moment.
func enableStats() error {
	closer, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		return err
	}
	return closer.Close()
}

// ownCode returns the file and offset of an instruction that runs only once: this program's first.
func ownCode() (path string, offset uint64, err error) {
	path = "/proc/self/exe"
	f, err := elf.Open(path)
	if err != nil {
		return "", 0, fmt.Errorf("%w: %w", measure.ErrUnclear, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Vaddr <= f.Entry &&
			f.Entry < p.Vaddr+p.Filesz {
			return path, f.Entry - p.Vaddr + p.Off, nil
		}
	}
	return "", 0, fmt.Errorf("this program has no first instruction: %w", measure.ErrUnclear)
}
