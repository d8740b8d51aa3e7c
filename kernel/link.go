package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"unsafe"

	"culprit/measure"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A Link keeps a program attached. It is a file descriptor and nothing else: no name in any file system, no entry in
// tracefs, so the kernel takes the program off when the process ends, however it ends.
type Link struct {
	fd   int
	kind linkKind
}

type linkKind uint8

const (
	plainLink linkKind = iota // nothing can be asked of it: a tracepoint, a perf event with a program
	multiLink                 // kprobe.multi
	eventLink                 // a perf event that a program hangs on, under a bpf_link of its own
)

// Close takes the program off; a second Close does nothing.
func (l *Link) Close() error {
	if l == nil || l.fd < 0 {
		return nil
	}
	err := unix.Close(l.fd)
	l.fd = -1
	return asErr(err)
}

// bpf is bpf(2).
func bpf(cmd int, attr unsafe.Pointer, size uintptr) (int, error) {
	for {
		fd, _, e := unix.Syscall(unix.SYS_BPF, uintptr(cmd), uintptr(attr), size)
		switch e {
		case 0:
			return int(fd), nil
		case unix.EINTR:
		case 524: // ENOTSUPP, the kernel's own, which no program should see
			return -1, errno(unix.EOPNOTSUPP)
		default:
			return -1, errno(e)
		}
	}
}

// A keeper holds memory that a system call is to read or write in its place, until it is told to unpin it.
type keeper struct{ runtime.Pinner }

// at gives the address of what p points to, as the 64 bits that the kernel's structs have for it.
func (k *keeper) at(p unsafe.Pointer) uint64 {
	k.Pin(p)
	return uint64(uintptr(p))
}

// text gives the address of a string as the kernel reads it.
func (k *keeper) text(s string) (uint64, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return 0, errno(unix.EINVAL)
	}
	b := append([]byte(s), 0)
	return k.at(unsafe.Pointer(&b[0])), nil
}

// AttachRawTracepoint attaches a program to a tracepoint by the tracepoint's name; "" is for one that was loaded for a certain
// tracepoint (tp_btf). cookie is what bpf_get_attach_cookie gives the program: other than 0 it needs Linux 6.10. errors.Is
// fs.ErrNotExist when there is no such tracepoint.
func AttachRawTracepoint(prog *ebpf.Program, name string, cookie uint64) (*Link, error) {
	// struct { __u64 name; __u32 prog_fd; __u32 :32; __u64 cookie; }
	var attr struct {
		name   uint64
		prog   uint32
		_      uint32
		cookie uint64
	}
	size := unsafe.Offsetof(attr.cookie)
	if cookie != 0 {
		size = unsafe.Sizeof(attr)
	}
	var keep keeper
	defer keep.Unpin()
	if name != "" {
		var err error
		if attr.name, err = keep.text(name); err != nil {
			return nil, err
		}
	}
	attr.prog, attr.cookie = uint32(prog.FD()), cookie
	fd, err := bpf(unix.BPF_RAW_TRACEPOINT_OPEN, unsafe.Pointer(&attr), size)
	runtime.KeepAlive(prog)
	if err != nil {
		return nil, err
	}
	return &Link{fd: fd}, nil
}

// AttachTracing attaches a program of fentry or fexit to the function that it was loaded for.
func AttachTracing(prog *ebpf.Program) (*Link, error) { return AttachRawTracepoint(prog, "", 0) }

// A MultiProbe is many functions of the kernel that one program is attached to in one go (kprobe.multi, Linux 5.18).
type MultiProbe struct {
	Functions []string // either their names
	Addresses []uint64 // or where they begin
	Cookies   []uint64 // what bpf_get_attach_cookie gives at each; nil: nothing
	Return    bool     // at their returns
	Session   bool     // at both: one program, told apart by bpf_session_is_return (6.10)
}

// Kinds of links and attachments of linux/bpf.h that the other packages have no names for.
const (
	attachKprobeMulti   = 42
	attachPerfEvent     = 41
	attachKprobeSession = 56
	kprobeMultiReturn   = 1
)

