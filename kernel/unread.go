package kernel

import (
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// UnreadNote returns the note about processes that may not be looked into: lacking, the words that ask
// for the capabilities, or where those are held what says so.
func UnreadNote(lacking string, capabilities ...int) string {
	if Holds(capabilities...) {
		return measure.UnreadProcesses()
	}
	return lacking
}

// protected is processes that may not be looked into though CAP_SYS_PTRACE is held. errors.Is
// measure.ErrDenied.
type protected struct{}

// Error returns the note.
func (protected) Error() string { return measure.UnreadProcesses() }

// Is makes errors.Is(err, measure.ErrDenied) true.
func (protected) Is(target error) bool { return target == measure.ErrDenied }

// unreadable returns the error of processes that may not be looked into.
func Unreadable(doing string) error {
	if Holds(unix.CAP_SYS_PTRACE) {
		return protected{}
	}
	return Refused(doing, "", unix.CAP_SYS_PTRACE)
}
