package network

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"culprit/collect"
	"culprit/kernel/proc"
	"culprit/measure"
)

// Protocols reads the counters of IP, ICMP, TCP and UDP (/proc/net/snmp, netstat, snmp6) and of
// connection tracking (/proc/net/stat/nf_conntrack), and the numbers of sockets
// (/proc/net/sockstat, sockstat6).
type Protocols struct{}

// Stats implements Collector.
func (Protocols) Stats() []measure.Stat {
	fields := words("netns", "protocol", "counter")
	return []measure.Stat{
		{ID: "net.protocol.events", Kind: measure.Delta, Unit: measure.Events, Fields: fields,
			Help: "/proc/net/snmp, netstat, snmp6: protocol Ip Icmp Tcp Udp TcpExt IpExt Ip6 " +
				"...; protocol and counter together are nstat's name; Conntrack, Arp, Ndisc " +
				"are from /proc/net/stat"},
		{ID: "net.protocol.bytes", Kind: measure.Delta, Unit: measure.Bytes, Fields: fields,
			Help: "counters of /proc/net/netstat and snmp6 that count bytes: IpExt InOctets, " +
				"OutOctets, InMcastOctets ...; headers of IP are included"},
		{
			ID:     "net.protocol.level",
			Kind:   measure.Level,
			Unit:   measure.Count,
			Fields: fields,
			Help:   "entries of /proc/net/snmp that are not counters: Tcp CurrEstab, RtoMax ...",
		},
		{
			ID:     "net.sockets",
			Kind:   measure.Level,
			Unit:   measure.Count,
			Fields: words("netns", "protocol", "state"),
			Help: "/proc/net/sockstat: inuse and tw of each namespace; orphan and alloc, which " +
				"the kernel counts for the whole machine, with the tool's own",
		},
		{
			ID:     "net.sockets.memory",
			Kind:   measure.Level,
			Unit:   measure.Bytes,
			Fields: words("netns", "protocol"),
			Help: "/proc/net/sockstat: buffers of all sockets of the machine (FRAG: of the " +
				"namespace)",
		},
	}
}

// Open opens the files of each network namespace. It needs no capability. An error means that
// nothing can be measured. The caller closes the Reading.
func (Protocols) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	n := &netProtocols{want: want}
	n.spaces = collect.PerNamespace[*protocolFiles]{
		Env:   env,
		Open:  n.openSpace,
		Close: (*protocolFiles).shut,
	}
	if err := n.spaces.Start(); err != nil {
		return nil, err
	}
	return n, nil
}

type netProtocols struct {
	want   collect.Want
	spaces collect.PerNamespace[*protocolFiles]
}

// protocolFiles are the open files of one namespace. A file that the kernel lacks (IPv6 or
// conntrack not loaded) is nil and tried again now and then.
type protocolFiles struct {
	space *collect.Namespace[*protocolFiles]
	ticks int

	snmp, netstat, snmp6, conntrack, arp, ndisc, sock4, sock6 *proc.File
	protocolCounters
}

// protocolCounters are the counters in the files.
type protocolCounters struct {
	snmpTable, netstatTable, snmp6Table, trackTable, arpTable, ndiscTable counterTable
}

func (n *netProtocols) openSpace(s *collect.Namespace[*protocolFiles]) (*protocolFiles, error) {
	f := &protocolFiles{space: s}
	var err error
	if n.want.Stat(counterStats()...) {
		if f.snmp, err = s.OpenProc("net/snmp"); err != nil {
			return nil, err
		}
		if f.netstat, err = s.OpenProc("net/netstat"); err != nil {
			f.shut()
			return nil, err
		}
	}
	return f, nil
}

// late opens what may appear later: modules of IPv6 and conntrack.
func (f *protocolFiles) late(want collect.Want) {
	open := func(at **proc.File, name string) {
		if *at == nil {
			*at, _ = f.space.OpenProc(name) // not in this kernel, or not loaded yet
		}
	}
	if want.Stat(counterStats()...) {
		open(&f.snmp6, "net/snmp6")
		open(&f.conntrack, "net/stat/nf_conntrack")
		if f.space.Own() { // tables of the whole machine
			open(&f.arp, "net/stat/arp_cache")
			open(&f.ndisc, "net/stat/ndisc_cache")
		}
	}
	if want.Stat("net.sockets", "net.sockets.memory") {
		open(&f.sock4, "net/sockstat")
		open(&f.sock6, "net/sockstat6")
	}
}

