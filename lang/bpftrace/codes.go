package bpftrace

import "culprit/lang/syntax"

// The codes of mistakes in programs of bpftrace.
const (
	// BadSyntax is a text that bpftrace's grammar does not allow.
	BadSyntax syntax.Code = "bpftrace-syntax"
	// TooLarge is a text, a nesting or an unrolled loop that exceeds a limit.
	TooLarge syntax.Code = "bpftrace-too-large"
	// Unsupported is a construct of bpftrace that culprit does not have.
	Unsupported syntax.Code = "bpftrace-unsupported"
	// BadCall is a call of a function with arguments that it does not take.
	BadCall syntax.Code = "bpftrace-call"
	// BadMap is a map that is used in two ways that exclude each other.
	BadMap syntax.Code = "bpftrace-map"
	// BadProbe is a description of probes that bpftrace does not have.
	BadProbe syntax.Code = "bpftrace-probe"
	// BadFormat is a format that does not fit its arguments.
	BadFormat syntax.Code = "bpftrace-format"
	// Unsafe is a function that changes the system without --unsafe.
	Unsafe syntax.Code = "bpftrace-unsafe"
)
