package bpf

import (
	"errors"
	"fmt"
	"io/fs"

	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// Classify returns err, which the kernel returned for something of BPF, as measure.ErrDenied,
// measure.ErrUnsupported or measure.ErrUnclear, nil for nil, and other errors as they are.
//
// EPERM is ErrDenied where the process lacks the capabilities. Where it has them, this kernel
// forbids the operation to everybody, which is ErrUnsupported. EINVAL and E2BIG are what a kernel
// returns for an operation that it does not know.
func Classify(r kernel.Root, err error) error {
	if limit, ok := errors.AsType[*MemoryLimit](err); ok {
		return limit
	}
	switch {
	case err == nil, errors.Is(err, measure.ErrUnsupported), errors.Is(err, measure.ErrUnclear):
		return err
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		have, lookErr := r.Capabilities()
		if lookErr == nil && !have.MayBPF() {
			return have.Refused("use BPF", "root", unix.CAP_BPF, unix.CAP_PERFMON)
		}
		if _, known := errors.AsType[*ebpf.VerifierError](err); known &&
			errors.Is(err, unix.EACCES) {
			return fmt.Errorf("%s: %w", unwrapped(err), measure.ErrUnsupported)
		}
		if filtered(r) {
			return &measure.Denied{Doing: "use BPF",
				Needs: "bpf(2) and perf_event_open(2), which a filter of system calls keeps from " +
					"this process (a container's, or SystemCallFilter= of a unit)"}
		}
		return fmt.Errorf("forbidden by this kernel even with the capabilities: %w",
			measure.ErrUnsupported)
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL),
		errors.Is(err, unix.E2BIG), errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESRCH),
		errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS),
		errors.Is(err, fs.ErrNotExist), errors.Is(err, btf.ErrNotFound),
		errors.Is(err, unix.Errno(524)):
		return fmt.Errorf("%s: %w", unwrapped(err), measure.ErrUnsupported)
	}
	return err
}

// unwrapped returns the errno in err, without the text of libraries, or err.
func unwrapped(err error) error {
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return e
	}
	return err
}

// filtered says whether a filter of system calls (seccomp(2), as systemd's SystemCallFilter= and
// containers set one) keeps this thread from bpf(2) or perf_event_open(2). To who has the rights
// the kernel itself says of a call that makes no sense that it is invalid, and never that it is not
// permitted.
func filtered(r kernel.Root) bool {
	b, err := proc.ReadProc(r, "thread-self/status", nil)
	if err != nil {
		return false
	}
	const noCommand, noFlags = 1 << 30, 1 << 30
	for c := proc.Scan(b); !c.End(); c.NextLine() {
		if string(c.Word()) == "Seccomp:" {
			if c.Uint() != 2 || c.Err() != nil {
				return false
			}
			_, _, bpf := unix.RawSyscall(unix.SYS_BPF, noCommand, 0, 0)
			_, _, perf := unix.RawSyscall6(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, noFlags, 0)
			return bpf == unix.EPERM || perf == unix.EPERM
		}
	}
	return false
}
