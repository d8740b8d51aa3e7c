package connection

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// fakeSocket is a socket as inet_diag describes it.
type fakeSocket struct {
	state              byte
	cookie             uint64
	local, peer        uint16 // ports
	device             uint32
	receiving, sending uint32
	uid, inode         uint32
	bare               bool // without counters
	tx, rx             uint64
	out, in, resent    uint32 // segments
	busy, rwnd, sndbuf uint64 // us
	quiet              uint32 // ms
	rtt                uint32 // us
}

// message returns the socket as a message of inet_diag, from 10.0.0.1 to 10.0.0.2.
func (s fakeSocket) message() []byte {
	var info []byte
	if !s.bare {
		info = make([]byte, infoWhole)
		info[0] = s.state
		native.PutUint32(info[44:], s.quiet)
		native.PutUint32(info[52:], s.quiet)
		native.PutUint32(info[56:], s.quiet)
		native.PutUint32(info[68:], s.rtt)
		native.PutUint32(info[100:], s.resent)
		native.PutUint64(info[120:], s.tx)
		native.PutUint64(info[128:], s.rx)
		native.PutUint32(info[136:], s.out)
		native.PutUint32(info[140:], s.in)
		native.PutUint64(info[168:], s.busy)
		native.PutUint64(info[176:], s.rwnd)
		native.PutUint64(info[184:], s.sndbuf)
		native.PutUint64(info[200:], s.tx) // bytes sent
	}
	b := message(unix.AF_INET, s.state, []byte{10, 0, 0, 1}, []byte{10, 0, 0, 2}, info)
	binary.BigEndian.PutUint16(b[4:], s.local)
	binary.BigEndian.PutUint16(b[6:], s.peer)
	native.PutUint32(b[40:], s.device)
	native.PutUint64(b[44:], s.cookie)
	for i, v := range []uint32{s.receiving, s.sending, s.uid, s.inode} {
		native.PutUint32(b[56+4*i:], v)
	}
	return b
}

// flowCase is a reading of one namespace whose dumps the test writes. It finds no owners.
type flowCase struct {
	t   *testing.T
	r   *flowReading
	s   *flowSpace
	now time.Time
}

func newFlowCase(t *testing.T) *flowCase {
	c := &flowCase{t: t, r: &flowReading{flows: true, counting: true},
		s: &flowSpace{first: true}, now: time.Unix(1e9, 0)}
	c.s.byLabels = map[flowLabels]int32{}
	c.r.out = collect.NewOut(Flows{}.Stats(), collect.NewDictionary(), false)
	c.r.began = c.now
	return c
}

// read makes a reading of a dump, after the ends that were announced, and returns its rows.
func (c *flowCase) read(ends, dump []fakeSocket) map[string]float64 {
	c.t.Helper()
	r, s := c.r, c.s
	c.now = c.now.Add(time.Second)
	r.before, r.elapsed = c.now, time.Second
	r.tick, r.seconds = r.tick+1, r.seconds+1
	r.out.Start(s.first, c.now)
	r.notes, r.space = flowNotes{}, s
	r.w = r.words.Of(r.out, flowWords[:])
	r.setTables(r.out)
	s.name, s.closed, s.heard = r.out.Label("blue"), s.closed[:0], 0
	clear(s.byLabels)
	clear(s.listening[:])
	clear(s.counts[:])
	s.minis = 0
	for _, end := range ends {
		must(c.t, r.takeEnd(0, end.message()))
	}
	s.table.expect, s.next = 0, 0
	for _, one := range dump {
		must(c.t, r.take(0, one.message()))
	}
	r.sweep(s)
	r.emitClosed(s)
	r.emitListeners(s)
	r.emitCounts(s)
	s.first = false
	return collecttest.RowsOf(c.t, r.out)
}

// toServer is the key of the connection from port 40001 to port 443, up to its side.
const toServer = "|blue|10.0.0.1|40001|10.0.0.2|443|||"

