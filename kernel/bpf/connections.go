package bpf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"culprit/kernel"
	"culprit/kernel/bpf/program"
	"culprit/kernel/proc"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Connections reads what inet_diag reports of every TCP socket, without its walk over the kernel's
// connection table. That table is shared by all network namespaces and sized by the machine's
// memory: 262,144 buckets with 32 GB, which take a millisecond however few connections exist.
//
// A program at sock:inet_sock_set_state tags each socket that connects, is accepted or listens
// (BPF_MAP_TYPE_SK_STORAGE, freed with the socket). A BPF iterator over the tags writes a record
// for each socket into a map, all within one read(2): in a second read the kernel would skip by
// count, and could miss or repeat sockets.
//
// Connections without a socket are missing: those that are not accepted yet, which are counted, and
// those in TIME_WAIT. It holds file descriptors only, so nothing remains when the process ends.
type Connections struct {
	objects program.ConnectionsObjects
	counted []byte // the map of counts, mapped: changed by the kernel
	// the map of records, mapped: their number, then from connectionRecord on the records
	records     []byte
	link        *Link      // of the program that tags
	adopt, walk *link.Iter // iterators
	buf         []byte     // of reads: the iterators write nothing
	one         Connection
}

// A Connection is a socket at that moment.
type Connection struct {
	Net   uint64 // inode of its network namespace, as in /proc/PID/ns/net
	State uint8  // TCP_ESTABLISHED ... of include/net/tcp_states.h
	// of a listener: connections that are not accepted yet because their handshake goes on
	// (SYN_RECV)
	Requests uint32
	// Message is what inet_diag answers: struct inet_diag_msg and INET_DIAG_INFO with struct
	// tcp_info. The named members of struct info in program/connections.c are set; others are 0,
	// as are timer and expiry. For a listener only state and ports are set. It is valid during
	// the call.
	Message []byte
}

// maxConnections is how many sockets a walk reports, in 1.3 MB.
const maxConnections = 4352

// A record (struct record of program/connections.c) is, in the machine's byte order:
//
//	0     4                                  76             80          296
//	| net | struct inet_diag_msg (sock_diag(7)) | struct nlattr | struct tcp_info |
//
// Of a listener the requests stand where tcp_info begins.
const (
	connectionRecord = 296
	connectionHead   = 4
	connectionAttr   = connectionHead + 72
	connectionInfo   = connectionAttr + 4
)

// tcpListen is a state of a socket (include/net/tcp_states.h).
const tcpListen = 10

// What is counted, by its index in the map of counts.
const (
	countFailed = iota // sockets that could not be tagged
	// sockets that were closed, and have waited for the other end's FIN since: the kernel keeps
	// them short, as TIME_WAIT
	countShort
)

// OpenConnections loads the programs and begins to tag sockets. Adopt tags those that exist
// already. The caller closes the Connections. It reads the kernel's types.
//
// Requires Linux 5.12 with BTF, CAP_BPF and CAP_PERFMON. errors.Is measure.ErrUnsupported or
// measure.ErrDenied.
func OpenConnections(r kernel.Root) (*Connections, error) {
	if !r.Real() {
		return nil, fmt.Errorf("captured files have no connections: %w", measure.ErrUnsupported)
	}
	// The records have the kernel's own user IDs, not those of a user namespace.
	if b, err := os.ReadFile("/proc/self/uid_map"); err != nil ||
		strings.Join(strings.Fields(string(b)), " ") != "0 0 4294967295" {
		return nil, fmt.Errorf("connections can be iterated in the first user namespace only: %w",
			measure.ErrUnsupported)
	}
	c := &Connections{buf: make([]byte, 64)}
	if err := c.open(NewTypes(r)); err != nil {
		c.Close()
		return nil, Classify(r, err)
	}
	return c, nil
}

func (c *Connections) open(types *Types) error {
	spec, err := program.LoadConnections()
	if err != nil {
		return err
	}
	// Jiffies have the step of the coarse clocks (clock_getres(2)).
	var res unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &res); err != nil || res.Nano() <= 0 {
		return fmt.Errorf("the length of a jiffy is unknown: %w", measure.ErrUnsupported)
	}
	hz := uint32(math.Round(float64(time.Second) / float64(res.Nano())))
	if hz < 24 || hz > 10000 {
		return fmt.Errorf("a jiffy of %d ns: %w", res.Nano(), measure.ErrUnsupported)
	}
	if err := spec.Variables["hz"].Set(hz); err != nil {
		return err
	}
	if err := load(spec, &c.objects, types, nil); err != nil {
		return err
	}
	o := &c.objects
	if c.counted, err = unix.Mmap(o.CulpritCount.FD(), 0, kernel.PageSize(), unix.PROT_READ,
		unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map the counts: %w", kernel.AsError(err))
	}
	pages := ((1+maxConnections)*connectionRecord + kernel.PageSize() - 1) / kernel.PageSize()
	if c.records, err = unix.Mmap(o.CulpritOut.FD(), 0, pages*kernel.PageSize(),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map the records: %w", kernel.AsError(err))
	}
	if c.adopt, err = iterator(o.CulpritAdopt, nil); err != nil {
		return err
	}
	if c.walk, err = iterator(o.CulpritWalk, o.CulpritConns); err != nil {
		return err
	}
	c.link, err = AttachTracing(o.CulpritMark)
	return err
}

