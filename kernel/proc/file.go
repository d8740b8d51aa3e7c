package proc

import (
	"errors"
	"io/fs"
	"strconv"
	"unsafe"

	"culprit/kernel"

	"golang.org/x/sys/unix"
)

// MaxFile bounds what is read of one file, against files that never end. The longest that is read,
// /proc/kallsyms, has 10 to 20 MB.
const MaxFile = 256 << 20

// ErrTooLong is returned for a file longer than MaxFile.
var ErrTooLong = errors.New("file too long")

// firstBuffer is the first size of a buffer. seq_file renders into one page at first, so a smaller
// buffer costs more calls.
const firstBuffer = 4096

// OpenProc opens a file below the proc root: OpenProc(r, "net/snmp"). The caller closes it. The
// error is that of Open.
func OpenProc(r kernel.Root, name string) (*File, error) { return Open(r.InProc(name)) }

// OpenSys opens a file below the sys root: OpenSys(r, "kernel/btf/vmlinux"). The caller closes it.
// The error is that of Open.
func OpenSys(r kernel.Root, name string) (*File, error) { return Open(r.InSys(name)) }

// OpenProcDir opens a directory below the proc root; "" is the proc root itself. The caller closes
// it. The error is that of OpenDir.
func OpenProcDir(r kernel.Root, name string) (*Dir, error) { return OpenDir(r.InProc(name)) }

// OpenSysDir opens a directory below the sys root. The caller closes it. The error is that of
// OpenDir.
func OpenSysDir(r kernel.Root, name string) (*Dir, error) { return OpenDir(r.InSys(name)) }

// ReadProc reads a file below the proc root once. Buffer and error are those of ReadFile.
func ReadProc(r kernel.Root, name string, buf []byte) ([]byte, error) {
	return ReadFile(r.InProc(name), buf)
}

// ReadSys reads a file below the sys root once. Buffer and error are those of ReadFile.
func ReadSys(r kernel.Root, name string, buf []byte) ([]byte, error) {
	return ReadFile(r.InSys(name), buf)
}

// File is an open file of /proc, /sys or a cgroup. Each Read returns the content at that moment.
// The buffer is reused and grows, so a Read allocates nothing once the content fits.
type File struct {
	fd   int
	path string
	buf  []byte
}

