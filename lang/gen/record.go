package gen

import (
	"slices"

	"culprit/lang/check"
	"culprit/lang/ir"
)

// The records that perf makes of the trace events raw_syscalls:sys_enter and sys_exit, as programs get them (tracefs,
// events/raw_syscalls/*/format): 8 bytes that are not for programs, i64 number, and the six arguments or what the call returned. Who
// says Kernel.Records has seen that it is so. A stack read there begins where perf was called from; at the raw tracepoint the kernel
// unwinds the program itself and bpf_trace_run2, which it finds in no table, and that takes a quarter of all the time of reading one.
// Making the record costs 35 ns, at every system call, so it is for programs that read stacks alone.
const (
	recordNumber = 8
	recordArgs   = 16
)

// RecordedAt is where the number of the call and what comes behind it lie in those records.
func RecordedAt() (number, args int) { return recordNumber, recordArgs }

// wantsRecord says whether the program is to be attached to perf's records.
func (b *builder) wantsRecord() bool {
	if !b.k.Records || b.site != check.SiteSyscallEntry && b.site != check.SiteSyscallReturn || b.other() || b.k.Compat && !b.statusTold() {
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

// usesKernelFrames says whether a step wants frames of the kernel.
func usesKernelFrames(s *ir.Step) bool {
	return s.Op == ir.OpStack && s.Space == check.Kernel ||
		s.Op == ir.OpBuiltin && (s.Which == check.BuiltinStackDepth || s.Which == check.BuiltinCaller || s.Which == check.BuiltinFrame)
}

// statusTold says whether the thread's own status tells that its system call is one of 32 bits.
func (b *builder) statusTold() bool { return b.k.TaskBTF && !b.arm }

// resultAt is where what a system call returned lies in what a program gets.
func (b *builder) resultAt() int {
	if b.record {
		return recordArgs
	}
	return 8
}
