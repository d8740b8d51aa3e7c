package kernel

import (
	"errors"
	"io/fs"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Errno is a failed system call. It answers errors.Is in the words of culprit and unwraps to the unix.Errno; boxing it
// costs no allocation (Go keeps small integers ready), so processes that vanish in mid-read cost nothing.
type Errno unix.Errno

func (e Errno) Error() string { return unix.Errno(e).Error() }

// Unwrap gives the unix.Errno, for errors.Is(err, unix.EINVAL).
func (e Errno) Unwrap() error { return unix.Errno(e) }

// Is groups errnos by what the kernel means by them.
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

// AsError makes an error of what a wrapper of package unix returned; nil stays nil.
func AsError(err error) error {
	if e, ok := errors.AsType[unix.Errno](err); ok {
		if e == 0 {
			return nil
		}
		return Errno(e)
	}
	return err
}
