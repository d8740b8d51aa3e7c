package gen

import (
	"culprit/lang/check"
	"culprit/lang/ir"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// The kernel updates the run time of a thread (sum_exec_runtime) when it leaves the CPU, and
// otherwise only at clock ticks. So a program at sched_switch records when the next thread starts
// and its run time so far:
//
//	| u64 task_struct | u64 start, monotonic clock | u64 ns that it had run |
//
// vtimestamp is that run time plus the time since the start. For a thread that has not been
// switched since the script began, it is the kernel's value.

// ranOffset returns the offset of a thread's run time in task_struct. It returns an error when the
// types lack it.
func (b *builder) ranOffset() (int, error) {
	se, err := b.offset("task_struct", "se")
	if err != nil {
		return 0, err
	}
	sum, err := b.offset("sched_entity", "sum_exec_runtime")
	return se + sum, err
}

// vtimestamp leaves the run time of the thread in r0, in ns.
func (b *builder) vtimestamp() error {
	off, err := b.ranOffset()
	if err != nil {
		return err
	}
	if b.other() { // it is not running when its probe fires, so the kernel's value is exact
		b.task()
		b.mov(asm.R3, asm.R0)
		b.kernelWord(off, 8, slotTemp)
		return nil
	}
	other, done := b.label(), b.label()
	b.time()
	b.call(asm.FnGetCurrentTask)
	b.store(asm.R10, slotHold, asm.R0, 8)
	b.mapPtr(asm.R1, MapRunning)
	b.lift(asm.R2, asm.R10, slotZero)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JEq, asm.R0, 0, other, asm.R1)
	b.load(asm.R1, asm.R0, 0, 8, false)
	b.load(asm.R2, asm.R10, slotHold, 8, false)
	b.ifReg(asm.JNE, asm.R1, asm.R2, other)
	b.load(asm.R1, asm.R0, 8, 8, false)
	b.load(asm.R2, asm.R0, 16, 8, false)
	b.load(asm.R0, asm.R10, slotTime, 8, false)
	b.alu(asm.Sub, asm.R0, asm.R1)
	b.alu(asm.Add, asm.R0, asm.R2)
	b.jump(done)
	b.bind(other)
	b.load(asm.R3, asm.R10, slotHold, 8, false)
	b.kernelWord(off, 8, slotTemp)
	b.bind(done)
	return nil
}

// runningHelper returns the program at sched_switch, whose arguments are: preempt, the previous
// thread, the next one. It returns an error when the kernel's types lack a member.
func runningHelper(p *ir.Program, k Kernel) (*Code, error) {
	b := &builder{p: p, k: k, site: check.SiteRawTracepoint}
	off, err := b.ranOffset()
	if err != nil {
		return nil, err
	}
	none := b.label()
	b.load(asm.R6, asm.R1, 16, 8, false)
	b.mov(asm.R3, asm.R6)
	b.kernelWord(off, 8, -8)
	b.mov(asm.R7, asm.R0)
	b.call(asm.FnKtimeGetNs)
	b.mov(asm.R8, asm.R0)
	b.storeImm(asm.R10, -8, 0, 8, asm.R1)
	b.mapPtr(asm.R1, MapRunning)
	b.lift(asm.R2, asm.R10, -8)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JEq, asm.R0, 0, none, asm.R1)
	b.store(asm.R0, 0, asm.R6, 8)
	b.store(asm.R0, 8, asm.R8, 8)
	b.store(asm.R0, 16, asm.R7, 8)
	b.bind(none)
	b.movImm(asm.R0, 0)
	b.exit()
	if err := b.resolve(); err != nil {
		return nil, err
	}
	return &Code{Type: ebpf.RawTracepoint, AttachTo: "sched_switch", Instructions: b.ins}, nil
}
