package kernel

import (
	"debug/elf"
	"fmt"

	"culprit/measure"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
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
			return AttachTimer(p, cpus[0], 3600*measure.Second, cookie)
		})
	case Kprobe, Kretprobe:
		return r.tryProgram(idle(ebpf.Kprobe), func(p *ebpf.Program) (*Link, error) {
			return r.AttachKprobe(p, FunctionProbe{Function: quietFunction, Return: f == Kretprobe})
		})
	case KprobeMulti:
		return r.probe(features.HaveBPFLinkKprobeMulti)
	case KprobeSession:
		return r.probe(features.HaveBPFLinkKprobeSession)
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
			return AttachUprobe(p, UserProbe{Path: path, Offset: offset})
		})
	case UprobeMulti:
		return r.probe(features.HaveBPFLinkUprobeMulti)
	case ProgramRun:
		return r.tryProgram(idle(ebpf.RawTracepoint), func(p *ebpf.Program) (*Link, error) {
			_, err := p.Run(&ebpf.RunOptions{Context: make([]byte, 96)})
			return nil, err
		})
	case RingBuffer:
		return r.probe(func() error { return features.HaveMapType(ebpf.RingBuf) })
	case MapInMap:
		return r.probe(func() error { return features.HaveMapType(ebpf.ArrayOfMaps) })
	case TaskStorage:
		return r.probe(func() error {
			if err := features.HaveMapType(ebpf.TaskStorage); err != nil {
				return err
			}
			return features.HaveProgramHelper(ebpf.RawTracepoint, asm.FnTaskStorageGet)
		})
	case BPFLoop:
		return r.tryProgram(loops(), nil)
	case BPFStacks:
		return r.probe(func() error {
			return features.HaveProgramHelper(ebpf.RawTracepoint, asm.FnGetStack)
		})
	case BPFStatistics:
		return r.Classify(enableStats())
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
			return r.Classify(err)
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

// tryProgram loads a program, and attaches it unless attach is nil.
func (r Root) tryProgram(spec *ebpf.ProgramSpec, attach func(*ebpf.Program) (*Link, error)) error {
	prog, err := NewProgram(spec)
	if err != nil {
		return r.Classify(fmt.Errorf("load: %w", err))
	}
	defer prog.Close()
	if attach == nil {
		return nil
	}
	link, err := attach(prog)
	if err != nil {
		return r.Classify(fmt.Errorf("attach: %w", err))
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
		return r.Classify(err)
	}
	return m.Close()
}

// probe asks cilium/ebpf's features for one. It remembers that a feature is there or is not, and asks
// again after any other error.
func (r Root) probe(have func() error) error { return r.Classify(r.Locking(have)) }

// enableStats lets the kernel count what BPF programs cost, for as long as the descriptor is open: here for a moment.
func enableStats() error {
	closer, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		return err
	}
	return closer.Close()
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
