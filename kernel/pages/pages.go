// Package pages keeps little of the program's own file in the process's memory. It has to be there before other packages make their tables, so
// it needs none of them: Go starts packages in the order of their names as soon as what they import has started. It looks at no file but the
// program's own, and where the kernel will not have it, it changes nothing.
//
// A fault in a file maps the sixteen pages around it, as far as the kernel has them in its cache. Of a program as large as this one the tables and functions that a start
// touches are spread over most of the file, and three quarters of the pages that come along are never looked at. Yet they count as resident.
package pages

import (
	"runtime"
	"syscall"
	"unsafe"
)

// Single says whether a fault in the program's file maps the one page that is wanted.
func Single() bool { return single }

var single = begin()

// begin has faults map single pages, and drops what the runtime's own start has brought along.
func begin() bool {
	own := own()
	if !watch(own) {
		return false
	}
	forget(own)
	return true
}

// Forget takes the pages of the program's file that can only be read out of the process's memory. What is needed comes back, a fault at a time, from the
// kernel's cache of the file, where all of it stays. A mapping that somebody has written to, as debuggers and uprobes do, is left as it is.
func Forget() { forget(own()) }

func forget(maps []mapping) {
	for _, m := range maps {
		_, _, _ = syscall.RawSyscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED) // refused: they stay
	}
}

// A mapping is a part of the program's file in memory.
type mapping struct{ start, end uintptr }

// own gives the mappings of the program's file that can't be written, and of which no page is the process's own.
func own() []mapping {
	fd, err := syscall.Open("/proc/self/smaps", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	// The program's own mappings come first, below all others: of what is behind them, each of which the kernel walks through, nothing is wanted.
	var text [ownMaps]byte
	n := 0
	for n < len(text) {
		got, err := syscall.Read(fd, text[n:])
		if got <= 0 || err != nil {
			break // less is all that there is
		}
		n += got
	}
	_ = syscall.Close(fd)
	var path [1024]byte
	at, err := syscall.Readlink("/proc/self/exe", path[:])
	if err != nil || at <= 0 || at == len(path) {
		return nil
	}
	return parseOwn(string(text[:n]), string(path[:at]))
}

const ownMaps = 8 << 10 // the four of a program that Go has linked take 3 kB

// parseOwn gives the start and end of each mapping of the file at path that can't be written, and of which no page is its own.
//
//	00400000-010af000 r-xp 00000000 fe:00 6554     /usr/bin/culprit
//	Size:              12988 kB
//	Anonymous:             0 kB
func parseOwn(smaps, path string) (found []mapping) {
	var m mapping
	for len(smaps) > 0 {
		var line string
		line, smaps = cut(smaps, '\n')
		first, rest := cut(line, ' ')
		if len(first) > 0 && first[len(first)-1] == ':' {
			if first == "Anonymous:" {
				for len(rest) > 0 && rest[0] == ' ' {
					rest = rest[1:]
				}
				if m.end > 0 && rest == "0 kB" {
					found = append(found, m)
				}
				m = mapping{}
			}
			continue
		}
		m = mapping{}
		rights, rest := cut(rest, ' ')
		for range 3 { // offset, device, inode
			_, rest = cut(rest, ' ')
		}
		for len(rest) > 0 && rest[0] == ' ' {
			rest = rest[1:]
		}
		if len(rights) < 2 || rights[0] != 'r' || rights[1] != '-' || rest != path {
			continue
		}
		from, to := cut(first, '-')
		start, ok1 := hex(from)
		end, ok2 := hex(to)
		if ok1 && ok2 && start < end {
			m = mapping{start, end}
		}
	}
	return found
}

// cut splits a text at the first byte of this value.
func cut(s string, at byte) (before, after string) {
	for i := range len(s) {
		if s[i] == at {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

func hex(s string) (v uintptr, ok bool) {
	if len(s) == 0 || len(s) > 2*int(unsafe.Sizeof(v)) {
		return 0, false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			v = v<<4 | uintptr(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | uintptr(c-'a'+10)
		default:
			return 0, false
		}
	}
	return v, true
}

// Of userfaultfd(2). A range that is registered for write protection is mapped page by page, since each of its pages may be protected or not
// (mm/memory.c, should_fault_around); none ever is. Linux 6.7 and later take ranges of files that way, when it is asked for protection
// that the kernel lifts by itself, so that no fault waits for anybody.
//
// table: include/uapi/linux/userfaultfd.h
const (
	userModeOnly = 1           // the flag that needs no right
	apiVersion   = 0xaa        // UFFD_API
	protectAsync = 1 << 15     // UFFD_FEATURE_WP_ASYNC
	protect      = 1 << 1      // UFFDIO_REGISTER_MODE_WP
	sayVersion   = 0xc018_aa3f // UFFDIO_API
	register     = 0xc020_aa00 // UFFDIO_REGISTER
)

// watch registers mappings, all of them or none. The descriptor that it takes stays open as long as the process lives.
func watch(maps []mapping) bool {
	number := uintptr(0)
	switch runtime.GOARCH {
	case "amd64":
		number = 323
	case "arm64":
		number = 282
	}
	if number == 0 || len(maps) == 0 {
		return false
	}
	fd, _, errno := syscall.RawSyscall(number, userModeOnly|syscall.O_CLOEXEC, 0, 0)
	if errno != 0 {
		return false
	}
	api := struct{ version, features, calls uint64 }{apiVersion, protectAsync, 0}
	_, _, errno = syscall.RawSyscall(syscall.SYS_IOCTL, fd, sayVersion, uintptr(unsafe.Pointer(&api)))
	for _, m := range maps {
		if errno != 0 {
			break
		}
		r := struct{ start, length, mode, calls uint64 }{uint64(m.start), uint64(m.end - m.start), protect, 0}
		_, _, errno = syscall.RawSyscall(syscall.SYS_IOCTL, fd, register, uintptr(unsafe.Pointer(&r)))
	}
	if errno != 0 {
		_ = syscall.Close(int(fd))
		return false
	}
	return true
}
