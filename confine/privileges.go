package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// account is the user of the process that speaks HTTP.
const account = "culprit"

// fallbackID is its user and group ID where the account does not exist. No distribution and no part
// of systemd assigns it: https://systemd.io/UIDS-GIDS/.
const fallbackID = 61100

// Account returns the user and group ID of the account culprit, or those of no account.
func Account() (uid, gid int) {
	u, err := user.Lookup(account)
	if err != nil {
		return fallbackID, fallbackID
	}
	uid, errUID := strconv.Atoi(u.Uid)
	gid, errGID := strconv.Atoi(u.Gid)
	if errUID != nil || errGID != nil || uid == 0 || gid == 0 {
		return fallbackID, fallbackID
	}
	return uid, gid
}

// NoAccount returns the user and group ID of a process that owns nothing. Like fallbackID, no
// distribution assigns them.
func NoAccount() (uid, gid int) { return fallbackID + 1, fallbackID + 1 }

// Trusted returns the users that the files of a server may belong to, besides root: that of
// Account, and that of no account, which the machine may have got since.
func Trusted() []int {
	uid, _ := Account()
	return []int{uid, fallbackID}
}

// Own makes a user the owner of a directory and of what it contains, as far as that belongs to root
// or to the user of no account. No other user may be able to write to it: see package trusted. The
// error is that of the file system.
func Own(dir string, uid, gid int) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was deleted meanwhile
		}
		if err != nil {
			return err
		}
		err = own(path, uid, gid)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// own makes a user the owner of a file or directory. A file with several names stays, since one of
// them may be elsewhere; and so does a link.
func own(path string, uid, gid int) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	of := st.Mode & unix.S_IFMT
	if st.Uid != 0 && st.Uid != fallbackID ||
		of != unix.S_IFDIR && (of != unix.S_IFREG && of != unix.S_IFSOCK || st.Nlink != 1) {
		return nil
	}
	if err := unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH); err != nil {
		return &fs.PathError{Op: "chown", Path: path, Err: err}
	}
	return nil
}

// DropRoot makes this process one of a user without capabilities. A process that is not root's only
// loses its capabilities. The error is the kernel's, and then it may have lost some.
func DropRoot(uid, gid int) error {
	dropBounding(0)
	if os.Geteuid() == 0 {
		if err := syscall.Setgroups(nil); err != nil {
			return fmt.Errorf("drop the groups of root: %w", err)
		}
		if err := syscall.Setresgid(gid, gid, gid); err != nil {
			return fmt.Errorf("become group %d: %w", gid, err)
		}
		if err := syscall.Setresuid(uid, uid, uid); err != nil {
			return fmt.Errorf("become user %d: %w", uid, err)
		}
	}
	return KeepCapabilities()
}

// DropRootWhereAllowed is DropRoot for a process that opens no file afterwards. Where root may not
// change its user, as in a container without CAP_SETUID and CAP_SETGID, it stays root's, without
// capabilities. The error is the kernel's, and then it may have lost some.
func DropRootWhereAllowed(uid, gid int) error {
	err := DropRoot(uid, gid)
	if errors.Is(err, unix.EPERM) && os.Geteuid() == 0 {
		return KeepCapabilities()
	}
	return err
}

// KeepCapabilities drops all capabilities but those of the list, and sets no_new_privs. The error
// is the kernel's.
func KeepCapabilities(list ...int) error {
	keep := uint64(0)
	for _, c := range list {
		keep |= 1 << c
	}
	dropBounding(keep)
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read the capabilities: %w", err)
	}
	for i := range data {
		data[i].Permitted &= uint32(keep >> (32 * i))
		data[i].Effective &= data[i].Permitted
		data[i].Inheritable = 0
	}
	_, _, errno := psx.Syscall3(unix.SYS_CAPSET,
		uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
	if errno != 0 {
		return fmt.Errorf("drop capabilities: %w", errno)
	}
	_, _, errno = psx.Syscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("set no_new_privs: %w", errno)
	}
	return nil
}

// dropBounding drops capabilities from the bounding set. Without CAP_SETPCAP nothing is dropped,
// and no_new_privs has the same effect.
func dropBounding(keep uint64) {
	for c := range unix.CAP_LAST_CAP + 1 {
		if keep>>c&1 == 0 {
			_, _, _ = psx.Syscall6(
				unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0, 0,
			)
		}
	}
}

// LimitCPU limits the CPU time of this process: setrlimit(2), RLIMIT_CPU. Above it the kernel ends
// the process. A lower limit stays. The error is the kernel's.
func LimitCPU(limit time.Duration) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CPU, &now); err != nil {
		return fmt.Errorf("read the limit of CPU time: %w", err)
	}
	seconds := uint64(limit / time.Second)
	now.Cur, now.Max = min(now.Cur, seconds), min(now.Max, seconds)
	if err := unix.Setrlimit(unix.RLIMIT_CPU, &now); err != nil {
		return fmt.Errorf("limit the CPU time: %w", err)
	}
	return nil
}

// LimitMemory limits the private writable memory of this process: setrlimit(2), RLIMIT_DATA. Go
// ends the process when it needs more. A lower limit stays. The error is the kernel's.
func LimitMemory(bytes uint64) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &now); err != nil {
		return fmt.Errorf("read the limit of memory: %w", err)
	}
	bytes *= memoryScale
	now.Cur, now.Max = min(now.Cur, bytes), min(now.Max, bytes)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &now); err != nil {
		return fmt.Errorf("limit the memory: %w", err)
	}
	return nil
}
