package connection

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel/proc"
	"culprit/measure"
)

// udpDrops counts the datagrams that UDP sockets lost, most at a full receive buffer, by the
// process that has the socket open.
//
// The kernel walks all its UDP sockets for the file. So it is read for at most 1/portsShare of the
// time, and not in a namespace without UDP sockets. What was lost meanwhile counts in the interval
// of the next read.
type udpDrops struct{ texts *udpTexts }

// Stats returns udp.socket.drops.
func (udpDrops) Stats() []measure.Stat {
	return []measure.Stat{{
		ID: "udp.socket.drops", Kind: measure.Delta, Unit: measure.Packets, Sparse: true,
		Help: "datagrams that a UDP socket lost: its receive buffer was full, or a checksum was " +
			"wrong (/proc/net/udp, udp6; /proc/PID/fd)",
		Fields: []measure.Field{
			{Name: "netns", Type: measure.Word, Help: "network namespace; empty is the tool's own"},
			{Name: "localport", Type: measure.Number, Help: "port of the socket"},
			{Name: "pid", Type: measure.Number, Help: "process that has the socket open; empty: " +
				"not known"},
			{Name: "process", Type: measure.Word, Help: "its name"},
		},
	}}
}

// Open opens the files of each network namespace. Without CAP_SYS_PTRACE only sockets of own
// processes have a process. An error means that nothing can be measured. The caller closes the
// Reading.
func (c udpDrops) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	r := &udpReading{texts: c.texts}
	r.spaces = collect.PerNamespace[*udpSpace]{Env: env, Open: openUDP, Close: (*udpSpace).close}
	if err := r.spaces.Start(); err != nil {
		return nil, err
	}
	if want.Field("udp.socket.drops", "pid") || want.Field("udp.socket.drops", "process") {
		var err error
		if r.owners, err = openOwners(env.Root); err != nil {
			r.spaces.Shut()
			return nil, err
		}
	}
	return r, nil
}

type udpReading struct {
	spaces collect.PerNamespace[*udpSpace]
	owners *owners // nil: not wanted
	tick   uint32
	texts  *udpTexts
}

// udpSpace is one namespace.
type udpSpace struct {
	udpFiles
	sockets map[uint32]*udpSocket
	read    bool // at least once
	until   time.Time
}

// udpSocket is a socket that lost datagrams since it was made.
type udpSocket struct {
	inode uint32
	port  uint16
	drops uint32
	lost  float64 // since the reading before
	seen  uint32  // the tick of the latest read that had it
	owner ownership
}

func openUDP(s *collect.Namespace[*udpSpace]) (*udpSpace, error) {
	n := &udpSpace{sockets: map[uint32]*udpSocket{}}
	if err := n.open(s.NetNS.Inode, s.OpenProc); err != nil {
		return nil, err
	}
	return n, nil
}

// Close implements collect.Reading.
func (r *udpReading) Close() {
	r.owners.close()
	r.spaces.Shut()
}

// Read implements collect.Reading.
func (r *udpReading) Read(out *collect.Out) error {
	t := out.Table("udp.socket.drops")
	r.tick++
	var failed error
	read := 0
	spaces := r.spaces.Follow(out)
	for _, s := range spaces {
		if err := s.Data.count(time.Now(), r.tick, r.texts); err != nil {
			failed = fmt.Errorf("read UDP sockets%s: %w", s.Of(), err)
			t.Note(failed.Error())
			continue
		}
		read++
	}
	if read == 0 {
		return failed
	}
	if r.owners != nil {
		if err := r.findOwners(out.First); err != nil {
			return err
		}
	}
	for _, s := range spaces {
		rows := r.rows(out, s.Data.sockets)
		for _, key := range slices.SortedFunc(maps.Keys(rows), func(a, b [3]measure.Label) int {
			return slices.Compare(a[:], b[:])
		}) {
			t.Put(rows[key], s.Label(out), key[0], key[1], key[2])
		}
	}
	return nil
}

