package kernel

import (
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// UnreadNote returns a note about processes that can't be read: lacking, which asks for the
// capabilities, or a note that asks for nothing where this process holds them.
func UnreadNote(lacking string, capabilities ...int) string {
	if Holds(capabilities...) {
		return measure.UnreadProcesses()
	}
	return lacking
}

// protected is the error of processes that can't be read although CAP_SYS_PTRACE is held. errors.Is
// measure.ErrDenied.
type protected struct{}

// Error returns the note.
func (protected) Error() string { return measure.UnreadProcesses() }

// Is makes errors.Is(err, measure.ErrDenied) true.
func (protected) Is(target error) bool { return target == measure.ErrDenied }

// Unreadable returns the error of processes that can't be read. errors.Is measure.ErrDenied.
func Unreadable(doing string) error {
	if Holds(unix.CAP_SYS_PTRACE) {
		return protected{}
	}
	return Refused(doing, "", unix.CAP_SYS_PTRACE)
}