// client is that connection after it moved known amounts.
func client(cookie uint64) fakeSocket {
	return fakeSocket{state: tcpEstablished, cookie: cookie, local: 40001, peer: 443, inode: 9,
		tx: 1000, rx: 2000, out: 30, in: 40, resent: 5, busy: 60, rwnd: 70, sndbuf: 80, rtt: 90}
}

// moved returns the connection after each of its counters grew by another prime.
func (s fakeSocket) moved() fakeSocket {
	s.tx, s.rx, s.out, s.in, s.resent = s.tx+101, s.rx+103, s.out+107, s.in+109, s.resent+113
	s.busy, s.rwnd, s.sndbuf = s.busy+127, s.rwnd+131, s.sndbuf+137
	return s
}

// amounts are the rows of these primes.
func amounts(key, side string) map[string]float64 {
	return map[string]float64{
		"tcp.flow.bytes" + key + side + "|tx": 101, "tcp.flow.bytes" + key + side + "|rx": 103,
		"tcp.flow.segments" + key + side + "|tx":    107,
		"tcp.flow.segments" + key + side + "|rx":    109,
		"tcp.flow.retransmits" + key + side:         113,
		"tcp.flow.limited" + key + side + "|busy":   127e3,
		"tcp.flow.limited" + key + side + "|rwnd":   131e3,
		"tcp.flow.limited" + key + side + "|sndbuf": 137e3,
	}
}

// expectAmounts compares the rows of amounts; there must be no others.
func expectAmounts(t *testing.T, rows, want map[string]float64) {
	t.Helper()
	for _, stat := range []string{"bytes", "segments", "retransmits", "limited"} {
		prefix, mine := "tcp.flow."+stat+"|", map[string]float64{}
		for key, v := range want {
			if len(key) > len(prefix) && key[:len(prefix)] == prefix {
				mine[key] = v
			}
		}
		collecttest.Expect(t, rows, prefix, mine)
	}
}

// TestTakeGrowth: a connection counts from the first reading on, a new one from zero. What is said
// twice counts once, and what did not move has no rows.
func TestTakeGrowth(t *testing.T) {
	c, one := newFlowCase(t), client(7)
	expectAmounts(t, c.read(nil, []fakeSocket{one}), nil)
	one = one.moved()
	rows := c.read(nil, []fakeSocket{one, one})
	expectAmounts(t, rows, amounts(toServer, "client"))
	if got := rows["tcp.flow.rtt"+toServer+"client"]; got != 90e3 {
		t.Errorf("round-trip time %v ns, want 90 us", got)
	}
	expectAmounts(t, c.read(nil, []fakeSocket{one}), nil)

	one.out++
	rows = c.read(nil, []fakeSocket{one}) // a keep-alive
	expectAmounts(t, rows, map[string]float64{"tcp.flow.segments" + toServer + "client|tx": 1})
	if _, has := rows["tcp.flow.rtt"+toServer+"client"]; has {
		t.Error("a keep-alive has levels")
	}

	one.sending = 11 // nothing moves, and bytes wait
	collecttest.Expect(t, c.read(nil, []fakeSocket{one}), "tcp.flow.queue", map[string]float64{
		"tcp.flow.queue" + toServer + "client|rx": 0,
		"tcp.flow.queue" + toServer + "client|tx": 11})

	other := fakeSocket{state: tcpEstablished, cookie: 8, local: 40002, peer: 443}.moved()
	const key = "|blue|10.0.0.1|40002|10.0.0.2|443|||"
	expectAmounts(t, c.read(nil, []fakeSocket{one, other}), amounts(key, "client"))
}

