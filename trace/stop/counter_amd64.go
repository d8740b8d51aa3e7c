package stop

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// programCounter returns the program counter of a process that is stopped, and sets it unless set
// is nil.
func programCounter(pid int, set *uint64) (uint64, error) {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &regs); err != nil {
		return 0, fmt.Errorf("read its registers: %w", err)
	}
	if set == nil {
		return regs.Rip, nil
	}
	regs.Rip = *set
	if err := unix.PtraceSetRegs(pid, &regs); err != nil {
		return 0, fmt.Errorf("write its registers: %w", err)
	}
	return *set, nil
}
