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

// A flow is one connection that carries traffic, at this end, with the thread that serves it. What it counts others may read at any time.
type flow struct {
	socket *socket
	way    Way
	stream int
	sends  bool // of a stream: this end sends. Of exchanges: this end asks

	_      [64]byte      // what the thread writes shares no cache line with others' fields
	moved  atomic.Uint64 // bytes that this end received or, when it sends, handed to the kernel; of exchanges both
	done   atomic.Uint64 // exchanges that ended
	missed atomic.Uint64 // exchanges that were due and had not ended when traffic did
	tid    atomic.Int64  // of the thread, 0 before it runs
	had    atomic.Int64  // CPU time that the thread had before
	over   atomic.Bool   // traffic is to end: what goes wrong from now on is nothing
	_      [64]byte

	times *counter // of exchanges, at the end that asks
	late  *counter // how much later than it could have each began, of those that are paced
	err   error    // why it ended before it was to; to be read when the thread has ended

	last tcpInfo // of the reading before
	cpu  int64   // as last, of the thread
}

// errEnded is the end of a connection by the other side.
var errEnded = errors.New("the other end closed it")

// prepare keeps the calling goroutine on a thread of its own, which serves the flow.
func (f *flow) prepare() {
	tid := lockThread()
	had, _ := clockTime(threadClock(tid)) // the thread may have done other work before
	f.had.Store(had)
	f.tid.Store(int64(tid))
}

// run serves the flow until end is called, or it breaks. began is when traffic began.
func (f *flow) run(t *Test, began time.Time) {
	var err error
	switch {
	case t.Kind == Exchange && f.sends:
		err = f.ask(t, began)
	case t.Kind == Exchange:
		err = f.answer(t)
	case f.sends:
		err = f.pour(t, began)
	default:
		err = f.drain(t)
	}
	if !f.over.Load() {
		f.err = fmt.Errorf("connection %d %s: %w", f.stream+1, f.way, err)
	}
}

// end makes the thread end, soon.
func (f *flow) end() {
	f.over.Store(true)
	f.socket.end()
}

// pour sends as much as goes, or as the rate says.
func (f *flow) pour(t *Test, began time.Time) error {
	rate := t.Rate / float64(t.Streams) / 8
	b := noise(pieceOf(t.Size, rate))
	if rate == 0 {
		for {
			if err := f.socket.send(b); err != nil {
				return err
			}
			f.moved.Store(f.moved.Load() + uint64(len(b)))
		}
	}
	keenTimers()
	per := time.Duration(float64(len(b)) / rate * 1e9)
	for due := time.Duration(0); ; due += per {
		now := time.Since(began)
		if now-due > mostDebt { // what a congested time has cost is not caught up with in one burst
			due = now - mostDebt
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

// mostDebt is for how much time of traffic that could not go a paced sender makes up.
const mostDebt = 100 * time.Millisecond

// pieceOf gives how much is written at once at that rate in bytes a second: a millisecond's worth, so that a burst is short, but not less than a
// segment, and at most what was asked for.
func pieceOf(size int, rate float64) int {
	if rate == 0 {
		return size
	}
	return min(size, max(int(rate/1000), 1400))
}

// drain throws away what comes.
func (f *flow) drain(t *Test) error {
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

// receiveAtOnce is how much a receiver takes at most by one system call.
const receiveAtOnce = 256 << 10

// ask sends requests and waits for the response to each. Without a pace the next goes when the response to the one before has come, and its time counts
// from there. With a pace it counts from when the request was to go, also when the response before came too late for that.
func (f *flow) ask(t *Test, began time.Time) error {
	request, response := noise(t.Ask), make([]byte, t.Answer)
	each := uint64(t.Ask + t.Answer)
	if t.Pace == 0 {
		from := time.Since(began)
		for {
			if err := f.exchange(request, response); err != nil {
				return err
			}
			now := time.Since(began)
			f.times.add(int64(now - from))
			from = now
			f.done.Store(f.done.Load() + 1)
			f.moved.Store(f.moved.Load() + each)
		}
	}
	keenTimers()
	per := float64(t.Streams) / t.Pace * 1e9
	first := per * float64(f.stream) / float64(t.Streams)
	free, n := time.Duration(0), 0
	defer func() { f.missed.Store(uint64(max(0, int64((float64(t.For)-first)/per)+1-int64(n)))) }() // the one that was under way, and those behind it
	for ; ; n++ {
		due := time.Duration(first + float64(n)*per)
		if !f.until(began, due) {
			return nil
		}
		from := time.Since(began)
		f.late.add(int64(from - max(due, free)))
		if err := f.exchange(request, response); err != nil {
			return err
		}
		free = time.Since(began)
		f.times.add(int64(free - due))
		f.done.Store(f.done.Load() + 1)
		f.moved.Store(f.moved.Load() + each)
	}
}

// exchange sends one request and takes its response.
func (f *flow) exchange(request, response []byte) error {
	if err := f.socket.sendNow(request); err != nil {
		return err
	}
	return f.take(response)
}

// take reads until b is full.
func (f *flow) take(b []byte) error {
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

// answer responds to each request.
func (f *flow) answer(t *Test) error {
	request, response := make([]byte, t.Ask), noise(t.Answer)
	each := uint64(t.Ask + t.Answer)
	for {
		if err := f.take(request); err != nil {
			return err
		}
		if err := f.socket.sendNow(response); err != nil {
			return err
		}
		f.done.Store(f.done.Load() + 1)
		f.moved.Store(f.moved.Load() + each)
	}
}

// until waits until so long after the begin; false when traffic is to end. The last of it it spins: a timer wakes a thread tens of microseconds
// late, which would be in each latency.
func (f *flow) until(began time.Time, due time.Duration) bool {
	if !f.sleep(due - time.Since(began) - spinning) {
		return false
	}
	for time.Since(began) < due {
	}
	return !f.over.Load()
}

// spinning is for how long before a paced request its thread spins.
const spinning = 60 * time.Microsecond

// sleep waits so long; false when traffic is to end.
func (f *flow) sleep(d time.Duration) bool {
	for end := time.Now().Add(d); d > 0 && !f.over.Load(); d = time.Until(end) {
		part := unix.NsecToTimespec(int64(min(d, mostNap)))
		_ = unix.Nanosleep(&part, nil) // a signal wakes it early: the loop sleeps on
	}
	return !f.over.Load()
}

// mostNap is how long a thread sleeps before it looks whether traffic is to end.
const mostNap = 50 * time.Millisecond

// keenTimers has the thread woken when it wants to be, and not up to 50 us later with others (prctl(2)).
func keenTimers() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }

// noise gives bytes that nothing on the way can make shorter.
func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{'l', 'o', 'a', 'd'})
	r.Read(b) //nolint:errcheck // it never fails
	return b
}