// TestTakeAgain: a socket that was connected again counts from zero. A difference of two bytes is
// that of SYN and FIN.
func TestTakeAgain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*fakeSocket)
		tx, rx float64
	}{
		{"another port", func(s *fakeSocket) { s.peer = 444 }, 1000, 2000},
		{"two bytes less", func(s *fakeSocket) { s.tx, s.rx, s.out = 998, 1998, 31 }, 0, 0},
		{"three bytes less sent", func(s *fakeSocket) { s.tx, s.rx, s.out = 997, 2000, 31 }, 997,
			2000},
		{"three bytes less received", func(s *fakeSocket) { s.rx, s.out = 1997, 31 }, 1000, 1997},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, one := newFlowCase(t), client(7)
			one.peer = 443
			c.read(nil, []fakeSocket{one})
			if tt.change(&one); one.peer != 443 {
				one.out++
			}
			rows := c.read(nil, []fakeSocket{one})
			var tx, rx float64
			for key, v := range rows {
				switch {
				case len(key) < 14 || key[:14] != "tcp.flow.bytes":
				case key[len(key)-2:] == "tx":
					tx += v
				default:
					rx += v
				}
			}
			if tx != tt.tx || rx != tt.rx {
				t.Errorf("sent %v, received %v, want %v, %v", tx, rx, tt.tx, tt.rx)
			}
		})
	}
}

// TestTakeListeners: listeners that share address, port and device are one row. Connections to a
// port that is listened on are those of a server.
func TestTakeListeners(t *testing.T) {
	listener := func(cookie uint64, port uint16, device, queue, limit uint32) fakeSocket {
		return fakeSocket{state: tcpListen, cookie: cookie, local: port, device: device,
			receiving: queue, sending: limit, inode: 9, bare: true}
	}
	all := []fakeSocket{listener(1, 443, 0, 3, 100), listener(2, 80, 0, 5, 200),
		listener(3, 443, 0, 7, 300), listener(4, 443, 6, 11, 400)}
	c := newFlowCase(t)
	collecttest.Expect(t, c.read(nil, all), "tcp.listen", nil)
	collecttest.Expect(t, c.read(nil, all), "tcp.listen", map[string]float64{
		"tcp.listen.queue|blue|10.0.0.1|443||": 10, "tcp.listen.limit|blue|10.0.0.1|443||": 400,
		"tcp.listen.queue|blue|10.0.0.1|80||": 5, "tcp.listen.limit|blue|10.0.0.1|80||": 200,
		"tcp.listen.queue|blue|10.0.0.1%6|443||": 11, "tcp.listen.limit|blue|10.0.0.1%6|443||": 400,
	})
	served := fakeSocket{state: tcpEstablished, cookie: 9, local: 443, peer: 50000}.moved()
	near := fakeSocket{state: tcpEstablished, cookie: 10, local: 442, peer: 50000}.moved()
	dump := []fakeSocket{all[2], all[1], served, near}
	rows := c.read(nil, dump)
	collecttest.Expect(t, rows, "tcp.listen", map[string]float64{
		"tcp.listen.queue|blue|10.0.0.1|443||": 7, "tcp.listen.limit|blue|10.0.0.1|443||": 300,
		"tcp.listen.queue|blue|10.0.0.1|80||": 5, "tcp.listen.limit|blue|10.0.0.1|80||": 200,
	})
	want := amounts("|blue|10.0.0.1|443|10.0.0.2|50000|||", "server")
	for key, v := range amounts("|blue|10.0.0.1|442|10.0.0.2|50000|||", "client") {
		want[key] = v
	}
	expectAmounts(t, rows, want)
}