// Open opens path for reading. The caller closes the File; there is no finalizer. The error is an
// *fs.PathError.
func Open(path string) (*File, error) {
	fd, err := open(path, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &File{fd: fd, path: path}, nil
}

// Path returns the name under which the file was opened.
func (f *File) Path() string { return f.path }

// Read returns the whole content, valid until the next Read, ReadOne or Close. It reads until the
// kernel returns 0 bytes, because files of many records (seq_file) return at most one page per
// call.
//
// The error is a bare kernel.Errno, without path or allocation. errors.Is fs.ErrNotExist: the
// process, device or cgroup of the file is gone.
func (f *File) Read() ([]byte, error) {
	b, err := readAll(f.fd, f.buf, false)
	f.buf = b
	return b, err
}

// ReadOne is Read for a file that the kernel renders as one record. A read that does not fill the
// buffer ends it, which saves a system call.
//
// It is right for sysfs attributes, cgroup files, /proc/PID/{stat,status,io,schedstat,statm} and
// /proc/{stat,meminfo,loadavg,uptime,softirqs,pressure/*,net/snmp,net/netstat,net/sockstat}
// (single_open in fs/proc and net). It would cut off at a page
// /proc/{vmstat,interrupts,diskstats,slabinfo}, net/dev, net/softnet_stat and mountinfo.
func (f *File) ReadOne() ([]byte, error) {
	b, err := readAll(f.fd, f.buf, true)
	f.buf = b
	return b, err
}

// ReadInto is Read into a buffer that many Files share, as for thousands of /proc/PID/stat kept
// open. It returns the content in buf or in a longer buffer, which the caller passes the next time.
// With an error it returns the buffer, emptied.
func (f *File) ReadInto(buf []byte) ([]byte, error) { return readAll(f.fd, buf, false) }

// ReadOneInto is ReadOne into a shared buffer. Buffer and error are those of ReadInto.
func (f *File) ReadOneInto(buf []byte) ([]byte, error) { return readAll(f.fd, buf, true) }

// Close closes the file. A second Close does nothing. The error is that of close(2).
func (f *File) Close() error {
	if f == nil || f.fd < 0 {
		return nil
	}
	err := unix.Close(f.fd)
	f.fd, f.buf = -1, nil
	return kernel.AsError(err)
}

// ReadFile opens, reads and closes a file. It returns the content in buf or in a longer buffer,
// which the caller passes the next time; nil is a good first buf. It allocates nothing when buf is
// long enough. With an error, a bare kernel.Errno, it returns the buffer, emptied.
func ReadFile(path string, buf []byte) ([]byte, error) {
	fd, err := open(path, 0)
	if err != nil {
		return buf[:0], err
	}
	b, err := readAll(fd, buf, false)
	unix.Close(fd)
	return b, err
}

// Dir is an open directory: /proc, /proc/PID/task, a cgroup. Access below it costs less than by
// whole paths.
type Dir struct {
	fd   int
	path string
	buf  []byte
}

// OpenDir opens a directory. The caller closes the Dir. The error is an *fs.PathError.
func OpenDir(path string) (*Dir, error) {
	fd, err := open(path, unix.O_DIRECTORY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &Dir{fd: fd, path: path}, nil
}

// Path returns the name under which the directory was opened.
func (d *Dir) Path() string { return d.path }

// Close closes the directory. A second Close does nothing. The error is that of close(2).
func (d *Dir) Close() error {
	if d == nil || d.fd < 0 {
		return nil
	}
	err := unix.Close(d.fd)
	d.fd, d.buf = -1, nil
	return kernel.AsError(err)
}

// Open opens a file below the directory. The caller closes it. The error is an *fs.PathError.
func (d *Dir) Open(name string) (*File, error) {
	var p [pathBuffer]byte
	fd, err := openAt(d.fd, append(p[:0], name...), 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: d.path + "/" + name, Err: err}
	}
	return &File{fd: fd, path: d.path + "/" + name}, nil
}

// ReadFile reads a file below the directory once. Buffer and error are those of the function
// ReadFile.
func (d *Dir) ReadFile(name string, buf []byte) ([]byte, error) {
	var p [pathBuffer]byte
	return readAt(d.fd, append(p[:0], name...), buf, false)
}

// ReadOne reads a file of one record (see File.ReadOne) below the directory once. Buffer and error
// are those of the function ReadFile.
func (d *Dir) ReadOne(name string, buf []byte) ([]byte, error) {
	var p [pathBuffer]byte
	return readAt(d.fd, append(p[:0], name...), buf, true)
}

// ReadPID reads a file of process pid where d is /proc, or of thread pid where d is /proc/PID/task.
// Buffer and error are those of the function ReadFile; errors.Is fs.ErrNotExist: the process has
// ended.
func (d *Dir) ReadPID(pid int32, name string, buf []byte) ([]byte, error) {
	var p [pathBuffer]byte
	return readAt(d.fd, appendPID(p[:0], pid, name), buf, false)
}

// ReadPIDOne is ReadPID for a file of one record (see File.ReadOne): stat, status, io, schedstat,
// statm, cgroup, comm. The error is that of ReadPID.
func (d *Dir) ReadPIDOne(pid int32, name string, buf []byte) ([]byte, error) {
	var p [pathBuffer]byte
	return readAt(d.fd, appendPID(p[:0], pid, name), buf, true)
}

// OpenPID opens a file of process pid where d is /proc. The caller closes it. To keep thousands
// open, use ReadInto with one buffer, and mind RLIMIT_NOFILE (Go raises the soft limit to the hard
// one). The error is a bare kernel.Errno.
func (d *Dir) OpenPID(pid int32, name string) (*File, error) {
	var p [pathBuffer]byte
	fd, err := openAt(d.fd, appendPID(p[:0], pid, name), 0)
	if err != nil {
		return nil, err
	}
	return &File{fd: fd}, nil
}

// ListPIDs appends the names that are numbers to dst, in the kernel's order (ascending for /proc):
// the processes of /proc, the threads of /proc/PID/task. It allocates nothing once dst has the
// capacity. A process that starts or ends meanwhile may be missing; each pid comes once. The error
// is a bare kernel.Errno.
func (d *Dir) ListPIDs(dst []int32) ([]int32, error) {
	if _, err := unix.Seek(d.fd, 0, unix.SEEK_SET); err != nil {
		return dst, kernel.AsError(err)
	}
	return listPIDs(d.fd, d.direntBuffer(), dst)
}

// ListTIDs appends the threads of process pid to dst, where d is /proc; see ListPIDs. errors.Is
// fs.ErrNotExist: the process has ended.
func (d *Dir) ListTIDs(pid int32, dst []int32) ([]int32, error) {
	return d.listNumbers(pid, "task", dst)
}

// ListFDs appends the numbers of the open files of process pid to dst, where d is /proc. errors.Is
// fs.ErrNotExist: the process has ended; measure.ErrDenied: it is another user's
// (proc_fd_permission).
func (d *Dir) ListFDs(pid int32, dst []int32) ([]int32, error) {
	return d.listNumbers(pid, "fd", dst)
}

func (d *Dir) listNumbers(pid int32, name string, dst []int32) ([]int32, error) {
	var p [pathBuffer]byte
	fd, err := openAt(d.fd, appendPID(p[:0], pid, name), unix.O_DIRECTORY)
	if err != nil {
		return dst, err
	}
	dst, err = listPIDs(fd, d.direntBuffer(), dst)
	unix.Close(fd)
	return dst, err
}

// Names calls f with each name in the directory but "." and "..", in the kernel's order, until f
// returns false. isDir is true for a directory, not for a symbolic link as in /sys/class. name is
// valid during the call only, and f must not use d. The error is a bare kernel.Errno.
func (d *Dir) Names(f func(name []byte, isDir bool) bool) error {
	if _, err := unix.Seek(d.fd, 0, unix.SEEK_SET); err != nil {
		return kernel.AsError(err)
	}
	buf := d.direntBuffer()
	for {
		n, err := getdents(d.fd, buf)
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		for b := buf[:n]; ; {
			var e dirent
			if e, b = nextDirent(b); e.name == nil {
				break
			}
			if s := e.name; len(s) <= 2 && (string(s) == "." || string(s) == "..") {
				continue
			}
			if !f(e.name, e.typ == unix.DT_DIR) {
				return nil
			}
		}
	}
}

func (d *Dir) direntBuffer() []byte {
	if d.buf == nil {
		d.buf = make([]byte, 32<<10) // 1,365 processes a call (24 bytes each)
	}
	return d.buf
}

// ReadLink returns the target of a symbolic link of process pid ("exe", "ns/net") where d is /proc.
// It is in buf, cut off at its length. errors.Is fs.ErrNotExist: the process has ended, or is a
// kernel thread without exe.
func (d *Dir) ReadLink(pid int32, name string, buf []byte) ([]byte, error) {
	var p [pathBuffer]byte
	return readLinkAt(d.fd, append(appendPID(p[:0], pid, name), 0), buf)
}

// readLinkAt reads the link path, which ends with NUL, below the directory fd.
func readLinkAt(fd int, path, buf []byte) ([]byte, error) {
	if len(buf) == 0 {
		return buf, kernel.Errno(unix.EINVAL)
	}
	n, _, e := unix.Syscall6(unix.SYS_READLINKAT, uintptr(fd), uintptr(unsafe.Pointer(&path[0])),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0)
	if e != 0 {
		return buf[:0], kernel.Errno(e)
	}
	return buf[:n], nil
}

// pathBuffer is the size of a path on the stack; a longer one is allocated.
const pathBuffer = 128

func appendPID(p []byte, pid int32, name string) []byte {
	p = strconv.AppendInt(p, int64(pid), 10)
	p = append(p, '/')
	return append(p, name...)
}

func open(path string, flags int) (int, error) {
	var p [pathBuffer]byte
	return openAt(unix.AT_FDCWD, append(p[:0], path...), flags)
}

// openAt opens path, without a NUL at its end, below the directory fd.
func openAt(fd int, path []byte, flags int) (int, error) {
	for _, c := range path {
		if c == 0 {
			return -1, kernel.Errno(unix.EINVAL)
		}
	}
	path = append(path, 0)
	flags |= unix.O_RDONLY | unix.O_CLOEXEC
	for {
		n, _, e := unix.Syscall6(unix.SYS_OPENAT, uintptr(fd), uintptr(unsafe.Pointer(&path[0])),
			uintptr(flags), 0, 0, 0)
		switch e {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return -1, kernel.Errno(e)
		}
	}
}

func readAt(dir int, path, buf []byte, one bool) ([]byte, error) {
	fd, err := openAt(dir, path, 0)
	if err != nil {
		return buf[:0], err
	}
	b, err := readAll(fd, buf, one)
	unix.Close(fd)
	return b, err
}

// readAll reads fd from offset 0 into buf, which grows. With an error it returns the buffer,
// emptied. one: a read that does not fill the buffer ends it.
func readAll(fd int, buf []byte, one bool) ([]byte, error) {
	b := buf[:cap(buf)]
	if len(b) == 0 {
		b = make([]byte, firstBuffer)
	}
	for n := 0; ; {
		if n == len(b) {
			if n >= MaxFile {
				return b[:0], ErrTooLong
			}
			b = append(b, make([]byte, max(len(b), firstBuffer))...)
			b = b[:cap(b)]
		}
		m, err := unix.Pread(fd, b[n:], int64(n))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return b[:0], kernel.AsError(err)
		}
		n += m
		if m == 0 || one && n < len(b) {
			return b[:n], nil
		}
	}
}

