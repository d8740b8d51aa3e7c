package gen

import (
	"encoding/binary"
	"fmt"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/measure"

	"github.com/cilium/ebpf/asm"
)

// ownSpace returns the space of the probe's code.
func (b *builder) ownSpace() check.Space {
	if b.site == check.SiteUprobe || b.site == check.SiteUretprobe {
		return check.User
	}
	return check.Kernel
}

// builtin generates a built-in variable that is a number.
func (b *builder) builtin(s *ir.Step) error {
	half := func(fn asm.BuiltinFunc, high bool) {
		b.call(fn)
		if high {
			b.add(asm.RSh.Imm(asm.R0, 32))
		} else {
			b.extend(asm.R0, 4, false)
		}
	}
	switch s.Which {
	case check.BuiltinArg:
		if err := b.arg(s.N); err != nil {
			return err
		}
	case check.BuiltinSite:
		if err := b.siteArg(s.N, s.N); err != nil {
			return err
		}
	case check.BuiltinPID, check.BuiltinTID, check.BuiltinUID, check.BuiltinGID:
		switch {
		case b.other():
			return b.otherID(s)
		case s.Which == check.BuiltinUID || s.Which == check.BuiltinGID:
			half(asm.FnGetCurrentUidGid, s.Which == check.BuiltinGID)
		case s.N == ir.Unique:
			half(asm.FnGetCurrentPidTgid, false)
		default:
			b.ids()
			b.half(s.Which)
		}
	case check.BuiltinCPU:
		b.call(asm.FnGetSmpProcessorId)
	case check.BuiltinCurthread:
		b.task()
	case check.BuiltinTimestamp:
		b.time()
	case check.BuiltinWallTimestamp:
		b.call(asm.FnKtimeGetNs) // it advances within a clause, unlike timestamp
		b.mapValue(asm.R1, MapState, 8)
		b.load(asm.R1, asm.R1, 0, 8, false)
		b.alu(asm.Add, asm.R0, asm.R1)
	case check.BuiltinID:
		b.probeID(asm.R0)
	case check.BuiltinEPID:
		b.epid()
	case check.BuiltinIPL:
		b.movImm(asm.R0, 0)
	case check.BuiltinErrno:
		b.errno()
	case check.BuiltinPPID:
		return b.parent(s)
	case check.BuiltinVTimestamp:
		if err := b.vtimestamp(); err != nil {
			return err
		}
	case check.BuiltinCaller, check.BuiltinStackDepth:
		if b.byHand() {
			b.movImm(asm.R0, 0)
			break
		}
		if s.Which == check.BuiltinStackDepth {
			b.depth(check.Kernel, s.N)
			break
		}
		b.caller(check.Kernel)
	case check.BuiltinUCaller:
		b.caller(check.User)
	case check.BuiltinUStackDepth:
		b.depth(check.User, s.N)
	case check.BuiltinFrame:
		if b.byHand() {
			b.movImm(asm.R0, 0)
			break
		}
		b.frame(check.Kernel, s.N)
	case check.BuiltinUFrame:
		b.frame(check.User, s.N)
	case check.BuiltinURegs:
		if err := b.uregs(s.N); err != nil {
			return err
		}
	case check.BuiltinReturn:
		b.result()
	default:
		return fmt.Errorf("builtin variable %d: %w", s.Which, measure.ErrUnsupported)
	}
	b.put(s.Dst, asm.R0)
	return nil
}

// byHand reports whether user space runs the probe: then the kernel stack is that of the system
// call that runs it.
func (b *builder) byHand() bool {
	return b.site == check.SiteRun && len(b.probes) == 1 && b.probes[0].Provider == "dtrace"
}

// epid leaves the number of the probe within the clause in r0.
func (b *builder) epid() {
	b.probeID(asm.R0)
	if n := b.p.Source.EPID(b.current.f.Clause, 0); n > 0 {
		b.aluImm(asm.Add, asm.R0, int64(n), asm.R1)
	}
}

// errno leaves the error of a system call in r0, 0 when there is none.
func (b *builder) errno() {
	if b.site != check.SiteSyscallReturn {
		b.movImm(asm.R0, 0)
		return
	}
	const most = 4095 // MAX_ERRNO
	none, done := b.label(), b.label()
	b.ctx(b.resultAt())
	b.ifImm(asm.JSLT, asm.R0, -most, none, asm.R1)
	b.ifImm(asm.JSGE, asm.R0, 0, none, asm.R1)
	b.add(asm.Neg.Imm(asm.R0, 0))
	b.jump(done)
	b.bind(none)
	b.movImm(asm.R0, 0)
	b.bind(done)
}

// commSize is the kernel's TASK_COMM_LEN.
const commSize = 16

// builtinStr generates a built-in variable that is a string, truncated to Size - 1 bytes and
// zero-filled.
func (b *builder) builtinStr(s *ir.Step, none label) error {
	size, most := round8(s.Size), s.Size-1
	switch s.Which {
	case check.BuiltinExecname:
		// before 6.4 the kernel leaves garbage after the end
		b.zeroFill(asm.R10, slotTemp, commSize)
		if err := b.comm(asm.R10, slotTemp); err != nil {
			return err
		}
		base, off := b.place(s.Mem, asm.R4, true, none)
		b.copyBytes(base, off, asm.R10, slotTemp, min(size, commSize))
		b.cutText(base, off, min(most, commSize), size)
	case check.BuiltinProbeProv,
		check.BuiltinProbeMod,
		check.BuiltinProbeFunc,
		check.BuiltinProbeName:
		base, off := b.place(s.Mem, asm.R4, true, none)
		if len(b.probes) == 1 {
			b.literal(base, off, part(b.probes[0], s.Which), most, size)
			break
		}
		f := b.table.text[s.Which]
		n := min(f.size, size)
		b.load(asm.R5, asm.R10, slotRow, 8, false)
		for at := 0; at < n; at += 8 {
			b.load(asm.R0, asm.R5, f.off+at, 8, false)
			b.store(base, off+at, asm.R0, 8)
		}
		b.cutText(base, off, min(most, n), size)
	case check.BuiltinExecargs:
		args := b.execargs
		if b.other() { // whose memory is not mapped
			args = b.otherArgs
		}
		if err := args(); err != nil {
			return err
		}
		b.keepText(s, none)
	default:
		return fmt.Errorf("builtin variable %d: %w", s.Which, measure.ErrUnsupported)
	}
	if !b.placed(none) {
		b.bind(none)
	}
	return nil
}

// literal writes a text, truncated to most bytes and zero-filled.
func (b *builder) literal(base asm.Register, off int, text string, most, size int) {
	text = text[:min(len(text), most)]
	at := 0
	for ; at < len(text); at += 8 {
		var word [8]byte
		copy(word[:], text[at:])
		b.storeImm(base, off+at, int64(binary.NativeEndian.Uint64(word[:])), 8, asm.R1)
	}
	b.zeroFill(base, off+at, size-at)
}
