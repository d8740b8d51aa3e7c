package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"
	"unsafe"

	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// Handlers measures the CPU time of interrupt and softirq handlers per CPU. Programs at the
// tracepoints where handlers begin and end (irq:irq_handler_*, irq:softirq_*, on x86 irq_vectors:*)
// add it up. A softirq's time excludes interrupts that came meanwhile, so no nanosecond counts
// twice. A handler that spans a reading is counted in the later one.
//
// It costs about 0.1 us at the begin of each handler and as much at its end; see Cost. It holds
// file descriptors only, so nothing remains when the process ends.
type Handlers struct {
	state, sums        *ebpf.Map
	mem                []byte   // sums, mapped: changed by the kernel
	last               []uint64 // mem at the previous Read
	cpus, slots, lines int      // possible CPUs; slots of each, and how many of them are lines
	progs              []*ebpf.Program
	links              []*Link
	kinds              [HandlerKinds]bool // attached kinds
	counting           interface{ Close() error }
}

// A HandlerKind is the purpose of an interrupt without a line, by its row of /proc/interrupts.
type HandlerKind int

// The kinds, as x86 has them.
const (
	LOC HandlerKind = iota // local timer
	RES                    // rescheduling
	CAL                    // function calls
	IWI                    // irq_work
	HandlerKinds
)

// String returns the name of the row.
func (k HandlerKind) String() string { return [...]string{"LOC", "RES", "CAL", "IWI"}[k] }

// tracepoints returns the tracepoints NAME_entry and NAME_exit of a kind, by NAME
// (arch/x86/include/asm/trace/irq_vectors.h).
func (k HandlerKind) tracepoints() []string {
	return [...][]string{{"local_timer"}, {"reschedule"}, {"call_function", "call_function_single"},
		{"irq_work"}}[k]
}

// Sums of a CPU, each 64 bits, by slot.
const (
	slotLost  = iota // times of interrupts whose numbers are too high
	slotSoft         // softirqs by number
	slotKind  = slotSoft + softirqs
	slotLine  = slotKind + int(HandlerKinds)
	softirqs  = 16       // NR_SOFTIRQS is 10
	moreLines = 256      // interrupts that may appear later
	mostLines = 16 << 10 // bounds the kernel's memory: 128 kB per CPU
)

// The state of a CPU: 64 bits each, nanoseconds of the monotonic clock.
const (
	stateHard   = 8 * iota // when the handler of an interrupt began; 0: none runs
	stateSoft              // when the softirq began; 0: none runs
	stateStolen            // time of interrupts since then
	stateKind              // its number
	// until when its time is divided by device, without the time of interrupts
	stateMark
	stateDevice // device of the packets since then; 0: none yet
	stateSize
)

// OpenHandlers begins to measure. lines is the highest interrupt number. The caller closes the
// Handlers. Requires CAP_BPF and CAP_PERFMON. errors.Is measure.ErrUnsupported: the kernel lacks
// the tracepoints; measure.ErrDenied.
func OpenHandlers(r kernel.Root, lines int) (*Handlers, error) {
	if !r.Real() {
		return nil, fmt.Errorf("captured files have no interrupts: %w", measure.ErrUnsupported)
	}
	cpus, err := proc.PossibleCPUs(r)
	if err != nil {
		return nil, err
	}
	h := &Handlers{cpus: int(cpus[len(cpus)-1]) + 1, lines: min(lines+1+moreLines, mostLines)}
	h.slots = (slotLine + h.lines + 7) &^ 7 // CPUs share no cache line
	if err := h.open(); err != nil {
		h.Close()
		return nil, Classify(r, err)
	}
	// Run times of programs require CAP_SYS_ADMIN; without it the cost is unknown.
	if c, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME); err == nil {
		h.counting = c
	}
	return h, nil
}

