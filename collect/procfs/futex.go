package procfs

import "golang.org/x/sys/unix"

// Futex is a wait of a thread for a lock of its program, by the arguments of futex(2).
type Futex struct {
	Addr  uint64 // of the lock's word
	Owner int32  // thread that holds the lock; 0: the arguments do not name it
	// Sure: only a lock is waited for in this way. Otherwise it is a lock when several threads wait
	// at the address: a condition variable of musl has an address per thread.
	Sure bool
}

// Commands and options of futex(2), include/uapi/linux/futex.h.
const (
	futexWait       = 0
	futexLockPI     = 6
	futexWaitBitset = 9
	futexLockPI2    = 13
	futexCommand    = 0x7f
	futexWaiters    = 1 << 31
	futexOwner      = 1<<30 - 1

	// contended is the word of a lock that others wait for, in glibc, Rust and Go before 1.24
	contended = 2
	// muslContended is that of musl's simplest mutex: EBUSY, and that somebody waits
	muslContended = futexWaiters | 16
)

// isThread reports whether a number may be a thread: PID_MAX_LIMIT, include/linux/threads.h. A
// parked thread of Rust waits at a word with all bits set.
func isThread(n uint64) bool { return n > 0 && n <= 1<<22 }

// LockWait returns the lock that a thread waits for in a system call. It returns false for other
// calls, and for waits that are not for a lock: condition variables, semaphores, ends of threads.
// A wait for a lock compares its word with one that means "held, and others wait": 2, or the
// thread that holds it with the bit FUTEX_WAITERS (musl, robust locks). Locks with priority
// inheritance have a command of their own. Number is that of culprit's own architecture.
//
//	202 0x564b844fd0e0 0x80 0x2 0x0 0x0 0x0 0x7fdf4fc37e78 0x7fdf4fcc212b    a lock
//	202 0x55859163d0cc 0x189 0x0 0x0 0x0 0xffffffff 0x7f71cb8e2d90 ...       a condition
func (s Syscall) LockWait() (Futex, bool) {
	if s.Number != unix.SYS_FUTEX {
		return Futex{}, false
	}
	f, word := Futex{Addr: s.Args[0]}, s.Args[2]&(1<<32-1)
	switch s.Args[1] & futexCommand {
	case futexLockPI, futexLockPI2:
		f.Sure = true
		return f, true
	case futexWait, futexWaitBitset:
	default:
		return Futex{}, false
	}
	switch {
	case word == contended:
		return f, true
	case word == muslContended:
		f.Sure = true
		return f, true
	case word&futexWaiters != 0 && isThread(word&futexOwner):
		f.Owner, f.Sure = int32(word&futexOwner), true
		return f, true
	}
	return Futex{}, false
}

// IsFutex reports whether a thread waits in futex(2), for whatever.
func (s Syscall) IsFutex() bool { return s.Number == unix.SYS_FUTEX }

// LockOwner returns the thread that holds a lock, by the first bytes of the lock in memory; 0 when
// they do not name it. PI locks and those of musl have it in their word, a mutex of glibc in the
// third one.
func LockOwner(b []byte) int32 {
	word := func(at int) uint64 {
		if len(b) < at+4 {
			return 0
		}
		return uint64(b[at]) | uint64(b[at+1])<<8 | uint64(b[at+2])<<16 | uint64(b[at+3])<<24
	}
	switch first := word(0); {
	case first == muslContended:
	case first == contended || first == 1:
		if owner := word(8); isThread(owner) {
			return int32(owner)
		}
	case isThread(first & futexOwner):
		return int32(first & futexOwner)
	}
	return 0
}
