package trace

import (
	"encoding/binary"
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

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

// An unwinder loads into the kernel what the programs of a script need to walk stacks of processes.
// For each process with a sample it loads the executable mappings, and the unwind tables of their
// files. The maps are described at gen.MapCode.
type unwinder struct {
	code, rows, rules, wanted *ebpf.Map
	// has a record when a program wants a process that is not loaded
	wake *ringbuf.Reader
	most int // blocks of rows that fit
	// opens the files that a process has mapped, so that its addresses have names when it has ended
	openFiles func(pid int)
	opened    map[int]uint64 // the mm of processes for which openFiles was called

	mu     sync.Mutex // guards what follows
	known  *symbol.Unwinding
	rule   map[symbol.UnwindRule]uint16
	tables map[*symbol.UnwindTable]*loaded
	last   uint32 // number of a table
	blocks int    // of rows
	procs  map[int]*walked
	full   bool // a table did not fit
	began  time.Time
	took   time.Duration // CPU time of reading tables while samples were taken

	stop, stopped chan struct{}
}

// A loaded is a table that is in the kernel.
type loaded struct {
	number uint32   // 0: it did not fit
	pages  []uint32 // the second half of the keys of its rows
}

// A walked is a process that is loaded.
type walked struct {
	mm     uint64
	blocks int
	code   []symbol.Executed
	at     time.Time
	// before it is looked at again: longer each time that nothing new was found
	wait time.Duration
}

const (
	// how long it rests when it has looked for processes that nothing is known of
	wantedEach  = 25 * time.Millisecond
	wantedLate  = 200 * time.Millisecond // and when that has taken too much time
	sweepEach   = 5 * time.Second        // how often it looks for those that have ended
	leastWait   = 25 * time.Millisecond
	longestWait = 30 * time.Second
	// Reading tables takes time, and who starts one large program after the other must not take it
	// all.
	atFirst = 2 * time.Second
	share   = 20 // and a twentieth of the time that passes
	// tellTook is how much of it is worth a note.
	tellTook = 100 * time.Millisecond
)

// newUnwinder returns the unwinder of a script, or nil where its programs walk no stacks by tables.
// It calls openFiles for each process soon after the first sample of it.
func newUnwinder(
	root kernel.Root, maps map[string]*ebpf.Map, meet func(pid int),
) (*unwinder, error) {
	if maps[gen.MapRows] == nil {
		return nil, nil
	}
	u := &unwinder{
		code: maps[gen.MapCode], rows: maps[gen.MapRows], rules: maps[gen.MapRules], wanted: maps[gen.MapWanted], most: int(maps[gen.MapRows].MaxEntries()),
		rule: map[symbol.UnwindRule]uint16{}, tables: map[*symbol.UnwindTable]*loaded{}, procs: map[int]*walked{},
		began: time.Now(), stop: make(chan struct{}), stopped: make(chan struct{}), openFiles: meet, opened: map[int]uint64{},
	}
	u.known = symbol.NewUnwinding(root, u.load)
	wake, err := ringbuf.NewReader(maps[gen.MapWake])
	if err != nil {
		return nil, fmt.Errorf("wait for processes whose stacks are walked: %w", err)
	}
	u.wake = wake
	// Number 0 is none, and number 1 is used for rules that do not fit.
	u.rule[symbol.UnwindRule{}] = 0
	if _, err := u.number(symbol.UnwindRule{CFA: symbol.CFAOther}); err != nil {
		wake.Close() //nolint:errcheck // nothing was read
		return nil, err
	}
	go u.follow()
	return u, nil
}

// close ends it. A nil one has nothing to end.
func (u *unwinder) close() {
	if u == nil {
		return
	}
	close(u.stop)
	u.wake.Flush() //nolint:errcheck // it wakes who reads
	<-u.stopped
}

// follow loads processes that have samples and are not loaded, until the unwinder is closed.
// Programs wake it. Processes that come while a table is read, or while the wake buffer is full,
// are found later.
func (u *unwinder) follow() {
	defer close(u.stopped)
	defer u.wake.Close() //nolint:errcheck // nothing was written
	swept := time.Now()
	due := time.Time{} // when some are looked at again; zero: there are none
	var told ringbuf.Record
	for {
		until := swept.Add(sweepEach)
		if !due.IsZero() && due.Before(until) {
			until = due
		}
		u.wake.SetDeadline(until)
		if err := u.wake.ReadInto(&told); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return // it was flushed
		}
		// all are looked for at once
		for u.wake.AvailableBytes() > 0 && u.wake.ReadInto(&told) == nil {
		}
		pause := wantedEach
		u.openWanted()
		u.mu.Lock()
		over := u.took >= atFirst+time.Since(u.began)/share
		u.mu.Unlock()
		if !over {
			runtime.LockOSThread() // whose time is counted
			before := threadTime()
			due = u.loadWanted()
			before = threadTime() - before
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

// openWanted opens the files of the processes that programs asked for, before their tables are
// read: that may take long, and a short process has ended by then.
func (u *unwinder) openWanted() {
	var pid, mm uint64
	all := u.wanted.Iterate()
	for n := 0; n < gen.WantedMost && all.Next(&pid, &mm); n++ {
		if before, ok := u.opened[int(pid)]; !ok || before != mm {
			u.opened[int(pid)] = mm
			u.openFiles(int(pid))
		}
	}
}

// loadWanted loads the processes that programs asked for. It returns when processes that were
// loaded a moment ago are due again, or zero. Programs don't wake the unwinder for these as long as
// they are wanted.
func (u *unwinder) loadWanted() (due time.Time) {
	var all []uint64
	var pid uint64
	for err := u.wanted.NextKey(nil, &pid); err == nil && len(all) < gen.WantedMost; err = u.wanted.NextKey(pid, &pid) {
		all = append(all, pid)
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
		_ = u.wanted.Delete(pid) // it is there
	}
	return due
}

// loadProcess loads the executable mappings of a process and their tables. mm identifies the
// address space, which exec() replaces; 0: not known. A process that can't be read is walked
// without tables. For a process that was loaded a moment ago it returns when it is due again, else
// zero.
func (u *unwinder) loadProcess(pid int, mm uint64) (due time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.procs[pid]
	if p != nil && p.mm == mm && time.Since(p.at) < p.wait {
		return p.at.Add(p.wait)
	}
	if p == nil {
		if len(u.procs) >= int(u.code.MaxEntries()) {
			return due
		}
		p = &walked{}
		u.procs[pid] = p
	}
	defer func() { p.at = time.Now() }()
	if u.blocks > u.most-u.most/4 {
		u.trim() // before tables of this process come in
	}
	code, err := u.known.Executed(pid)
	if err != nil { // it has ended, or can't be looked into
		p.mm, p.wait = mm, min(max(2*p.wait, leastWait), longestWait)
		return due
	}
	if p.mm == mm && p.code != nil {
		p.wait = min(max(2*p.wait, leastWait), longestWait)
		if slices.Equal(p.code, code) {
			return due
		}
	} else {
		p.wait = leastWait
	}
	p.mm, p.code = mm, code
	u.put(pid, p)
	return due
}

// put writes the blocks of a process, the first one last.
func (u *unwinder) put(pid int, p *walked) {
	entries := make([][gen.CodeEntrySize]byte, 0, len(p.code))
	plain := true
	for i := range p.code {
		c := &p.code[i]
		how, number := u.how(c)
		if how != gen.CodePointers && how != gen.CodeGenerated &&
			(how != gen.CodeTable || !c.Kernel) {
			plain = false
		}
		entries = append(entries, codeEntry(c.Start, c.End, c.Bias, number, how))
	}
	blocks := codeBlocks(entries, p.mm, plain)
	type key struct{ PID, Block uint32 }
	for i := len(blocks) - 1; i >= 0; i-- {
		if err := u.code.Put(key{uint32(pid), uint32(i)}, blocks[i]); err != nil {
			u.forget(pid, max(len(blocks), p.blocks))
			p.blocks = 0
			return // it goes on without
		}
	}
	for i := len(blocks); i < p.blocks; i++ {
		_ = u.code.Delete(key{uint32(pid), uint32(i)}) // nothing leads to it any more
	}
	p.blocks = len(blocks)
}

func (u *unwinder) forget(pid, blocks int) {
	for i := range blocks {
		_ = u.code.Delete([2]uint32{uint32(pid), uint32(i)}) // it may not be there
	}
}

func codeEntry(start, end, bias uint64, table uint32, how uint32) (e [gen.CodeEntrySize]byte) {
	binary.NativeEndian.PutUint64(e[0:], start)
	binary.NativeEndian.PutUint64(e[8:], end)
	binary.NativeEndian.PutUint64(e[16:], bias)
	binary.NativeEndian.PutUint32(e[24:], table)
	binary.NativeEndian.PutUint32(e[28:], how)
	return e
}

// codeBlocks lays entries out in blocks. What is beyond the last one is left out.
func codeBlocks(entries [][gen.CodeEntrySize]byte, mm uint64, plain bool) [][]byte {
	var out [][]byte
	for first := true; first || len(entries) > 0 && len(out) < gen.CodeBlocks; first = false {
		b := make([]byte, 16, gen.CodeBlock)
		binary.NativeEndian.PutUint64(b, mm)
		if plain {
			binary.NativeEndian.PutUint64(b[8:], gen.CodeKernel)
		}
		n := min(len(entries), gen.CodeEntries)
		chained := len(entries) > n && len(out)+1 < gen.CodeBlocks
		if chained {
			n--
		}
		for _, e := range entries[:n] {
			b = append(b, e[:]...)
		}
		entries = entries[n:]
		if chained {
			e := codeEntry(binary.NativeEndian.Uint64(entries[0][:]), 0, 0, 0, gen.CodeChain)
			b = append(b, e[:]...)
		}
		for len(b) < gen.CodeBlock {
			e := codeEntry(gen.CodeUnused, gen.CodeUnused, 0, 0, gen.CodeNoTable)
			b = append(b, e[:]...)
		}
		out = append(out, b)
	}
	return out
}

// how reports how a stack goes on in a stretch of memory, and the number of the table if by one,
// which is brought into the kernel.
func (u *unwinder) how(c *symbol.Executed) (how, number uint32) {
	switch {
	case c.Table != nil:
		t := u.tables[c.Table]
		if t == nil || t.number == 0 {
			return gen.CodeTooMany, 0
		}
		if c.Pointers {
			return gen.CodeMixed, t.number
		}
		return gen.CodeTable, t.number
	case c.Why == symbol.Generated:
		return gen.CodeGenerated, 0
	case c.Why == symbol.ByPointer:
		return gen.CodePointers, 0
	case c.Why == symbol.TooLarge:
		return gen.CodeTooLarge, 0
	}
	return gen.CodeNoTable, 0
}

// load brings a table into the kernel while it is read.
func (u *unwinder) load(
	t *symbol.UnwindTable, read func(func(uint32, symbol.UnwindRule) error) error,
) error {
	l := &loaded{}
	const batch = 1024
	var keys [][2]uint32
	var blocks [][gen.RowsBlock]byte
	flush := func() error {
		if len(keys) == 0 {
			return nil
		}
		if u.blocks+len(l.pages)+len(keys) > u.most {
			return errTablesFull
		}
		if _, err := u.rows.BatchUpdate(keys, blocks, nil); err != nil {
			return errors.Join(errTablesFull, err)
		}
		for _, k := range keys {
			l.pages = append(l.pages, k[1])
		}
		keys, blocks = keys[:0], blocks[:0]
		return nil
	}
	number := u.last + 1
	pages := rowPages{give: func(page uint32, block *[gen.RowsBlock]byte) error {
		keys, blocks = append(keys, [2]uint32{number, page}), append(blocks, *block)
		if len(keys) < batch {
			return nil
		}
		return flush()
	}}
	var last symbol.UnwindRule // which most rows have in common with one of the rows before
	lastNumber := uint16(0)
	reading := read(func(pc uint32, rule symbol.UnwindRule) error {
		if rule != last {
			n, err := u.number(rule)
			if err != nil {
				return errors.Join(errTablesFull, err)
			}
			last, lastNumber = rule, n
		}
		return pages.add(pc, lastNumber)
	})
	err := reading
	// of one with a mistake what came before counts
	if err == nil || !errors.Is(err, errTablesFull) && !errors.Is(err, symbol.ErrTooLong) {
		if err = pages.end(); err == nil {
			err = flush()
		}
	}
	u.tables[t] = l
	if err != nil {
		for _, p := range l.pages {
			_ = u.rows.Delete([2]uint32{number, p}) // it is there
		}
		for _, k := range keys {
			_ = u.rows.Delete(k) // it may not be there
		}
		l.pages, u.full = nil, u.full || errors.Is(err, errTablesFull)
		return err
	}
	u.last, l.number = number, number
	u.blocks += len(l.pages)
	return reading
}

var errTablesFull = errors.New("no room for another table to unwind by")

// number returns a rule its number.
func (u *unwinder) number(r symbol.UnwindRule) (uint16, error) {
	if n, ok := u.rule[r]; ok {
		return n, nil
	}
	n := len(u.rule)
	if n >= gen.Rules {
		return u.rule[symbol.UnwindRule{CFA: symbol.CFAOther}], nil
	}
	if err := u.rules.Put(uint32(n), ruleBytes(r)); err != nil {
		return 0, fmt.Errorf("tell the kernel a rule of unwinding: %w", err)
	}
	u.rule[r] = uint16(n)
	return uint16(n), nil
}

func ruleBytes(r symbol.UnwindRule) (b [gen.RuleSize]byte) {
	b[0] = map[symbol.CFARule]byte{symbol.CFANone: gen.CFANone, symbol.CFAEnd: gen.CFAEnd, symbol.CFASP: gen.CFASP, symbol.CFABP: gen.CFABP, symbol.CFAPLT: gen.CFAPLT,
		symbol.CFAAtSP: gen.CFAAtSP, symbol.CFAAtBP: gen.CFAAtBP, symbol.CFASignal: gen.CFASignal, symbol.CFAOther: gen.CFAOther}[r.CFA]
	b[1] = map[symbol.BPRule]byte{symbol.BPSame: gen.BPSame, symbol.BPAtCFA: gen.BPAtCFA, symbol.BPAtBP: gen.BPAtBP, symbol.BPLost: gen.BPLost}[r.BP]
	binary.NativeEndian.PutUint32(b[4:], uint32(r.Offset))
	binary.NativeEndian.PutUint32(b[8:], uint32(r.BPOffset))
	return b
}

// sweep forgets processes that have ended.
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

// trim takes the tables out of the kernel that no process has.
func (u *unwinder) trim() {
	used := map[*symbol.UnwindTable]bool{}
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
	for t, l := range u.tables {
		if used[t] || l.number == 0 {
			continue
		}
		for _, p := range l.pages {
			_ = u.rows.Delete([2]uint32{l.number, p}) // it is there
		}
		u.blocks -= len(l.pages)
		delete(u.tables, t)
		u.known.Drop(t)
	}
}

// notes returns what may mislead in the stacks.
func (u *unwinder) notes() []string {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []string
	if u.full {
		out = append(
			out,
			"there was no room for the unwind tables of all programs: stacks through those without go by frame pointers",
		)
	}
	if u.took >= tellTook {
		out = append(
			out,
			fmt.Sprintf(
				"to read the unwind tables of programs that were met while it sampled took %.2f s of CPU, of %d files; --unwind fp does without",
				u.took.Seconds(), len(u.tables),
			),
		)
	}
	return out
}

// stopped returns the text of the frame that says why a stack ends, behind a frame in a module.
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
		return "[no unwind table: " + module + ": no room]"
	case gen.StopNoRow:
		return "[unwinding stopped: not in the table of " + module + "]"
	case gen.StopOther:
		return "[unwinding stopped: " + module + " has a rule that is not followed]"
	case gen.StopMemory:
		return "[unwinding stopped: stack not readable]"
	case gen.StopStuck:
		return "[unwinding stopped: the caller's frame is no higher]"
	case gen.StopUnknown:
		return "[unwinding stopped: no code known there]"
	case gen.StopLong:
		return "[unwinding stopped: too many steps]"
	case gen.StopGenerated:
		return "[unwinding stopped: no frame pointer]"
	}
	return "[unwinding stopped]"
}
