package bpf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"culprit/kernel"
	"culprit/kernel/proc"

	"golang.org/x/sys/unix"
)

// A MapWatch reports what processes map to execute it: all processes, or those of a tree, which is
// a process and all threads and processes that it starts from then on. It is perf's side-band: the
// kernel writes a record before the first instruction there is executed. Close ends it. Several
// goroutines may use it.
type MapWatch struct {
	polling sync.RWMutex // held by Wait, so that Close closes no file that it waits for
	mu      sync.Mutex
	rings   []*sideband
	poll    []unix.PollFd // of rings, and of stop in the end
	stop    *os.File      // its end wakes Wait
	stops   *os.File
	page    int
	events  []MapEvent // of the last Read
}

// A sideband is the ring of one CPU.
type sideband struct {
	fd     int
	memory []byte
	record []byte // scratch memory of read
}

// A MapEvent is one record. IDs are those of the PID namespace of the process that made the
// MapWatch.
type MapEvent struct {
	Kind        MapEventKind
	Time        uint64 // ns of CLOCK_MONOTONIC
	PID, Parent int    // Parent is 0 unless a process was made
	// Of Mapped alone:
	Start, Length, Offset uint64
	Device                uint64 // of the file system, as in stat(2)
	Inode                 uint64 // 0: no file
	Path                  string // as /proc/PID/maps shows it, with " (deleted)"
}

// MapEventKind is what a MapEvent is about.
type MapEventKind uint8

// The kinds of events.
const (
	Mapped   MapEventKind = iota // memory can be executed
	Executed                     // the process executes another program: all its mappings are gone
	Forked                       // a process has a copy of its parent's memory
	Ended                        // the last thread of a process ended
	MapsLost                     // records were lost, of any process
)

const (
	sidebandPages = 32 // of data, per CPU; a power of 2
	// sidebandsMost is how many pages of data all CPUs have for WatchAllMaps, but each has
	// sidebandLeast.
	sidebandsMost, sidebandLeast = 2048, 8
	// Offsets in struct perf_event_mmap_page (linux/perf_event.h).
	ringHead, ringTail, ringData, ringSize = 1024, 1032, 1040, 1048
	// Bits of misc of a record.
	miscExec = 1 << 13 // PERF_RECORD_MISC_COMM_EXEC
)

// WatchMaps watches the mappings of a process that has one thread, and of all that it starts. The
// caller closes the MapWatch. The error is that of perf_event_open(2). Requires CAP_PERFMON, or the
// right to trace the process.
func WatchMaps(r kernel.Root, pid int) (*MapWatch, error) {
	attr := sidebandAttr()
	attr.Wakeup, attr.Bits = 1, attr.Bits|unix.PerfBitInherit
	return watchMaps(r, attr, pid, func(int) int { return sidebandPages })
}

// WatchAllMaps watches the mappings of all processes. Wait returns when a ring is half full: the
// caller reads at intervals. The caller closes the MapWatch. The error is that of
// perf_event_open(2). Requires CAP_PERFMON.
func WatchAllMaps(r kernel.Root) (*MapWatch, error) {
	attr := sidebandAttr()
	pages := func(cpus int) int {
		n := sidebandPages
		for n > sidebandLeast && n*cpus > sidebandsMost {
			n /= 2
		}
		attr.Wakeup = uint32(n * os.Getpagesize() / 2)
		return n
	}
	attr.Bits |= unix.PerfBitWatermark
	return watchMaps(r, attr, -1, pages)
}

// sidebandAttr describes an event that counts nothing and has records of mappings.
func sidebandAttr() *unix.PerfEventAttr {
	return &unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample_type: unix.PERF_SAMPLE_TIME, Clockid: unix.CLOCK_MONOTONIC,
		Bits: unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitComm |
			unix.PerfBitCommExec | unix.PerfBitTask |
			unix.PerfBitSampleIDAll | unix.PerfBitUseClockID | unix.PerfBitExcludeKernel,
	}
}

