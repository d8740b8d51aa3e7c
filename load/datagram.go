package load

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A datagram of a stream begins with its number and the time of its sender. The first byte is that
// of no message of the protocol. Those of iperf3 are as long, with the option of 64-bit numbers.
//
//	| mark u8 | number u56 | time u64, ns since the start of traffic |
//	| seconds u32 | microseconds u32 | number u64, from 1 |               iperf3
const (
	datagramHead = 16
	datagramMark = 0xc1
	numberMask   = 1<<56 - 1
)

// Bounds of datagrams.
const (
	maxDatagram = 65507 // payload of UDP over IPv4
	// maxSegments is UDP_MAX_SEGMENTS of Linux 4.18: datagrams per system call.
	maxSegments = 64
	// pacedBurst is the time that one system call of a paced sender covers at most.
	pacedBurst = 200 * time.Microsecond
	// answerWait is how long a response is waited for; then the request is lost.
	answerWait = 200 * time.Millisecond
)

// datagramCounts are the counters of a receiver of datagrams.
type datagramCounts struct {
	lost      atomic.Int64 // numbers that have not arrived so far
	reordered atomic.Int64 // that arrived after a higher number
	jitter    atomic.Int64 // ns: RFC 3550, section 6.4.1
	// iperf3: datagrams begin as those of iperf3. It is set before the flow runs.
	iperf3 bool
}

// putHead writes the head of a datagram, sent at a time since the start of traffic.
func (d *datagramCounts) putHead(b []byte, number uint64, now time.Duration) {
	if d.iperf3 {
		binary.BigEndian.PutUint32(b, uint32(now/time.Second))
		binary.BigEndian.PutUint32(b[4:], uint32(now%time.Second/time.Microsecond))
		binary.BigEndian.PutUint64(b[8:], number+1) // its numbers begin at 1
		return
	}
	binary.BigEndian.PutUint64(b, datagramMark<<56|number&numberMask)
	binary.BigEndian.PutUint64(b[8:], uint64(now))
}

// readHead reads the head of a datagram: its number, and the time of its sender in nanoseconds. ok
// is false for one that is none of the test.
func (d *datagramCounts) readHead(b []byte) (number uint64, sent int64, ok bool) {
	if d.iperf3 {
		number = binary.BigEndian.Uint64(b[8:])
		sent = int64(binary.BigEndian.Uint32(b))*1e9 + int64(binary.BigEndian.Uint32(b[4:]))*1e3
		return number - 1, sent, number > 0 && number <= numberMask
	}
	head := binary.BigEndian.Uint64(b)
	return head & numberMask, int64(binary.BigEndian.Uint64(b[8:])), head>>56 == datagramMark
}

// datagramReader counts the datagrams of a stream, as iperf3 does: a number that is skipped is
// lost, and one that arrives later is reordered and no longer lost.
type datagramReader struct {
	counts  *datagramCounts
	highest uint64 // number + 1
	transit int64  // of the datagram before; valid when highest > 0
	jitter  float64
}

// add counts a datagram of a number, sent at a time of the sender's clock and received at one of
// this end. The difference of the clocks does not matter: jitter is of the change of the transit.
func (r *datagramReader) add(number uint64, sent, received int64) {
	transit := received - sent
	if r.highest > 0 {
		d := transit - r.transit
		if d < 0 {
			d = -d
		}
		r.jitter += (float64(d) - r.jitter) / 16
		r.counts.jitter.Store(int64(r.jitter))
	}
	r.transit = transit
	switch {
	case number >= r.highest:
		r.counts.lost.Add(int64(number - r.highest))
		r.highest = number + 1
	default:
		r.counts.reordered.Add(1)
		if r.counts.lost.Load() > 0 {
			r.counts.lost.Add(-1)
		}
	}
}

// batchOf returns how many datagrams of a size one system call sends at a rate in bytes per second;
// 0: as fast as possible.
func batchOf(size int, rate float64) int {
	n := min(maxSegments, maxDatagram/size)
	if rate > 0 {
		n = min(n, int(rate*pacedBurst.Seconds())/size)
	}
	return max(1, n)
}

