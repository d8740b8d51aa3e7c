package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"unsafe"

	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// A Link keeps a BPF program attached. It is one or two file descriptors and has no name in a file
// system, so the kernel detaches the program when the process ends, however it ends.
type Link struct {
	fd   int       // a perf event with a program, or a map that holds one; -1: none
	link link.Link // nil: none
}

// Close detaches the program. A second Close does nothing. The error is that of close(2).
func (l *Link) Close() error {
	switch {
	case l == nil:
		return nil
	case l.link != nil:
		err := l.link.Close()
		l.link = nil
		return err
	case l.fd < 0:
		return nil
	}
	err := unix.Close(l.fd)
	l.fd = -1
	return kernel.AsError(err)
}

// Missed returns how many times the function ran without the program: another probe was running on
// that CPU, or too many calls were waiting for their returns. 0 on kernels that do not count it
// (before 6.7).
func (l *Link) Missed() uint64 {
	if l.link == nil {
		return 0
	}
	info, err := l.link.Info()
	if err != nil {
		return 0
	}
	if multi := info.KprobeMulti(); multi != nil {
		return multi.Missed
	}
	if event := info.PerfEvent(); event != nil && event.Kprobe() != nil {
		return event.Kprobe().Missed
	}
	return 0
}

// attached returns the Link of what cilium/ebpf has attached. err becomes one of this package.
func attached(l link.Link, err error) (*Link, error) {
	if err != nil {
		return nil, linkErr(err)
	}
	return &Link{fd: -1, link: l}, nil
}

// linkErr returns the errno in an error of cilium/ebpf, since callers decide by it.
func linkErr(err error) error {
	e, known := errors.AsType[unix.Errno](err)
	switch {
	case known && e == notSupported:
		return kernel.Errno(unix.EOPNOTSUPP)
	case known:
		return kernel.Errno(e)
	case errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("%w: %w", err, measure.ErrUnsupported)
	}
	return err
}

// notSupported is ENOTSUPP, an errno that the kernel keeps to itself (include/linux/errno.h) but
// returns from bpf(2).
const notSupported = unix.Errno(524)

// bpf is bpf(2), for what cilium/ebpf has no function for.
func bpf(cmd int, attr unsafe.Pointer, size uintptr) (int, error) {
	for {
		fd, _, e := unix.Syscall(unix.SYS_BPF, uintptr(cmd), uintptr(attr), size)
		switch e {
		case 0:
			return int(fd), nil
		case unix.EINTR:
		default:
			return -1, linkErr(e)
		}
	}
}

