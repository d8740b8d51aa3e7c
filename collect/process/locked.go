package process

import (
	"cmp"
	"time"

	"culprit/kernel/proc"
)

// A lockedReader reads files of processes that the kernel produces under a lock of the process:
// mem and cmdline under that of its memory map, stack and syscall under that of execve(2). A
// blocked thread may hold such a lock for ever. So a goroutine reads, and the caller waits for
// lockedTime only. Not safe for concurrent use.
type lockedReader struct {
	idle    *lockedWorker           // nil: none runs
	pending map[int32]*lockedWorker // whose read has not returned, by process
	late    *time.Timer
	most    time.Duration // for one read; 0: lockedTime
}

// A lockedWorker is a goroutine that reads.
type lockedWorker struct {
	asked chan lockedRead // closed: the goroutine ends
	done  chan []byte     // what was read; nil: the file cannot be read. It has a buffer.
	buf   []byte
}

// A lockedRead is a request to read up to most bytes from an offset.
type lockedRead struct {
	dir  *proc.Dir
	pid  int32
	name string
	at   int64
	most int
}

const (
	// lockedTime is how long a read may take: on a loaded machine some wait for a CPU.
	lockedTime = 50 * time.Millisecond
	// mostPending is how many reads that do not return are waited for. Each keeps a thread.
	mostPending = 8
	// mostLocked is how many bytes a read returns: a page, as command lines and paths have.
	mostLocked = 4096
)

// read returns what was asked for, until the next read. It returns false when the file cannot be
// read now.
func (l *lockedReader) read(q lockedRead) ([]byte, bool) {
	for id, w := range l.pending {
		select {
		case <-w.done:
			delete(l.pending, id)
			l.keep(w)
		default:
		}
	}
	if l.pending[q.pid] != nil || len(l.pending) >= mostPending {
		return nil, false
	}
	w := l.idle
	if w == nil {
		w = startLocked()
		l.idle = w
	}
	w.asked <- q
	most := cmp.Or(l.most, lockedTime)
	if l.late == nil {
		l.late = time.NewTimer(most)
	} else {
		l.late.Reset(most)
	}
	select {
	case b := <-w.done:
		l.late.Stop()
		return b, b != nil
	case <-l.late.C:
	}
	select {
	case b := <-w.done: // this process waited for a CPU
		return b, b != nil
	default:
	}
	if l.pending == nil {
		l.pending = map[int32]*lockedWorker{}
	}
	l.pending[q.pid], l.idle = w, nil
	return nil, false
}

// keep keeps a worker for the next read, or ends it.
func (l *lockedReader) keep(w *lockedWorker) {
	if l.idle != nil {
		close(w.asked)
		return
	}
	l.idle = w
}

// close ends the goroutines, those with a pending read when it returns.
func (l *lockedReader) close() {
	if l.idle != nil {
		close(l.idle.asked)
	}
	for _, w := range l.pending {
		close(w.asked)
	}
	l.idle, l.pending = nil, nil
}

func startLocked() *lockedWorker {
	w := &lockedWorker{asked: make(chan lockedRead, 1), done: make(chan []byte, 1),
		buf: make([]byte, mostLocked)}
	go func() {
		for q := range w.asked {
			b, err := q.dir.ReadPIDAt(q.pid, q.name, q.at, w.buf[:q.most])
			if err != nil {
				b = nil
			}
			w.done <- b
		}
	}()
	return w
}
