package process

import (
	"cmp"
	"slices"

	"culprit/collect"

	"golang.org/x/sys/unix"
)

// ioPriorityReading reads the I/O priority of processes that read or write.
type ioPriorityReading struct {
	sample []*process                  // largest first
	get    func(pid int) (uint, error) // ioprio_get(2); nil: its pids are not those of /proc
}

// mostIOPriorities is how many processes have a row, at one system call each.
const mostIOPriorities = 64

// putIOPriority puts the I/O class and level of each process that read or wrote within the
// interval.
func (r *processReading) putIOPriority(out *collect.Out) {
	t := out.Table("process.io.priority")
	if t == nil || out.First {
		return
	}
	l := &r.ioPriority
	if l.get == nil {
		t.Unmeasured("I/O priorities can't be read here: /proc is that of another PID " +
			"namespace, or captured")
		return
	}
	l.sample = l.sample[:0]
	for _, p := range r.procs {
		if p.ran && !p.dead && !p.stat.kernel && moved(p) > 0 {
			l.sample = append(l.sample, p)
		}
	}
	slices.SortStableFunc(l.sample, func(a, b *process) int {
		return cmp.Compare(moved(b), moved(a))
	})
	for _, p := range l.sample[:min(len(l.sample), mostIOPriorities)] {
		v, err := l.get(int(p.pid))
		if err != nil {
			continue // it has ended, or a security module forbids it
		}
		class, level := ioClass(v)
		pid, name := p.name.of(out, p.pid, p.comm)
		t.Put(float64(level), pid, name, out.Label(class))
	}
	clear(l.sample)
}

// moved returns the bytes that a process read from and wrote to storage within the interval; 0 also
// when that is unknown.
func moved(p *process) float64 {
	sum := 0.0
	for _, v := range p.delta.io[:2] {
		if v > 0 {
			sum += v
		}
	}
	return sum
}

// ioClass decodes an I/O priority (include/uapi/linux/ioprio.h): the class is in the bits from 13
// on, the level in the lowest three. Linux before 6.5 returns "none" for processes whose class
// follows from their nice value, later ones the class that results.
func ioClass(v uint) (class string, level int) {
	switch v >> 13 & 7 {
	case 1:
		class = "realtime"
	case 2:
		class = "best-effort"
	case 3:
		class = "idle"
	default:
		class = "none"
	}
	return class, int(v & 7)
}

// ioPriorityOf returns the I/O priority of a process: ioprio_get(2), Linux 2.6.13.
func ioPriorityOf(pid int) (uint, error) {
	const process = 1 // IOPRIO_WHO_PROCESS
	v, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, process, uintptr(pid), 0)
	if errno != 0 {
		return 0, errno
	}
	return uint(v), nil
}
