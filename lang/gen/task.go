package gen

import (
	"fmt"
	"strconv"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/measure"

	"github.com/cilium/ebpf/asm"
)

// offset returns the offset of a member of a kernel struct in bytes. The error wraps
// measure.ErrUnsupported when no types are available.
func (b *builder) offset(typ, member string) (int, error) {
	if b.k.Offset == nil {
		return 0, fmt.Errorf(
			"the offset of %s in struct %s: the kernel's types are not available: %w", member, typ,
			measure.ErrUnsupported,
		)
	}
	return b.k.Offset(typ, member)
}

// kernelWord reads size bytes at an offset from the address in r3 into r0; 0 if the address is
// invalid.
func (b *builder) kernelWord(off, size, at int) {
	good := b.label()
	if off != 0 {
		b.aluImm(asm.Add, asm.R3, int64(off), asm.R1)
	}
	b.lift(asm.R1, asm.R10, at)
	b.movImm(asm.R2, int64(size))
	b.call(asm.FnProbeReadKernel)
	b.ifImm(asm.JEq, asm.R0, 0, good, asm.R1)
	b.storeImm(asm.R10, at, 0, 8, asm.R1)
	b.bind(good)
	b.load(asm.R0, asm.R10, at, size, false)
}

// parent generates ppid.
func (b *builder) parent(s *ir.Step) error {
	up, err := b.offset("task_struct", "real_parent")
	if err != nil {
		return err
	}
	id, err := b.offset("task_struct", "tgid")
	if err != nil {
		return err
	}
	b.task()
	b.mov(asm.R3, asm.R0)
	b.kernelWord(up, 8, slotTemp)
	if b.k.Namespace != nil {
		b.idsOf()
		b.half(check.BuiltinPID)
	} else {
		b.mov(asm.R3, asm.R0)
		b.kernelWord(id, 4, slotTemp)
	}
	b.put(s.Dst, asm.R0)
	return nil
}

// progeny generates progenyof: is the current process A, or a descendant of it?
func (b *builder) progeny(s *ir.Step) error {
	up, err := b.offset("task_struct", "real_parent")
	if err != nil {
		return err
	}
	id, err := b.offset("task_struct", "tgid")
	if err != nil {
		return err
	}
	const generations = 64 // highest number of generations
	b.task()
	b.mov(asm.R2, asm.R0)
	b.get(asm.R1, s.A)
	b.callSub(b.function("progeny", func() {
		again, yes, no := b.label(), b.label(), b.label()
		b.mov(asm.R6, asm.R1)
		b.extend(asm.R6, 4, false)
		b.mov(asm.R7, asm.R2)
		b.movImm(asm.R8, 0)
		b.bind(again)
		if b.k.Namespace != nil {
			b.mov(asm.R0, asm.R7)
			b.idsOf()
			b.half(check.BuiltinPID)
		} else {
			b.mov(asm.R3, asm.R7)
			b.kernelWord(id, 4, -8)
		}
		b.ifReg(asm.JEq, asm.R0, asm.R6, yes)
		b.ifImm(asm.JEq, asm.R0, 0, no, asm.R1)
		b.mov(asm.R3, asm.R7)
		b.kernelWord(up, 8, -8)
		b.mov(asm.R7, asm.R0)
		b.add(asm.Add.Imm(asm.R8, 1))
		b.ifImm(asm.JLT, asm.R8, generations, again, asm.R1)
		b.bind(no)
		b.movImm(asm.R0, 0)
		b.exit()
		b.bind(yes)
		b.movImm(asm.R0, 1)
		b.exit()
	}))
	b.put(s.Dst, asm.R0)
	return nil
}

