package procfs

import (
	"bytes"
	"runtime"

	"culprit/kernel/proc"

	"golang.org/x/sys/unix"
)

// Syscall is the system call in which a task waits, from /proc/PID/syscall (since Linux 2.6.27).
type Syscall struct {
	Number uint64
	Args   [3]uint64
}

// ParseSyscall parses /proc/PID/syscall. It returns false for a task that runs, or waits outside of
// a system call.
//
//	257 0xffffff9c 0x7ffec710cabb 0x241 0x1b6 0x0 0x0 0x7ffec710c1a0 0x7f1774e0e011
//	running
//	-1 0x7ffec710c1a0 0x7f1774e0e011
func ParseSyscall(b []byte) (s Syscall, ok bool) {
	c := proc.Scan(b)
	s.Number = c.Uint()
	for i := range s.Args {
		word := c.Word()
		digits, has := bytes.CutPrefix(word, []byte("0x"))
		v, err := proc.ParseHex(digits)
		if !has || err != nil {
			return Syscall{}, false
		}
		s.Args[i] = v
	}
	return s, c.Err() == nil
}

// FileArgs are the arguments of a system call that name a file: indices of Syscall.Args, -1 for
// none. A path is relative to the directory that fd names, or to the working directory without fd.
type FileArgs struct{ FD, Path int }

// FileArgs returns the arguments of the call that name a file, and false when none does, or the
// call is not in the table. Numbers are those of culprit's own architecture; a 32-bit process on a
// 64-bit kernel has others.
func (s Syscall) FileArgs() (FileArgs, bool) {
	switch s.Number {
	case unix.SYS_READ, unix.SYS_WRITE, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_READV,
		unix.SYS_WRITEV, unix.SYS_PREADV, unix.SYS_PWRITEV, unix.SYS_PREADV2, unix.SYS_PWRITEV2,
		unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNC_FILE_RANGE, unix.SYS_SYNCFS,
		unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE, unix.SYS_GETDENTS64, unix.SYS_FSTAT,
		unix.SYS_FSTATFS, unix.SYS_FCHMOD, unix.SYS_FCHOWN, unix.SYS_FCHDIR, unix.SYS_FLOCK,
		unix.SYS_FCNTL, unix.SYS_IOCTL, unix.SYS_LSEEK, unix.SYS_SENDFILE,
		unix.SYS_COPY_FILE_RANGE, unix.SYS_FSETXATTR, unix.SYS_FGETXATTR:
		return FileArgs{FD: 0, Path: -1}, true
	case unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_UNLINKAT,
		unix.SYS_RENAMEAT2, unix.SYS_LINKAT, unix.SYS_READLINKAT, unix.SYS_FCHMODAT,
		unix.SYS_FCHOWNAT, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_UTIMENSAT,
		unix.SYS_STATX, unix.SYS_EXECVEAT:
		return FileArgs{FD: 0, Path: 1}, true
	case unix.SYS_SYMLINKAT:
		return FileArgs{FD: 1, Path: 2}, true
	case unix.SYS_EXECVE, unix.SYS_TRUNCATE, unix.SYS_STATFS, unix.SYS_CHDIR, unix.SYS_UMOUNT2,
		unix.SYS_SETXATTR, unix.SYS_GETXATTR, unix.SYS_LISTXATTR:
		return FileArgs{FD: -1, Path: 0}, true
	}
	return s.archArgs()
}

// archArgs is FileArgs of calls that only some architectures have, or under other names.
func (s Syscall) archArgs() (FileArgs, bool) {
	if runtime.GOARCH != "amd64" {
		const fstatat = 79 // of architectures with the generic table: arm64, riscv64, loong64
		return FileArgs{FD: 0, Path: 1}, s.Number == fstatat
	}
	// arch/x86/entry/syscalls/syscall_64.tbl
	switch s.Number {
	case 262, 261, 264: // newfstatat futimesat renameat
		return FileArgs{FD: 0, Path: 1}, true
	case 78: // getdents
		return FileArgs{FD: 0, Path: -1}, true
	case 2, 4, 6, 21, 82, 83, 84, 85, // open stat lstat access rename mkdir rmdir creat
		86, 87, 89, 90, 92, 94, // link unlink readlink chmod chown lchown
		132, 133, 235: // utime mknod utimes
		return FileArgs{FD: -1, Path: 0}, true
	case 88: // symlink
		return FileArgs{FD: -1, Path: 1}, true
	}
	return FileArgs{}, false
}