func (f *protocolFiles) lacking() bool {
	return f.snmp6 == nil || f.conntrack == nil || f.sock4 == nil || f.sock6 == nil
}

func (f *protocolFiles) shut() {
	for _, k := range [...]*proc.File{
		f.snmp, f.netstat, f.snmp6, f.conntrack, f.arp, f.ndisc, f.sock4, f.sock6,
	} {
		k.Close()
	}
}

// Close implements Reading.
func (n *netProtocols) Close() { n.spaces.Shut() }

// counterStats returns the statistics of the files of counters.
func counterStats() []measure.StatID {
	return []measure.StatID{"net.protocol.events", "net.protocol.bytes", "net.protocol.level"}
}

// counterTables are their tables; nil: not wanted.
type counterTables struct{ events, bytes, levels *collect.Table }

// lateEvery is how many readings pass before missing files are tried again.
const lateEvery = 16

// Read implements Reading.
func (n *netProtocols) Read(o *collect.Out) error {
	to := counterTables{o.Table("net.protocol.events"), o.Table("net.protocol.bytes"),
		o.Table("net.protocol.level")}
	sockets, memory := o.Table("net.sockets"), o.Table("net.sockets.memory")
	var failed error
	read := 0
	for _, s := range n.spaces.Follow(o) {
		f := s.Data
		if f.ticks++; f.ticks%lateEvery == 1 && f.lacking() {
			_ = s.NetNS.In(func() error { f.late(n.want); return nil }) // tried again later
		}
		ns := s.Label(o)
		err := errors.Join(
			f.snmpTable.read(f.snmp, false, (*counterTable).parsePairs),
			f.netstatTable.read(f.netstat, false, (*counterTable).parsePairs),
			f.snmp6Table.read(f.snmp6, false, (*counterTable).parseLines),
			f.trackTable.read(f.conntrack, true, (*counterTable).parseTrack),
			f.arpTable.read(f.arp, true, (*counterTable).parseARP),
			f.ndiscTable.read(f.ndisc, true, (*counterTable).parseNDisc),
		)
		for _, t := range [...]*counterTable{
			&f.snmpTable, &f.netstatTable, &f.snmp6Table, &f.trackTable, &f.arpTable, &f.ndiscTable,
		} {
			t.emit(o, &to, ns)
		}
		if sockets != nil || memory != nil {
			err = errors.Join(
				err, f.sockets(o, f.sock4, sockets, memory, ns),
				f.sockets(o, f.sock6, sockets, memory, ns),
			)
		}
		if err != nil {
			failed = fmt.Errorf("read protocol counters%s: %w", s.Of(), err)
			o.NoteAll(failed.Error())
			continue
		}
		read++
	}
	if read == 0 {
		return failed
	}
	return nil
}

// counterTable is a file of named counters in its own order. The order and the names differ between
// kernels and may change while one runs. So each line is compared with its previous names, and
// parsed again only if they changed.
type counterTable struct {
	lines []counterLine
	n     int  // lines in use
	used  int  // lines in use at the previous reading
	again bool // the previous reading succeeded: new counters began at zero
	moved bool // a line has changed in this reading, and known is up to date
	known map[string]knownCounter
}

// knownCounter is the value of a counter before the lines changed.
type knownCounter struct {
	last     uint64
	compared bool
}

// counterLine has the counters of one protocol.
type counterLine struct {
	header  []byte // as in the file, to compare
	columns []counterColumn
	perCPU  bool // sums over the CPUs
	narrow  bool // 32-bit counters, which wrap (struct ip_conntrack_stat)
}

type counterColumn struct {
	protocol, counter string
	gauge             bool
	octets            bool // counts bytes
	now, last         uint64
	negative          bool // now is below zero: only gauges may be
	compared          bool
	epoch             int
	labels            [2]label
}

func (t *counterTable) read(
	f *proc.File, perCPU bool, parse func(*counterTable, []byte) error,
) error {
	t.used, t.n, t.moved = t.n, 0, false
	again := false
	defer func() { t.again = again }()
	if f == nil {
		return nil
	}
	var b []byte
	var err error
	if perCPU { // a record for each CPU: more than a page on large machines
		b, err = f.Read()
	} else {
		b, err = f.ReadOne()
	}
	if errors.Is(err, fs.ErrNotExist) { // its module was removed
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", f.Path(), err)
	}
	if err := parse(t, b); err != nil {
		t.n = 0 // half a file counts as none
		return fmt.Errorf("parse %s: %w", f.Path(), err)
	}
	again = t.n > 0
	return nil
}

