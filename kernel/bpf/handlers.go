package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"
	"unsafe"

	"culprit/kernel"
	"culprit/kernel/bpf/program"
	"culprit/kernel/proc"
	"culprit/measure"

	"github.com/cilium/ebpf"
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
	objects            program.HandlersObjects
	mem                []byte   // the map of sums, mapped: changed by the kernel
	last               []uint64 // mem at the previous Read
	cpus, slots, lines int      // possible CPUs; slots of each, and how many of them are lines
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

// Sums of a CPU, each 64 bits, by slot (program/handlers.c).
const (
	slotLost  = iota // times of interrupts whose numbers are too high
	slotSoft         // softirqs by number
	slotKind  = slotSoft + softirqs
	slotLine  = slotKind + int(HandlerKinds)
	softirqs  = 16       // NR_SOFTIRQS is 10
	moreLines = 256      // interrupts that may appear later
	mostLines = 16 << 10 // bounds the kernel's memory: 128 kB per CPU
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

func (h *Handlers) open() error {
	spec, err := program.LoadHandlers()
	if err != nil {
		return err
	}
	sums := h.slots * h.cpus
	spec.Maps["culprit_irqtime"].MaxEntries = uint32(sums)
	for name, value := range map[string]int{"slots": h.slots, "lines": h.lines} {
		if err := spec.Variables[name].Set(uint32(value)); err != nil {
			return err
		}
	}
	o := &h.objects
	if err := load(spec, o, nil, nil); err != nil {
		return err
	}
	page := kernel.PageSize()
	if h.mem, err = unix.Mmap(o.CulpritIrqtime.FD(), 0, (8*sums+page-1)&^(page-1),
		unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map the sums: %w", kernel.AsError(err))
	}
	h.last = make([]uint64, sums)
	// An end without a begin counts nothing, so programs at ends are attached first.
	for _, a := range []struct {
		prog *ebpf.Program
		to   string
	}{{o.LeaveIrq, "irq_handler_exit"}, {o.EnterIrq, "irq_handler_entry"},
		{o.LeaveSoftirq, "softirq_exit"}, {o.EnterSoftirq, "softirq_entry"}} {
		if err := h.attach(a.prog, a.to); err != nil {
			return err
		}
	}
	for k, leave := range map[HandlerKind]*ebpf.Program{LOC: o.LeaveLoc, RES: o.LeaveRes,
		CAL: o.LeaveCal, IWI: o.LeaveIwi} {
		if err := h.attachKind(k, leave); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// attachKind attaches to handlers of interrupts without a line. fs.ErrNotExist: this machine has
// no such tracepoint.
func (h *Handlers) attachKind(k HandlerKind, leave *ebpf.Program) error {
	for _, name := range k.tracepoints() {
		if err := h.attach(leave, name+"_exit"); err != nil {
			return err
		}
		if err := h.attach(h.objects.EnterIrq, name+"_entry"); err != nil {
			return err
		}
	}
	h.kinds[k] = true
	return nil
}

func (h *Handlers) attach(prog *ebpf.Program, to string) error {
	l, err := AttachRawTracepoint(prog, to, 0)
	if err != nil {
		return fmt.Errorf("attach to %s: %w", to, err)
	}
	h.links = append(h.links, l)
	return nil
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
	o := &h.objects
	return runtimeOf(o.EnterIrq, o.LeaveIrq, o.LeaveLoc, o.LeaveRes, o.LeaveCal, o.LeaveIwi,
		o.EnterSoftirq, o.LeaveSoftirq), true
}

// runtimeOf returns the run time of programs, as far as the kernel reports it.
func runtimeOf(progs ...*ebpf.Program) (t time.Duration) {
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
	detach(h.links)
	if h.counting != nil {
		h.counting.Close() //nolint:errcheck // it is of no more use
	}
	if h.mem != nil {
		_ = unix.Munmap(h.mem) // it is there
	}
	h.objects.Close() //nolint:errcheck // as above
	*h = Handlers{}
}

func detach(links []*Link) {
	for _, l := range links {
		l.Close() //nolint:errcheck // it is of no more use
	}
}
