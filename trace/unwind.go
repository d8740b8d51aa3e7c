package trace

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"culprit/kernel"
	"culprit/lang/gen"
	"culprit/symbol"
	"culprit/symbol/interp"
	"culprit/symbol/unwind"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

// An unwinder loads into the kernel what the programs of a script need to walk stacks of processes.
// For each process with a sample it loads the executable mappings, and the unwind tables of their
// files. The maps are described at gen.MapCode.
type unwinder struct {
	code, wanted, files *ebpf.Map
	layouts             *ebpf.Map // of interpreters
	// wake has a record when a program needs a process that is not loaded.
	wake *ringbuf.Reader
	// openFiles opens the files that a process has mapped, so that its addresses have names after
	// it ended.
	openFiles func(pid int)
	// names reads the names of frames of interpreters, and codes waits for it; nil: nobody needs
	// them
	names    *symbol.Processes
	codes    map[int][]interp.Frame
	opened   map[int]uint64 // the mm of processes for which openFiles was called
	recorder *recorder      // nil: processes that have ended are not known
	seen     []fileSeen
	byKey    map[[gen.FileKey]byte]*unwind.Table // the files in the kernel

	known  *symbol.Unwinding
	tables *unwindTables
	began  time.Time

	mu    sync.Mutex // guards the fields below; it is free while files are read
	procs map[int]*walked
	// interpreters are the tables whose layouts are in the kernel, by their numbers
	interpreters map[uint32]*unwind.Table
	took         time.Duration // CPU time of reading tables while samples were taken

	stop, stopped chan struct{}
}

// A walked is a process that is loaded.
type walked struct {
	mm     uint64 // identifies the address space; 0: not known
	blocks int    // entries in the map code
	code   []symbol.Executed
	at     time.Time     // when it was last loaded or checked
	wait   time.Duration // until the next check. It grows while nothing changes
	busy   chan struct{} // closed when its files were read; nil: they are not being read
}

const (
	// wantedEach is the pause after the processes that programs asked for were loaded.
	wantedEach = 25 * time.Millisecond
	// wantedLate is this pause when reading tables has used its share of time.
	wantedLate = 200 * time.Millisecond
	// sweepEach is how often ended processes are removed.
	sweepEach   = 5 * time.Second
	leastWait   = 25 * time.Millisecond
	longestWait = 30 * time.Second
	// Tables are read in at most atFirst of CPU time plus one part in share of the time that
	// passes. A user who starts one large program after the other can not use more.
	atFirst = 2 * time.Second
	share   = 20
	// noteTook is the CPU time of reading tables from which on a note reports it.
	noteTook = 100 * time.Millisecond
)

// newUnwinder returns the unwinder of a script, or nil when its programs do not use unwind tables.
// It calls openFiles for each process soon after its first sample. files reads the tables; nil:
// this process does. r knows processes that have ended; nil: none. names reads names of frames of
// Python before their processes end; nil: nobody needs them. The caller closes the unwinder.
func newUnwinder(
	root kernel.Root, files *symbol.Files, maps map[string]*ebpf.Map, openFiles func(pid int),
	r *recorder, names *symbol.Processes,
) (*unwinder, error) {
	if maps[gen.MapRows] == nil {
		return nil, nil
	}
	u := &unwinder{
		code:         maps[gen.MapCode],
		wanted:       maps[gen.MapWanted],
		files:        maps[gen.MapFiles],
		layouts:      maps[gen.MapInterpreter],
		interpreters: map[uint32]*unwind.Table{},
		recorder:     r,
		byKey:        map[[gen.FileKey]byte]*unwind.Table{},
		tables:       newUnwindTables(maps),
		procs:        map[int]*walked{},
		began:        time.Now(),
		stop:         make(chan struct{}),
		stopped:      make(chan struct{}),
		openFiles:    openFiles,
		names:        names,
		opened:       map[int]uint64{},
	}
	u.known = symbol.NewUnwinding(root, u.tables.load, files)
	if r != nil {
		u.known.UseHistory(r.history)
	}
	wake, err := ringbuf.NewReader(maps[gen.MapWake])
	if err != nil {
		return nil, fmt.Errorf("wait for processes whose stacks are walked: %w", err)
	}
	u.wake = wake
	if err := u.tables.reserveRules(); err != nil {
		wake.Close() //nolint:errcheck // nothing was read
		return nil, err
	}
	go u.follow()
	return u, nil
}