// execargs leaves the arguments of the process in the work area, separated by spaces. For a kernel
// thread, or if they can't be read now, it leaves the name.
func (b *builder) execargs() error {
	var offs [3]int
	for i, m := range [...][2]string{{"task_struct", "mm"}, {"mm_struct", "arg_start"},
		{"mm_struct", "arg_end"}} {
		off, err := b.offset(m[0], m[1])
		if err != nil {
			return err
		}
		offs[i] = off
	}
	b.lift(asm.R1, asm.R9, b.lay.text)
	b.callSub(b.function("execargs", func() {
		a := b.area()
		s := b.p.StrSize
		name, cut, again, done := b.label(), b.label(), b.label(), b.label()
		b.mov(asm.R6, asm.R1)
		b.clearResult()
		b.zeroFill(asm.R6, a.hay, s)
		b.call(asm.FnGetCurrentTask)
		b.mov(asm.R3, asm.R0)
		b.kernelWord(offs[0], 8, -8)
		b.ifImm(asm.JEq, asm.R0, 0, name, asm.R1)
		b.mov(asm.R9, asm.R0)
		b.mov(asm.R3, asm.R0)
		b.kernelWord(offs[1], 8, -8)
		b.mov(asm.R7, asm.R0)
		b.mov(asm.R3, asm.R9)
		b.kernelWord(offs[2], 8, -8)
		b.mov(asm.R8, asm.R0)
		b.alu(asm.Sub, asm.R8, asm.R7)
		b.ifImm(asm.JSLE, asm.R8, 0, name, asm.R1)
		b.add(asm.Sub.Imm(asm.R8, 1)) // without the last 0
		b.ifImm(asm.JLE, asm.R8, int64(s-1), cut, asm.R1)
		b.movImm(asm.R8, int64(s-1))
		b.bind(cut)
		b.lift(asm.R1, asm.R6, a.hay)
		b.mov(asm.R2, asm.R8)
		b.mov(asm.R3, asm.R7)
		b.call(asm.FnProbeReadUser)
		b.ifImm(asm.JNE, asm.R0, 0, name, asm.R1)
		// Every 0 byte becomes a space: 0x80 in each of them, shifted to 0x20.
		b.lift(asm.R1, asm.R6, a.hay)
		b.movImm(asm.R2, 0)
		b.movImm(asm.R3, 0x7f7f7f7f7f7f7f7f)
		b.bind(again)
		b.load(asm.R4, asm.R1, 0, 8, false)
		b.mov(asm.R5, asm.R4)
		b.alu(asm.And, asm.R5, asm.R3)
		b.alu(asm.Add, asm.R5, asm.R3)
		b.alu(asm.Or, asm.R5, asm.R4)
		b.alu(asm.Or, asm.R5, asm.R3)
		b.add(asm.Xor.Imm(asm.R5, -1))
		b.add(asm.RSh.Imm(asm.R5, 2))
		b.alu(asm.Or, asm.R4, asm.R5)
		b.store(asm.R1, 0, asm.R4, 8)
		b.add(asm.Add.Imm(asm.R1, 8))
		b.add(asm.Add.Imm(asm.R2, 8))
		b.ifImm(asm.JLT, asm.R2, int64(s), again, asm.R0)
		b.lift(asm.R1, asm.R6, a.result)
		b.mov(asm.R2, asm.R8)
		b.lift(asm.R3, asm.R6, a.hay)
		b.call(asm.FnProbeReadKernel)
		b.jump(done)
		b.bind(name)
		b.clearResult()
		b.lift(asm.R1, asm.R6, a.result)
		b.movImm(asm.R2, int64(min(s, commSize)))
		b.call(asm.FnGetCurrentComm)
		b.bind(done)
		b.movImm(asm.R0, 0)
		b.exit()
	}))
	return nil
}

