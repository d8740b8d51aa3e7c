package connection

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel/proc"
	"culprit/measure"
)

// nameServers counts sockets that wait for an answer of a name server. A resolver connects a UDP
// socket to port 53 for each lookup and closes it after the answer. So a socket that an earlier
// reading had too, and in which nothing waits to be read, is a lookup without an answer. Or a
// caching resolver keeps it for later.
//
// The kernel walks all its UDP sockets for the file. So it is read for at most 1/portsShare of the
// time, and not in a namespace without UDP sockets.
type nameServers struct{ texts *udpTexts }

// Stats returns dns.waiting and dns.slow.
func (nameServers) Stats() []measure.Stat {
	fields := []measure.Field{
		{Name: "netns", Type: measure.Word, Help: "network namespace; empty is the tool's own"},
		{Name: "server", Type: measure.Word, Help: "address of the name server"},
	}
	return []measure.Stat{{
		ID: "dns.waiting", Kind: measure.Level, Unit: measure.Count, Fields: fields,
		Help: "UDP sockets connected to port 53 that are as old as the interval and have " +
			"received nothing that is not read (/proc/net/udp, udp6): lookups that wait, or " +
			"sockets that a resolver keeps",
	}, {
		ID: "dns.slow", Kind: measure.Delta, Unit: measure.Events, Fields: fields, Sparse: true,
		Help: "lookups that ended after they had waited for longer than the interval: sockets " +
			"of dns.waiting that were opened since the recording began and are closed " +
			"(/proc/net/udp, udp6)",
	}}
}

const (
	namesPort = 53
	namesMost = 65_536                 // sockets of a namespace that are looked at
	namesAge  = 700 * time.Millisecond // between two reads that are compared
)

// Open opens the files of each network namespace. It needs no capability. An error means that
// nothing can be measured. The caller closes the Reading.
func (c nameServers) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	r := &namesReading{texts: c.texts}
	r.spaces = collect.PerNamespace[*nameSpace]{Env: env, Open: openNames,
		Close: (*nameSpace).close}
	if err := r.spaces.Start(); err != nil {
		return nil, err
	}
	return r, nil
}

type namesReading struct {
	spaces collect.PerNamespace[*nameSpace]
	texts  *udpTexts
}

// nameSpace is one namespace.
type nameSpace struct {
	udpFiles
	seen    map[uint64]lookup
	waiting map[netip.Addr]int
	ended   map[netip.Addr]int // after they had waited, since the previous read
	due     time.Time
}

// lookup is a socket that is connected to a name server.
type lookup struct {
	server netip.Addr
	since  time.Time // of the first read that had it
	old    bool      // the first read of the namespace had it: its age is unknown
	waited bool      // it was counted
}

func openNames(s *collect.Namespace[*nameSpace]) (*nameSpace, error) {
	n := &nameSpace{waiting: map[netip.Addr]int{}, ended: map[netip.Addr]int{}}
	if err := n.open(s.NetNS.Inode, s.OpenProc); err != nil {
		return nil, err
	}
	return n, nil
}

// Close implements collect.Reading.
func (r *namesReading) Close() { r.spaces.Shut() }

// Read implements collect.Reading.
func (r *namesReading) Read(out *collect.Out) error {
	t, slow := out.Table("dns.waiting"), out.Table("dns.slow")
	var failed error
	read := 0
	for _, s := range r.spaces.Follow(out) {
		if err := s.Data.read(time.Now(), r.texts); err != nil {
			failed = fmt.Errorf("read UDP sockets%s: %w", s.Of(), err)
			t.Note(failed.Error())
			slow.Note(failed.Error())
			continue
		}
		read++
		for _, server := range slices.SortedFunc(maps.Keys(s.Data.ended), netip.Addr.Compare) {
			slow.Put(float64(s.Data.ended[server]), s.Label(out), out.Label(server.String()))
		}
		for _, server := range slices.SortedFunc(maps.Keys(s.Data.waiting), netip.Addr.Compare) {
			t.Put(float64(s.Data.waiting[server]), s.Label(out), out.Label(server.String()))
		}
	}
	if read == 0 {
		return failed
	}
	return nil
}

// read finds the sockets that wait. It keeps the last result when it is not time to read again.
func (n *nameSpace) read(now time.Time, texts *udpTexts) error {
	clear(n.ended)
	if now.Before(n.due) {
		return nil
	}
	seen := map[uint64]lookup{}
	clear(n.waiting)
	for i, f := range n.files {
		if f == nil || !n.used(i) {
			continue
		}
		b, err := texts.read(udpFile{n.namespace, i}, f)
		if err != nil {
			return err
		}
		for inode, l := range parseLookups(b) {
			l.since, l.old = now, n.seen == nil
			if known, ok := n.seen[inode]; ok && known.server == l.server {
				l = known
			}
			if l.waited = now.Sub(l.since) >= namesAge; l.waited {
				n.waiting[l.server]++
			}
			seen[inode] = l
		}
	}
	for inode, l := range n.seen {
		if next, ok := seen[inode]; l.waited && !l.old && (!ok || next.server != l.server) {
			n.ended[l.server]++
		}
	}
	n.seen = seen
	n.due = now.Add(portsShare * time.Since(now))
	return nil
}

// parseLookups returns the sockets of /proc/net/udp or udp6 that are connected to port 53 and have
// nothing to be read, by inode. It skips malformed lines.
//
//	sl local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode
//	7: 0100007F:A3C1 0200000A:0035 01 00000000:00000000 00:00000000 00000000 99        0 40512
func parseLookups(b []byte) map[uint64]lookup {
	found := map[uint64]lookup{}
	for n := 0; len(b) > 0 && n < namesMost; n++ {
		var line []byte
		line, b = procfs.CutLine(b)
		c := proc.Scan(line)
		c.Skip(2)
		peer, state, queues := c.Word(), c.Word(), c.Word()
		if string(state) != "01" || !bytes.HasSuffix(peer, []byte(":0035")) ||
			!bytes.HasSuffix(queues, []byte(":00000000")) {
			continue
		}
		c.Skip(4)
		inode := c.Uint()
		server, ok := parseHexAddress(string(peer[:len(peer)-5]))
		if ok && c.Err() == nil && inode > 0 {
			found[inode] = lookup{server: server}
		}
	}
	return found
}

// parseHexAddress parses an address of /proc/net/udp: words of 32 bits in the byte order of the
// machine.
func parseHexAddress(s string) (netip.Addr, bool) {
	raw, err := hex.DecodeString(strings.ToLower(s))
	if err != nil || len(raw) != 4 && len(raw) != 16 {
		return netip.Addr{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		// the digits show the number, most significant first
		v := uint32(raw[i])<<24 | uint32(raw[i+1])<<16 | uint32(raw[i+2])<<8 | uint32(raw[i+3])
		native.PutUint32(raw[i:], v)
	}
	a, ok := netip.AddrFromSlice(raw)
	return a.Unmap(), ok
}