// TestTakeStates: each state counts its sockets, with and without counters.
func TestTakeStates(t *testing.T) {
	c := newFlowCase(t)
	var dump []fakeSocket
	want := map[string]float64{}
	cookie := uint64(100)
	for state, word := range stateWords {
		if word == "" {
			continue
		}
		n := state + 2
		want["tcp.connections|blue|"+word] = float64(n)
		for range n {
			cookie++
			dump = append(dump, fakeSocket{state: byte(state), cookie: cookie, local: 1000, peer: 2,
				bare: state%2 == 0})
		}
	}
	collecttest.Expect(t, c.read(nil, dump), "tcp.connections", want)
	c.r.again = true // the second dump of a first reading counts nothing
	collecttest.Expect(t, c.read(nil, dump[:1]), "tcp.connections|blue|established",
		map[string]float64{"tcp.connections|blue|established": 0})
	c.r.again = false
	short := fakeSocket{state: tcpFinWait2, cookie: 5, local: 1, peer: 2, bare: true}
	if c.read(nil, []fakeSocket{short, short}); c.s.minis != 2 {
		t.Errorf("%d connections without a socket in FIN_WAIT2, want 2", c.s.minis)
	}
}

// TestTakeEnds: an announced end has the last growth of a connection, once.
func TestTakeEnds(t *testing.T) {
	end := func(s fakeSocket) fakeSocket {
		s = s.moved()
		s.state, s.rx = tcpClose, s.rx+1 // and a FIN
		return s
	}
	const limit = uint32((2*time.Second + closedLate) / time.Millisecond)
	fresh := fakeSocket{cookie: 8, local: 40001, peer: 443}
	again := client(7)
	again.peer = 444
	for _, tt := range []struct {
		name  string
		known bool
		end   fakeSocket
		key   string
		want  map[string]float64
		late  uint64
	}{
		{"known", true, end(client(7)), toServer, amounts(toServer, "client"), 0},
		{"never dumped", false, end(fresh), toServer, amounts(toServer, "client"), 0},
		{"quiet as long as can be", false, func() fakeSocket {
			s := end(fresh)
			s.quiet = limit
			return s
		}(), toServer, amounts(toServer, "client"), 0},
		{"over long ago", false, func() fakeSocket {
			s := end(fresh)
			s.quiet = limit + 1
			return s
		}(), toServer, nil, 1},
		{"known, quiet for long", true, func() fakeSocket {
			s := end(client(7))
			s.quiet = limit + 1
			return s
		}(), toServer, amounts(toServer, "client"), 0},
		{"without counters", false, fakeSocket{state: tcpClose, cookie: 8, bare: true}, "", nil, 0},
		{"without a cookie", false, end(fakeSocket{}), "", nil, 0},
		{"nothing moved", false, fakeSocket{state: tcpClose, cookie: 8, quiet: limit + 1}, "", nil,
			0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newFlowCase(t)
			for range 30 { // so that more than the limit has passed
				c.read(nil, nil)
			}
			var dump []fakeSocket
			if tt.known {
				dump = append(dump, client(7))
			}
			c.s.first = true
			c.read(nil, dump)
			expectAmounts(t, c.read([]fakeSocket{tt.end}, nil), tt.want)
			if c.r.notes.late != tt.late || c.s.heard != 1 {
				t.Errorf("%d were late, %d heard, want %d, 1", c.r.notes.late, c.s.heard, tt.late)
			}
			if c.s.table.live != 0 {
				t.Errorf("%d connections are kept", c.s.table.live)
			}
			expectAmounts(t, c.read(nil, nil), nil)
		})
	}
	t.Run("connected again", func(t *testing.T) {
		c := newFlowCase(t)
		c.read(nil, []fakeSocket{client(7)})
		rows := c.read([]fakeSocket{end(again)}, nil)
		const key = "tcp.flow.bytes|blue|10.0.0.1|40001|10.0.0.2|444|||client|tx"
		if rows[key] != 1101 {
			t.Errorf("sent %v, want all 1101 bytes", rows[key])
		}
	})
	t.Run("ports used again", func(t *testing.T) {
		c := newFlowCase(t)
		c.read(nil, []fakeSocket{client(7)})
		twice := amounts(toServer, "client")
		for key := range twice {
			twice[key] *= 3
		}
		next := fakeSocket{state: tcpEstablished, cookie: 12, local: 40001, peer: 443, inode: 9}
		expectAmounts(t, c.read([]fakeSocket{end(client(7)), end(fresh)},
			[]fakeSocket{next.moved()}), twice)
	})
	t.Run("before the first reading", func(t *testing.T) {
		c := newFlowCase(t)
		expectAmounts(t, c.read([]fakeSocket{end(fresh)}, nil), nil)
	})
}

