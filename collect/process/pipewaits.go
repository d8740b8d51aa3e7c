package process

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// pipeWait is the pipe or AF_UNIX socket to which a thread waits to write. It cannot change until
// the thread runs, so it is read once.
type pipeWait struct {
	link string // of the open file: "pipe:[77]", the path of a FIFO, "socket:[78]"; "": no wait
	seen bool   // at an earlier reading: the thread has not run since
}

// noPipeWait is that of threads that wait for something else.
var noPipeWait = &pipeWait{} // table: only read

// pipeReading finds the processes that wait to write to a pipe, and the process that has its read
// end open.
type pipeReading struct {
	waits []pipeWriter
	from  int          // of the processes with which the next reading begins
	until measure.Span // CPU time of the thread at which this reading looks no further
	most  measure.Span // CPU time of one reading for it; 0: pipeTime
	late  bool

	readers map[string]int32  // by link; 0: not found
	peers   map[string]string // of AF_UNIX sockets to which somebody waits to write, in this pass
	pids    []int32           // still to be searched in this pass, the last one first
	rest    int               // readings until the next pass
	link    [4096]byte
}

// pipeWriter is the threads of a process that wait for one pipe.
type pipeWriter struct {
	p       *process
	link    string
	moved   bool // they have run since the previous reading
	threads float64
}

const (
	// pipeTime is the CPU time of one reading for the waits, and again for the readers.
	pipeTime = 4 * measure.Millisecond
	// pipeRest is how many readings pass after a search of all processes that did not find all
	// readers.
	pipeRest = 10
	// mostPipeRows is how many waits have a row.
	mostPipeRows = 256
	// mostReaderThreads is how many threads of a reader are looked at.
	mostReaderThreads = 16
)

// putPipeWaits puts the threads that sleep until somebody reads a pipe or an AF_UNIX socket.
func (r *processReading) putPipeWaits(out *collect.Out) {
	t := out.Table("process.pipe.waiters")
	if t == nil || out.First {
		return
	}
	w := &r.pipes
	w.waits, w.late = w.waits[:0], false
	w.until = kernel.ThreadTime() + cmp.Or(w.most, pipeTime)
	n := len(r.procs)
	for i := range n {
		at := (w.from + i) % n
		if r.findPipeWaits(r.procs[at]); w.late {
			w.from = at
			break
		}
	}
	r.findReaders()
	for i := range w.waits[:min(len(w.waits), mostPipeRows)] {
		r.putPipeWait(out, t, &w.waits[i])
	}
	clear(w.waits)
}

// findPipeWaits finds the threads of a process that wait. It reads those that have run.
func (r *processReading) findPipeWaits(p *process) {
	if p.dead || p.stat.kernel || p.pid == r.self {
		return
	}
	if !p.split {
		r.findPipeWait(p, p.pid, p.ran, p.stat.state, &p.pipe)
		return
	}
	for _, th := range p.threads {
		if !th.gone {
			r.findPipeWait(p, th.tid, p.ran && th.ran, th.stat.state, &th.pipe)
		}
	}
}

func (r *processReading) findPipeWait(
	p *process, tid int32, ran bool, state byte, known **pipeWait,
) {
	if ran {
		*known = nil
	}
	w := &r.pipes
	if state != 'S' {
		return
	}
	if *known == nil {
		if w.late = w.late || kernel.ThreadTime() >= w.until; w.late {
			return
		}
		*known = r.readPipeWait(p.pid, tid)
	}
	link, moved := (*known).link, !(*known).seen
	if link == "" {
		return
	}
	(*known).seen = true
	if i := slices.IndexFunc(w.waits, func(x pipeWriter) bool {
		return x.p == p && x.link == link && x.moved == moved
	}); i >= 0 {
		w.waits[i].threads++
		return
	}
	w.waits = append(w.waits, pipeWriter{p, link, moved, 1})
}

// readPipeWait reads what a thread waits to write to; noPipeWait if it waits for something else.
func (r *processReading) readPipeWait(pid, tid int32) *pipeWait {
	task := "task/" + strconv.Itoa(int(tid)) + "/"
	b, err := r.readOnce(pid, task+"wchan")
	if err != nil || !waitsToWrite(string(procfs.FunctionName(b))) {
		return noPipeWait
	}
	text, ok := r.readLocked(pid, task+"syscall", 0)
	call, in := procfs.ParseSyscall(text)
	if !ok || !in {
		return noPipeWait
	}
	fd := uint64(0)
	switch call.Number {
	case unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_PWRITEV2, unix.SYS_SENDFILE, unix.SYS_SENDTO,
		unix.SYS_SENDMSG, unix.SYS_SENDMMSG:
		fd = call.Args[0]
	case unix.SYS_SPLICE:
		fd = call.Args[2]
	default:
		return noPipeWait
	}
	link, err := r.dir.ReadLink(pid, "fd/"+strconv.FormatUint(fd&(1<<31-1), 10), r.pipes.link[:])
	if err != nil {
		return noPipeWait
	}
	return &pipeWait{link: string(link)}
}

// waitsToWrite reports whether a thread that sleeps in a kernel function may wait for the reader of
// a pipe or of an AF_UNIX socket. Names are those of Linux 3.10 to 6.18.
func waitsToWrite(function string) bool {
	switch function {
	case "pipe_write", "anon_pipe_write", "fifo_pipe_write", "pipe_wait", "pipe_wait_writable",
		"wait_for_space", "sock_alloc_send_pskb", "sock_wait_for_wmem", "unix_wait_for_peer":
		return true
	}
	return false
}

