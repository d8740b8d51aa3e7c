package load

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A flow is one end of a connection with traffic, and the thread that serves it. Other threads may
// read its counters at any time.
type flow struct {
	socket *socket
	way    Way
	stream int
	sends  bool // of a stream: this end sends; of exchanges: this end sends requests

	_      [64]byte      // keeps the counters in a cache line of their own
	moved  atomic.Uint64 // bytes received, or sent to the kernel by a sender; both for exchanges
	done   atomic.Uint64 // exchanges that ended
	missed atomic.Uint64 // exchanges that were due and did not end in time
	tid    atomic.Int64  // of the thread; 0 before it runs
	had    atomic.Int64  // CPU time of the thread before the run
	over   atomic.Bool   // traffic ends: later errors don't count
	_      [64]byte

	datagrams  datagramCounts // lost also counts transactions without a response
	connecting *connecting    // nil: the flow is one connection

	times *counter // of exchanges, at the end that sends requests
	late  *counter // of paced exchanges: the delay of each start that this program caused
	err   error    // why it ended early; valid after the thread ended

	last tcpInfo // at the reading before
	cpu  int64   // of the thread, at the reading before
}

// errEnded means that the other end closed the connection.
var errEnded = errors.New("the other end closed it")

// prepare locks the calling goroutine to a thread, which serves the flow.
func (f *flow) prepare() {
	tid := lockThread()
	had, _ := clockTime(threadClock(tid)) // the thread may have done other work
	f.had.Store(had)
	f.tid.Store(int64(tid))
}

// run serves the flow until end is called or the connection breaks. began is the start of traffic.
func (f *flow) run(t *Test, began time.Time) {
	var err error
	switch {
	case t.Kind == Exchange && f.sends:
		err = f.ask(t, began)
	case t.Connect:
		err = f.answerConnections(t)
	case t.Kind == Exchange && t.UDP:
		err = f.answerDatagrams(t)
	case f.sends && t.UDP:
		err = f.sendDatagrams(t, began)
	case t.UDP:
		err = f.discardDatagrams(t, began)
	case t.Kind == Exchange:
		err = f.answer(t)
	case f.sends:
		err = f.sendStream(t, began)
	default:
		err = f.discard(t)
	}
	if !f.over.Load() {
		f.err = fmt.Errorf("connection %d %s: %w", f.stream+1, f.way, err)
	}
}

// end makes the thread return soon.
func (f *flow) end() {
	f.over.Store(true)
	f.socket.end()
}

// sendStream sends as fast as possible, or at the test's rate.
func (f *flow) sendStream(t *Test, began time.Time) error {
	rate := t.Rate / float64(t.Streams) / 8
	b := randomBytes(pieceOf(t.Size, rate))
	if rate == 0 {
		for {
			if err := f.socket.send(b); err != nil {
				return err
			}
			f.moved.Store(f.moved.Load() + uint64(len(b)))
		}
	}
	preciseTimers()
	per := time.Duration(float64(len(b)) / rate * 1e9)
	for due := time.Duration(0); ; due += per {
		now := time.Since(began)
		if now-due > maxArrears { // no burst after a time of congestion
			due = now - maxArrears
		}
		if !f.sleep(due - now) {
			return nil
		}
		if err := f.socket.send(b); err != nil {
			return err
		}
		f.moved.Store(f.moved.Load() + uint64(len(b)))
	}
}

// maxArrears is how much delayed traffic a paced sender sends later.
const maxArrears = 100 * time.Millisecond

// pieceOf returns the bytes per write at a rate in bytes per second: one millisecond's worth, so
// that bursts are short. It is at least a segment and at most size.
func pieceOf(size int, rate float64) int {
	if rate == 0 {
		return size
	}
	return min(size, max(int(rate/1000), 1400))
}

// discard receives and discards data.
func (f *flow) discard(t *Test) error {
	flags := unix.MSG_TRUNC
	if t.Copy {
		flags = 0
	}
	b := make([]byte, max(t.Size, receiveAtOnce))
	for {
		n, err := f.socket.receive(b, flags)
		if err != nil {
			return err
		}
		if n == 0 {
			return errEnded
		}
		f.moved.Store(f.moved.Load() + uint64(n))
	}
}

// receiveAtOnce is the highest number of bytes that a receiver reads by one system call.
const receiveAtOnce = 256 << 10

