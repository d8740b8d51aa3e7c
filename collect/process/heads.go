package process

import (
	"cmp"
	"errors"
	"io/fs"
	"runtime"
	"sync"
	"time"

	"culprit/collect"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// headReading reads the stat and io files of processes.
//
// The kernel produces them under a lock that execve(2) holds (exec_update_lock: io, and since
// Linux 6.18.44 or earlier stat and wchan), also while execve closes files. A process that closes a
// file of a network or FUSE file system there may hold the lock for ever. So a goroutine reads the
// files of many processes, and one that does not return is left alone. proc.TimedReader does the
// same for single files; for hundreds of them its goroutine would wake as often.
type headReading struct {
	asked []*head
	spare []*head
	idle  *headReader   // nil: none runs
	held  []*headReader // whose read has not returned
	late  *time.Timer
	limit time.Duration
	spent measure.Span // CPU time of the goroutines in this reading
}

// A head is what is read of a process: its stat line, and its io file.
type head struct {
	p        *process
	file, io *proc.File // kept open; nil: opened for this read
	wantIO   bool

	text    []byte // of the stat line
	statErr error
	closed  bool // the kept file is of a process that has ended
	count   ioBytes
	ok      bool // of count
	ioErr   error
}

// A headReader is a goroutine that reads.
type headReader struct {
	dir   *proc.Dir
	asked chan struct{} // heads are to be read; closed: the goroutine ends
	read  chan struct{} // all heads are read. It has a buffer.
	done  chan struct{} // closed when the goroutine has ended
	cost  measure.Span  // CPU time of the latest heads, when they are read

	mu    sync.Mutex // guards the fields below
	heads []*head    // those after at are not read yet
	at    int
	began time.Time // of the read at
	left  bool      // nobody waits; those after at are another's
}

// headTime is how long the files of one process may take: on a loaded machine the goroutine waits
// for a CPU.
const headTime = 200 * time.Millisecond

// mostHeld is how many reads that do not return are waited for. Each keeps a thread.
const mostHeld = 8

// askHead asks for the stat line of a process, and with withIO for its io file.
func (r *processReading) askHead(p *process, withIO bool) {
	if p.held != nil {
		select {
		case <-p.held.done:
			p.held = nil
		default:
			r.hung = true
			return
		}
	}
	var h *head
	if n := len(r.heads.spare); n > 0 {
		h = r.heads.spare[n-1]
		r.heads.spare = r.heads.spare[:n-1]
		*h = head{text: h.text[:0]}
	} else {
		h = &head{}
	}
	h.p, h.wantIO = p, withIO && !r.noIO && (r.wants.io || r.wants.calls)
	h.file = r.keepOpen(p, "stat", &p.file, p.known && p.ran)
	if h.wantIO {
		h.io = r.keepOpen(p, "io", &p.ioFile, p.hasIO)
	}
	r.heads.asked = append(r.heads.asked, h)
}

// keepOpen returns the open file of a process; nil when it is not kept.
func (r *processReading) keepOpen(
	p *process, name string, file **proc.File, keep bool,
) *proc.File {
	if *file == nil && keep && r.keep > 0 {
		switch f, err := r.dir.OpenPID(p.pid, name); {
		case err == nil:
			*file = f
			r.keep--
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
			r.keep = 0
		}
	}
	return *file
}

// readHeads reads what was asked for: process.head is then set. It is nil if a read hangs.
func (r *processReading) readHeads() {
	s := &r.heads
	kept := s.held[:0]
	for _, w := range s.held {
		select {
		case <-w.done:
		default:
			kept = append(kept, w)
		}
	}
	s.held = kept
	limit := cmp.Or(s.limit, headTime)
	rest := s.asked
	for len(rest) > 0 && len(s.held) < mostHeld {
		if s.idle == nil {
			s.idle = startHeads(r.dir)
		}
		w := s.idle
		w.heads, w.at, w.began = rest, 0, time.Now()
		w.asked <- struct{}{}
		n := s.wait(w, limit)
		for _, h := range rest[:n] {
			h.p.head = h
		}
		if n == len(rest) {
			s.spent += w.cost
			rest = nil
			break
		}
		p := rest[n].p
		p.held, s.idle = w, nil
		for _, f := range [...]**proc.File{&p.file, &p.ioFile} {
			if *f != nil { // the goroutine closes them
				*f = nil
				r.keep++
			}
		}
		s.held = append(s.held, w)
		rest = append([]*head(nil), rest[n+1:]...)
		s.asked = nil // the goroutine has it
		limit = min(limit, proc.TimedLimit)
	}
	r.hung = r.hung || len(rest)+len(s.held) > 0
}

// freeHeads ends the use of all heads.
func (r *processReading) freeHeads() {
	for _, p := range r.procs {
		if p.head != nil {
			r.heads.spare = append(r.heads.spare, p.head)
			p.head = nil
		}
	}
	r.heads.asked = r.heads.asked[:0]
}

// putHeads charges what reading heads has cost.
func (r *processReading) putHeads(out *collect.Out) {
	if tables := out.Tables(); len(tables) > 0 {
		tables[0].AddCost(r.heads.spent)
	}
	r.heads.spent = 0
}

func startHeads(dir *proc.Dir) *headReader {
	w := &headReader{dir: dir, asked: make(chan struct{}, 1), read: make(chan struct{}, 1),
		done: make(chan struct{})}
	go w.run()
	return w
}

// close ends the goroutines, those whose read hangs when it returns.
func (s *headReading) close() {
	if s.idle != nil {
		close(s.idle.asked)
		s.idle = nil
	}
}

// run reads the heads each time it is asked, until nobody waits.
func (w *headReader) run() {
	defer close(w.done)
	runtime.LockOSThread() // its CPU time is read
	defer runtime.UnlockOSThread()
	buf := make([]byte, 1024)
	for range w.asked {
		before := kernel.ThreadTime()
		for _, h := range w.heads {
			buf = h.read(w.dir, buf)
			w.mu.Lock()
			left := w.left
			w.at++
			w.began = time.Now()
			w.mu.Unlock()
			if left {
				h.file.Close()
				h.io.Close()
				return
			}
		}
		w.cost = kernel.ThreadTime() - before
		w.read <- struct{}{}
	}
}

// read reads the files of a process with a buffer, and returns the buffer. A kept file of a reused
// pid fails (ESRCH), and a newly opened one shows another start.
func (h *head) read(dir *proc.Dir, buf []byte) []byte {
	var b []byte
	if h.file != nil {
		b, h.statErr = h.file.ReadOneInto(buf)
		h.closed = h.statErr != nil && errors.Is(h.statErr, fs.ErrNotExist)
	}
	if h.file == nil || h.closed {
		b, h.statErr = dir.ReadPIDOne(h.p.pid, "stat", buf)
	}
	h.text = append(h.text[:0], b...)
	if cap(b) > cap(buf) {
		buf = b[:cap(b)]
	}
	if !h.wantIO || h.statErr != nil {
		return buf
	}
	if h.io != nil {
		b, h.ioErr = h.io.ReadOneInto(buf)
	}
	if h.io == nil || errors.Is(h.ioErr, fs.ErrNotExist) {
		b, h.ioErr = dir.ReadPIDOne(h.p.pid, "io", buf)
	}
	h.count, h.ok = parseIO(b)
	return buf
}

// wait returns how many heads are read: all, or those before one that takes longer than limit.
func (s *headReading) wait(w *headReader, limit time.Duration) int {
	if s.late == nil {
		s.late = time.NewTimer(limit)
	} else {
		s.late.Reset(limit)
	}
	defer s.late.Stop()
	for {
		select {
		case <-w.read:
			return len(w.heads)
		case <-s.late.C:
		}
		w.mu.Lock()
		rest := limit - time.Since(w.began)
		if n := w.at; rest <= 0 && n < len(w.heads) {
			w.left = true
			w.mu.Unlock()
			return n
		}
		w.mu.Unlock()
		s.late.Reset(max(rest, time.Millisecond))
	}
}

// readStat takes the stat line of the head to r.line. If the process has ended it marks it as ended
// and returns false.
func (r *processReading) readStat(p *process) bool {
	h := p.head
	if h.closed {
		r.closeFile(&p.file)
	}
	switch {
	case h.statErr != nil:
		if !errors.Is(h.statErr, fs.ErrNotExist) {
			r.hidden = true
		}
		r.markEnded(p)
		return false
	case !r.line.parseStat(h.text):
		r.hidden = true
		r.markEnded(p)
		return false
	}
	return true
}

// lookIO takes the io file of the head.
func (r *processReading) lookIO(p *process, fresh, compare bool) {
	h := p.head
	if !h.wantIO {
		return
	}
	d, now, last := p.delta, h.count, p.io
	if h.ioErr != nil || !h.ok {
		if h.ioErr != nil && errors.Is(h.ioErr, fs.ErrNotExist) {
			return // it has ended; a loss reports that
		}
		r.ioDenied = r.ioDenied || compare
		p.hasIO = false
		d.io = unknownIO()
		return
	}
	d.io = [4]float64{
		growth(now.read, last.read),
		growth(now.write, last.write),
		growth(now.rchar, last.rchar),
		growth(now.wchar, last.wchar),
	}
	if !fresh && !p.hasIO { // it was not readable before
		d.io = unknownIO()
	}
	p.io, p.hasIO = now, true
}

func unknownIO() [4]float64 {
	return [4]float64{measure.NaN, measure.NaN, measure.NaN, measure.NaN}
}
