package connection

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"culprit/collect"
	"culprit/kernel/netlink"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Ports counts the local ports that connections to one destination take, out of those that the
// kernel chooses from (ip_local_port_range). Each pair of source address and destination has all of
// them for itself.
//
// The sockets of a namespace are dumped only when it has half as many as there are ports, and for
// at most 1/portsShare of the time. Between two dumps the numbers are repeated.
type Ports struct{}

// Stats returns tcp.ports.used and tcp.ports.limit.
func (Ports) Stats() []measure.Stat {
	netns := measure.Field{Name: "netns", Type: measure.Word, Help: "network namespace; empty " +
		"is the tool's own"}
	return []measure.Stat{
		{
			ID:   "tcp.ports.used",
			Kind: measure.Level,
			Unit: measure.Count,
			Help: "local ports in use by connections to a destination, of those that the kernel " +
				"chooses from; no row below a quarter of them, or while the namespace has few " +
				"sockets (inet_diag)",
			Fields: []measure.Field{
				netns,
				{Name: "local", Type: measure.Word, Help: "own address"},
				{Name: "peer", Type: measure.Word, Help: "address of the destination"},
				{Name: "peerport", Type: measure.Number, Help: "port of the destination"},
				{Name: "state", Type: measure.Word, Help: "time-wait; open: any other"},
			},
		},
		{
			ID:   "tcp.ports.limit",
			Kind: measure.Level,
			Unit: measure.Count,
			Help: "local ports that the kernel chooses from, for each destination " +
				"(ip_local_port_range without ip_local_reserved_ports)",
			Fields: []measure.Field{netns,
				{Name: "range", Type: measure.Word, Help: "first and last port"}},
		},
	}
}

const (
	portsShare   = 100  // a dump takes at most this part of the time
	portsGate    = 0.5  // sockets per port, from which on sockets are dumped
	portsLeast   = 0.25 // of the ports, from which on a destination has a row
	portsMost    = 65_536
	portsCounted = 1<<tcpStates - 1 - 1<<0 - 1<<tcpListen - 1<<tcpClose // states
)

// Open opens the files and a socket of each network namespace. It needs no capability. An error
// means that nothing can be measured. The caller closes the Reading.
func (Ports) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	r := &portsReading{}
	r.spaces = collect.PerNamespace[*portSpace]{Env: env, Open: openPortSpace,
		Close: (*portSpace).close}
	if err := r.spaces.Start(); err != nil {
		return nil, err
	}
	return r, nil
}

type portsReading struct {
	spaces collect.PerNamespace[*portSpace]
}

// portSpace is one namespace.
type portSpace struct {
	conn     *netlink.Conn
	sockstat [2]*proc.File // IPv4 and IPv6; nil: not in this kernel
	limits   [2]*proc.File // ip_local_port_range, ip_local_reserved_ports; the latter may be nil

	ports    portRange
	counts   map[destination]*portCount
	full     bool // counts has portsMost destinations: new ones are not counted
	due      time.Time
	rows     []portRow
	request  netlink.Request
	onSocket func(uint16, []byte) error
}

// destination is what one set of ports belongs to.
type destination struct {
	local, peer netip.Addr
	port        uint16
}

type portCount struct{ open, wait uint32 }

type portRow struct {
	destination
	portCount
}

func openPortSpace(s *collect.Namespace[*portSpace]) (*portSpace, error) {
	p := &portSpace{}
	var err error
	if p.limits[0], err = s.OpenProc("sys/net/ipv4/ip_local_port_range"); err != nil {
		return nil, err
	}
	if p.sockstat[0], err = s.OpenProc("net/sockstat"); err != nil {
		p.close()
		return nil, err
	}
	// not in this kernel: no port is reserved, no IPv6
	p.limits[1], _ = s.OpenProc("sys/net/ipv4/ip_local_reserved_ports")
	p.sockstat[1], _ = s.OpenProc("net/sockstat6")
	if p.conn, err = netlink.Dial(unix.NETLINK_SOCK_DIAG, netlink.Options{}); err != nil {
		p.close()
		return nil, fmt.Errorf("TCP ports%s: %w", s.Of(), err)
	}
	p.onSocket = p.take
	return p, nil
}

func (p *portSpace) close() {
	p.conn.Close() //nolint:errcheck // only read
	for _, f := range []*proc.File{p.sockstat[0], p.sockstat[1], p.limits[0], p.limits[1]} {
		f.Close()
	}
}

// Close implements collect.Reading.
func (r *portsReading) Close() { r.spaces.Shut() }

// Read implements collect.Reading.
func (r *portsReading) Read(out *collect.Out) error {
	used, limit := out.Table("tcp.ports.used"), out.Table("tcp.ports.limit")
	var failed error
	read := 0
	for _, s := range r.spaces.Follow(out) {
		p := s.Data
		if err := p.read(time.Now()); err != nil {
			failed = fmt.Errorf("read TCP ports%s: %w", s.Of(), err)
			out.NoteAll(failed.Error())
			continue
		}
		read++
		limit.Put(p.ports.size, s.Label(out), out.Label(p.ports.word))
		for _, row := range p.rows {
			for i, state := range [...]string{"open", "time-wait"} {
				used.Put(float64([...]uint32{row.open, row.wait}[i]), s.Label(out),
					out.Label(row.local.String()), out.Label(row.peer.String()),
					out.Number(int64(row.port)), out.Label(state))
			}
		}
		if p.full {
			used.Note("ports of more than " + strconv.Itoa(portsMost) +
				" destinations" + s.Of() + " are not counted")
		}
	}
	if read == 0 {
		return failed
	}
	return nil
}