func listPIDs(fd int, buf []byte, dst []int32) ([]int32, error) {
	for {
		n, err := getdents(fd, buf)
		if n == 0 || err != nil {
			return dst, err
		}
		for b := buf[:n]; ; {
			var e dirent
			if e, b = nextDirent(b); e.name == nil {
				break
			}
			if e.name[0] < '0' || e.name[0] > '9' {
				continue
			}
			if v, err := ParseUint(e.name); err == nil && v <= 1<<31-1 {
				dst = append(dst, int32(v))
			}
		}
	}
}

func getdents(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Getdents(fd, buf)
		if err == nil || !errors.Is(err, unix.EINTR) {
			return n, kernel.AsError(err)
		}
	}
}

// dirent is one entry of a directory; name nil: there was none. The layout is struct linux_dirent64
// (include/linux/dirent.h):
//
//	0      8      16       18     19
//	| ino  | off  | reclen | type | name, NUL, padding to reclen |
type dirent struct {
	name []byte
	typ  byte
}

const direntName = 19

// nextDirent returns the first entry of b and what follows it. A malformed entry ends the list.
func nextDirent(b []byte) (dirent, []byte) {
	if len(b) <= direntName {
		return dirent{}, nil
	}
	size := int(native.Uint16(b[16:]))
	if size <= direntName || size > len(b) {
		return dirent{}, nil
	}
	name := b[direntName:size]
	for i, c := range name {
		if c == 0 {
			if i == 0 {
				return dirent{}, nil
			}
			return dirent{name[:i], b[18]}, b[size:]
		}
	}
	return dirent{}, nil
}
