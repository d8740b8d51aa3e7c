package symbolizer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"culprit/symbol"
	"culprit/symbol/unwind"
	"culprit/wire"

	"golang.org/x/sys/unix"
)

// MemoryLimit is the private memory in bytes that the process needs at most.
const MemoryLimit = 256 << 20

// garbageGrowth is the growth of the heap between collections in percent of what lives. 400 saves a
// fifth of the CPU time of many new files (BenchmarkNewFiles), and costs 9 MB all the time.
const garbageGrowth = 100

// A Server answers requests. Open it before the process drops its right to open files.
type Server struct {
	reader  symbol.OwnReader
	statm   *os.File // nil: it cannot be read
	asked   atomic.Int64
	lanes   sync.WaitGroup
	page    int64
	started atomic.Int32 // lanes
}

// maxLanes is how many connections a client may have.
const maxLanes = 8

// NewServer opens what a server needs. It is used as long as the process runs.
func NewServer() *Server {
	debug.SetMemoryLimit(MemoryLimit * 3 / 4)
	debug.SetGCPercent(garbageGrowth)
	s := &Server{page: int64(os.Getpagesize())}
	s.statm, _ = os.Open("/proc/self/statm") // without it the memory is not reported
	go s.release()
	return s
}

// release returns unused memory to the kernel after requests.
func (s *Server) release() {
	const each = 30 * time.Second
	for last := int64(0); ; time.Sleep(each) {
		if now := s.asked.Load(); now != last {
			last = now
			debug.FreeOSMemory()
		}
	}
}

// Serve answers the requests of a client until it closes the connection. The error means that the
// client does not follow the protocol.
func (s *Server) Serve(conn *net.UnixConn) error {
	in := newReceiver(conn)
	kind, payload, err := in.frames.Next()
	if err != nil {
		return err
	}
	if kind != kindHello {
		return wire.Invalid("frame %d instead of a hello", kind)
	}
	if err := checkHello(payload); err != nil {
		return err
	}
	if _, err := conn.Write(wire.End(appendHello(wire.Start(nil, kindHello)), 0)); err != nil {
		return err
	}
	err = s.lane(conn, in)
	s.lanes.Wait()
	return err
}

// lane answers the requests of one connection.
func (s *Server) lane(conn *net.UnixConn, in *receiver) error {
	defer conn.Close() //nolint:errcheck // the client has gone, or is wrong
	out := &answers{to: &frameWriter{to: conn}}
	for {
		kind, payload, err := in.frames.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch kind {
		case kindLane:
			err = s.newLane(in)
		case kindRequest:
			err = s.answer(out, in, payload)
		default:
			err = wire.Invalid("frame %d", kind)
		}
		in.closeFiles()
		if err != nil {
			return err
		}
	}
}

