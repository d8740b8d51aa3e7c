package gen

import (
	"slices"

	"culprit/lang/check"
	"culprit/lang/ir"
)

// The records of perf for the trace events raw_syscalls:sys_enter and sys_exit, as programs receive
// them (tracefs, events/raw_syscalls/*/format): 8 private bytes, i64 number, and the six arguments
// or the return value. The caller that sets Kernel.Records has checked the format.
//
// A stack read there begins at perf's caller. At the raw tracepoint the kernel also unwinds the
// program and bpf_trace_run2, which it finds in no table; that is a quarter of the time of reading
// a stack. Making the record costs 35 ns per system call, so only programs that read stacks use it.
const (
	recordNumber = 8
	recordArgs   = 16
)

// RecordedAt returns the offsets of the call's number and of its arguments in those records.
func RecordedAt() (number, args int) { return recordNumber, recordArgs }

// wantsRecord reports whether to attach the program to perf's records.
func (b *builder) wantsRecord() bool {
	if !b.k.Records || b.site != check.SiteSyscallEntry && b.site != check.SiteSyscallReturn ||
		b.other() ||
		b.k.Compat && !b.hasCompatStatus() {
		return false
	}
	for _, n := range b.clauses {
		for _, bl := range b.p.Clauses[n].Blocks {
			if slices.ContainsFunc(bl.Steps, func(s ir.Step) bool { return usesKernelFrames(&s) }) {
				return true
			}
		}
	}
	return false
}

// usesKernelFrames reports whether a step reads frames of the kernel.
func usesKernelFrames(s *ir.Step) bool {
	return s.Op == ir.OpStack && s.Space == check.Kernel ||
		s.Op == ir.OpBuiltin &&
			(s.Which == check.BuiltinStackDepth || s.Which == check.BuiltinCaller ||
				s.Which == check.BuiltinFrame)
}

// hasCompatStatus reports whether the thread's status shows a 32-bit system call.
func (b *builder) hasCompatStatus() bool { return b.k.TaskBTF && !b.arm }

// resultAt returns the offset of a system call's return value in the context.
func (b *builder) resultAt() int {
	if b.record {
		return recordArgs
	}
	return 8
}
