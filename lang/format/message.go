package format

import (
	"fmt"
	"strconv"
)

// Faults of a running program are printed on standard error, each line after "dtrace: ".

// A Fault is the reason why a clause was aborted; its number is arg4 of the ERROR probe.
type Fault int

// The faults.
const (
	FaultUnknown Fault = iota
	FaultBadAddress
	FaultBadAlign
	FaultIllegal
	FaultDivideByZero
	FaultNoScratch
	FaultKernelAccess
	FaultUserAccess
	FaultTuple
	FaultBadStack
	FaultBadSize
	FaultBadIndex
	FaultLibrary Fault = 1000 // an action failed in user space
)

// String returns the name of a fault.
func (f Fault) String() string {
	switch f {
	case FaultBadAddress:
		return "invalid address"
	case FaultBadAlign:
		return "invalid alignment"
	case FaultIllegal:
		return "illegal operation"
	case FaultDivideByZero:
		return "divide-by-zero"
	case FaultNoScratch:
		return "out of scratch space"
	case FaultKernelAccess:
		return "invalid kernel access"
	case FaultUserAccess:
		return "invalid user access"
	case FaultTuple:
		return "tuple stack overflow"
	case FaultBadStack:
		return "bad stack"
	case FaultBadSize:
		return "invalid size"
	case FaultBadIndex:
		return "index out of bounds"
	case FaultLibrary:
		return "library-level fault"
	}
	return "unknown fault"
}

// Message returns the line for a fault in a clause, counted from 0, at a probe. value is the
// address, size or index at fault; an address of -1 is unknown. pc is the faulting instruction;
// negative: unknown.
func (f Fault) Message(clause int, probe uint32, name string, value uint64, pc int) string {
	details := ""
	switch f {
	case FaultBadAddress, FaultBadAlign, FaultBadStack, FaultBadSize:
		if f != FaultBadAddress || int64(value) != -1 {
			details = " (0x" + strconv.FormatUint(value, 16) + ")"
		}
	case FaultNoScratch:
		details = " (-x scratchsize=BYTES sets how much there is)"
	case FaultBadIndex:
		details = " (" + strconv.FormatInt(int64(value), 10) + ")"
	}
	at := ""
	if pc >= 0 {
		at = " at BPF pc " + strconv.Itoa(pc)
	}
	return fmt.Sprintf(
		"error in dt_clause_%d for probe ID %d (%s): %s%s%s", clause, probe, name, f, details, at,
	)
}

// LibraryMessage returns the line for a failed action in user space: couldn't set option "x" to
// "1": ...
func LibraryMessage(clause int, probe uint32, name, what string) string {
	return fmt.Sprintf("error in dt_clause_%d for probe ID %d (%s): %s", clause, probe, name, what)
}
