package stop

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// counterAt is the offset of rip in struct user. PTRACE_GETREGS has other registers for a 32-bit
// process.
const counterAt = 16 * 8

// programCounter returns the program counter of a process that is stopped, and sets it unless set
// is nil.
func programCounter(pid int, set *uint64) (uint64, error) {
	var word [8]byte
	if set == nil {
		if _, err := unix.PtracePeekUser(pid, counterAt, word[:]); err != nil {
			return 0, fmt.Errorf("read its registers: %w", err)
		}
		return binary.NativeEndian.Uint64(word[:]), nil
	}
	binary.NativeEndian.PutUint64(word[:], *set)
	if _, err := unix.PtracePokeUser(pid, counterAt, word[:]); err != nil {
		return 0, fmt.Errorf("write its registers: %w", err)
	}
	return *set, nil
}
