package stop

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// registerSet is the kernel's NT_PRSTATUS.
const registerSet = 1

// programCounter returns the program counter of a process that is stopped, and sets it unless set
// is nil.
func programCounter(pid int, set *uint64) (uint64, error) {
	var regs unix.PtraceRegsArm64
	if err := unix.PtraceGetRegSetArm64(pid, registerSet, &regs); err != nil {
		return 0, fmt.Errorf("read its registers: %w", err)
	}
	if set == nil {
		return regs.Pc, nil
	}
	regs.Pc = *set
	if err := unix.PtraceSetRegSetArm64(pid, registerSet, &regs); err != nil {
		return 0, fmt.Errorf("write its registers: %w", err)
	}
	return *set, nil
}