// line returns line i of the table with the columns of header. It calls fill to name them if they
// are new.
func (t *counterTable) line(header []byte, fill func(l *counterLine)) *counterLine {
	if t.n == len(t.lines) {
		t.lines = append(t.lines, counterLine{})
	}
	l := &t.lines[t.n]
	t.n++
	if bytes.Equal(l.header, header) {
		return l
	}
	t.remember()
	l.header, l.columns = append(l.header[:0], header...), nil
	fill(l)
	for i := range l.columns {
		c := &l.columns[i]
		c.epoch, c.gauge = -1, isGauge(c.protocol, c.counter)
		c.octets = strings.HasSuffix(c.counter, "Octets")
		c.compared = t.again
		if k, ok := t.known[c.protocol+" "+c.counter]; ok {
			c.last, c.compared = k.last, k.compared
		}
	}
	return l
}

// remember stores all counters, once in a reading, before lines change. The first ICMP message of a
// type makes a new line (IcmpMsg of snmp, Icmp6InType of snmp6), and all lines below it move down.
func (t *counterTable) remember() {
	if t.moved {
		return
	}
	t.moved = true
	if t.known == nil {
		t.known = map[string]knownCounter{}
	}
	for k, v := range t.known { // gone: if it comes back there is nothing to compare with
		v.compared = false
		t.known[k] = v
	}
	for i := range t.lines[:t.used] {
		for j := range t.lines[i].columns {
			c := &t.lines[i].columns[j]
			t.known[c.protocol+" "+c.counter] = knownCounter{c.last, c.compared}
		}
	}
}

// parsePairs parses /proc/net/snmp and netstat: for each protocol a line of names and a line of
// values. It sets now of the columns.
func (t *counterTable) parsePairs(b []byte) error {
	for c := proc.Scan(b); !c.End(); {
		header, values := c.Line(), c.Line()
		if len(header) == 0 {
			continue
		}
		head := bytes.IndexByte(header, ':')
		if head <= 0 || len(values) <= head || !bytes.Equal(header[:head+1], values[:head+1]) {
			return fmt.Errorf("%.20q is not followed by its values: %w", header, measure.ErrUnclear)
		}
		l := t.line(header, func(l *counterLine) {
			protocol := string(header[:head])
			for w := proc.Scan(header[head+1:]); ; {
				name := w.Word()
				if name == nil {
					break
				}
				l.columns = append(
					l.columns, counterColumn{protocol: protocol, counter: string(name)},
				)
			}
		})
		w := proc.Scan(values[head+1:])
		for i := range l.columns {
			if err := l.columns[i].set(w.Word()); err != nil {
				return fmt.Errorf("%s %s: %w", l.columns[i].protocol, l.columns[i].counter, err)
			}
		}
	}
	return nil
}