// close ends the unwinder. u may be nil.
func (u *unwinder) close() {
	if u == nil {
		return
	}
	close(u.stop)
	u.wake.Flush() //nolint:errcheck // it only wakes the reader
	<-u.stopped
}

// follow loads processes that have samples and are not loaded, until the unwinder is closed.
// Programs wake it. Processes that get samples while a table is read, or while the wake buffer is
// full, are loaded later.
func (u *unwinder) follow() {
	defer close(u.stopped)
	defer u.wake.Close() //nolint:errcheck // nothing was written
	swept := time.Now()
	due := time.Time{} // when processes are checked again; zero: there are none
	var woken ringbuf.Record
	for {
		until := swept.Add(sweepEach)
		if !due.IsZero() && due.Before(until) {
			until = due
		}
		u.wake.SetDeadline(until)
		woken.RawSample = nil
		if err := u.wake.ReadInto(&woken); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return // close flushed the buffer
		}
		// One pass loads all processes and files.
		u.see(woken.RawSample)
		for u.wake.AvailableBytes() > 0 && u.wake.ReadInto(&woken) == nil {
			u.see(woken.RawSample)
		}
		u.recorder.catchUp()
		pause := wantedEach
		u.openWanted()
		u.mu.Lock()
		over := u.took >= atFirst+time.Since(u.began)/share
		u.mu.Unlock()
		if !over {
			runtime.LockOSThread() // threadTime is of this thread
			before := threadTime()
			due = u.loadWanted()
			u.loadSeen()
			u.readCodes()
			before = threadTime() - before + u.known.TakeAway()
			runtime.UnlockOSThread()
			u.mu.Lock()
			u.took += before
			u.mu.Unlock()
		} else {
			pause, due = wantedLate, time.Now()
		}
		if time.Since(swept) > sweepEach {
			swept = time.Now()
			u.sweep()
		}
		select {
		case <-u.stop:
			return
		case <-time.After(pause):
		}
	}
}

// threadTime returns the CPU time of the calling thread.
func threadTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// openWanted opens the files of the processes that programs asked for. It is called before their
// tables are read, which may take so long that a short process has ended.
func (u *unwinder) openWanted() {
	var pid, mm uint64
	if u.recorder != nil {
		return // it has them open
	}
	all := u.wanted.Iterate()
	for n := 0; n < gen.WantedMost && all.Next(&pid, &mm); n++ {
		if before, ok := u.opened[int(pid)]; !ok || before != mm {
			u.opened[int(pid)] = mm
			u.openFiles(int(pid))
		}
	}
}

// loadWanted loads the processes that programs asked for. It returns the time at which processes
// that were loaded a moment ago are due again, or zero. These stay in the map wanted, for which
// programs do not wake the unwinder again.
func (u *unwinder) loadWanted() (due time.Time) {
	var all []uint64
	var pid uint64
	err := u.wanted.NextKey(nil, &pid)
	for err == nil && len(all) < gen.WantedMost {
		all = append(all, pid)
		err = u.wanted.NextKey(pid, &pid)
	}
	early := 0
	for _, pid := range all {
		var mm uint64
		if u.wanted.Lookup(pid, &mm) != nil {
			continue
		}
		if again := u.loadProcess(int(pid), mm); !again.IsZero() && early < gen.WantedMost/2 {
			if early++; due.IsZero() || again.Before(due) {
				due = again
			}
			continue
		}
		_ = u.wanted.Delete(pid) // cannot fail: the key was read above
	}
	return due
}

// loadProcess loads the executable mappings of a process and their tables. mm identifies the
// address space, which exec() replaces; 0: not known. Stacks of a process that can't be read are
// walked without tables. For a process that was loaded a moment ago it returns the time at which it
// is due again, else zero.
func (u *unwinder) loadProcess(pid int, mm uint64) (due time.Time) {
	p, due := u.begin(pid, mm)
	if p == nil {
		return due
	}
	if u.tables.crowded() {
		u.trim() // before tables of this process come in
	}
	code, err := u.known.Executed(pid)
	u.mu.Lock()
	defer u.mu.Unlock()
	close(p.busy)
	p.busy, p.at = nil, time.Now()
	switch {
	case u.procs[pid] != p: // it has ended, as others have noticed
	case err != nil: // it has ended, or can't be looked into
		p.mm, p.wait = mm, min(max(2*p.wait, leastWait), longestWait)
	case p.mm == mm && p.code != nil && slices.Equal(p.code, code):
		p.wait = min(max(2*p.wait, leastWait), longestWait)
	default:
		if p.mm == mm && p.code != nil {
			p.wait = min(max(2*p.wait, leastWait), longestWait)
		} else {
			p.wait = leastWait
		}
		p.mm, p.code = mm, code
		u.put(pid, p)
		u.putFiles(code)
		if !u.loaded(code) {
			p.code = nil // a table was removed meanwhile: it is loaded again
		}
	}
	return due
}

