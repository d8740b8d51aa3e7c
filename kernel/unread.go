package kernel

import (
	"sync"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// holdsPtrace reports whether this process holds CAP_SYS_PTRACE.
// table: asked once, at the first refusal; rights are dropped before anything is read
var holdsPtrace = sync.OnceValue(func() bool {
	c, err := Root{}.Capabilities()
	return err == nil && c.Has(unix.CAP_SYS_PTRACE)
})

// UnreadNote returns the note about processes that may not be looked into: lacking, the words that ask
// for CAP_SYS_PTRACE, or where that is held what says so.
func UnreadNote(lacking string) string {
	if holdsPtrace() {
		return measure.UnreadThoughHeld()
	}
	return lacking
}

// protected is processes that may not be looked into though CAP_SYS_PTRACE is held. errors.Is
// measure.ErrDenied.
type protected struct{}

// Error returns the note.
func (protected) Error() string { return measure.UnreadThoughHeld() }

// Is makes errors.Is(err, measure.ErrDenied) true.
func (protected) Is(target error) bool { return target == measure.ErrDenied }

// unreadable returns the error of processes that may not be looked into.
func unreadable(doing string) error {
	if holdsPtrace() {
		return protected{}
	}
	return &measure.Denied{Doing: doing, Needs: "CAP_SYS_PTRACE"}
}