// parseLines parses /proc/net/snmp6: one name and one value for each line. Each is a counterLine.
func (t *counterTable) parseLines(b []byte) error {
	for c := proc.Scan(b); !c.End(); c.NextLine() {
		name := c.Word()
		if name == nil {
			continue
		}
		l := t.line(name, func(l *counterLine) {
			protocol, counter := splitCounter(string(name))
			l.columns = append(l.columns, counterColumn{protocol: protocol, counter: counter})
		})
		if err := l.columns[0].set(c.Word()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// parseTrack parses /proc/net/stat/nf_conntrack: a line of counters per CPU.
func (t *counterTable) parseTrack(b []byte) error { return t.parseCPUs(b, "Conntrack", true) }

// parseARP parses /proc/net/stat/arp_cache.
func (t *counterTable) parseARP(b []byte) error { return t.parseCPUs(b, "Arp", false) }

// parseNDisc parses /proc/net/stat/ndisc_cache.
func (t *counterTable) parseNDisc(b []byte) error { return t.parseCPUs(b, "Ndisc", false) }

// parseCPUs parses a file with a line of names, then a line of hexadecimal values for each CPU, and
// adds them up. The column entries has the same number in every line and is not a counter.
func (t *counterTable) parseCPUs(b []byte, protocol string, narrow bool) error {
	c := proc.Scan(b)
	header := c.Line()
	if len(header) == 0 {
		return nil
	}
	l := t.line(header, func(l *counterLine) {
		l.perCPU, l.narrow = true, narrow
		for w := proc.Scan(header); ; {
			name := w.Word()
			if name == nil {
				break
			}
			l.columns = append(l.columns, counterColumn{protocol: protocol, counter: string(name)})
		}
	})
	for i := range l.columns {
		l.columns[i].now = 0
	}
	for ; !c.End(); c.NextLine() {
		if !c.More() {
			continue
		}
		for i := range l.columns {
			l.columns[i].now += c.Hex()
		}
	}
	return c.Err()
}

// splitCounter splits a name of /proc/net/snmp6 into protocol and counter: Udp6InErrors is Udp6 and
// InErrors.
func splitCounter(name string) (protocol, counter string) {
	for _, p := range [...]string{"Ip6", "Icmp6", "UdpLite6", "Udp6"} {
		if len(name) > len(p) && name[:len(p)] == p {
			return p, name[len(p):]
		}
	}
	return "", name
}

// set parses a value. Only gauges (Tcp MaxConn -1) may be negative.
func (c *counterColumn) set(word []byte) (err error) {
	c.negative = len(word) > 0 && word[0] == '-'
	if c.negative {
		word = word[1:]
		c.gauge = true
	}
	c.now, err = proc.ParseUint(word)
	return err
}

// isGauge reports whether an entry of the SNMP tables is a level and not a counter.
func isGauge(protocol, counter string) bool {
	switch protocol {
	case "Ip":
		return counter == "Forwarding" || counter == "DefaultTTL"
	case "Tcp":
		switch counter {
		case "RtoAlgorithm", "RtoMin", "RtoMax", "MaxConn", "CurrEstab":
			return true
		}
	case "MPTcpExt":
		return counter == "MPCurrEstab"
	case "Conntrack", "Arp", "Ndisc":
		return counter == "entries"
	}
	return false
}

// emit puts the rows of the latest reading.
func (t *counterTable) emit(o *collect.Out, to *counterTables, ns label) {
	for i := range t.lines {
		l := &t.lines[i]
		if i >= t.n {
			for j := range l.columns {
				l.columns[j].compared = false
			}
			continue
		}
		for j := range l.columns {
			c := &l.columns[j]
			if c.epoch != o.Epoch {
				c.epoch, c.labels = o.Epoch, [2]label{o.Label(c.protocol), o.Label(c.counter)}
			}
			if c.gauge {
				if !l.perCPU {
					v := float64(c.now)
					if c.negative {
						v = -v
					}
					to.levels.Put(v, ns, c.labels[0], c.labels[1])
				}
				continue
			}
			if c.compared || o.First && o.SinceBoot {
				d := 0.0
				if l.narrow {
					d = grown32(o, uint32(c.last), uint32(c.now))
				} else {
					d = grown(o, c.last, c.now)
				}
				table := to.events
				if c.octets {
					table = to.bytes
				}
				table.Put(d, ns, c.labels[0], c.labels[1])
			}
			c.last, c.compared = c.now, true
		}
	}
}

// parseSockstat parses /proc/net/sockstat or sockstat6, "TCP: inuse 1 orphan 0 ...", and calls f
// with each number.
func parseSockstat(b []byte, f func(protocol, state []byte, v uint64)) error {
	for c := proc.Scan(b); !c.End(); c.NextLine() {
		protocol := c.Until(':')
		if protocol == nil {
			continue
		}
		for c.More() {
			state := c.Word()
			v := c.Uint()
			if err := c.Err(); err != nil {
				return fmt.Errorf("%s %s: %w", protocol, state, err)
			}
			f(protocol, state, v)
		}
	}
	return nil
}

func (f *protocolFiles) sockets(
	o *collect.Out, file *proc.File, sockets, memory *collect.Table, ns label,
) error {
	if file == nil {
		return nil
	}
	b, err := file.ReadOne()
	if err != nil {
		return fmt.Errorf("read %s: %w", file.Path(), err)
	}
	own := f.space.Own()
	return parseSockstat(b, func(protocol, state []byte, v uint64) {
		switch string(state) {
		case "mem": // pages, of the whole machine
			if own {
				memory.Put(float64(v)*pageSize(), ns, o.LabelBytes(protocol))
			}
		case "memory": // bytes
			memory.Put(float64(v), ns, o.LabelBytes(protocol))
		case "orphan", "alloc":
			if own {
				sockets.Put(float64(v), ns, o.LabelBytes(protocol), o.LabelBytes(state))
			}
		default:
			sockets.Put(float64(v), ns, o.LabelBytes(protocol), o.LabelBytes(state))
		}
	})
}

// pageSize returns the machine's page size, in which the kernel counts socket memory.
func pageSize() float64 { return float64(os.Getpagesize()) }