// TestSweep: a connection that is missing from up to three dumps is kept, and is counted once as
// one whose end was not announced.
func TestSweep(t *testing.T) {
	c := newFlowCase(t)
	c.read(nil, []fakeSocket{client(7)})
	for absent := 1; absent <= flowGrace+1; absent++ {
		c.read(nil, nil)
		want := 1
		if absent > flowGrace {
			want = 0
		}
		if c.s.table.live != want {
			t.Errorf("absent from %d dumps: %d connections, want %d", absent, c.s.table.live, want)
		}
		if unheard := c.r.notes.unheard; unheard != uint64(max(0, 2-absent)) {
			t.Errorf("absent from %d dumps: %d ends without an announcement", absent, unheard)
		}
	}
}

// TestCountBySockstat: the numbers of /proc/net/sockstat replace those of an incomplete dump.
func TestCountBySockstat(t *testing.T) {
	dir := t.TempDir()
	open := func(name, text string) *proc.File {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		f, err := proc.OpenProc(kernel.Root{Proc: dir}, name)
		must(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	four := open("sockstat", "sockets: used 900\nTCP: inuse 200 orphan 3 tw 50 alloc 260 mem 7\n"+
		"UDP: inuse 11 mem 13\n")
	six := open("sockstat6", "TCP6: inuse 17\nUDP6: inuse 19\n")
	bad := open("bad", "TCP6: inuse x\n")
	counts := [tcpStates]int{tcpEstablished: 1000, tcpSynSent: 1, tcpSynRecv: 300, tcpFinWait1: 2,
		tcpFinWait2: 9, tcpTimeWait: 600, tcpCloseWait: 4, tcpLastAck: 8, tcpListen: 16,
		tcpClosing: 32}
	const others = 1 + 2 + 9 + 4 + 8 + 16 + 32 - 5 // five in FIN_WAIT2 have no socket
	for _, tt := range []struct {
		name                  string
		files                 [2]*proc.File
		inexact               bool
		established, timeWait int
	}{
		{"a whole dump", [2]*proc.File{four, six}, false, 1000, 45},
		{"an incomplete dump", [2]*proc.File{four, six}, true, 217 - others, 45},
		{"without IPv6", [2]*proc.File{four, nil}, true, 200 - others, 45},
		{"unreadable IPv6", [2]*proc.File{four, bad}, true, 1000, 45},
		{"without IPv4", [2]*proc.File{nil, six}, true, 1000, 600},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &flowSpace{}
			s.sockstat, s.counts, s.minis = tt.files, counts, 5
			s.countBySockstat(tt.inexact)
			if e, w := s.counts[tcpEstablished], s.counts[tcpTimeWait]; e != tt.established ||
				w != tt.timeWait {
				t.Errorf("%d established, %d in TIME_WAIT, want %d, %d", e, w, tt.established,
					tt.timeWait)
			}
		})
	}
	// A namespace is empty if it has as many sockets as listeners, and nothing in TIME_WAIT.
	quiet := open("quiet", "TCP: inuse 2 orphan 0 tw 0 alloc 260 mem 7\n")
	one := open("one", "TCP6: inuse 1\n")
	waiting := open("waiting", "TCP: inuse 2 orphan 0 tw 1 alloc 260 mem 7\n")
	for _, tt := range []struct {
		name      string
		files     [2]*proc.File
		counting  bool
		listeners int
		want      bool
	}{
		{"only listeners", [2]*proc.File{quiet, one}, false, 3, true},
		{"one more", [2]*proc.File{quiet, one}, false, 2, false},
		{"without IPv6", [2]*proc.File{quiet, nil}, false, 2, true},
		{"unreadable", [2]*proc.File{nil, one}, false, 1, false},
		{"malformed", [2]*proc.File{quiet, bad}, false, 2, false},
		{"listeners, whose requests are counted", [2]*proc.File{quiet, one}, true, 3, false},
		{"TIME_WAIT is not counted", [2]*proc.File{waiting, one}, false, 3, true},
		{"TIME_WAIT is counted", [2]*proc.File{waiting, one}, true, 0, false},
	} {
		r := &flowReading{counting: tt.counting}
		s := &flowSpace{}
		s.sockstat, s.counts[tcpListen] = tt.files, tt.listeners
		if got := r.empty(s); got != tt.want {
			t.Errorf("%s: empty %t, want %t", tt.name, got, tt.want)
		}
	}
}

