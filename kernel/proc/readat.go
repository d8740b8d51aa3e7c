package proc

import (
	"errors"

	"culprit/kernel"

	"golang.org/x/sys/unix"
)

// ReadPIDAt reads up to len(buf) bytes of a file of process pid from an offset in one read, where d
// is /proc. It is for files whose length the process decides, as cmdline. The content is in buf;
// the error is a bare kernel.Errno.
func (d *Dir) ReadPIDAt(pid int32, name string, at int64, buf []byte) ([]byte, error) {
	var p [pathBuffer]byte
	fd, err := openAt(d.fd, appendPID(p[:0], pid, name), 0)
	if err != nil {
		return buf[:0], err
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Pread(fd, buf, at)
		if err == nil {
			return buf[:n], nil
		}
		if !errors.Is(err, unix.EINTR) {
			return buf[:0], kernel.AsError(err)
		}
	}
}
