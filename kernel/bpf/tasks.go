package bpf

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"culprit/kernel"
	"culprit/kernel/bpf/program"
	"culprit/kernel/proc"
	"culprit/measure"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Tasks reads counters of all threads of this PID namespace by a BPF task iterator, which writes a
// record for each. It takes 0.3 us per thread; reading an open /proc/PID/schedstat takes 2 to 5 us.
// It holds file descriptors only, so nothing remains when the process ends.
type Tasks struct {
	objects program.TasksObjects
	link    *link.Iter
	rss     bool
	buf     []byte
	task    Task // the argument of Each's callback
}

// A Task is one thread at that moment. Run, Wait and Count are those of
// /proc/PID/task/TID/schedstat. State, Parent, Cgroups and Resident are only for comparison: while
// they are equal, the state, parent, control groups and resident size in /proc/PID/stat are
// unchanged.
type Task struct {
	PID, TID int32  // in this PID namespace
	Run      uint64 // nanoseconds on a CPU
	Wait     uint64 // nanoseconds ready and waiting for a CPU
	Count    uint64 // times put on a CPU
	State    uint64 // the kernel's state; not the letter
	Parent   uint64 // address of its parent; not the pid
	Cgroups  uint64 // address of its set of control groups
	Resident uint64 // changes with each counter of resident pages; not their number
	Net      uint64 // inode of its network namespace, as in /proc/PID/ns/net; 0: it has ended
}

// A record is a Task (struct record of program/tasks.c), in the machine's byte order:
//
//	0     4     8     16     24      32      40       48        56         64    72
//	| pid | tid | run | wait | count | state | parent | cgroups | resident | net |
const taskRecord = 72

var _ [taskRecord]byte = [unsafe.Sizeof(Task{})]byte{}

// OpenTasks loads the program and tries it. The caller closes the Tasks. It reads the kernel's
// types: 20 ms and, until the garbage is collected, some MB.
//
// Requires Linux 5.8 with BTF (5.11 in a PID namespace below the first), CAP_BPF and CAP_PERFMON.
// errors.Is measure.ErrUnsupported or measure.ErrDenied.
func OpenTasks(r kernel.Root) (*Tasks, error) {
	if !r.Real() {
		return nil, fmt.Errorf("captured files have no tasks: %w", measure.ErrUnsupported)
	}
	// The inode of the first PID namespace: PROC_PID_INIT_INO.
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", measure.ErrUnclear, err)
	}
	spec, err := program.LoadTasks()
	if err != nil {
		return nil, err
	}
	first := spec.Variables["first_namespace"]
	if err := first.Set(space == "pid:[4026531836]"); err != nil {
		return nil, err
	}
	t := &Tasks{buf: make([]byte, 32<<10)}
	if err := load(spec, &t.objects, NewTypes(r), nil); err != nil {
		return nil, Classify(r, err)
	}
	if t.link, err = iterator(t.objects.CulpritTasks, nil); err != nil {
		t.Close()
		return nil, Classify(r, err)
	}
	if err := t.try(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// try looks for the calling thread, whose numbers are known.
func (t *Tasks) try() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, tid := int32(os.Getpid()), int32(unix.Gettid())
	own, err := proc.NamespaceInode("/proc/thread-self/ns/net")
	if err != nil {
		return fmt.Errorf("%w: %w", measure.ErrUnclear, err)
	}
	found := false
	err = t.Each(func(k *Task) {
		if k.PID == pid && k.TID == tid && k.Run > 0 && k.Count > 0 && k.Parent != 0 &&
			k.Cgroups != 0 && k.Net == own {
			found, t.rss = true, k.Resident != 0
		}
	})
	if err == nil && !found {
		err = fmt.Errorf("the kernel's list of tasks is not as expected: %w",
			measure.ErrUnsupported)
	}
	return err
}

// Resident reports whether Task.Resident is set; some kernels count resident pages differently.
func (t *Tasks) Resident() bool { return t.rss }

// Close unloads the program. A second Close does nothing.
func (t *Tasks) Close() {
	if t == nil {
		return
	}
	if t.link != nil {
		t.link.Close()
	}
	t.objects.Close() //nolint:errcheck // it is of no more use
	*t = Tasks{}
}

// Each calls f with each thread in ascending order of TID, including zombies. The Task is valid
// during the call only. A thread that starts or ends meanwhile may be missing. The error is the
// iterator's.
func (t *Tasks) Each(f func(*Task)) error {
	return readIterator(t.link, "walk the kernel's tasks", t.buf, func(b []byte) ([]byte, error) {
		for ; len(b) >= taskRecord; b = b[taskRecord:] {
			copy((*[taskRecord]byte)(unsafe.Pointer(&t.task))[:], b)
			f(&t.task)
		}
		return b, nil
	})
}
