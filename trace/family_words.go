package trace

import (
	"slices"
	"strconv"

	"culprit/lang/check"

	"golang.org/x/sys/unix"
)

// A naming is what numbers of a program are called in statistics. Different numbers have different words.
type naming struct {
	say func(number int64) string
	all func(yield func(number int64, word string) bool) // numbers that have a word
}

// namingOf gives a naming; nil: there is none of that name.
func namingOf(name string) *naming {
	switch name {
	case "syscall":
		return &naming{syscallOf, eachSyscall}
	case "errno":
		return &naming{errnoName, eachErrno}
	}
	return nil
}

// word gives what is said for a number that stands in a key.
func (n *naming) word(key string) string {
	number, err := strconv.ParseInt(key, 10, 64)
	if err != nil {
		return key
	}
	return n.say(number)
}

// syscallOf gives the name of a system call by the number of its return probe.
func syscallOf(id int64) string {
	nr := (id - firstSyscall) / 2
	switch {
	case nr >= 0 && nr < int64(len(syscallNames)):
		return syscallNames[nr]
	case nr >= check.CompatCalls && nr < check.CompatCalls+int64(len(narrowSyscalls)):
		return narrowSyscalls[nr-check.CompatCalls]
	}
	return strconv.FormatInt(nr, 10)
}

func eachSyscall(yield func(int64, string) bool) {
	for nr, name := range syscallNames {
		if name != "" && !yield(int64(firstSyscall+2*nr+1), name) {
			return
		}
	}
	for nr, name := range narrowSyscalls {
		if name != "" && !slices.Contains(syscallNames[:], name) && !yield(int64(firstSyscall+2*(nr+check.CompatCalls)+1), name) {
			return
		}
	}
}

// noError is what is said where a system call returned no error.
const noError = "none"

func errnoName(n int64) string {
	if n == 0 {
		return noError
	}
	if name := unix.ErrnoName(unix.Errno(n)); name != "" {
		return name
	}
	return strconv.FormatInt(n, 10) // those of the kernel's own have none: ERESTARTSYS 512
}

func eachErrno(yield func(int64, string) bool) {
	for n := int64(0); n < 4096; n++ { // MAX_ERRNO
		if !yield(n, errnoName(n)) {
			return
		}
	}
}