// watchMaps opens a ring for each CPU. pid -1 is all processes. pages returns the pages of a ring
// for a number of CPUs.
func watchMaps(
	r kernel.Root, attr *unix.PerfEventAttr, pid int, pages func(cpus int) int,
) (*MapWatch, error) {
	cpus, err := proc.OnlineCPUs(r)
	if err != nil {
		return nil, err
	}
	w := &MapWatch{page: os.Getpagesize()}
	if w.stop, w.stops, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("watch mappings: %w", err)
	}
	size := (1 + pages(len(cpus))) * w.page
	for _, cpu := range cpus {
		fd, err := unix.PerfEventOpen(attr, pid, int(cpu), -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			w.Close()
			return nil, fmt.Errorf("watch the mappings of process %d: %w", pid, kernel.AsError(err))
		}
		ring := &sideband{fd: fd}
		w.rings = append(w.rings, ring)
		ring.memory, err = unix.Mmap(fd, 0, size,
			unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			w.Close()
			return nil, fmt.Errorf("map the ring of mappings: %w", kernel.AsError(err))
		}
		w.poll = append(w.poll, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	w.poll = append(w.poll, unix.PollFd{Fd: int32(w.stop.Fd()), Events: unix.POLLIN})
	return w, nil
}

// Close ends the watch and a Wait. A second Close does nothing. The error is always nil.
func (w *MapWatch) Close() error {
	w.mu.Lock()
	if w.stops != nil {
		w.stops.Close() //nolint:errcheck // nothing was written
		w.stops = nil
	}
	w.mu.Unlock()
	w.polling.Lock()
	defer w.polling.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop.Close() //nolint:errcheck // nothing was read
	for _, r := range w.rings {
		if r.memory != nil {
			unix.Munmap(r.memory) //nolint:errcheck // it was mapped
		}
		unix.Close(r.fd) //nolint:errcheck // only read
	}
	w.rings = nil
	return nil
}

// Wait waits until there is something to be read, but not longer than a while; false: it was
// closed.
func (w *MapWatch) Wait(most time.Duration) bool {
	w.polling.RLock()
	defer w.polling.RUnlock()
	w.mu.Lock()
	if w.rings == nil {
		w.mu.Unlock()
		return false
	}
	poll := slices.Clone(w.poll)
	w.mu.Unlock()
	for i := range poll {
		poll[i].Revents = 0
	}
	if _, err := unix.Poll(poll, int(most.Milliseconds())); err != nil &&
		!errors.Is(err, unix.EINTR) {
		return false
	}
	for i := range poll[:len(poll)-1] {
		// all that was watched has ended: what comes is a Close
		if poll[i].Revents&unix.POLLHUP != 0 {
			poll[i].Fd = -1
			w.mu.Lock()
			if i < len(w.poll) {
				w.poll[i].Fd = -1
			}
			w.mu.Unlock()
		}
	}
	return poll[len(poll)-1].Revents == 0
}

// Read returns what happened since the last call, in the order in which it did. The events are
// valid until the next call.
func (w *MapWatch) Read() []MapEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	if cap(w.events) > mostKeptEvents {
		w.events = nil
	}
	clear(w.events) // their texts
	out := w.events[:0]
	for _, r := range w.rings {
		out = r.read(out, w.page)
	}
	w.events = out
	slices.SortStableFunc(out, func(a, b MapEvent) int { return cmp.Compare(a.Time, b.Time) })
	return out
}

// mostKeptEvents is how many events have memory that the next Read uses again: 1 MB.
const mostKeptEvents = 1 << 13

// read takes the records out of a ring and appends their events to out.
func (r *sideband) read(out []MapEvent, page int) []MapEvent {
	word := func(at int) *uint64 { return (*uint64)(unsafe.Pointer(&r.memory[at])) }
	offset, size := *word(ringData), *word(ringSize)
	if size == 0 { // before Linux 4.1
		offset, size = uint64(page), uint64(len(r.memory)-page)
	}
	data := r.memory[offset : offset+size]
	head, tail := atomic.LoadUint64(word(ringHead)), *word(ringTail)
	record := r.record
	for tail+8 <= head {
		at := tail % size
		// records begin at a multiple of 8
		length := uint64(binary.NativeEndian.Uint16(data[at+6:]))
		if length < 8 || tail+length > head {
			tail = head
			out = append(out, MapEvent{Kind: MapsLost})
			break
		}
		record = append(record[:0], data[at:min(at+length, size)]...)
		record = append(record, data[:length-uint64(len(record))]...)
		if e, ok := parseMapEvent(record); ok {
			out = append(out, e)
		}
		tail += length
	}
	r.record = record
	atomic.StoreUint64(word(ringTail), tail)
	return out
}

// parseMapEvent reads one record; !ok: it says nothing of mappings. Each ends with its time
// (PERF_SAMPLE_TIME of sample_id_all). The words behind the head of eight bytes are
//
//	MMAP2 (10)  u32 pid tid, u64 addr len pgoff, u32 maj min, u64 ino gen, u32 prot flags, path
//	COMM (3)    u32 pid tid, name
//	FORK (7), EXIT (4)  u32 pid ppid tid ptid, u64 time
//	LOST (2)    u64 id lost
func parseMapEvent(b []byte) (e MapEvent, ok bool) {
	const (
		lost, comm, exit, fork, mmap2 = 2, 3, 4, 7, 10
		// PERF_RECORD_MISC_MMAP_BUILD_ID, which is not asked for
		build = 1 << 14
	)
	kind, misc := binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint16(b[4:])
	if len(b) < 24 {
		return e, false
	}
	u32 := func(at int) int { return int(int32(binary.NativeEndian.Uint32(b[at:]))) }
	u64 := func(at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
	e.Time, e.PID = u64(len(b)-8), u32(8)
	switch {
	case kind == lost:
		return MapEvent{Kind: MapsLost, Time: e.Time}, true
	case kind == comm && misc&miscExec != 0:
		e.Kind = Executed
	case kind == fork && len(b) >= 40 && u32(8) != u32(12) && u32(8) == u32(16):
		e.Kind, e.Parent = Forked, u32(12)
	case kind == exit && len(b) >= 40 && u32(8) == u32(16):
		e.Kind = Ended
	case kind == mmap2 && misc&build == 0 && len(b) >= 80:
		e.Kind, e.Start, e.Length, e.Offset, e.Inode = Mapped, u64(16), u64(24), u64(32), u64(48)
		e.Device = unix.Mkdev(uint32(u32(40)), uint32(u32(44)))
		path, _, _ := bytes.Cut(b[72:len(b)-8], []byte{0})
		e.Path = string(path)
	default:
		return e, false
	}
	return e, e.PID > 0
}
