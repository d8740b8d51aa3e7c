package bpf

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"culprit/kernel"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A MemoryLimit is the error of a BPF map or program for which RLIMIT_MEMLOCK left no memory. Linux
// before 5.11 charges maps and programs of a user against that limit; later kernels charge the
// cgroup. errors.Is measure.ErrDenied.
type MemoryLimit struct {
	// bytes that the user may lock, over all of its processes; ulimit -l shows it in KiB
	Limit uint64
	Wants uint64 // bytes that were about to be locked; 0: unknown
}

// Error reports the limit, what was wanted, and the ways to raise the limit.
func (e *MemoryLimit) Error() string {
	wants := ""
	if e.Wants > 0 {
		wants = fmt.Sprintf(", %d KiB are needed", (e.Wants+1023)/1024)
	}
	return fmt.Sprintf("the limit of locked memory (ulimit -l, %d KiB%s) is too low for BPF: "+
		"Linux before 5.11 counts maps and programs against it. "+
		"Run culprit as root or with CAP_SYS_RESOURCE, which lets it raise the limit, or raise "+
		"the limit before it starts: ulimit -l unlimited, "+
		"LimitMEMLOCK=infinity in a systemd unit, --ulimit memlock=-1 for a container",
		e.Limit/1024, wants)
}

// Is makes errors.Is(err, measure.ErrDenied) true.
func (e *MemoryLimit) Is(target error) bool { return target == measure.ErrDenied }

// RaiseLocked raises RLIMIT_MEMLOCK of this process as far as it may, where the kernel charges BPF
// against it (before 5.11): to infinity with CAP_SYS_RESOURCE, else to the hard limit. It does
// nothing on other kernels.
func RaiseLocked(r kernel.Root) {
	if m := thisMemlock(r); m.counts() {
		m.raiseMost()
	}
}

// Locking calls f, which makes BPF maps or programs. When f fails with EPERM and the kernel charges
// them against RLIMIT_MEMLOCK, it raises the limit and calls f again. f must release what it made
// before it returns an error. The error is a *MemoryLimit where the limit is still too low, and
// that of f otherwise.
func Locking(r kernel.Root, f func() error) error { return locking(r, f, thisMemlock(r)) }

func thisMemlock(r kernel.Root) memlock {
	return memlock{
		limit: func() (soft, hard uint64, err error) {
			var l unix.Rlimit
			err = unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l)
			return l.Cur, l.Max, err
		},
		raise: func(soft, hard uint64) error {
			return unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: soft, Max: hard})
		},
		counts: func() bool { return countsLocked(r) },
		pause:  func() { time.Sleep(lockedPause) },
	}
}

// The kernel releases the charge of a map in a work queue, some milliseconds after its last
// descriptor was closed.
const (
	lockedPause   = 5 * time.Millisecond
	lockedRetries = 20
)

// NewMap makes a map, under Locking. The caller closes it. The error is that of cilium/ebpf or a
// *MemoryLimit.
func NewMap(spec *ebpf.MapSpec) (m *ebpf.Map, err error) {
	err = Locking(kernel.Root{}, func() (err error) {
		m, err = ebpf.NewMap(spec)
		return err
	})
	return m, err
}

// NewProgram loads a program under Locking, without the verifier's log. The caller closes it. The
// error is that of cilium/ebpf or a *MemoryLimit.
func NewProgram(spec *ebpf.ProgramSpec) (p *ebpf.Program, err error) {
	err = Locking(kernel.Root{}, func() (err error) {
		p, err = ebpf.NewProgramWithOptions(spec, ebpf.ProgramOptions{LogDisabled: true})
		return err
	})
	return p, err
}

// memlock is the limit of locked memory of this process; a test replaces it.
type memlock struct {
	limit  func() (soft, hard uint64, err error)
	raise  func(soft, hard uint64) error
	counts func() bool // whether the kernel charges maps and programs against it
	pause  func()
}

// raiseMost raises the limit as far as allowed, and reports whether it is higher now.
func (m memlock) raiseMost() bool {
	soft, hard, err := m.limit()
	if err != nil || soft == unix.RLIM_INFINITY {
		return false
	}
	return m.raise(unix.RLIM_INFINITY, unix.RLIM_INFINITY) == nil || hard > soft &&
		m.raise(hard, hard) == nil
}

func locking(r kernel.Root, f func() error, m memlock) error {
	err := f()
	if !errors.Is(err, unix.EPERM) || !m.counts() {
		return err
	}
	if m.raiseMost() {
		if err = f(); !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	soft, _, limitErr := m.limit()
	if limitErr != nil || soft == unix.RLIM_INFINITY || filtered(r) {
		return err
	}
	if have, lookErr := r.Capabilities(); lookErr == nil && !have.MayBPF() {
		return err // the right is missing, whatever the limit is
	}
	for range lockedRetries {
		m.pause()
		if err = f(); !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	return &MemoryLimit{Limit: soft}
}

// lockedCharge is a kernel function that exists only where BPF is charged against RLIMIT_MEMLOCK.
// Linux 5.11 removed it, as did distributions that backported the change.
const lockedCharge = "__bpf_prog_charge"

// countsLocked reports whether the kernel charges BPF maps and programs against RLIMIT_MEMLOCK.
func countsLocked(r kernel.Root) bool {
	if !r.Before(5, 11) {
		return false
	}
	f, err := os.Open(r.InProc("kallsyms"))
	if err != nil {
		return true // it can't be looked up, and upstream's kernels of this version do
	}
	defer f.Close()
	return hasSymbol(f, lockedCharge)
}

// hasSymbol reports whether a list in the format of /proc/kallsyms has a symbol of that name.
func hasSymbol(list io.Reader, name string) bool {
	for lines := bufio.NewScanner(list); lines.Scan(); {
		if f := bytes.Fields(lines.Bytes()); len(f) > 2 && string(f[2]) == name {
			return true
		}
	}
	return false
}
