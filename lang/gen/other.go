package gen

import (
	"fmt"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/measure"

	"github.com/cilium/ebpf/asm"
)

// A probe may refer to a thread that is not the current one: sched:::on-cpu is about the next
// thread, and fires while the previous one is current. Its task_struct is an argument of the site.

// other reports whether the thread meant is not the current one.
func (b *builder) other() bool {
	return len(b.probes) > 0 && b.probes[0].Meaning != nil && b.probes[0].Meaning.Thread > 0
}

// task leaves the address of the thread's task_struct in r0.
func (b *builder) task() {
	if b.other() {
		b.ctx(8 * (b.probes[0].Meaning.Thread - 1))
		return
	}
	b.call(asm.FnGetCurrentTask)
}

// taskBTF is task, as a pointer known to the verifier.
func (b *builder) taskBTF() {
	if b.other() {
		b.task()
		return
	}
	b.call(asm.FnGetCurrentTaskBtf)
}

// otherID generates pid, tid, uid and gid of the thread meant.
func (b *builder) otherID(s *ir.Step) error {
	if b.k.Namespace != nil && s.N != ir.Unique &&
		(s.Which == check.BuiltinPID || s.Which == check.BuiltinTID) {
		b.task()
		b.idsOf()
		b.half(s.Which)
		b.put(s.Dst, asm.R0)
		return nil
	}
	path := [][2]string{{"task_struct", "tgid"}}
	switch s.Which {
	case check.BuiltinTID:
		path = [][2]string{{"task_struct", "pid"}}
	case check.BuiltinUID:
		path = [][2]string{{"task_struct", "cred"}, {"cred", "uid"}}
	case check.BuiltinGID:
		path = [][2]string{{"task_struct", "cred"}, {"cred", "gid"}}
	}
	b.task()
	for i, p := range path {
		off, err := b.offset(p[0], p[1])
		if err != nil {
			return err
		}
		size := 4
		if i < len(path)-1 {
			size = 8
		}
		b.mov(asm.R3, asm.R0)
		b.kernelWord(off, size, slotTemp)
	}
	b.put(s.Dst, asm.R0)
	return nil
}

// comm reads the name of the thread, at most commSize bytes, into zeroed memory. It changes r0 to
// r5.
func (b *builder) comm(base asm.Register, off int) error {
	if !b.other() {
		b.lift(asm.R1, base, off)
		b.movImm(asm.R2, commSize)
		b.call(asm.FnGetCurrentComm)
		return nil
	}
	name, err := b.offset("task_struct", "comm")
	if err != nil {
		return err
	}
	b.task()
	b.mov(asm.R3, asm.R0)
	b.aluImm(asm.Add, asm.R3, int64(name), asm.R1)
	b.lift(asm.R1, base, off)
	b.movImm(asm.R2, commSize)
	b.call(asm.FnProbeReadKernelStr)
	return nil
}

// otherArgs leaves a substitute for unavailable arguments where execargs leaves its result.
func (b *builder) otherArgs() error {
	b.literal(asm.R9, b.lay.text+b.area().result, "<unknown>", b.p.StrSize-1, b.p.StrSize)
	return nil
}

// selfOf leaves in r1 the key of the variables of the thread meant, for makeSelf: its task_struct,
// or its id.
func (b *builder) selfOf() {
	if !b.other() {
		return
	}
	b.task()
	if b.k.TaskStorage {
		b.mov(asm.R1, asm.R0)
		return
	}
	b.mov(asm.R3, asm.R0)
	b.kernelWord(b.otherPID, 4, slotTemp)
	b.mov(asm.R1, asm.R0)
}

// otherStack is readStack for the thread meant. The kernel provides no frames of another process's
// stack.
func (b *builder) otherStack(space check.Space) {
	b.movImm(asm.R3, 0)
	if space == check.User {
		b.movImm(asm.R1, 0)
		b.movImm(asm.R3, flagUserStack)
	} else {
		b.task()
		b.mov(asm.R1, asm.R0)
		b.lift(asm.R2, asm.R9, b.lay.stack+8)
		b.movImm(asm.R3, int64(8*(b.lay.frames+2)))
		b.movImm(asm.R4, 0)
		b.call(asm.FnGetTaskStack)
		b.mov(asm.R1, asm.R0)
		b.movImm(asm.R3, 0)
	}
	b.lift(asm.R2, asm.R9, b.lay.stack)
}

// refuse returns an error for operations on a thread that is not current: the mapped memory, and
// the target of a signal, belong to another process.
func (b *builder) refuse(s *ir.Step) error {
	if !b.other() {
		return nil
	}
	what := ""
	switch s.Op {
	case ir.OpRead, ir.OpReadMem, ir.OpReadStr:
		if s.Space == check.User {
			what = "the memory of its process"
		}
	case ir.OpCall:
		if s.Sub == check.SubCopyin || s.Sub == check.SubCopyinstr || s.Sub == check.SubCopyinto {
			what = "the memory of its process"
		}
	case ir.OpAct:
		what = "an action on its process"
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf(
		"another thread is current, so %s is not available: %w", what, measure.ErrUnsupported,
	)
}
