package kernel

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ForgetProgram takes the pages of the program's own file out of this process's memory, as far as they can only be read: what
// starting touched - tables of all that is linked in - is most of them, and what runs on comes back, sixteen pages a fault, from the
// kernel's cache of the file, where all of it stays. A mapping that somebody has written to, as debuggers and uprobes do, is left as it is.
func ForgetProgram() {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	// The program's own mappings come first, below all others: of what is behind them, each of which the kernel walks through, nothing is wanted.
	var maps [ownMaps]byte
	n, _ := io.ReadFull(f, maps[:]) // less is all that there is
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	for _, m := range parseOwn(maps[:n], self) {
		_, _, _ = unix.RawSyscall(unix.SYS_MADVISE, m[0], m[1]-m[0], unix.MADV_DONTNEED) // refused: they stay
	}
}

const ownMaps = 8 << 10 // the four of a program that Go has linked take 3 kB

// parseOwn gives the start and end of each mapping of the file at path that can't be written, and of which no page is its own.
//
//	00400000-010af000 r-xp 00000000 fe:00 6554     /usr/bin/culprit
//	Size:              12988 kB
//	Anonymous:             0 kB
func parseOwn(smaps []byte, path string) (found [][2]uintptr) {
	var at [2]uintptr
	for c := Scan(smaps); !c.End(); {
		line := c.Line()
		words := Scan(line)
		first := words.Word()
		if len(first) > 0 && first[len(first)-1] == ':' {
			if string(first) == "Anonymous:" && at[1] > 0 {
				if words.Uint() == 0 && words.Err() == nil {
					found = append(found, at)
				}
				at[1] = 0
			}
			continue
		}
		at[1] = 0
		rights := words.Word()
		words.Skip(3)
		if len(rights) < 2 || rights[0] != 'r' || rights[1] != '-' || string(bytes.TrimLeft(words.Rest(), " ")) != path {
			continue
		}
		from, to, ok := bytes.Cut(first, []byte("-"))
		start, end := Scan(from), Scan(to)
		if at = [2]uintptr{uintptr(start.Hex()), uintptr(end.Hex())}; !ok || start.Err() != nil || end.Err() != nil || at[0] >= at[1] {
			at[1] = 0
		}
	}
	return found
}