// newLane answers requests of another connection too.
func (s *Server) newLane(in *receiver) error {
	f, err := in.file()
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // FileConn has duplicated it
	c, err := net.FileConn(f)
	if err != nil {
		return err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok || s.started.Add(1) > maxLanes {
		return errors.Join(wire.Invalid("no unix socket, or too many"), c.Close())
	}
	s.lanes.Go(func() { _ = s.lane(conn, newReceiver(conn)) }) // the client sees it close
	return nil
}

// answers are frames for a client. Those of requests that came together are sent together.
type answers struct {
	to    io.Writer
	b     []byte
	since time.Time // when the first of them was ready
}

const (
	answersSize = 64 << 10              // bytes that are sent in any case
	answersAge  = 10 * time.Millisecond // after which answers are sent
)

// A frameWriter writes whole frames of several goroutines.
type frameWriter struct {
	mu sync.Mutex
	to io.Writer
}

// Write implements io.Writer.
func (w *frameWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(b)
}

// aliveEach is how often the client learns that its request is being answered.
const aliveEach = 500 * time.Millisecond

// beat sends a frame from time to time, so that the client sees that this process runs, until the
// returned function is called. One more frame may follow then.
func (a *answers) beat() (stop func()) {
	var mu sync.Mutex
	stopped := false
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(aliveEach, func() {
		_, err := a.to.Write(wire.End(wire.Start(nil, kindAlive), 0))
		mu.Lock()
		defer mu.Unlock()
		if !stopped && err == nil {
			timer.Reset(aliveEach)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// flush sends the frames. The error is that of the connection.
func (a *answers) flush() error {
	if len(a.b) == 0 {
		return nil
	}
	_, err := a.to.Write(a.b)
	if a.b = a.b[:0]; cap(a.b) > 2*answersSize { // a large answer is rare
		a.b = nil
	}
	return err
}

// end ends the frame that begins at from. more: it may be sent with the next one.
func (a *answers) end(from int, more bool) error {
	wire.End(a.b, from)
	if from == 0 {
		a.since = time.Now()
	}
	if more && len(a.b) < answersSize && time.Since(a.since) < answersAge {
		return nil
	}
	return a.flush()
}

// answer answers one request.
func (s *Server) answer(out *answers, in *receiver, payload []byte) error {
	h, q, err := decodeRequest(payload)
	if err != nil {
		return err
	}
	if h.file {
		if q.File, err = in.file(); err != nil {
			return err
		}
		defer q.File.Close() //nolint:errcheck // it was read from
	}
	if h.debug {
		if q.Debug, err = in.file(); err != nil {
			return err
		}
		defer q.Debug.Close() //nolint:errcheck // it was read from
	}
	s.asked.Add(1)
	var lost error
	send := func(b []byte) error {
		if lost = out.flush(); lost == nil {
			_, lost = out.to.Write(b)
		}
		return lost
	}
	rows := &rowWriter{seq: h.seq, rules: map[unwind.Rule]uint64{}, send: send}
	functions := &functionWriter{seq: h.seq, send: send}
	q.Row, q.Function = rows.add, functions.add
	a, failed := &symbol.Answer{}, symbol.ErrUnavailable
	if q.Until == 0 || symbol.Monotonic() < q.Until {
		stop := out.beat()
		a, failed = s.reader.Read(q)
		stop()
	}
	if lost == nil {
		lost = errors.Join(rows.flush(), functions.flush())
	}
	if lost != nil {
		return lost
	}
	from := len(out.b)
	out.b = appendAnswer(wire.Start(out.b, kindAnswer), h.seq, a, failed, s.usage())
	if len(out.b)-from-wire.HeadSize > maxAnswer {
		out.b = appendAnswer(wire.Start(out.b[:from], kindAnswer), h.seq,
			&symbol.Answer{CPU: a.CPU}, symbol.ErrTooLong, s.usage())
	}
	return out.end(from, h.more)
}

// usage returns what this process has used.
func (s *Server) usage() usage {
	var r unix.Rusage
	u := usage{}
	if unix.Getrusage(unix.RUSAGE_SELF, &r) == nil {
		u.cpu = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	var b [128]byte
	n, _ := s.statm.ReadAt(b[:], 0) // nil fails too
	if words := bytes.Fields(b[:n]); len(words) > 1 {
		pages, _ := strconv.ParseInt(string(words[1]), 10, 64) // 0: not known
		u.memory = pages * s.page
	}
	return u
}

// A receiver reads frames and the descriptors that come with them.
type receiver struct {
	frames wire.Reader
	conn   *net.UnixConn
	files  []*os.File
}

func newReceiver(conn *net.UnixConn) *receiver {
	r := &receiver{conn: conn}
	r.frames = wire.Reader{From: r, Limit: maxRequest}
	return r
}

// maxFiles is how many descriptors a frame has.
const maxFiles = 2

// Read implements io.Reader, and keeps descriptors for file.
func (r *receiver) Read(b []byte) (int, error) {
	var rights [64]byte
	n, m, flags, _, err := r.conn.ReadMsgUnix(b, rights[:unix.CmsgSpace(4*maxFiles)])
	if m > 0 {
		all, parseErr := unix.ParseSocketControlMessage(rights[:m])
		for i := range all {
			fds, _ := unix.ParseUnixRights(&all[i]) // others have none
			for _, fd := range fds {
				unix.CloseOnExec(fd)
				r.files = append(r.files, os.NewFile(uintptr(fd), "file"))
			}
		}
		if err == nil && (parseErr != nil || flags&unix.MSG_CTRUNC != 0 ||
			len(r.files) > maxFiles) {
			err = wire.Invalid("too many descriptors")
		}
	}
	return n, err
}

// file returns the next descriptor of the frame. The caller must close it.
func (r *receiver) file() (*os.File, error) {
	if len(r.files) == 0 {
		return nil, fmt.Errorf("%w: a descriptor is missing", wire.ErrInvalid)
	}
	f := r.files[0]
	r.files = r.files[1:]
	return f, nil
}

// closeFiles closes descriptors that nothing has used.
func (r *receiver) closeFiles() {
	for _, f := range r.files {
		f.Close() //nolint:errcheck // nothing was read
	}
	r.files = nil
}