func (h *Handlers) open() (err error) {
	if h.state, err = NewMap(&ebpf.MapSpec{Name: "culprit_irqs", Type: ebpf.PerCPUArray, KeySize: 4,
		ValueSize: stateSize, MaxEntries: 1}); err != nil {
		return fmt.Errorf("make a map: %w", err)
	}
	size := 8 * h.slots * h.cpus
	if h.sums, err = NewMap(&ebpf.MapSpec{Name: "culprit_irqtime", Type: ebpf.Array, KeySize: 4,
		ValueSize: 8, MaxEntries: uint32(size / 8),
		Flags: unix.BPF_F_MMAPABLE}); err != nil {
		return fmt.Errorf("make a map: %w", err)
	}
	if h.mem, err = unix.Mmap(h.sums.FD(), 0, (size+kernel.PageSize()-1)&^(kernel.PageSize()-1),
		unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("look into a map: %w", kernel.AsError(err))
	}
	h.last = make([]uint64, size/8)
	enter, err := h.load("enter", h.enterProgram(stateHard))
	if err != nil {
		return err
	}
	leave, err := h.load("leave", h.leaveProgram(slotLine, h.lines))
	if err != nil {
		return err
	}
	enterSoft, err := h.load("entersoft", h.enterProgram(stateSoft))
	if err != nil {
		return err
	}
	leaveSoft, err := h.load("leavesoft", h.leaveProgram(slotSoft, softirqs))
	if err != nil {
		return err
	}
	// An end without a begin counts nothing, so programs at ends are attached first.
	for _, a := range []struct {
		prog *ebpf.Program
		to   string
	}{{leave, "irq_handler_exit"}, {enter, "irq_handler_entry"}, {leaveSoft, "softirq_exit"},
		{enterSoft, "softirq_entry"}} {
		if err := h.attach(a.prog, a.to); err != nil {
			return err
		}
	}
	for k := range HandlerKinds {
		if err := h.openKind(k, enter); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// openKind attaches to handlers of interrupts without a line. fs.ErrNotExist: this machine has no
// such tracepoint.
func (h *Handlers) openKind(k HandlerKind, enter *ebpf.Program) error {
	leave, err := h.load("leave"+k.String(), h.leaveProgram(slotKind+int(k), 0))
	if err != nil {
		return err
	}
	for _, name := range k.tracepoints() {
		if err := h.attach(leave, name+"_exit"); err != nil {
			return err
		}
		if err := h.attach(enter, name+"_entry"); err != nil {
			return err
		}
	}
	h.kinds[k] = true
	return nil
}

func (h *Handlers) load(name string, p asm.Instructions) (*ebpf.Program, error) {
	prog, err := loadRaw(name, p)
	if err == nil {
		h.progs = append(h.progs, prog)
	}
	return prog, err
}

// loadRaw loads a program of a raw tracepoint.
func loadRaw(name string, p asm.Instructions) (*ebpf.Program, error) {
	prog, err := NewProgram(&ebpf.ProgramSpec{Name: "culprit_" + name, Type: ebpf.RawTracepoint,
		License: "GPL", Instructions: p})
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", name, err)
	}
	return prog, nil
}

func (h *Handlers) attach(prog *ebpf.Program, to string) error {
	l, err := AttachRawTracepoint(prog, to, 0)
	if err != nil {
		return fmt.Errorf("attach to %s: %w", to, err)
	}
	h.links = append(h.links, l)
	return nil
}

// stateOf loads the address of this CPU's state into r7.
func (h *Handlers) stateOf() asm.Instructions {
	return asm.Instructions{
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, h.state.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.Mov.Reg(asm.R7, asm.R0),
	}
}

// enterProgram stores the time at which a handler begins. The tracepoint's first argument is its
// number.
func (h *Handlers) enterProgram(what int16) asm.Instructions {
	p := append(asm.Instructions{asm.LoadMem(asm.R6, asm.R1, 0, asm.DWord)}, h.stateOf()...)
	p = append(p,
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R7, what, asm.R0, asm.DWord))
	if what == stateSoft {
		p = append(p,
			asm.Mov.Imm(asm.R1, 0),
			asm.StoreMem(asm.R7, stateStolen, asm.R1, asm.DWord),
			asm.StoreMem(asm.R7, stateDevice, asm.R1, asm.DWord),
			asm.StoreMem(asm.R7, stateKind, asm.R6, asm.DWord),
			asm.StoreMem(asm.R7, stateMark, asm.R0, asm.DWord))
	}
	return append(p, asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return())
}

