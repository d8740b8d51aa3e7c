package kernel

import (
	"errors"
	"io/fs"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Errno is a failed system call. errors.Is maps it to the errors of package measure and fs, and
// errors.As finds the unix.Errno. It is converted to error without an allocation, since Go keeps
// small integers ready.
type Errno unix.Errno

func (e Errno) Error() string { return unix.Errno(e).Error() }

// Unwrap returns the unix.Errno, for errors.Is(err, unix.EINVAL).
func (e Errno) Unwrap() error { return unix.Errno(e) }

// Is reports whether the errno means target: fs.ErrNotExist, fs.ErrPermission, measure.ErrDenied or
// measure.ErrUnsupported.
func (e Errno) Is(target error) bool {
	switch unix.Errno(e) {
	case unix.ENOENT, // no such name
		unix.ESRCH,  // /proc/PID/* kept open beyond the end of its process
		unix.ENODEV: // sysfs and cgroup files kept open beyond the end of their device or group
		return target == fs.ErrNotExist
	case unix.EPERM, unix.EACCES:
		return target == measure.ErrDenied || target == fs.ErrPermission
	case unix.ENOSYS, // the call is not compiled in
		unix.EOPNOTSUPP,      // PSI switched off at boot; netlink command unknown to a driver
		unix.EPROTONOSUPPORT, // netlink protocol not compiled in
		unix.EAFNOSUPPORT:
		return target == measure.ErrUnsupported
	}
	return false
}

// AsError returns the Errno in an error of package unix, err itself when there is none, and nil for
// nil.
func AsError(err error) error {
	if e, ok := errors.AsType[unix.Errno](err); ok {
		if e == 0 {
			return nil
		}
		return Errno(e)
	}
	return err
}

// IsShortage reports whether an error is a lack of descriptors or memory, which may end at any
// time: EMFILE, ENFILE, ENOMEM, ENOBUFS. The operation is worth another attempt.
func IsShortage(err error) bool {
	for _, e := range []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