// findReaders searches the open files of other processes for the ends to read from. It forgets what
// nobody waits for.
func (r *processReading) findReaders() {
	w := &r.pipes
	if len(w.waits) == 0 {
		clear(w.readers)
		w.pids, w.rest = w.pids[:0], 0
		return
	}
	w.until = kernel.ThreadTime() + cmp.Or(w.most, pipeTime)
	old := w.readers
	w.readers = map[string]int32{}
	sought, sockets := 0, false
	for _, x := range w.waits {
		reader := old[x.link]
		if reader > 0 && r.find(reader) == nil {
			reader = 0
		}
		if w.readers[x.link] = reader; reader == 0 {
			sought++
			sockets = sockets || strings.HasPrefix(x.link, "socket:")
		}
	}
	switch {
	case sought == 0:
		w.pids, w.rest = w.pids[:0], 0
		return
	case len(w.pids) == 0 && w.rest > 0:
		w.rest--
		return
	case len(w.pids) == 0:
		r.orderReaders()
		if w.peers = nil; sockets {
			w.peers = unixPeers()
			maps.DeleteFunc(w.peers, func(from, _ string) bool {
				_, wanted := w.readers[from]
				return !wanted
			})
		}
	}
	for len(w.pids) > 0 && kernel.ThreadTime() < w.until {
		pid := w.pids[len(w.pids)-1]
		w.pids = w.pids[:len(w.pids)-1]
		r.searchReader(pid)
	}
	if len(w.pids) == 0 {
		w.rest = pipeRest
	}
}

// orderReaders lists the processes to search, those that are related to a writer last.
func (r *processReading) orderReaders() {
	w := &r.pipes
	var near []int32
	w.pids = w.pids[:0]
	for _, p := range r.procs {
		if p.dead || p.stat.kernel || p.pid == r.self {
			continue
		}
		if slices.ContainsFunc(w.waits, func(x pipeWriter) bool {
			return x.p != p && relation(x.p, p) != ""
		}) {
			near = append(near, p.pid)
			continue
		}
		w.pids = append(w.pids, p.pid)
	}
	w.pids = append(w.pids, near...)
}

// searchReader looks for ends to read from among the open files of a process.
func (r *processReading) searchReader(pid int32) {
	w := &r.pipes
	fds, err := r.dir.ListFDs(pid, nil)
	if err != nil {
		return // it has ended, or may not be read
	}
	for _, fd := range fds {
		if kernel.ThreadTime() >= w.until {
			return
		}
		name := "fd/" + strconv.Itoa(int(fd))
		link, err := r.dir.ReadLink(pid, name, w.link[:])
		if err != nil {
			continue
		}
		if bytes.HasPrefix(link, []byte("socket:")) {
			w.foundSocket(pid, string(link))
			continue
		}
		reader, wanted := w.readers[string(link)]
		if wanted && reader == 0 && !w.writes(pid, string(link)) && r.mayRead(pid, fd) {
			w.readers[string(link)] = pid
		}
	}
}

// foundSocket sets the reader of what is written to a socket.
func (w *pipeReading) foundSocket(pid int32, link string) {
	for from, peer := range w.peers {
		if reader, wanted := w.readers[from]; peer == link && wanted && reader == 0 {
			w.readers[from] = pid
		}
	}
}

// writes reports whether a process waits to write to a pipe itself.
func (w *pipeReading) writes(pid int32, link string) bool {
	return slices.ContainsFunc(w.waits, func(x pipeWriter) bool {
		return x.p.pid == pid && x.link == link
	})
}

// mayRead reports whether a process may read from an open file: its access mode is O_RDONLY or
// O_RDWR.
func (r *processReading) mayRead(pid, fd int32) bool {
	b, err := r.readOnce(pid, "fdinfo/"+strconv.Itoa(int(fd)))
	if err != nil {
		return false
	}
	_, after, _ := bytes.Cut(b, []byte("flags:\t"))
	digits, _ := procfs.CutLine(after)
	flags, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 8, 64)
	return err == nil && flags&unix.O_ACCMODE != unix.O_WRONLY
}

// relation returns how a writer is related to a reader: its parent, its child, siblings; "": not.
func relation(writer, reader *process) string {
	switch {
	case writer.stat.parent == reader.pid:
		return "parent"
	case reader.stat.parent == writer.pid:
		return "child"
	case writer.stat.parent == reader.stat.parent && reader.stat.parent > 1:
		return "siblings"
	}
	return ""
}

// putPipeWait puts the row of a wait.
func (r *processReading) putPipeWait(out *collect.Out, t *collect.Table, x *pipeWriter) {
	kind, moved := "pipe", "no"
	if x.moved {
		moved = "yes"
	}
	if strings.HasPrefix(x.link, "socket:") {
		kind = "unix"
	}
	pid, name := x.p.name.of(out, x.p.pid, x.p.comm)
	reader, readerName, does, related := out.Number(0), out.Label(""), "", ""
	if p := r.find(r.pipes.readers[x.link]); p != nil {
		reader, readerName = p.name.of(out, p.pid, p.comm)
		does, related = r.readerDoes(p), relation(x.p, p)
	}
	t.Put(x.threads, pid, name, out.Label(kind), reader, readerName, out.Label(does),
		out.Label(related), out.Label(moved))
}

// readerDoes returns the kernel functions in which threads of a reader sleep; "running", "stopped",
// or "" when that is not known.
func (r *processReading) readerDoes(p *process) string {
	switch p.stat.state {
	case 'R':
		return "running"
	case 'T', 't':
		return "stopped"
	}
	if !p.split {
		b, err := r.readOnce(p.pid, "wchan")
		if err != nil {
			return ""
		}
		return string(procfs.FunctionName(b))
	}
	var all []string
	for _, th := range p.threads[:min(len(p.threads), mostReaderThreads)] {
		b, err := r.readOnce(p.pid, th.base+"wchan")
		if f := string(procfs.FunctionName(b)); err == nil && f != "" && !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
