package connection

import (
	"time"

	"culprit/collect"
	"culprit/kernel/netlink"
	"culprit/kernel/proc"
	"culprit/measure"
)

// flowReading is the Reading of Flows.
type flowReading struct {
	want     collect.Want
	flows    bool // any tcp.flow.*
	counting bool // tcp.connections
	owning   bool // the fields pid or process
	spaces   collect.PerNamespace[*flowSpace]
	walks    *flowWalk
	flowClock
	flowTick
	ownerSearch
	flowBuffers

	pace   dumpPace
	notes  flowNotes
	tables flowTables
}

type flowClock struct {
	tick    uint32
	began   time.Time // time of the first reading
	seconds uint32    // since then
	before  time.Time // time of the previous reading
	elapsed time.Duration
}

// flowTick is the state of the current reading.
type flowTick struct {
	out   *collect.Out
	space *flowSpace
	again bool // the second dump of a first reading
	// walkable: a walk may have the sockets; walked: it had them.
	walkable, walked bool
}

// ownerSearch finds the processes of the sockets that need it.
type ownerSearch struct {
	owners *owners
	asked  []socketRef
	found  []*ownership // of asked
	inodes []uint32     // of asked
	onHeld func(func(*ownership))
}

type flowBuffers struct {
	socket  diagSocket
	pending []pendingFlow
	words   collect.WordLabels
	w       []measure.Label // of words
	text    []byte
	onDump  func(uint16, []byte) error
	onEnd   func(uint16, []byte) error
}

// flowNotes counts what a reading could not do.
type flowNotes struct {
	short     int    // length of a struct tcp_info that lacks something; 0: none
	unheard   uint64 // connections that ended without an announcement
	late      uint64 // announced so late that they belong to no interval
	overflow  uint64 // announcements beyond flowsClosed
	lost      bool   // announcements lost by the kernel's queue
	deaf      string // why ends are not announced
	partial   string // why the dump is not complete
	malformed uint64
	brief     bool // a connection was over before its process was found
	ownerless bool // a row has no owner although its socket belongs to a process
}

// flowSpace is the state of one namespace.
type flowSpace struct {
	index int32
	name  measure.Label
	inode uint64 // of the namespace
	conn  *netlink.Conn
	first bool // no reading yet
	flowEnds
	flowListeners
	flowStates

	// for listeners, and for all others; one for both families, or two
	requests [2][]netlink.Request
	table    flowTable
	byLabels map[flowLabels]int32
	walks    uint8 // walksNot ...
}

// flowEnds are the announcements of connections that ended.
type flowEnds struct {
	ends   *netlink.Conn // nil: none
	deaf   string        // why there are none
	retry  uint32        // the second in which to subscribe again; 0: never
	heard  int           // announcements of this reading
	closed []closedFlow
}

type flowListeners struct {
	listening [1 << 16 / 64]uint64 // ports
	listeners []listener
	next      int
}

// flowStates counts the connections in each state.
type flowStates struct {
	sockstat [2]*proc.File // of IPv4 and IPv6; nil: unreadable
	counts   [tcpStates]int
	minis    int    // FIN_WAIT2 without a socket: the kernel keeps them as TIME_WAIT
	calm     bool   // the last dump had none of these
	short    uint64 // how many of these there had been until then
}

type listener struct {
	cookie       uint64
	address      [16]byte
	size         uint8 // of address
	port         uint16
	device       uint32
	inode        uint32
	queue, limit uint32
	tick         uint32
	owner        ownership
	done         bool // its row was put with another's
}

// closedFlow is a connection whose end was announced.
type closedFlow struct {
	labels flowLabels
	port   uint16
	owner  ownership
	server bool
	merged bool // put with a living one of the same addresses and ports
	delta  flowCounts
}

type pendingFlow struct {
	space int32
	flow  int32
	v     flowValues
}

// socketRef is a socket whose owner is wanted: an index in the table of a namespace or in its
// listeners.
type socketRef struct {
	space    int32
	at       int32
	listener bool
}

// flowValues are the values of a connection's rows.
type flowValues struct {
	delta              flowCounts
	levels             bool
	receiving, sending uint32
	rtt, minrtt        uint32 // microseconds; 0: unknown
	cwnd, mss          uint32
	unsent, unacked    uint32
	hasUnsent          bool
	bufferSize         uint32 // 0: unknown
	bufferUsed         uint32
	delivery, pacing   uint64 // bytes per second; 0: unknown
}

type flowTables struct {
	bytes, segments, retransmits, limited                            *collect.Table
	rtt, minrtt, delivery, pacing, cwnd, mss, unsent, unacked, queue *collect.Table
	buffer                                                           *collect.Table
	connections, listenQueue, listenLimit                            *collect.Table
}
