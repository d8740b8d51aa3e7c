package gen

import (
	"fmt"
	"slices"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// registers are the saved registers of a process: offsets in struct pt_regs
// (arch/*/include/asm/ptrace.h), which are a stable interface.
type registers struct {
	params   [6]int // of functions; further ones are on the stack
	syscall  [6]int // of system calls
	compat   [6]int // of system calls of 32-bit processes
	narrow   int32  // mode & narrowBy in a 32-bit process
	narrowBy int32
	number   int // of the system call
	size     int // of number
	result   int
	pc, sp   int
	mode     int // distinguishes the kernel's code from a process's
	modeMask int32
	stack    bool // parameters beyond params are above the return address, 8 bytes each
}

func (b *builder) registers() registers {
	if b.arm {
		p := [6]int{0, 8, 16, 24, 32, 40}
		s := p
		s[0] = 272 // orig_x0: regs[0] receives the result
		// The kernel runs at EL1 or EL2, processes at EL0: pstate's lowest four bits.
		return registers{
			params:   p,
			syscall:  s,
			compat:   s,
			narrow:   16,
			narrowBy: 16,
			number:   280,
			size:     4,
			result:   0,
			pc:       256,
			sp:       248,
			mode:     264,
			modeMask: 15,
		}
	}
	p := [6]int{112, 104, 96, 88, 72, 64} // di si dx cx r8 r9
	s := p
	s[3] = 56 // r10
	// Processes have privilege level 3: the lowest two bits of cs.
	return registers{
		params:   p,
		syscall:  s,
		compat:   [6]int{40, 88, 96, 104, 112, 32},
		narrow:   0x23,
		narrowBy: 0xffff,
		number:   120,
		size:     8,
		result:   80,
		pc:       128,
		sp:       152,
		mode:     136,
		modeMask: 3,
		stack:    true,
	}
}

// number leaves the number of the system call in r0, plus check.CompatCalls for 32-bit processes:
// on x86 they run in segment __USER32_CS, on arm64 in mode PSR_MODE32_BIT.
func (b *builder) number() {
	if !b.k.Compat {
		b.ownNumber()
		return
	}
	r := b.registers()
	wide := b.label()
	if b.hasCompatStatus() { // without copying from the kernel's memory
		r.narrow, r.narrowBy = statusCompat, statusCompat
		b.call(asm.FnGetCurrentTaskBtf)
		b.load(asm.R0, asm.R0, statusOffset, 4, false)
	} else {
		b.regs(r.mode, 8)
	}
	b.mov(asm.R2, asm.R0)
	b.add(asm.And.Imm(asm.R2, r.narrowBy))
	b.storeImm(asm.R10, slotOther, 0, 8, asm.R1)
	b.store(asm.R10, slotHold, asm.R2, 8)
	b.ownNumber()
	b.load(asm.R2, asm.R10, slotHold, 8, false)
	b.ifImm(asm.JNE, asm.R2, int64(r.narrow), wide, asm.R1)
	b.storeImm(asm.R10, slotOther, 1, 8, asm.R1)
	b.ifImm(asm.JGE, asm.R0, check.CompatCalls, b.leave, asm.R1)
	b.add(asm.Add.Imm(asm.R0, check.CompatCalls))
	b.bind(wide)
}

// TS_COMPAT in thread_info.status, at the start of a task_struct on x86. Before 5.11 it was
// elsewhere; those kernels also lack the helper that returns the task.
const (
	statusOffset = 16
	statusCompat = 2
)

// ownNumber leaves the number that the kernel reports in r0.
func (b *builder) ownNumber() {
	if b.site == check.SiteSyscallEntry || b.record {
		b.load(asm.R1, asm.R10, slotCtx, 8, false)
		b.load(asm.R0, asm.R1, 8, 8, false)
		return
	}
	r := b.registers()
	b.regs(r.number, r.size)
}

// regs leaves a register of the process in r0. The raw tracepoints of system calls pass the address
// of the registers.
func (b *builder) regs(off, size int) {
	b.load(asm.R1, asm.R10, slotCtx, 8, false)
	b.load(asm.R3, asm.R1, 0, 8, false)
	if b.code.Type == ebpf.Tracing {
		b.load(asm.R0, asm.R3, off, size, false)
		return
	}
	b.aluImm(asm.Add, asm.R3, int64(off), asm.R0)
	b.mov(asm.R1, asm.R10)
	b.aluImm(asm.Add, asm.R1, slotTemp, asm.R0)
	b.movImm(asm.R2, int64(size))
	b.call(asm.FnProbeReadKernel)
	b.load(asm.R0, asm.R10, slotTemp, size, false)
}

// ctx loads 8 bytes of the context into r0.
func (b *builder) ctx(off int) {
	b.load(asm.R1, asm.R10, slotCtx, 8, false)
	b.load(asm.R0, asm.R1, off, 8, false)
}

// arg leaves an argument of the probe in r0: arg0 ..., or the source of args[N].
func (b *builder) arg(n int) error {
	from := n
	if args := b.probes[0].Args; n < len(args) {
		if args[n].Field != check.FieldNone {
			b.recordField(&args[n])
			return nil
		}
		from = args[n].From
	}
	if ops := b.probes[0].Operands; ops != nil {
		return b.operand(ops, from)
	}
	if b.site == check.SiteUprobe && from >= 6 {
		return b.operand(b.passed(from), 0)
	}
	return b.siteArg(n, from)
}

// recordField leaves a field of a trace event's record in r0: its value, or its address.
func (b *builder) recordField(a *check.Arg) {
	b.load(asm.R1, asm.R10, slotCtx, 8, false)
	switch a.Field {
	case check.FieldFar:
		b.load(asm.R0, asm.R1, a.From, 4, false)
		b.add(asm.And.Imm(asm.R0, 0xffff))
		b.plain(asm.R1)
		b.alu(asm.Add, asm.R0, asm.R1)
	case check.FieldArray:
		b.plain(asm.R1)
		b.mov(asm.R0, asm.R1)
		b.aluImm(asm.Add, asm.R0, int64(a.From), asm.R1)
	default:
		b.load(asm.R0, asm.R1, a.From, a.Size, a.Field == check.FieldSigned)
	}
}

// siteArg leaves an argument of the site in r0: number from, which D knows as arg n.
func (b *builder) siteArg(n, from int) error {
	r := b.registers()
	switch b.site {
	case check.SiteRun, check.SiteRawTracepoint, check.SiteTracepointBTF, check.SiteFentry:
		b.ctx(8 * from)
	case check.SiteFexit:
		if from >= 0 && b.probes[0].Name != "return" {
			b.ctx(8 * from)
		} else {
			b.returned(n)
		}
	case check.SiteSyscallEntry:
		if from > 5 {
			b.movImm(asm.R0, 0)
			return nil
		}
		if b.record { // including 32-bit processes
			b.ctx(recordArgs + 8*from)
			break
		}
		if !b.k.Compat || r.compat == r.syscall {
			b.regs(r.syscall[from], 8)
			break
		}
		other, done := b.label(), b.label()
		b.load(asm.R0, asm.R10, slotOther, 8, false)
		b.ifImm(asm.JNE, asm.R0, 0, other, asm.R1)
		b.regs(r.syscall[from], 8)
		b.jump(done)
		b.bind(other)
		b.regs(r.compat[from], 4)
		b.bind(done)
	case check.SiteSyscallReturn: // arg0 and arg1 are the return value
		if n > 1 {
			b.movImm(asm.R0, 0)
			return nil
		}
		b.ctx(b.resultAt())
	case check.SitePerfEvent:
		// The kernel's address or 0, the process's address or 0.
		if n > 1 {
			b.movImm(asm.R0, 0)
			return nil
		}
		other, done := b.label(), b.label()
		b.ctx(r.mode)
		b.add(asm.And.Imm(asm.R0, r.modeMask))
		op := asm.JNE // x86: it is the process's; arm64: the kernel's
		if b.arm == (n == 0) {
			op = asm.JEq
		}
		b.ifImm(op, asm.R0, 0, other, asm.R1)
		b.ctx(r.pc)
		b.jump(done)
		b.bind(other)
		b.movImm(asm.R0, 0)
		b.bind(done)
	case check.SiteKprobe, check.SiteUprobe:
		switch {
		case from < len(r.params):
			b.ctx(r.params[from])
		case r.stack: // above the return address
			b.ctx(r.sp)
			b.mov(asm.R3, asm.R0)
			b.aluImm(asm.Add, asm.R3, int64(8*(from-len(r.params)+1)), asm.R0)
			b.mov(asm.R1, asm.R10)
			b.aluImm(asm.Add, asm.R1, slotTemp, asm.R0)
			b.movImm(asm.R2, 8)
			b.call(readFrom(b.ownSpace()))
			b.load(asm.R0, asm.R10, slotTemp, 8, false)
		case from < 8:
			b.ctx(8 * from)
		default:
			b.movImm(asm.R0, 0)
		}
	case check.SiteKretprobe, check.SiteUretprobe:
		b.returned(n)
	default:
		return fmt.Errorf("arguments of a probe of site %d: %w", b.site, measure.ErrUnsupported)
	}
	return nil
}

// passed returns the location, by the C ABI, of an argument at a function's entry beyond the
// registers of amd64.
func (b *builder) passed(n int) []check.Operand {
	switch {
	case !b.arm: // above the return address
		return []check.Operand{
			{Kind: check.OperandMemory, Size: 8, Reg: "rsp", Number: int64(8 * (n - 5))},
		}
	case n < 8:
		return []check.Operand{{Kind: check.OperandReg, Size: 8, Reg: fmt.Sprintf("x%d", n)}}
	}
	return []check.Operand{
		{Kind: check.OperandMemory, Size: 8, Reg: "sp", Number: int64(8 * (n - 8))},
	}
}

// operand leaves in r0 an argument of a probe that describes its location in a process.
func (b *builder) operand(ops []check.Operand, n int) error {
	if n < 0 || n >= len(ops) {
		b.movImm(asm.R0, 0)
		return nil
	}
	o := &ops[n]
	known := true
	add := func(reg string, scale int64) { // to r3
		off, ok := b.register(reg)
		known = known && ok
		b.ctx(off)
		if scale > 1 {
			b.aluImm(asm.Mul, asm.R0, scale, asm.R1)
		}
		b.alu(asm.Add, asm.R3, asm.R0)
	}
	switch o.Kind {
	case check.OperandNumber:
		b.movImm(asm.R0, o.Number)
		return nil
	case check.OperandReg, check.OperandMemory:
		b.movImm(asm.R3, o.Number)
		if o.Reg != "" {
			add(o.Reg, 1)
		}
		if o.Index != "" {
			add(o.Index, o.Scale)
		}
	default:
		return fmt.Errorf(
			"arg%d of %s is not available: %s: %w", n, b.probes[0], o.Why, measure.ErrUnsupported,
		)
	}
	if !known {
		return fmt.Errorf(
			"arg%d of %s is in an unknown register: %w", n, b.probes[0], measure.ErrUnsupported,
		)
	}
	if b.probes[0].Narrow {
		b.extend(asm.R3, 4, false)
	}
	if o.Kind == check.OperandReg {
		b.mov(asm.R0, asm.R3)
		if o.Shift > 0 {
			b.add(asm.RSh.Imm(asm.R0, int32(o.Shift)))
		}
		b.extend(asm.R0, o.Size, o.Signed)
		return nil
	}
	good := b.label()
	b.store(asm.R10, slotHold, asm.R3, 8)
	b.lift(asm.R1, asm.R10, slotTemp)
	b.movImm(asm.R2, int64(o.Size))
	b.call(asm.FnProbeReadUser)
	b.ifImm(asm.JEq, asm.R0, 0, good, asm.R1)
	b.current.ends.join(b.current.flow)
	b.load(asm.R3, asm.R10, slotHold, 8, false)
	b.faultAt(ir.FaultBadAddr)
	b.bind(good)
	b.load(asm.R0, asm.R10, slotTemp, o.Size, o.Signed)
	return nil
}

// Enable returns the program for is-enabled probes of a process: it writes a 4-byte 1 to the
// operand's address. The error wraps measure.ErrUnsupported when the operand is unknown.
func Enable(k Kernel, o check.Operand) (*Code, error) {
	b := &builder{k: k, arm: k.Arch == "arm64", site: check.SiteUprobe}
	b.code.Type = ebpf.Kprobe
	off, ok := b.register(o.Reg)
	if !ok || o.Kind != check.OperandReg || o.Size != 8 || o.Shift != 0 {
		return nil, fmt.Errorf("unknown operand of an is-enabled probe: %w", measure.ErrUnsupported)
	}
	b.load(asm.R1, asm.R1, off, 8, false)
	b.aluImm(asm.Add, asm.R1, o.Number, asm.R2)
	b.storeImm(asm.R10, -8, 1, 8, asm.R2)
	b.lift(asm.R2, asm.R10, -8)
	b.movImm(asm.R3, 4)
	b.call(asm.FnProbeWriteUser)
	b.movImm(asm.R0, 0)
	b.exit()
	if err := b.resolve(); err != nil {
		return nil, err
	}
	b.code.Instructions = b.ins
	return &b.code, nil
}

// register returns the offset of a register in struct pt_regs.
func (b *builder) register(name string) (off int, ok bool) {
	order := []string{
		"r15",
		"r14",
		"r13",
		"r12",
		"rbp",
		"rbx",
		"r11",
		"r10",
		"r9",
		"r8",
		"rax",
		"rcx",
		"rdx",
		"rsi",
		"rdi",
		"",
		"pc",
		"",
		"",
		"rsp",
	}
	if b.arm {
		order = nil
		for n := range 31 {
			order = append(order, fmt.Sprintf("x%d", n))
		}
		order = append(order, "sp", "pc")
	}
	i := slices.Index(order, name)
	return 8 * max(i, 0), i >= 0 && name != ""
}

// returned leaves an argument of a return probe in r0: arg1 is the return value; arg0, the offset
// of the return, is unknown.
//
// The ABIs leave the upper bits of a register undefined for narrow results, so an int of -2 is
// 4294967294 there.
func (b *builder) returned(n int) {
	if n == 1 {
		b.result()
		if size, signed := b.probes[0].Result(); size < 8 {
			b.extend(asm.R0, size, signed)
		}
	} else {
		b.movImm(asm.R0, 0)
	}
}