// mutex generates mutex_owner and mutex_owned: the thread that holds the lock at A, and whether it
// is the current one. The lowest bits of the owner are flags (kernel/locking/mutex.c).
func (b *builder) mutex(s *ir.Step) error {
	off, err := b.offset("mutex", "owner")
	if err != nil {
		return err
	}
	const flags = 7
	good := b.label()
	b.get(asm.R3, s.A)
	b.aluImm(asm.Add, asm.R3, int64(off), asm.R1)
	b.lift(asm.R1, asm.R10, slotTemp)
	b.movImm(asm.R2, 8)
	b.call(asm.FnProbeReadKernel)
	b.ifImm(asm.JEq, asm.R0, 0, good, asm.R1)
	b.badAddress(s)
	b.bind(good)
	if s.Sub == check.SubMutexOwner {
		b.load(asm.R0, asm.R10, slotTemp, 8, false)
		b.add(asm.And.Imm(asm.R0, ^flags))
	} else {
		other := b.label()
		b.task()
		b.mov(asm.R2, asm.R0)
		b.load(asm.R1, asm.R10, slotTemp, 8, false)
		b.add(asm.And.Imm(asm.R1, ^flags))
		b.movImm(asm.R0, 0)
		b.ifReg(asm.JNE, asm.R1, asm.R2, other)
		b.movImm(asm.R0, 1)
		b.bind(other)
	}
	b.put(s.Dst, asm.R0)
	return nil
}

// frame leaves the address of a frame of the stack in r0, 0: the current function; the address is 0
// when there are fewer.
func (b *builder) frame(space check.Space, n int) {
	if n >= deepest {
		b.movImm(asm.R0, 0)
		return
	}
	b.frames("frame"+strconv.Itoa(n), space, n+1, func(length int) {
		known, none := b.label(), b.label()
		b.load(asm.R1, asm.R8, length, 8, false)
		b.load(asm.R0, asm.R6, 8*(n+1), 8, false)
		if b.unwinds() { // a Stop is no address
			b.mov(asm.R2, asm.R0)
			b.add(asm.RSh.Imm(asm.R2, 62))
			b.ifImm(asm.JEq, asm.R2, 2, none, asm.R3)
		}
		b.ifImm(asm.JSGE, asm.R1, int64(8*(n+1)), known, asm.R2)
		b.bind(none)
		b.movImm(asm.R0, 0)
		b.bind(known)
	})
}

// uregs leaves a register of the process in r0, numbered in the order of struct pt_regs.
func (b *builder) uregs(n int) error {
	most := 20
	if b.arm {
		most = 33
	}
	if n < 0 || n > most {
		b.movImm(asm.R0, 0)
		return nil
	}
	if b.site == check.SiteUprobe || b.site == check.SiteUretprobe {
		b.ctx(8 * n)
		return nil
	}
	b.taskBTF()
	b.mov(asm.R1, asm.R0)
	b.call(asm.FnTaskPtRegs)
	b.load(asm.R0, asm.R0, 8*n, 8, false)
	return nil
}

// result leaves the return value of a function in r0.
func (b *builder) result() {
	switch b.site {
	case check.SiteSyscallReturn:
		b.ctx(b.resultAt())
	case check.SiteKretprobe, check.SiteUretprobe:
		b.ctx(b.registers().result)
	case check.SiteFexit:
		b.load(asm.R1, asm.R10, slotCtx, 8, false)
		b.storeImm(asm.R10, slotTemp, 0, 8, asm.R0)
		b.lift(asm.R2, asm.R10, slotTemp)
		b.call(asm.FnGetFuncRet)
		b.load(asm.R0, asm.R10, slotTemp, 8, false)
	default:
		b.movImm(asm.R0, 0)
	}
}

// makeSpeculate makes the function that returns a free speculation; 0, counted as a loss: there is
// none.
func (b *builder) makeSpeculate() {
	again, took := b.label(), b.label()
	n := b.p.Speculations()
	b.mapValue(asm.R6, MapSpec, 0)
	b.movImm(asm.R7, 1)
	b.bind(again)
	b.movImm(asm.R0, 0)
	if b.k.AtomicFetch {
		b.movImm(asm.R1, 1)
		b.atomic(asm.CmpXchg, asm.R6, 0, asm.R1)
		b.ifImm(asm.JEq, asm.R0, 0, took, asm.R1)
	} else {
		next := b.label()
		b.load(asm.R1, asm.R6, 0, 8, false)
		b.ifImm(asm.JNE, asm.R1, 0, next, asm.R0)
		b.storeImm(asm.R6, 0, 1, 8, asm.R1)
		b.jump(took)
		b.bind(next)
	}
	b.add(asm.Add.Imm(asm.R6, 8))
	b.add(asm.Add.Imm(asm.R7, 1))
	b.ifImm(asm.JLE, asm.R7, int64(n), again, asm.R1)
	b.drop(ir.DropSpec)
	b.movImm(asm.R0, 0)
	b.exit()
	b.bind(took)
	b.mov(asm.R0, asm.R7)
	b.exit()
}