// AttachKprobeMulti attaches a program to all of the functions, or to none: the error doesn't tell which of them was the
// trouble. errors.Is fs.ErrNotExist when it is a name.
func AttachKprobeMulti(prog *ebpf.Program, m MultiProbe) (*Link, error) {
	// The part of union bpf_attr for BPF_LINK_CREATE.
	var attr struct {
		prog, target, kind, flags uint32
		multiFlags, count         uint32
		names, addrs, cookies     uint64
	}
	attr.prog, attr.kind = uint32(prog.FD()), attachKprobeMulti
	if m.Session {
		attr.kind = attachKprobeSession
	}
	if m.Return {
		attr.multiFlags = kprobeMultiReturn
	}
	var keep keeper
	defer keep.Unpin()
	switch {
	case len(m.Addresses) > 0:
		attr.count = uint32(len(m.Addresses))
		attr.addrs = keep.at(unsafe.Pointer(&m.Addresses[0]))
	case len(m.Functions) > 0:
		attr.count = uint32(len(m.Functions))
		pointers := make([]uint64, len(m.Functions))
		for i, name := range m.Functions {
			var err error
			if pointers[i], err = keep.text(name); err != nil {
				return nil, err
			}
		}
		attr.names = keep.at(unsafe.Pointer(&pointers[0]))
	default:
		return nil, fmt.Errorf("no function to attach to: %w", fs.ErrNotExist)
	}
	if m.Cookies != nil {
		if len(m.Cookies) != int(attr.count) {
			return nil, fmt.Errorf("%d cookies for %d functions", len(m.Cookies), attr.count)
		}
		attr.cookies = keep.at(unsafe.Pointer(&m.Cookies[0]))
	}
	fd, err := bpf(unix.BPF_LINK_CREATE, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	runtime.KeepAlive(prog)
	if err != nil {
		return nil, err
	}
	return &Link{fd: fd, kind: multiLink}, nil
}

// Missed is how many times the link's program was not run though its function was: because a probe was running already on
// that CPU, or because too many calls were waiting for their returns. ok is false where the kernel doesn't count that
// (before 6.7, and for links that can't miss).
func (l *Link) Missed() (missed uint64, ok bool) {
	// struct bpf_link_info, as far as it is asked for. Of a kprobe.multi: addrs, count, flags, missed. Of a perf event: type,
	// func_name, name_len, offset, addr, missed.
	var info struct {
		kind, id, prog uint32
		_              uint32
		words          [8]uint64
	}
	if l.kind != multiLink && l.kind != eventLink {
		return 0, false
	}
	var attr struct {
		fd, size uint32
		info     uint64
	}
	var keep keeper
	defer keep.Unpin()
	attr.fd, attr.size, attr.info = uint32(l.fd), uint32(unsafe.Sizeof(info)), keep.at(unsafe.Pointer(&info))
	if _, err := bpf(unix.BPF_OBJ_GET_INFO_BY_FD, unsafe.Pointer(&attr), unsafe.Sizeof(attr)); err != nil {
		return 0, false
	}
	// The kernel says how much of the struct it knows.
	known := func(word int) bool { return attr.size >= uint32(16+8*(word+1)) }
	switch {
	case l.kind == multiLink && known(2):
		return info.words[2], true
	case l.kind == eventLink && known(4) && (uint32(info.words[0]) == perfEventKprobe || uint32(info.words[0]) == perfEventKretprobe):
		return info.words[4], true
	}
	return 0, false
}

// enum bpf_perf_event_type, of which uprobes are 1 and 2.
const (
	perfEventKprobe    = 3
	perfEventKretprobe = 4
)

// AttachTimer attaches a program to a timer of one CPU, that fires each every nanoseconds of wall time: a perf event on the clock
// of the CPU. Returns as soon as it runs.
func AttachTimer(prog *ebpf.Program, cpu int32, every measure.Span) (*Link, error) {
	return attachEvent(prog, timerEvent(every), -1, int(cpu), 0)
}

// AttachTraceEvent attaches a program to the records that perf makes of a trace event, on all CPUs; id is the event's Format.ID.
//
// Who closes such an event waits until no CPU can be in it any more, for 30 to 90 ms. So it is put into a map, which alone holds it: the kernel lets
// go of what was in a map when it comes to it (perf_event_fd_array_release in kernel/bpf/arraymap.c), and until then the program goes on being called.
func AttachTraceEvent(prog *ebpf.Program, id int) (*Link, error) {
	attr := &unix.PerfEventAttr{
		Type: unix.PERF_TYPE_TRACEPOINT, Config: uint64(id), Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Sample: 1, Bits: unix.PerfBitDisabled,
	}
	event, err := attachEvent(prog, attr, -1, 0, 0)
	if err != nil {
		return nil, err
	}
	defer event.Close() // what is in the map stays
	holder, err := NewMap(&ebpf.MapSpec{Name: "culprit_event", Type: ebpf.PerfEventArray, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return nil, fmt.Errorf("hold a trace event: %w", err)
	}
	defer holder.Close()
	if err := holder.Put(uint32(0), uint32(event.fd)); err != nil {
		return nil, fmt.Errorf("hold a trace event: %w", err)
	}
	fd, err := unix.FcntlInt(uintptr(holder.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, asErr(err)
	}
	return &Link{fd: fd}, nil
}

// AttachCounter attaches a program to every happening of one of the kernel's software events (PERF_COUNT_SW_...) on one CPU.
func AttachCounter(prog *ebpf.Program, cpu int32, event uint64) (*Link, error) {
	attr := timerEvent(1)
	attr.Config = event
	return attachEvent(prog, attr, -1, int(cpu), 0)
}

func timerEvent(every measure.Span) *unix.PerfEventAttr {
	return &unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample: uint64(every), Bits: unix.PerfBitDisabled,
	}
}

// attachEvent opens a perf event and gives it a program. Its own ioctl is the oldest way to do that, which every kernel has.
func attachEvent(prog *ebpf.Program, attr *unix.PerfEventAttr, pid, cpu int, cookie uint64) (*Link, error) {
	fd, err := unix.PerfEventOpen(attr, pid, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, asErr(err)
	}
	var link *Link
	if cookie != 0 {
		if link, err = linkEvent(prog, fd, cookie); err != nil {
			unix.Close(fd)
			return nil, err
		}
		defer unix.Close(fd) // the link holds the event
	} else {
		link = &Link{fd: fd}
		err = asErr(unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, prog.FD()))
		runtime.KeepAlive(prog)
	}
	if err == nil {
		err = asErr(unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0))
	}
	if err != nil {
		link.Close()
		return nil, err
	}
	return link, nil
}