// AttachRawTracepoint attaches a program of type RawTracepoint to the tracepoint of that name.
// The caller closes the Link.
//
// cookie is what bpf_get_attach_cookie returns to the program. Other than 0 it requires Linux 6.10,
// and measure.ErrUnsupported or EINVAL is returned before. errors.Is fs.ErrNotExist: there is no
// such tracepoint. Requires CAP_BPF and CAP_PERFMON.
func AttachRawTracepoint(prog *ebpf.Program, name string, cookie uint64) (*Link, error) {
	if cookie == 0 {
		return attached(link.AttachRawTracepoint(link.RawTracepointOptions{Name: name,
			Program: prog}))
	}
	// cilium/ebpf v0.22 has no cookie for raw tracepoints.
	text, err := unix.BytePtrFromString(name)
	if err != nil {
		return nil, kernel.AsError(err)
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(text)
	attr := struct {
		name    uint64
		prog, _ uint32
		cookie  uint64
	}{name: uint64(uintptr(unsafe.Pointer(text))), prog: uint32(prog.FD()), cookie: cookie}
	fd, err := bpf(unix.BPF_RAW_TRACEPOINT_OPEN, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	runtime.KeepAlive(prog)
	if err != nil {
		return nil, err
	}
	return attached(link.NewFromFD(fd))
}

// AttachTracing attaches a program of type Tracing to what it was loaded for: the entry or return
// of a function (fentry, fexit) or a tracepoint with typed arguments (tp_btf). The caller closes
// the Link.
//
// Requires Linux 5.5 with BTF, CAP_BPF and CAP_PERFMON. errors.Is measure.ErrUnsupported: the
// architecture has no trampolines.
func AttachTracing(prog *ebpf.Program) (*Link, error) {
	return attached(link.AttachTracing(link.TracingOptions{Program: prog}))
}

// A MultiProbe is a list of kernel functions to which one program is attached.
type MultiProbe struct {
	Functions []string
	Cookies   []uint64 // what bpf_get_attach_cookie returns at each function; nil: 0
	Return    bool     // at their returns instead of their entries
}

// AttachKprobeMulti attaches a program to all of the functions in one call, or to none
// (kprobe.multi). The caller closes the Link.
//
// The error does not name the function that caused it. errors.Is fs.ErrNotExist: the kernel has no
// function of one of the names. Requires Linux 5.18 with CONFIG_FPROBE, CAP_BPF and CAP_PERFMON.
func AttachKprobeMulti(prog *ebpf.Program, m MultiProbe) (*Link, error) {
	attach := link.KprobeMulti
	if m.Return {
		attach = link.KretprobeMulti
	}
	return attached(attach(prog, link.KprobeMultiOptions{Symbols: m.Functions, Cookies: m.Cookies}))
}

// AttachTimer attaches a program of type PerfEvent to a timer of one CPU: a perf event on the CPU's
// clock that fires once per interval of wall time. The caller closes the Link. The error is that of
// perf_event_open(2). Requires CAP_BPF and CAP_PERFMON, and for a cookie other than 0 Linux 5.15.
func AttachTimer(prog *ebpf.Program, cpu int32, interval measure.Span, cookie uint64) (*Link,
	error) {
	return attachEvent(prog, timerEvent(interval), int(cpu), cookie)
}

// AttachTraceEvent attaches a program of type TracePoint to the records that perf makes of a trace
// event, on all CPUs; id is the event's Format.ID. The caller closes the Link. The error is that of
// perf_event_open(2) or NewMap. Requires CAP_BPF and CAP_PERFMON.
//
// close(2) of such an event waits 30 to 90 ms until no CPU uses it. So the event is put into a map,
// and the map's descriptor is the only one kept: the kernel releases the entries of a closed map
// later (perf_event_fd_array_release in kernel/bpf/arraymap.c), and the program is called until
// then.
func AttachTraceEvent(prog *ebpf.Program, id int) (*Link, error) {
	attr := &unix.PerfEventAttr{
		Type: unix.PERF_TYPE_TRACEPOINT, Config: uint64(id),
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Sample: 1, Bits: unix.PerfBitDisabled,
	}
	event, err := attachEvent(prog, attr, 0, 0)
	if err != nil {
		return nil, err
	}
	defer event.Close() // the map keeps it open
	holder, err := NewMap(&ebpf.MapSpec{
		Name: "culprit_event", Type: ebpf.PerfEventArray, KeySize: 4, ValueSize: 4, MaxEntries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("hold a trace event: %w", err)
	}
	defer holder.Close()
	if err := holder.Put(uint32(0), uint32(event.fd)); err != nil {
		return nil, fmt.Errorf("hold a trace event: %w", err)
	}
	fd, err := unix.FcntlInt(uintptr(holder.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, kernel.AsError(err)
	}
	return &Link{fd: fd}, nil
}

// AttachCounter attaches a program of type PerfEvent to every occurrence of a software event
// (PERF_COUNT_SW_...) on one CPU. The caller closes the Link. The error is that of
// perf_event_open(2). Requires CAP_BPF and CAP_PERFMON.
func AttachCounter(prog *ebpf.Program, cpu int32, event uint64) (*Link, error) {
	attr := timerEvent(1)
	attr.Config = event
	return attachEvent(prog, attr, int(cpu), 0)
}

// AttachEvent attaches a program of type PerfEvent to every period-th occurrence of an event of a
// kind (PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE) on one CPU. The caller closes the Link. The error
// is that of perf_event_open(2): ENOENT where the machine has no such event. Requires CAP_BPF and
// CAP_PERFMON.
func AttachEvent(
	prog *ebpf.Program, cpu int32, kind uint32, config, period uint64,
) (*Link, error) {
	attr := timerEvent(1)
	attr.Type, attr.Config, attr.Sample = kind, config, period
	return attachEvent(prog, attr, int(cpu), 0)
}

func timerEvent(interval measure.Span) *unix.PerfEventAttr {
	return &unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample: uint64(interval), Bits: unix.PerfBitDisabled,
	}
}

// attachEvent opens a perf event on a CPU and attaches a program to it. Without a cookie it uses
// the event's own ioctl, which every kernel has and which needs one descriptor.
func attachEvent(prog *ebpf.Program, attr *unix.PerfEventAttr, cpu int, cookie uint64) (*Link,
	error) {
	fd, err := unix.PerfEventOpen(attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, kernel.AsError(err)
	}
	l := &Link{fd: fd}
	if cookie != 0 {
		l, err = linkEvent(prog, fd, cookie)
		defer unix.Close(fd) // the link keeps the event open
	} else {
		err = kernel.AsError(unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, prog.FD()))
		runtime.KeepAlive(prog)
	}
	if err == nil {
		err = kernel.AsError(unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0))
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// linkEvent attaches a program to a perf event by a bpf_link, which can carry a cookie. It requires
// Linux 5.15.
func linkEvent(prog *ebpf.Program, event int, cookie uint64) (*Link, error) {
	// The part of union bpf_attr for BPF_LINK_CREATE. cilium/ebpf creates such links for its own
	// events.
	attr := struct {
		prog, target, kind, flags uint32
		cookie                    uint64
	}{prog: uint32(prog.FD()), target: uint32(event), kind: uint32(ebpf.AttachPerfEvent),
		cookie: cookie}
	fd, err := bpf(unix.BPF_LINK_CREATE, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	runtime.KeepAlive(prog)
	if err != nil {
		return nil, err
	}
	return attached(link.NewFromFD(fd))
}

// A FunctionProbe is a kernel function to which a program is attached by a perf event.
type FunctionProbe struct {
	Function string // module:name for a function of a module
	Return   bool
	Cookie   uint64 // what bpf_get_attach_cookie returns; other than 0 it requires Linux 5.15
}

// AttachKprobe attaches a program to one function. It takes 10 to 30 ms, since the kernel waits for
// all CPUs; AttachKprobeMulti is faster. The caller closes the Link.
//
// errors.Is fs.ErrNotExist: there is no such function. EINVAL: the kernel does not allow a probe
// there. errors.Is measure.ErrUnsupported: the kernel was compiled without kprobes. Requires
// CAP_BPF and CAP_PERFMON.
//
// It is not link.Kprobe, which refuses module:name, retries with another name (__x64_sys_...) and
// may create an event in tracefs, where it remains when the process is killed.
func AttachKprobe(r kernel.Root, prog *ebpf.Program, p FunctionProbe) (*Link, error) {
	number, err := sysNumber(r, "bus/event_source/devices/kprobe/type")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("compiled without kprobes: %w", measure.ErrUnsupported)
	} else if err != nil {
		return nil, err
	}
	name, err := unix.BytePtrFromString(p.Function)
	if err != nil {
		return nil, kernel.AsError(err)
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(name)
	attr := &unix.PerfEventAttr{
		Type: uint32(number), Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Ext1: uint64(uintptr(unsafe.Pointer(name))), Bits: unix.PerfBitDisabled,
	}
	if p.Return {
		bit := uint64(0)
		b, err := proc.ReadSys(r, "bus/event_source/devices/kprobe/format/retprobe", nil)
		if err == nil { // "config:0"
			c := proc.Scan(b)
			c.Until(':')
			bit = c.Uint()
		}
		attr.Config = 1 << (bit & 31)
	}
	return attachEvent(prog, attr, 0, p.Cookie)
}

// A UserProbe is a place in a program or library to which a program is attached.
type UserProbe struct {
	Path      string
	Offset    uint64 // in the file; not 0
	Return    bool
	PID       int    // only this process; 0: all
	Semaphore uint64 // offset of the counter of watchers (USDT) in the file; 0: none
	Cookie    uint64 // what bpf_get_attach_cookie returns; other than 0 it requires Linux 5.15
}

// AttachUprobe attaches a program to one place of user space. The caller closes the Link.
//
// errors.Is fs.ErrNotExist: there is no such file. EINVAL, EILSEQ and EOPNOTSUPP: the kernel puts
// no breakpoint on the instruction there. Requires CAP_BPF and CAP_PERFMON.
func AttachUprobe(prog *ebpf.Program, p UserProbe) (*Link, error) {
	file, err := link.OpenExecutable(p.Path)
	if err != nil {
		return nil, linkErr(err)
	}
	attach := file.Uprobe
	if p.Return {
		attach = file.Uretprobe
	}
	return attached(attach("", prog, &link.UprobeOptions{
		Address: p.Offset, PID: p.PID, RefCtrOffset: p.Semaphore, Cookie: p.Cookie,
	}))
}

// A MultiUserProbe is a list of places in a program or library to which one program is attached.
type MultiUserProbe struct {
	Path       string
	Offsets    []uint64 // in the file; none is 0
	Semaphores []uint64 // see UserProbe; nil: none
	Cookies    []uint64 // nil: 0
	Return     bool
	PID        int // only this process; 0: all
}

// AttachUprobeMulti attaches a program to all of the places in one call, or to none (uprobe.multi).
// The caller closes the Link.
//
// The error does not name the place that caused it. ESRCH: the process has ended. See AttachUprobe
// for the others. Requires Linux 6.6, CAP_BPF and CAP_PERFMON.
func AttachUprobeMulti(prog *ebpf.Program, m MultiUserProbe) (*Link, error) {
	file, err := link.OpenExecutable(m.Path)
	if err != nil {
		return nil, linkErr(err)
	}
	attach := file.UprobeMulti
	if m.Return {
		attach = file.UretprobeMulti
	}
	l, err := attach(nil, prog, &link.UprobeMultiOptions{
		Addresses: m.Offsets, RefCtrOffsets: m.Semaphores, Cookies: m.Cookies, PID: uint32(m.PID),
	})
	if _, known := errors.AsType[unix.Errno](err); !known && errors.Is(err, fs.ErrNotExist) {
		return nil, kernel.Errno(unix.ESRCH) // cilium/ebpf replaces it
	}
	return attached(l, err)
}

func sysNumber(r kernel.Root, name string) (uint64, error) {
	b, err := proc.ReadSys(r, name, nil)
	if err != nil {
		return 0, err
	}
	c := proc.Scan(b)
	v := c.Uint()
	return v, c.Err()
}