// leaveProgram adds the time of a handler that ends to a slot: slot plus the tracepoint's first
// argument, which is below numbers, or slot itself when numbers is 0.
//
//	r6 the slot, of this CPU
//	r7 its state
//	r8 the time
func (h *Handlers) leaveProgram(slot, numbers int) asm.Instructions {
	var p asm.Instructions
	if numbers > 0 {
		p = append(p,
			asm.LoadMem(asm.R6, asm.R1, 0, asm.DWord),
			asm.JLT.Imm(asm.R6, int32(numbers), "known"),
			asm.Mov.Imm(asm.R6, int32(slotLost-slot)),
			asm.Add.Imm(asm.R6, int32(slot)).WithSymbol("known"))
	} else {
		p = append(p, asm.Mov.Imm(asm.R6, int32(slot)))
	}
	began := int16(stateHard)
	if slot == slotSoft {
		began = stateSoft
	}
	p = append(append(p, h.stateOf()...),
		asm.LoadMem(asm.R8, asm.R7, began, asm.DWord),
		asm.JEq.Imm(asm.R8, 0, "end"), // it began before the attachment
		asm.FnKtimeGetNs.Call(),
		asm.Sub.Reg(asm.R0, asm.R8),
		asm.Mov.Reg(asm.R8, asm.R0),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.R7, began, asm.R1, asm.DWord))
	if slot == slotSoft {
		p = append(p,
			asm.LoadMem(asm.R1, asm.R7, stateStolen, asm.DWord),
			asm.Sub.Reg(asm.R8, asm.R1))
	} else {
		p = append(p,
			asm.LoadMem(asm.R1, asm.R7, stateStolen, asm.DWord),
			asm.Add.Reg(asm.R1, asm.R8),
			asm.StoreMem(asm.R7, stateStolen, asm.R1, asm.DWord))
	}
	return append(p,
		asm.FnGetSmpProcessorId.Call(),
		asm.Mul.Imm(asm.R0, int32(h.slots)),
		asm.Add.Reg(asm.R0, asm.R6),
		asm.StoreMem(asm.RFP, -4, asm.R0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, h.sums.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		// no other CPU has it, and no interrupt's handler its softirq's
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.Add.Reg(asm.R1, asm.R8),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return())
}

// A HandlerTime is the CPU time of one kind of handler on a CPU.
type HandlerTime struct {
	CPU  int
	What HandlerWhat
	// of the line or softirq (enum in include/linux/interrupt.h: 0 HI, 1 TIMER, 2 NET_TX, 3 NET_RX
	// ...), or a HandlerKind
	Number int
	Time   time.Duration // since the previous Read
}

// HandlerWhat is what a HandlerTime is of.
type HandlerWhat int

// What there is.
const (
	HandlerLine HandlerWhat = iota
	HandlerOther
	HandlerSoftirq
)

// Has reports whether handlers of the kind are measured here.
func (h *Handlers) Has(k HandlerKind) bool { return h.kinds[k] }

func (h *Handlers) sum(at int) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&h.mem[8*at])))
}

// Read calls f with each time that has grown since the previous Read, or since the start.
func (h *Handlers) Read(f func(HandlerTime)) {
	for at := range h.last {
		v := h.sum(at)
		d := v - h.last[at]
		if d == 0 {
			continue
		}
		h.last[at] = v
		t := HandlerTime{CPU: at / h.slots, Time: time.Duration(d)}
		switch slot := at % h.slots; {
		case slot >= slotLine:
			t.What, t.Number = HandlerLine, slot-slotLine
		case slot >= slotKind:
			t.What, t.Number = HandlerOther, slot-slotKind
		case slot >= slotSoft:
			t.What, t.Number = HandlerSoftirq, slot-slotSoft
		default:
			continue
		}
		f(t)
	}
}

// Lost returns the time of interrupts whose numbers are above the expected ones.
func (h *Handlers) Lost() (t time.Duration) {
	for cpu := range h.cpus {
		t += time.Duration(h.sum(cpu*h.slots + slotLost))
	}
	return t
}

// Cost returns the run time of the programs since the start, on all CPUs; false where the kernel
// does not report it to this user.
func (h *Handlers) Cost() (time.Duration, bool) {
	if h.counting == nil {
		return 0, false
	}
	return runtimeOf(h.progs), true
}

// runtimeOf returns the run time of programs, as far as the kernel reports it.
func runtimeOf(progs []*ebpf.Program) (t time.Duration) {
	for _, p := range progs {
		if s, err := p.Stats(); err == nil {
			t += s.Runtime
		}
	}
	return t
}

// Close unloads the programs. A second Close does nothing.
func (h *Handlers) Close() {
	if h == nil {
		return
	}
	detach(h.links, h.progs)
	if h.counting != nil {
		h.counting.Close() //nolint:errcheck // as above
	}
	if h.mem != nil {
		_ = unix.Munmap(h.mem) // it is there
	}
	for _, m := range []*ebpf.Map{h.state, h.sums} {
		m.Close()
	}
	*h = Handlers{}
}

// detach detaches and unloads programs.
func detach(links []*Link, progs []*ebpf.Program) {
	for _, l := range links {
		l.Close() //nolint:errcheck // it is of no more use
	}
	for _, p := range progs {
		p.Close()
	}
}
