package gen

import (
	"culprit/lang/check"

	"github.com/cilium/ebpf/asm"
)

// Outside is the process in the key of a user stack when it is outside of Kernel.Namespace. 0 means
// a kernel stack.
const Outside = 1 << 32

// A numbering is the offsets of a thread's IDs: task_struct.thread_pid points to a struct pid, with
// an ID for each PID namespace from the initial one down to the thread's own.
type numbering struct {
	leader, pid      int // in task_struct
	level            int // in pid
	number, ns, inum int // from the ID's struct upid on; in pid_namespace
}

// upidSize is the size of struct upid: int, struct pid_namespace *.
const upidSize = 16

// learnNumbers finds the offsets for Kernel.Namespace. It returns an error when the types lack a
// member.
func (b *builder) learnNumbers() error {
	ns := b.k.Namespace
	if ns == nil {
		return nil
	}
	var numbers, nr, space, common, inum int
	n := &b.numbering
	for _, m := range []struct {
		typ, member string
		at          *int
	}{
		{"task_struct", "group_leader", &n.leader}, {"task_struct", "thread_pid", &n.pid},
		{"pid", "level", &n.level}, {"pid", "numbers", &numbers},
		{"upid", "nr", &nr}, {"upid", "ns", &space}, {"pid_namespace", "ns", &common},
		{"ns_common", "inum", &inum},
	} {
		off, err := b.offset(m.typ, m.member)
		if err != nil {
			return err
		}
		*m.at = off
	}
	at := numbers + upidSize*ns.Level
	n.number, n.ns, n.inum = at+nr, at+space, common+inum
	return nil
}

// ids leaves the process ID in the upper half of r0 and the thread ID in the lower, like
// bpf_get_current_pid_tgid, but in culprit's PID namespace: 0 is outside of it.
func (b *builder) ids() {
	if b.k.Namespace == nil {
		b.call(asm.FnGetCurrentPidTgid)
		return
	}
	b.call(asm.FnGetCurrentTask)
	b.idsOf()
}

// idsOf is ids for the thread whose task_struct is at r0, in a namespace.
func (b *builder) idsOf() {
	b.mov(asm.R1, asm.R0)
	b.callSub(b.function("ids", func() {
		n := &b.numbering
		number := b.function("innamespace", b.makeInNamespace)
		b.mov(asm.R6, asm.R1)
		b.mov(asm.R3, asm.R6)
		b.kernelWord(n.leader, 8, -8)
		b.mov(asm.R3, asm.R0)
		b.kernelWord(n.pid, 8, -8)
		b.mov(asm.R1, asm.R0)
		b.callSub(number)
		b.mov(asm.R7, asm.R0)
		b.mov(asm.R3, asm.R6)
		b.kernelWord(n.pid, 8, -8)
		b.mov(asm.R1, asm.R0)
		b.callSub(number)
		b.add(asm.LSh.Imm(asm.R7, 32))
		b.alu(asm.Or, asm.R0, asm.R7)
		b.exit()
	}))
}

// makeInNamespace makes the function that returns the ID in the namespace of the struct pid at r1:
//
//	pid && pid->level >= LEVEL && pid->numbers[LEVEL].ns->ns.inum == INUM
//		? pid->numbers[LEVEL].nr : 0
func (b *builder) makeInNamespace() {
	none := b.label()
	n, ns := &b.numbering, b.k.Namespace
	b.mov(asm.R6, asm.R1)
	b.ifImm(asm.JEq, asm.R6, 0, none, asm.R1)
	b.mov(asm.R3, asm.R6)
	b.kernelWord(n.level, 4, -8)
	b.ifImm(asm.JLT, asm.R0, int64(ns.Level), none, asm.R1)
	b.mov(asm.R3, asm.R6)
	b.kernelWord(n.ns, 8, -8)
	b.ifImm(asm.JEq, asm.R0, 0, none, asm.R1)
	b.mov(asm.R3, asm.R0)
	b.kernelWord(n.inum, 4, -8)
	b.ifImm(asm.JNE, asm.R0, int64(ns.Inum), none, asm.R1)
	b.mov(asm.R3, asm.R6)
	b.kernelWord(n.number, 4, -8)
	b.exit()
	b.bind(none)
	b.movImm(asm.R0, 0)
	b.exit()
}

// half leaves the process or the thread of the result of ids in r0.
func (b *builder) half(which check.BuiltinVar) {
	if which == check.BuiltinTID {
		b.extend(asm.R0, 4, false)
		return
	}
	b.add(asm.RSh.Imm(asm.R0, 32))
}