// begin returns a process that is to be loaded; nil: it was loaded a moment ago and is due again
// then, or is being loaded, or there are too many.
func (u *unwinder) begin(pid int, mm uint64) (p *walked, due time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p = u.procs[pid]
	switch {
	case p == nil && len(u.procs) >= int(u.code.MaxEntries()):
		return nil, due
	case p == nil:
		p = &walked{}
		u.procs[pid] = p
	case p.busy != nil:
		return nil, time.Now().Add(leastWait)
	case p.mm == mm && time.Since(p.at) < p.wait:
		return nil, p.at.Add(p.wait)
	}
	p.busy = make(chan struct{})
	return p, due
}

// loaded reports whether all tables of mappings are in the kernel, or did not fit.
func (u *unwinder) loaded(code []symbol.Executed) bool {
	for i := range code {
		if code[i].Table == nil {
			continue
		}
		if _, there := u.tables.numberOf(code[i].Table); !there {
			return false
		}
	}
	return true
}

// sweep removes processes that have ended.
func (u *unwinder) sweep() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for pid, p := range u.procs {
		if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			u.forget(pid, p.blocks)
			delete(u.procs, pid)
		}
	}
	for pid := range u.opened {
		if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			delete(u.opened, pid)
		}
	}
}

// trim removes tables from the kernel that no process uses.
func (u *unwinder) trim() {
	u.mu.Lock()
	defer u.mu.Unlock()
	used := map[*unwind.Table]bool{}
	for pid, p := range u.procs {
		if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			u.forget(pid, p.blocks)
			delete(u.procs, pid)
			continue
		}
		for i := range p.code {
			used[p.code[i].Table] = true
		}
	}
	u.dropUnused(used)
	for _, t := range u.tables.trim(used) {
		u.known.Drop(t)
	}
	u.trimInterpreters()
}

// notes returns notes on incomplete stacks and on the cost of reading tables. u may be nil.
func (u *unwinder) notes() []string {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	loaded, full := u.tables.state()
	var out []string
	if full {
		out = append(
			out,
			"the unwind tables of all programs did not fit: "+
				"in programs without one, stacks follow frame pointers",
		)
	}
	if u.took >= noteTook {
		out = append(
			out,
			fmt.Sprintf(
				"reading the unwind tables of %d files while sampling took %.2f s of CPU; "+
					"--unwind fp does without them",
				loaded, u.took.Seconds(),
			),
		)
	}
	return out
}

// stoppedFrame returns the text of the pseudo frame that explains why a stack ends above a frame in
// a module.
func stoppedFrame(s gen.Stop, module string) string {
	if module == "" {
		module = "unknown"
	}
	switch s {
	case gen.StopNotYet:
		return "[followed by frame pointers: unwind tables not loaded yet]"
	case gen.StopNoTable:
		return "[no unwind table: " + module + "]"
	case gen.StopTooLarge:
		return "[no unwind table: " + module + ": too large]"
	case gen.StopTooMany:
		return "[no unwind table: " + module + ": does not fit]"
	case gen.StopNoRow:
		return "[unwinding stopped: not in the table of " + module + "]"
	case gen.StopOther:
		return "[unwinding stopped: " + module + " has a rule that is not supported]"
	case gen.StopMemory:
		return "[unwinding stopped: stack not readable]"
	case gen.StopStuck:
		return "[unwinding stopped: the caller's frame is no higher]"
	case gen.StopUnknown:
		return "[unwinding stopped: no code known there]"
	case gen.StopLong:
		return "[unwinding stopped: too many steps]"
	case gen.StopHotSpot:
		return "[unwinding stopped: the frame in Java's code is not as expected]"
	case gen.StopGenerated:
		return "[unwinding stopped: no frame pointer]"
	}
	return "[unwinding stopped]"
}