// read counts the ports of each destination, unless there are few sockets or the time for it is
// used up.
func (p *portSpace) read(now time.Time) error {
	var files [2][]byte
	for i, f := range p.limits {
		if f != nil {
			b, err := f.ReadOne()
			if err != nil {
				return err
			}
			files[i] = b
		}
	}
	var err error
	if p.ports, err = parsePortRange(files[0], files[1]); err != nil {
		return err
	}
	sockets := 0.0
	for _, f := range p.sockstat {
		if f != nil {
			b, err := f.Read()
			if err != nil {
				return err
			}
			sockets += tcpSockets(b)
		}
	}
	if sockets < portsGate*p.ports.size {
		p.rows, p.full = p.rows[:0], false
		return nil
	}
	if now.Before(p.due) {
		return nil
	}
	if err := p.dump(); err != nil {
		return err
	}
	p.due = now.Add(portsShare * time.Since(now))
	return nil
}

// dump counts the sockets of each destination.
func (p *portSpace) dump() error {
	restart := func() { p.counts, p.full = map[destination]*portCount{}, false }
	restart()
	diagRequest(&p.request, 0, portsCounted, false)
	if err := p.conn.DumpRetry(&p.request, 3, restart, p.onSocket); err != nil {
		return err
	}
	p.rows = p.rows[:0]
	for d, c := range p.counts {
		if float64(c.open+c.wait) >= portsLeast*p.ports.size {
			p.rows = append(p.rows, portRow{d, *c})
		}
	}
	p.counts = nil
	slices.SortFunc(p.rows, func(a, b portRow) int {
		if a.local != b.local {
			return a.local.Compare(b.local)
		}
		if a.peer != b.peer {
			return a.peer.Compare(b.peer)
		}
		return int(a.port) - int(b.port)
	})
	return nil
}

func (p *portSpace) take(_ uint16, b []byte) error {
	var s diagSocket
	if !parseDiag(b, &s) || !p.ports.has(s.localPort) {
		return nil
	}
	local, ok1 := netip.AddrFromSlice(s.local)
	peer, ok2 := netip.AddrFromSlice(s.peer)
	if !ok1 || !ok2 {
		return nil
	}
	d := destination{local, peer, s.peerPort}
	c := p.counts[d]
	if c == nil {
		if len(p.counts) >= portsMost {
			p.full = true
			return nil
		}
		c = &portCount{}
		p.counts[d] = c
	}
	if s.state == tcpTimeWait {
		c.wait++
	} else {
		c.open++
	}
	return nil
}

// portRange is the ports that the kernel chooses from.
type portRange struct {
	first, last uint16
	size        float64 // without reserved ones
	word        string  // "32768-60999"
	reserved    []portSpan
}

type portSpan struct{ first, last uint16 }

func (r *portRange) has(port uint16) bool {
	if port < r.first || port > r.last {
		return false
	}
	for _, s := range r.reserved {
		if port >= s.first && port <= s.last {
			return false
		}
	}
	return true
}

// parsePortRange parses ip_local_port_range, "32768\t60999", and ip_local_reserved_ports,
// "8080,9148-9150": disjoint and ascending.
func parsePortRange(ports, reserved []byte) (portRange, error) {
	c := proc.Scan(ports)
	first, last := c.Uint(), c.Uint()
	if err := c.Err(); err != nil {
		return portRange{}, err
	}
	if first > last || last > 65535 {
		return portRange{}, fmt.Errorf("ip_local_port_range %.20q: %w", ports, measure.ErrUnclear)
	}
	r := portRange{first: uint16(first), last: uint16(last), size: float64(last - first + 1),
		word: fmt.Sprintf("%d-%d", first, last)}
	for _, text := range strings.Split(strings.TrimSpace(string(reserved)), ",") {
		a, b, ok := strings.Cut(text, "-")
		if !ok {
			b = a
		}
		low, err1 := strconv.ParseUint(a, 10, 16)
		high, err2 := strconv.ParseUint(b, 10, 16)
		if err1 != nil || err2 != nil || low > high {
			continue
		}
		if inside := min(high, last) + 1 - max(low, first); max(low, first) <= min(high, last) {
			r.size -= float64(inside)
			r.reserved = append(r.reserved, portSpan{uint16(low), uint16(high)})
		}
	}
	r.size = max(r.size, 0)
	return r, nil
}

// tcpSockets returns the open TCP sockets and those in TIME-WAIT of sockstat or sockstat6.
//
//	TCP: inuse 5 orphan 0 tw 2 alloc 8 mem 1
//	TCP6: inuse 3
func tcpSockets(b []byte) float64 {
	sum := 0.0
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "TCP:" && words[0] != "TCP6:" {
			continue
		}
		for i := 1; i+1 < len(words); i += 2 {
			if v, err := strconv.ParseUint(words[i+1], 10, 32); err == nil && (words[i] ==
				"inuse" || words[i] == "tw") {
				sum += float64(v)
			}
		}
	}
	return sum
}
