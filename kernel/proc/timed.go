package proc

import (
	"cmp"
	"fmt"
	"time"

	"culprit/measure"
)

// A TimedReader reads files of processes that the kernel produces under a lock of the process: mem
// and cmdline under that of its memory map, and under that of execve(2) stack, syscall, io, to open
// maps, mem and environ, and on newer kernels (6.18.44) stat and wchan. A
// blocked thread may hold such a lock for ever. So a goroutine reads, and the caller waits for
// TimedLimit only. The zero value is ready. Not safe for concurrent use.
type TimedReader struct {
	idle    *timedWorker           // nil: none runs
	pending map[int32]*timedWorker // whose read has not returned, by process
	late    *time.Timer
	Limit   time.Duration // of one read; 0: TimedLimit
}

// A timedWorker is a goroutine that reads.
type timedWorker struct {
	asked chan timedRead   // closed: the goroutine ends
	done  chan timedResult // has a buffer
	buf   []byte
}

type timedResult struct {
	text []byte
	err  error
}

// A timedRead is a request to read a file of a process from an offset.
type timedRead struct {
	dir  *Dir
	pid  int32
	name string
	at   int64
}

// ErrHangs is the error of a read that has not returned.
var ErrHangs = fmt.Errorf("the read has not returned: %w", measure.ErrUnclear)

const (
	// TimedLimit is how long a read may take: on a loaded machine some wait for a CPU.
	TimedLimit = 50 * time.Millisecond
	// mostPending is how many reads that do not return are waited for. Each keeps a thread.
	mostPending = 8
	// MostTimed is how many bytes a read returns: a page, as command lines and paths have.
	MostTimed = 4096
)

// ReadPIDAt returns up to a page of a file of process pid, from an offset, valid until the next
// call. The error is ErrHangs if the file cannot be read now, or that of Dir.ReadPIDAt.
func (l *TimedReader) ReadPIDAt(dir *Dir, pid int32, name string, at int64) ([]byte, error) {
	q := timedRead{dir, pid, name, at}
	for id, w := range l.pending {
		select {
		case <-w.done:
			delete(l.pending, id)
			l.keep(w)
		default:
		}
	}
	if l.pending[q.pid] != nil || len(l.pending) >= mostPending {
		return nil, ErrHangs
	}
	w := l.idle
	if w == nil {
		w = startTimed()
		l.idle = w
	}
	w.asked <- q
	most := cmp.Or(l.Limit, TimedLimit)
	if l.late == nil {
		l.late = time.NewTimer(most)
	} else {
		l.late.Reset(most)
	}
	select {
	case b := <-w.done:
		l.late.Stop()
		return b.text, b.err
	case <-l.late.C:
	}
	select {
	case b := <-w.done: // this process waited for a CPU
		return b.text, b.err
	default:
	}
	if l.pending == nil {
		l.pending = map[int32]*timedWorker{}
	}
	l.pending[q.pid], l.idle = w, nil
	return nil, ErrHangs
}

// keep keeps a worker for the next read, or ends it.
func (l *TimedReader) keep(w *timedWorker) {
	if l.idle != nil {
		close(w.asked)
		return
	}
	l.idle = w
}

// Hangs reports whether a read of a file of process pid has not returned.
func (l *TimedReader) Hangs(pid int32) bool { return l.pending[pid] != nil }

// Close ends the goroutines, those with a pending read when it returns.
func (l *TimedReader) Close() {
	if l.idle != nil {
		close(l.idle.asked)
	}
	for _, w := range l.pending {
		close(w.asked)
	}
	l.idle, l.pending = nil, nil
}

func startTimed() *timedWorker {
	w := &timedWorker{asked: make(chan timedRead, 1), done: make(chan timedResult, 1),
		buf: make([]byte, MostTimed)}
	go func() {
		for q := range w.asked {
			b, err := q.dir.ReadPIDAt(q.pid, q.name, q.at, w.buf)
			w.done <- timedResult{b, err}
		}
	}()
	return w
}
