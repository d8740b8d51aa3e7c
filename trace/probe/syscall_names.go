package probe

import (
	"slices"
	"strconv"

	"culprit/lang/check"
)

// SyscallName returns the name of the system call with this return probe, or the call's number when
// it has no name.
func SyscallName(id int64) string { return CallName((id - firstSyscall) / 2) }

// CallName returns the name of a system call by its number, of those of 32-bit processes with
// check.CompatCalls added. It returns the number when the call has no name.
func CallName(nr int64) string {
	switch {
	case nr >= 0 && nr < int64(len(syscallNames)):
		return syscallNames[nr]
	case nr >= check.CompatCalls && nr < check.CompatCalls+int64(len(narrowSyscalls)):
		return narrowSyscalls[nr-check.CompatCalls]
	}
	return strconv.FormatInt(nr, 10)
}

// EachSyscall calls yield with the ID of the return probe and the name of each system call, until
// yield returns false. A 32-bit call is named only where no 64-bit call has its name.
func EachSyscall(yield func(int64, string) bool) {
	for nr, name := range syscallNames {
		if name != "" && !yield(int64(firstSyscall+2*nr+1), name) {
			return
		}
	}
	for nr, name := range narrowSyscalls {
		if name != "" && !slices.Contains(syscallNames[:], name) &&
			!yield(int64(firstSyscall+2*(nr+check.CompatCalls)+1), name) {
			return
		}
	}
}