// TestDumpedStates: the states that a dump asks for.
func TestDumpedStates(t *testing.T) {
	const moving = 1<<tcpEstablished | 1<<tcpSynSent | 1<<tcpFinWait1 | 1<<tcpFinWait2 |
		1<<tcpCloseWait | 1<<tcpLastAck | 1<<tcpClosing
	for _, tt := range []struct {
		name                      string
		flows, counting, sockstat bool
		want                      uint32
	}{
		{"nothing", false, false, true, 0},
		{"connections", true, false, true, moving},
		{"their number", false, true, true, moving | 1<<tcpSynRecv},
		{"both", true, true, true, moving | 1<<tcpSynRecv},
		{"their number, by the dump", false, true, false, moving | 1<<tcpSynRecv | 1<<tcpTimeWait},
	} {
		r, s := &flowReading{flows: tt.flows, counting: tt.counting}, &flowSpace{}
		if tt.sockstat {
			s.sockstat[0] = &proc.File{}
		}
		if got := r.states(s); got != tt.want {
			t.Errorf("%s: states %#x, want %#x", tt.name, got, tt.want)
		}
	}
}

// TestPaceOfDumps: what a dump uses beyond the free time is a tenth of the time.
func TestPaceOfDumps(t *testing.T) {
	runtime.LockOSThread() // whose CPU time is read
	defer runtime.UnlockOSThread()
	var slept []time.Duration
	p := dumpPace{sleep: func(d time.Duration) { slept = append(slept, d) }}
	p.start()
	if p.free != freeDump || p.paused != 0 {
		t.Errorf("free %v, paused %v at the start", p.free, p.paused)
	}
	used := func(d measure.Span) { p.from = kernel.ThreadTime() - d }
	used(30 * measure.Millisecond)
	p.look()
	if free := p.free; free > 20*measure.Millisecond || free <= 0 {
		t.Errorf("%v of free time are left of %v", free, freeDump)
	}
	used(30 * measure.Millisecond)
	p.look() // the rest of the free time
	used(pacePart - 5*measure.Millisecond)
	p.look()
	if len(slept) > 0 {
		t.Errorf("slept for %v within the free time or before %v", slept, pacePart)
	}
	used(20 * measure.Millisecond)
	p.look()
	if len(slept) != 1 || slept[0] < 180*time.Millisecond || p.paused != slept[0] {
		t.Errorf("after 20 ms of CPU time it slept for %v, counted %v; want 180 ms or more",
			slept, p.paused)
	}
	// Only a recording looks, and at each 128th socket.
	p = dumpPace{sleep: p.sleep}
	slept = nil
	for _, on := range []bool{false, true} {
		p.on = on
		for i := 1; i <= 2*paceLook; i++ {
			used(measure.Second)
			p.socket()
			if want := i / paceLook; on && len(slept) != want || !on && len(slept) > 0 {
				t.Fatalf("recording %t, socket %d: slept %d times", on, i, len(slept))
			}
		}
	}
}