// act performs an action on the current process.
func (b *builder) act(s *ir.Step) error {
	const stop = 19 // SIGSTOP
	switch check.ActionKind(s.N) {
	case check.Raise:
		b.get(asm.R1, s.A)
		b.call(asm.FnSendSignal)
	case check.Stop:
		b.movImm(asm.R1, stop)
		b.call(asm.FnSendSignal)
	case check.Copyout:
		b.copyout(s)
	case check.Copyoutstr:
		b.copyoutstr(s)
	default:
		return fmt.Errorf("action %d: %w", s.N, measure.ErrUnsupported)
	}
	return nil
}

// copyout copies [C] bytes from [A] to the process's [B], through the work area. ir has checked
// that they are at most MostCopyout.
func (b *builder) copyout(s *ir.Step) {
	done, bad, read := b.label(), b.label(), b.label()
	b.getNumber(asm.R2, s.C)
	b.ifImm(asm.JEq, asm.R2, 0, done, asm.R1)
	// never true, but the verifier no longer knows the limit
	b.ifImm(asm.JGT, asm.R2, int64(b.p.MostCopyout()), done, asm.R1)
	b.store(asm.R10, slotHold, asm.R2, 8)
	b.getNumber(asm.R3, s.A)
	b.lift(asm.R1, asm.R9, b.lay.text)
	b.call(readFrom(s.Space))
	b.ifImm(asm.JNE, asm.R0, 0, read, asm.R1)
	b.getNumber(asm.R1, s.B)
	b.lift(asm.R2, asm.R9, b.lay.text)
	b.load(asm.R3, asm.R10, slotHold, 8, false)
	b.call(asm.FnProbeWriteUser)
	b.ifImm(asm.JNE, asm.R0, 0, bad, asm.R1)
	b.jump(done)
	b.bind(read)
	b.faultOf(ir.FaultBadAddr, s.A)
	b.bind(bad)
	b.faultOf(ir.FaultBadAddr, s.B)
	b.bind(done)
}

// copyoutstr copies a string and its final 0, at most [C] bytes, to the process's [B].
func (b *builder) copyoutstr(s *ir.Step) {
	done, cut, bad := b.label(), b.label(), b.label()
	b.address(asm.R3, s.From, false, 0)
	b.lift(asm.R1, asm.R9, b.lay.text)
	b.movImm(asm.R2, int64(b.p.StrSize))
	b.call(asm.FnProbeReadKernelStr)
	b.mov(asm.R3, asm.R0)
	b.getNumber(asm.R1, s.C)
	b.ifReg(asm.JLE, asm.R3, asm.R1, cut)
	b.mov(asm.R3, asm.R1)
	b.bind(cut)
	b.ifImm(asm.JEq, asm.R3, 0, done, asm.R1)
	b.ifImm(asm.JGT, asm.R3, int64(b.p.StrSize), done, asm.R1)
	b.store(asm.R10, slotHold, asm.R3, 8)
	// not the copy, whose last byte is 0 when the string was truncated
	b.address(asm.R2, s.From, false, 0)
	b.getNumber(asm.R1, s.B)
	b.load(asm.R3, asm.R10, slotHold, 8, false)
	b.call(asm.FnProbeWriteUser)
	b.ifImm(asm.JNE, asm.R0, 0, bad, asm.R1)
	b.jump(done)
	b.bind(bad)
	b.faultOf(ir.FaultBadAddr, s.B)
	b.bind(done)
}