// sendDatagrams sends as fast as possible, or at the test's rate. The kernel splits a buffer into
// datagrams (UDP_SEGMENT, since 4.18); older kernels get one at a time.
func (f *flow) sendDatagrams(t *Test, began time.Time) error {
	rate := t.Rate / float64(t.Streams) / 8
	batch := batchOf(t.Size, rate)
	if batch > 1 && unix.SetsockoptInt(f.socket.fd, unix.SOL_UDP, unix.UDP_SEGMENT, t.Size) != nil {
		batch = 1
	}
	b := randomBytes(batch * t.Size)
	if rate > 0 {
		preciseTimers()
	}
	per := time.Duration(0)
	if rate > 0 {
		per = time.Duration(float64(len(b)) / rate * 1e9)
	}
	number, due := uint64(0), time.Duration(0)
	for ; !f.over.Load(); due += per {
		now := time.Since(began)
		if rate > 0 {
			due = max(due, now-maxArrears)
			if !f.sleep(due - now) {
				return nil
			}
			now = time.Since(began)
		}
		for at := 0; at < len(b); at += t.Size {
			f.datagrams.putHead(b[at:], number, now)
			number++
		}
		sent, err := f.socket.sendDatagram(b)
		switch {
		case err != nil:
			return err
		case !sent:
			number -= uint64(batch) // they were not sent
			continue
		}
		f.done.Store(f.done.Load() + uint64(batch))
		f.moved.Store(f.moved.Load() + uint64(len(b)))
	}
	return nil
}

// discardDatagrams receives and counts datagrams. Others than those of the test are ignored.
func (f *flow) discardDatagrams(t *Test, began time.Time) error {
	// The kernel joins datagrams of one size (since 5.0): fewer system calls.
	_ = unix.SetsockoptInt(f.socket.fd, unix.SOL_UDP, unix.UDP_GRO, 1)
	b := make([]byte, maxDatagram+1)
	reader := datagramReader{counts: &f.datagrams}
	for {
		n, err := f.socket.receiveDatagram(b, 0)
		if err != nil || f.over.Load() {
			return err
		}
		if n == 0 || n%t.Size != 0 {
			continue
		}
		now := int64(time.Since(began))
		for at := 0; at < n; at += t.Size {
			number, sent, ok := f.datagrams.readHead(b[at:])
			if !ok {
				continue
			}
			reader.add(number, sent, now)
			f.done.Store(f.done.Load() + 1)
			f.moved.Store(f.moved.Load() + uint64(t.Size))
		}
	}
}

// exchangeDatagram sends a request and waits for its response. Both begin with as many bytes of the
// number as fit in both. The error is errLost when no response came in time.
func (f *flow) exchangeDatagram(request, response []byte, number uint64) error {
	head := min(len(request), len(response)-1, 8) // response is longer by 1
	var wide [8]byte
	binary.LittleEndian.PutUint64(wide[:], number)
	copy(request, wide[:head])
	if _, err := f.socket.sendDatagram(request); err != nil {
		return err
	}
	for {
		n, err := f.socket.receiveDatagram(response, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return errLost
		case err != nil:
			return err
		case n == 0 && f.over.Load():
			return errEnded
		case n == len(response)-1 && string(response[:head]) == string(wide[:head]):
			return nil
		}
	}
}

// errLost means that a response did not arrive in time.
var errLost = errors.New("no response")

// answerDatagrams sends a response to each request.
func (f *flow) answerDatagrams(t *Test) error {
	b, response := make([]byte, t.Ask+1), randomBytes(t.Answer)
	head, each := min(t.Ask, t.Answer, 8), uint64(t.Ask+t.Answer)
	for {
		n, err := f.socket.receiveDatagram(b, 0)
		switch {
		case err != nil:
			return err
		case f.over.Load():
			return errEnded
		case n != t.Ask:
			continue
		}
		copy(response, b[:head])
		if _, err := f.socket.sendDatagram(response); err != nil {
			return err
		}
		f.done.Store(f.done.Load() + 1)
		f.moved.Store(f.moved.Load() + each)
	}
}

// sendDatagram sends b by one system call. It returns false when the kernel had no memory, or when
// an ICMP message about an earlier datagram came.
func (s *socket) sendDatagram(b []byte) (sent bool, err error) {
	for {
		_, _, e := unix.Syscall6(unix.SYS_SENDTO, uintptr(s.fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
		switch e {
		case 0:
			return true, nil
		case unix.EINTR:
		case unix.ECONNREFUSED, unix.ENOBUFS:
			part := unix.NsecToTimespec(int64(50 * time.Microsecond))
			_ = unix.Nanosleep(&part, nil) // a shorter pause does no harm
			return false, nil
		default:
			return false, e
		}
	}
}

// receiveDatagram receives one datagram, or several of one size after UDP_GRO. It skips ICMP
// messages.
func (s *socket) receiveDatagram(b []byte, flags int) (int, error) {
	for {
		n, err := s.receive(b, flags)
		if !errors.Is(err, unix.ECONNREFUSED) {
			return n, err
		}
	}
}