// iterator attaches an iterator, over a map unless that is nil. The caller closes it.
func iterator(prog *ebpf.Program, over *ebpf.Map) (*link.Iter, error) {
	it, err := link.AttachIter(link.IterOptions{Program: prog, Map: over})
	if err != nil {
		return nil, fmt.Errorf("attach: %w", linkErr(err))
	}
	return it, nil
}

// Close unloads the programs and removes all tags. A second Close does nothing.
func (c *Connections) Close() {
	if c == nil {
		return
	}
	c.link.Close() //nolint:errcheck // nothing more is wanted of it
	for _, it := range []*link.Iter{c.adopt, c.walk} {
		if it != nil {
			it.Close()
		}
	}
	for _, memory := range [][]byte{c.counted, c.records} {
		if memory != nil {
			_ = unix.Munmap(memory) // it is there
		}
	}
	c.objects.Close() //nolint:errcheck // as the link
	*c = Connections{}
}

// Adopt tags the existing sockets of the calling thread's network namespace, and returns the
// namespace's inode. Before it, older sockets are not reported. The error is the iterator's.
func (c *Connections) Adopt() (net uint64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if net, err = proc.NamespaceInode("/proc/thread-self/ns/net"); err != nil {
		return 0, fmt.Errorf("look for connections: %w", err)
	}
	return net, readIterator(c.adopt, "look for connections", c.buf,
		func([]byte) ([]byte, error) { return nil, nil })
}

// Counted returns two counts since the start. failed: sockets that could not be tagged; from the
// first one on, some may be missing. short: sockets that were closed before the other end's FIN
// came; until it comes they have no socket and are in FIN_WAIT2. Where the kernel does not report
// missed runs of the program, failed is at least 1.
func (c *Connections) Counted() (failed, short uint64) {
	at := func(i int) uint64 {
		return atomic.LoadUint64((*uint64)(unsafe.Pointer(&c.counted[8*i])))
	}
	return at(countFailed) + c.missed(), at(countShort)
}

// missed returns how many times the program that marks sockets was not run because it was running
// on that CPU; 1 where the kernel does not say.
func (c *Connections) missed() uint64 {
	stats, err := c.objects.CulpritMark.Stats()
	if err != nil {
		return 1
	}
	return stats.RecursionMisses
}

// Each calls f with each socket that connects, is connected, closes or listens, in all network
// namespaces, in no order, until f returns false. A socket that begins or ends meanwhile may be
// missing; others come once. errors.Is ErrManyConnections: there were more than fit, and f got the
// first.
func (c *Connections) Each(f func(*Connection) (more bool)) error {
	number := (*uint32)(unsafe.Pointer(&c.records[0]))
	atomic.StoreUint32(number, 0)
	if err := readIterator(c.walk, "walk connections", c.buf,
		func([]byte) ([]byte, error) { return nil, nil }); err != nil {
		return err
	}
	n := int(atomic.LoadUint32(number))
	for i := range min(n, maxConnections) {
		b := c.records[(1+i)*connectionRecord:][:connectionRecord]
		k := &c.one
		k.Net, k.State, k.Requests = uint64(native.Uint32(b)), b[connectionHead+1], 0
		k.Message = b[connectionHead:]
		if k.State == tcpListen {
			k.Requests = native.Uint32(b[connectionInfo:])
			k.Message = b[connectionHead:connectionAttr]
		}
		if !f(k) {
			return nil
		}
	}
	if n > maxConnections {
		return ErrManyConnections
	}
	return nil
}

// ErrManyConnections is the error of a walk that left out connections for lack of memory in its
// map.
var ErrManyConnections = errors.New("more connections than are walked")

// readIterator reads all that an iterator writes. take gets the bytes so far and returns those to
// keep for the next call. An error of take ends the reading and is returned.
func readIterator(it *link.Iter, doing string, buf []byte,
	take func([]byte) ([]byte, error)) error {
	file, err := it.Open()
	if err != nil {
		return fmt.Errorf("%s: %w", doing, linkErr(err))
	}
	defer file.Close()
	for has := 0; ; {
		n, err := file.Read(buf[has:])
		switch {
		case errors.Is(err, unix.EAGAIN): // a million steps without a record
			continue
		case errors.Is(err, io.EOF) && has > 0:
			return fmt.Errorf("%s: %w", doing, fs.ErrInvalid)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", doing, kernel.AsError(err))
		}
		rest, err := take(buf[:has+n])
		if err != nil {
			return err
		}
		has = copy(buf, rest)
	}
}
