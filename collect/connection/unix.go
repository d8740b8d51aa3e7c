package connection

import (
	"fmt"
	"slices"
	"strings"

	"culprit/collect"
	"culprit/kernel/netlink"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// UnixListeners reads the accept queues of AF_UNIX sockets by unix_diag (sock_diag(7)).
type UnixListeners struct{}

// Stats returns unix.listen.queue and unix.listen.limit.
func (UnixListeners) Stats() []measure.Stat {
	fields := []measure.Field{
		{Name: "netns", Type: measure.Word, Help: "network namespace; empty is the tool's own"},
		{Name: "path", Type: measure.Word, Help: "path of a listening socket; @ begins an " +
			"abstract name"},
	}
	return []measure.Stat{
		{ID: "unix.listen.queue", Kind: measure.Level, Unit: measure.Count, Fields: fields,
			Help: "connections to an AF_UNIX socket that wait for accept(2) (unix_diag rqueue)"},
		{ID: "unix.listen.limit", Kind: measure.Level, Unit: measure.Count, Fields: fields,
			Help: "how many may wait; above it connect(2) waits, or fails with EAGAIN; the " +
				"kernel accepts one more (unix_diag wqueue)"},
	}
}

// Constants of include/uapi/linux/unix_diag.h.
const (
	unixDiagRequest = 24 // struct unix_diag_req
	unixDiagHeader  = 16 // struct unix_diag_msg
	unixShowName    = 1 << 0
	unixShowQueue   = 1 << 4
	unixName        = 0
	unixQueue       = 4 // u32 rqueue, u32 wqueue

	// unixMost is how many listeners a namespace may have; more are not read.
	unixMost = 4096
)

// Open opens a socket in each network namespace. It needs no capability. An error means that
// nothing can be measured, as without CONFIG_UNIX_DIAG. The caller closes the Reading.
func (UnixListeners) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	r := &unixReading{}
	r.onSocket = r.take
	r.spaces = collect.PerNamespace[*netlink.Conn]{
		Env: env,
		Open: func(*collect.Namespace[*netlink.Conn]) (*netlink.Conn, error) {
			return netlink.Dial(unix.NETLINK_SOCK_DIAG, netlink.Options{})
		},
		Close: func(c *netlink.Conn) { c.Close() }, //nolint:errcheck // only read
	}
	if err := r.spaces.Start(); err != nil {
		return nil, err
	}
	return r, nil
}

type unixReading struct {
	spaces   collect.PerNamespace[*netlink.Conn]
	request  netlink.Request
	onSocket func(uint16, []byte) error
	found    []unixListener // of the current namespace
	tooMany  bool
}

// unixListener is a listening socket.
type unixListener struct {
	path         string
	queue, limit uint32
}

// Close implements collect.Reading.
func (r *unixReading) Close() { r.spaces.Shut() }

// Read implements collect.Reading.
func (r *unixReading) Read(out *collect.Out) error {
	queue, limit := out.Table("unix.listen.queue"), out.Table("unix.listen.limit")
	var failed error
	read := 0
	for _, s := range r.spaces.Follow(out) {
		if err := r.dump(s.Data); err != nil {
			failed = fmt.Errorf("read AF_UNIX listeners%s: %w", s.Of(), err)
			out.NoteAll(failed.Error())
			continue
		}
		read++
		if r.tooMany {
			out.NoteAll(fmt.Sprintf("more than %d AF_UNIX listeners%s: some are not read",
				unixMost, s.Of()))
		}
		for _, l := range r.found {
			path := out.Label(l.path)
			queue.Put(float64(l.queue), s.Label(out), path)
			limit.Put(float64(l.limit), s.Label(out), path)
		}
	}
	if read == 0 {
		return failed
	}
	return nil
}

// dump reads the listeners of a namespace: one for each path, the fullest.
func (r *unixReading) dump(c *netlink.Conn) error {
	restart := func() { r.found, r.tooMany = r.found[:0], false }
	restart()
	r.request.Begin(sockDiagByFamily, 0)
	b := r.request.Extend(unixDiagRequest)
	b[0] = unix.AF_UNIX
	native.PutUint32(b[4:], 1<<tcpListen)
	native.PutUint32(b[12:], unixShowName|unixShowQueue)
	if err := c.DumpRetry(&r.request, 3, restart, r.onSocket); err != nil {
		return err
	}
	slices.SortFunc(r.found, func(a, b unixListener) int {
		if n := strings.Compare(a.path, b.path); n != 0 {
			return n
		}
		return int(b.queue) - int(a.queue)
	})
	r.found = slices.CompactFunc(r.found,
		func(a, b unixListener) bool { return a.path == b.path })
	return nil
}

func (r *unixReading) take(_ uint16, b []byte) error {
	l, ok := parseUnix(b)
	switch {
	case !ok:
	case len(r.found) >= unixMost:
		r.tooMany = true
	default:
		r.found = append(r.found, l)
	}
	return nil
}

// parseUnix parses a message of unix_diag; false for a socket without a name or a queue.
//
//	0      1    2     3   4     8           16
//	|family|type|state|pad|inode|cookie 8   | attributes
func parseUnix(b []byte) (l unixListener, ok bool) {
	if len(b) < unixDiagHeader || b[0] != unix.AF_UNIX || b[2] != tcpListen {
		return l, false
	}
	for a := netlink.AttrsOf(b[unixDiagHeader:]); a.Next(); {
		switch v := a.Value(); {
		case a.Type() == unixName && len(v) > 0:
			if v[0] == 0 { // an abstract name
				l.path = "@" + strings.TrimRight(string(v[1:]), "\x00")
			} else {
				l.path = strings.TrimRight(string(v), "\x00")
			}
		case a.Type() == unixQueue && len(v) == 8:
			l.queue, l.limit, ok = native.Uint32(v), native.Uint32(v[4:]), true
		}
	}
	return l, ok && l.path != ""
}