// rows adds the sockets of a process at a port (SO_REUSEPORT), by the labels of port, pid and
// process.
func (r *udpReading) rows(
	out *collect.Out, sockets map[uint32]*udpSocket,
) map[[3]measure.Label]float64 {
	rows := map[[3]measure.Label]float64{}
	none := out.Label("")
	for _, u := range sockets {
		if u.lost == 0 {
			continue
		}
		who := [2]measure.Label{none, none}
		if r.owners != nil {
			who = r.owners.labels(out, &u.owner)
		}
		rows[[3]measure.Label{out.Number(int64(u.port)), who[0], who[1]}] += u.lost
		u.lost = 0
	}
	return rows
}

// findOwners finds the processes of the sockets that lost datagrams in this interval.
func (r *udpReading) findOwners(first bool) error {
	r.owners.start(r.tick, first)
	var sockets []*ownership
	var inodes []uint32
	r.each(func(u *udpSocket) {
		if u.lost > 0 && r.owners.due(&u.owner, u.inode) {
			sockets, inodes = append(sockets, &u.owner), append(inodes, u.inode)
		}
	})
	if err := r.owners.resolve(sockets, inodes, func(f func(*ownership)) {
		r.each(func(u *udpSocket) { f(&u.owner) })
	}); err != nil {
		return err
	}
	r.owners.forget(func(old func(int32) bool) {
		r.each(func(u *udpSocket) {
			if old(u.owner.who) {
				u.owner = ownership{}
			}
		})
	})
	return nil
}

// each calls f with each socket that has lost datagrams.
func (r *udpReading) each(f func(*udpSocket)) {
	for _, s := range r.spaces.List {
		for _, u := range s.Data.sockets {
			f(u)
		}
	}
}

// count counts what each socket lost since the previous read. A socket that is new since then
// counts from 0, except in the first read.
func (n *udpSpace) count(now time.Time, tick uint32, texts *udpTexts) error {
	if now.Before(n.until) {
		return nil
	}
	whole := true
	for i, f := range n.files {
		if f == nil || !n.used(i) {
			continue
		}
		b, err := texts.read(udpFile{n.namespace, i}, f)
		if err != nil {
			return err
		}
		all := parseDrops(b, func(inode uint32, port uint16, drops uint32) {
			u := n.sockets[inode]
			switch {
			case u == nil && drops == 0:
				return
			case u == nil:
				u = &udpSocket{inode: inode, port: port}
				n.sockets[inode] = u
				if !n.read {
					u.drops = drops
				}
			case u.port != port: // another socket with its inode, or bound again
				*u = udpSocket{inode: inode, port: port, drops: drops}
			}
			if grown := drops - u.drops; grown < 1<<31 { // it wraps
				u.lost += float64(grown)
			}
			u.drops, u.seen = drops, tick
		})
		whole = whole && all
	}
	for inode, u := range n.sockets {
		// One that is only beyond the limit of this read would count from 0 in the next.
		if u.seen != tick && (whole || len(n.sockets) > namesMost) {
			delete(n.sockets, inode)
		}
	}
	n.read = true
	n.until = now.Add(portsShare * time.Since(now))
	return nil
}

// parseDrops calls f with each socket of /proc/net/udp or udp6, of the first namesMost lines. It
// returns false if there are more. It skips malformed lines. The last number is the datagrams lost,
// since Linux 2.6.27.
//
//	sl local_address rem_address   st tx_queue:rx_queue tr:when  retrnsmt uid timeout inode ...
//	7: 0100007F:A3C1 0200000A:0035 01 00000000:00000000 00:00000 00000000 99  0       40512 ...
//
// After the inode come ref, a pointer and the drops.
func parseDrops(b []byte, f func(inode uint32, port uint16, drops uint32)) (whole bool) {
	for n := 0; len(b) > 0 && n < namesMost; n++ {
		var line []byte
		line, b = procfs.CutLine(b)
		c := proc.Scan(line)
		c.Skip(1)
		local := c.Word()
		c.Skip(7)
		inode := c.Uint()
		c.Skip(2)
		drops := c.Uint()
		at := bytes.LastIndexByte(local, ':')
		if c.Err() != nil || at < 0 || inode == 0 || inode > 1<<32-1 || drops > 1<<32-1 {
			continue
		}
		port, err := proc.ParseHex(local[at+1:])
		if err == nil && port <= 1<<16-1 {
			f(uint32(inode), uint16(port), uint32(drops))
		}
	}
	return len(b) == 0
}