// ask sends requests and waits for each response. Without a pace, a request is sent when the
// response to the one before has arrived; its latency starts then. With a pace, the latency starts
// at the due time, even when the response before arrived later.
func (f *flow) ask(t *Test, began time.Time) error {
	exchange := f.exchanger(t)
	each := uint64(t.Ask + t.Answer)
	if t.Pace == 0 {
		from := time.Since(began)
		for {
			err := exchange()
			if errors.Is(err, errLost) && !f.over.Load() {
				f.datagrams.lost.Add(1)
				from = time.Since(began)
				continue
			}
			if err != nil {
				return err
			}
			now := time.Since(began)
			f.times.add(int64(now - from))
			from = now
			f.done.Store(f.done.Load() + 1)
			f.moved.Store(f.moved.Load() + each)
		}
	}
	preciseTimers()
	per := float64(t.Streams) / t.Pace * 1e9
	first := per * float64(f.stream) / float64(t.Streams)
	free, n := time.Duration(0), 0
	defer func() { // the current one and all that were due after it
		due := int64((float64(t.For)-first)/per) + 1
		f.missed.Store(uint64(max(0, due-int64(n))))
	}()
	for ; ; n++ {
		due := time.Duration(first + float64(n)*per)
		if !f.until(began, due) {
			return nil
		}
		from := time.Since(began)
		f.late.add(int64(from - max(due, free)))
		err := exchange()
		free = time.Since(began)
		if errors.Is(err, errLost) && !f.over.Load() {
			f.datagrams.lost.Add(1)
			continue
		}
		if err != nil {
			return err
		}
		f.times.add(int64(free - due))
		f.done.Store(f.done.Load() + 1)
		f.moved.Store(f.moved.Load() + each)
	}
}

// exchanger returns the function that does one transaction of a test. Its error is errLost when
// there was no response, and the next transaction may have one.
func (f *flow) exchanger(t *Test) func() error {
	request, response, number := randomBytes(t.Ask), make([]byte, t.Answer+1), uint64(0)
	switch {
	case t.Connect:
		return func() error { return f.connectExchange(request, response) }
	case t.UDP:
		return func() error {
			number++
			return f.exchangeDatagram(request, response, number)
		}
	}
	return func() error { return f.exchange(request, response[:t.Answer]) }
}

// exchange sends one request and reads its response.
func (f *flow) exchange(request, response []byte) error {
	if err := f.socket.sendNow(request); err != nil {
		return err
	}
	return f.readFull(response)
}

// readFull reads until b is full.
func (f *flow) readFull(b []byte) error {
	for len(b) > 0 {
		n, err := f.socket.receive(b, 0)
		switch {
		case err != nil:
			return err
		case n == 0:
			return io.EOF
		}
		b = b[n:]
	}
	return nil
}

// skip reads n bytes into part, one piece after the other.
func (f *flow) skip(n int, part []byte) error {
	for n > 0 {
		piece := part[:min(n, len(part))]
		if err := f.readFull(piece); err != nil {
			return err
		}
		n -= len(piece)
	}
	return nil
}

// answer sends a response to each request.
func (f *flow) answer(t *Test) error {
	var part, response []byte
	each := uint64(t.Ask + t.Answer)
	for {
		if part == nil { // a client that sends nothing takes no memory
			part = make([]byte, 1)
			if err := f.readFull(part); err != nil {
				return err
			}
			part, response = make([]byte, min(t.Ask, receiveAtOnce)), randomBytes(t.Answer)
			if err := f.skip(t.Ask-1, part); err != nil {
				return err
			}
		} else if err := f.skip(t.Ask, part); err != nil {
			return err
		}
		if err := f.socket.sendNow(response); err != nil {
			return err
		}
		f.done.Store(f.done.Load() + 1)
		f.moved.Store(f.moved.Load() + each)
	}
}

// until waits until due after began. It reports false when traffic ends. It spins at the end: a
// timer wakes a thread tens of microseconds late, which would be part of each latency.
func (f *flow) until(began time.Time, due time.Duration) bool {
	if !f.sleep(due - time.Since(began) - spinTime) {
		return false
	}
	for time.Since(began) < due {
	}
	return !f.over.Load()
}

// spinTime is how long before a paced request its thread spins.
const spinTime = 60 * time.Microsecond

// sleep waits. It reports false when traffic ends.
func (f *flow) sleep(d time.Duration) bool {
	for end := time.Now().Add(d); d > 0 && !f.over.Load(); d = time.Until(end) {
		part := unix.NsecToTimespec(int64(min(d, maxNap)))
		_ = unix.Nanosleep(&part, nil) // after a signal the loop continues
	}
	return !f.over.Load()
}

// maxNap is the longest sleep between two checks for the end of traffic.
const maxNap = 50 * time.Millisecond

// preciseTimers turns off timer slack, which delays wakeups by up to 50 us: PR_SET_TIMERSLACK of
// prctl(2).
func preciseTimers() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }

// randomBytes returns bytes that can't be compressed.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{'l', 'o', 'a', 'd'})
	r.Read(b) //nolint:errcheck // never fails
	return b
}