// linkEvent gives a program to a perf event by a link, which can carry a cookie and tells what was missed (Linux 5.15).
func linkEvent(prog *ebpf.Program, event int, cookie uint64) (*Link, error) {
	var attr struct {
		prog, target, kind, flags uint32
		cookie                    uint64
	}
	attr.prog, attr.target, attr.kind, attr.cookie = uint32(prog.FD()), uint32(event), attachPerfEvent, cookie
	fd, err := bpf(unix.BPF_LINK_CREATE, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	runtime.KeepAlive(prog)
	if err != nil {
		return nil, err
	}
	return &Link{fd: fd, kind: eventLink}, nil
}

// A FunctionProbe is one function of the kernel that a program is attached to by a perf event.
type FunctionProbe struct {
	Function string // a name, module:name for one of a module; or
	Address  uint64 // where it begins, when Function is ""
	Return   bool
	Cookie   uint64
}

// AttachKprobe attaches a program to one function: the road of old kernels, and of functions that others fail for. It takes
// 10 to 30 ms, because the kernel waits for all CPUs.
func (r Root) AttachKprobe(prog *ebpf.Program, p FunctionProbe) (*Link, error) {
	return r.attachProbe(prog, "kprobe", p.Function, p.Address, p.Return, 0, -1, p.Cookie)
}

// A UserProbe is a place in a program or library that a program is attached to.
type UserProbe struct {
	Path      string
	Offset    uint64 // in the file
	Return    bool
	PID       int    // only this process; 0: all
	Semaphore uint64 // offset of the counter that says that somebody watches (USDT); 0: none
	Cookie    uint64
}

// AttachUprobe attaches a program to one place of user space.
func (r Root) AttachUprobe(prog *ebpf.Program, p UserProbe) (*Link, error) {
	pid := -1
	if p.PID > 0 {
		pid = p.PID
	}
	return r.attachProbe(prog, "uprobe", p.Path, p.Offset, p.Return, p.Semaphore, pid, p.Cookie)
}

// attachProbe opens the perf event of a kprobe or uprobe (perf_event_open(2): kprobe_func, probe_offset), which needs no
// entry in tracefs. The number of the kind and the bit that means return are told in /sys/bus/event_source (Linux 4.17).
func (r Root) attachProbe(prog *ebpf.Program, kind, name string, at uint64, ret bool, semaphore uint64, pid int, cookie uint64) (*Link, error) {
	number, err := r.sysNumber("bus/event_source/devices/" + kind + "/type")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("compiled without %ss: %w", kind, measure.ErrUnsupported)
	} else if err != nil {
		return nil, err
	}
	attr := &unix.PerfEventAttr{Type: uint32(number), Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Ext2: at, Bits: unix.PerfBitDisabled}
	if ret {
		bit := uint64(0)
		if b, err := r.ReadSys("bus/event_source/devices/"+kind+"/format/retprobe", nil); err == nil { // "config:0"
			c := Scan(b)
			c.Until(':')
			bit = c.Uint()
		}
		attr.Config = 1 << (bit & 31)
	}
	attr.Config |= semaphore << 32 // where in the file it is: below 4 GB
	var keep keeper
	defer keep.Unpin()
	if name != "" {
		if attr.Ext1, err = keep.text(name); err != nil {
			return nil, err
		}
	}
	cpu := 0
	if pid > 0 {
		cpu = -1
	}
	return attachEvent(prog, attr, pid, cpu, cookie)
}

func (r Root) sysNumber(name string) (uint64, error) {
	b, err := r.ReadSys(name, nil)
	if err != nil {
		return 0, err
	}
	c := Scan(b)
	v := c.Uint()
	return v, c.Err()
}
