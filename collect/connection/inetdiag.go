package connection

import (
	"encoding/binary"

	"culprit/kernel/netlink"

	"golang.org/x/sys/unix"
)

// native is the byte order of the kernel's binary structures.
var native = binary.NativeEndian

// The states of a TCP socket (include/net/tcp_states.h). inet_diag's state mask has the bit
// 1<<state.
const (
	tcpEstablished = iota + 1
	tcpSynSent
	tcpSynRecv
	tcpFinWait1
	tcpFinWait2
	tcpTimeWait
	tcpClose
	tcpCloseWait
	tcpLastAck
	tcpListen
	tcpClosing
	tcpStates
)

// stateWords are the states in ss(8)'s spelling; "" for those that are never dumped.
var stateWords = [tcpStates]string{
	tcpEstablished: "established", tcpSynSent: "syn-sent", tcpSynRecv: "syn-recv", tcpFinWait1: "fin-wait-1",
	tcpFinWait2: "fin-wait-2", tcpTimeWait: "time-wait", tcpCloseWait: "close-wait", tcpLastAck: "last-ack",
	tcpListen: "listen", tcpClosing: "closing",
}

// Constants of include/uapi/linux/inet_diag.h and sock_diag.h.
const (
	tcpdiagGetsock   = 18 // the older request: one walk over the table for both address families
	sockDiagByFamily = 20
	diagInfo         = 2 // INET_DIAG_INFO: struct tcp_info
	diagMemory       = 7 // INET_DIAG_SKMEMINFO: numbers of include/uapi/linux/sock_diag.h

	// SKNLGRP_INET_TCP_DESTROY: ended connections of IPv4 with their last counters
	groupTCPDestroy  = 1
	groupTCP6Destroy = 3 // SKNLGRP_INET6_TCP_DESTROY
)

// diagRequest makes a dump of all TCP sockets in the states of the mask. With family 0 it is the
// older request, which dumps IPv4 and IPv6 in one walk (inet_diag_dump_compat in
// net/ipv4/inet_diag.c). The newer one takes two. All namespaces share the table, so a walk takes a
// millisecond on a machine with 262,144 buckets, however few the sockets.
//
//	inet_diag_req     | family, 2 lengths, ext | sockid 48 | states 4 | dbs 4 |
//	inet_diag_req_v2  | family, protocol, ext, pad | states 4 | sockid 48 |
func diagRequest(q *netlink.Request, family byte, states uint32, info bool) {
	ext := byte(0)
	if info {
		ext = 1 << (diagInfo - 1)
	}
	requestWith(q, family, states, ext)
}

// requestWith is diagRequest with the bits of the attributes that each socket has.
func requestWith(q *netlink.Request, family byte, states uint32, ext byte) {
	if family == 0 {
		q.Begin(tcpdiagGetsock, 0)
		b := q.Extend(60)
		b[0], b[3] = unix.AF_INET, ext
		native.PutUint32(b[52:], states)
		return
	}
	q.Begin(sockDiagByFamily, 0)
	b := q.Extend(56)
	b[0], b[1], b[2] = family, unix.IPPROTO_TCP, ext
	native.PutUint32(b[4:], states)
}

// diagSocket is one socket of inet_diag. Its slices are parts of the message.
type diagSocket struct {
	state               byte   // tcpEstablished ...
	local, peer         []byte // 4 bytes, or 16 for IPv6; an IPv4 address in IPv6 has 4
	localPort, peerPort uint16
	device              uint32 // index of the device that the socket is bound to; 0: none
	// identifies the socket for good, in all namespaces (before Linux 5.11: in its own)
	cookie uint64
	// bytes not yet read by the application, plus a FIN; of a listener: connections waiting for
	// accept
	receiving uint32
	// bytes not yet acknowledged, plus SYN or FIN; of a listener: the limit of the accept queue
	sending uint32
	uid     uint32
	inode   uint32 // 0: of no process (not yet accepted, or closed)
	info    tcpInfo

	// size of the send buffer, and memory in it; 0: not known
	bufferSize, bufferUsed uint32
}

const diagHeader = 72 // struct inet_diag_msg

// parseDiag parses one message of inet_diag:
//
//	0      1     2     3       4         6         8    24   40  44
//	|family|state|timer|retrans|sport(be)|dport(be)|src |dst |if |cookie ...
//
//	52      56     60     64  68    72
//	|expires|rqueue|wqueue|uid|inode| attributes
func parseDiag(b []byte, s *diagSocket) bool {
	// 12 is TCP_NEW_SYN_RECV, always shown as SYN_RECV
	if len(b) < diagHeader || b[1] == 0 || b[1] > tcpStates {
		return false
	}

	s.state = b[1]
	if s.state == tcpStates {
		s.state = tcpSynRecv
	}
	switch b[0] {
	case unix.AF_INET:
		s.local, s.peer = b[8:12], b[24:28]
	case unix.AF_INET6:
		s.local, s.peer = unmap(b[8:24]), unmap(b[24:40])
		if len(s.local) != len(s.peer) { // as with a listener on ::; both stay unchanged
			s.local, s.peer = b[8:24], b[24:40]
		}
	default:
		return false
	}
	s.localPort, s.peerPort = binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint16(b[6:])
	s.device = native.Uint32(b[40:])
	s.cookie = uint64(native.Uint32(b[44:])) | uint64(native.Uint32(b[48:]))<<32
	s.receiving, s.sending = native.Uint32(b[56:]), native.Uint32(b[60:])
	s.uid, s.inode = native.Uint32(b[64:]), native.Uint32(b[68:])
	s.info, s.bufferSize, s.bufferUsed = nil, 0, 0
	for a := b[diagHeader:]; len(a) >= 4; {
		size := int(native.Uint16(a))
		if size < 4 || size > len(a) {
			return false
		}
		switch native.Uint16(a[2:]) {
		case diagInfo:
			s.info = a[4:size]
		case diagMemory: // rmem_alloc, rcvbuf, wmem_alloc, sndbuf (at 12), fwd, wmem_queued (20)
			if size >= 4+24 {
				s.bufferSize, s.bufferUsed = native.Uint32(a[4+12:]), native.Uint32(a[4+20:])
			}
		}
		a = a[min((size+3)&^3, len(a)):]
	}
	return true
}

// unmap returns the IPv4 address in ::ffff:0:0/96 (RFC 4291, 2.5.5.2), and any other address
// unchanged.
func unmap(b []byte) []byte {
	for _, c := range b[:10] {
		if c != 0 {
			return b
		}
	}
	if b[10] == 0xff && b[11] == 0xff {
		return b[12:16]
	}
	return b
}

// tcpInfo is the kernel's struct tcp_info (include/uapi/linux/tcp.h). It grows at its end from
// release to release: this kernel does not know what is beyond its length. Byte rates are per
// second, times in microseconds.
//
//	  0 state, ca_state, retransmits, probes, backoff, options, wscales, flags
//	  8 rto 4, ato 4, snd_mss 4 (at 16), rcv_mss 4, unacked 4 (24), sacked 4, lost 4, retrans 4
//	 40 fackets 4
//	 44 last_data_sent 4, last_ack_sent 4, last_data_recv 4 (52), last_ack_recv 4 (56); ms ago
//	 60 pmtu 4, rcv_ssthresh 4, rtt 4 (68), rttvar 4, snd_ssthresh 4, snd_cwnd 4 (80), advmss 4
//	 88 reordering 4
//	 92 rcv_rtt 4, rcv_space 4, total_retrans 4 (100)
//	104 pacing_rate 8, max_pacing_rate 8          since 3.15
//	120 bytes_acked 8, bytes_received 8           since 4.1
//	136 segs_out 4, segs_in 4                     since 4.2
//	144 notsent_bytes 4, min_rtt 4, data_segs_in 4, data_segs_out 4   since 4.6
//	160 delivery_rate 8                           since 4.9
//	168 busy_time 8, rwnd_limited 8, sndbuf_limited 8   since 4.10
//	192 delivered 4, delivered_ce 4               since 4.18
//	200 bytes_sent 8, bytes_retrans 8             since 4.19
type tcpInfo []byte

const (
	infoWhole   = 216 // the length with all that is read here
	infoLimited = 192 // with busy_time and its parts
	infoUnsent  = 148 // with notsent_bytes
	infoCounts  = 144 // with bytes and segments: without them there are no statistics
)

// u32 returns the number at an offset, 0 if this kernel's structure ends before it.
func (i tcpInfo) u32(at int) uint32 {
	if len(i) < at+4 {
		return 0
	}
	return native.Uint32(i[at:])
}

// u64 is u32 for 8 bytes. They are aligned only to 4 (nla_reserve_64bit aligns them if the machine
// needs it).
func (i tcpInfo) u64(at int) uint64 {
	if len(i) < at+8 {
		return 0
	}
	return native.Uint64(i[at:])
}

func (i tcpInfo) segsOut() uint32 { return i.u32(136) }
func (i tcpInfo) segsIn() uint32  { return i.u32(140) }

// flowCounts are the counters of a connection: payload bytes, all segments (also without data),
// segments sent again. The times are in microseconds: busy sending, limited by the peer's receive
// window, limited by the own send buffer.
type flowCounts struct {
	tx, rx                  uint64
	busy, rwnd, sndbuf      uint64
	segsOut, segsIn, resent uint32
}

// counts returns the counters, with bytes as the application counts them.
//
// The kernel's own are sequence numbers. bytes_acked has 1 for the SYN of the end that opened the
// connection and 1 for an acknowledged FIN (tcp_snd_una_update in net/ipv4/tcp_input.c).
// bytes_received has 1 for a FIN (tcp_rcv_nxt_update).
//
// bytes_sent minus bytes_retrans has neither, and no more than that can have been acknowledged.
// While data is in flight this bound does not help, and the SYN is counted until all is
// acknowledged.
//
// A received FIN shows in the state. Of a connection that has ended (tcpClose) it is not known
// whether a FIN came before the socket was closed. None came after a reset, or if the peer closed
// late. It is assumed, which may count one byte too few.
func (i tcpInfo) counts(state byte) flowCounts {
	c := flowCounts{
		tx: i.u64(120), rx: i.u64(128),
		segsOut: i.segsOut(), segsIn: i.segsIn(), resent: i.u32(100),
		busy: i.u64(168), rwnd: i.u64(176), sndbuf: i.u64(184),
	}
	if len(i) >= infoWhole {
		// A failure to send again (no memory) counts only in bytes_retrans. It explains a
		// difference of more than SYN and FIN.
		if sent := i.u64(200) - i.u64(208); c.tx > sent && c.tx-sent <= 2 {
			c.tx = sent
		}
	} else if state == tcpFinWait2 && c.tx > 0 {
		c.tx--
	}
	switch state {
	case tcpCloseWait, tcpLastAck, tcpClosing, tcpTimeWait, tcpClose:
		if c.rx > 0 {
			c.rx--
		}
	}
	return c
}

// quiet returns the milliseconds since the connection last sent or received anything.
func (i tcpInfo) quiet() uint32 { return min(i.u32(44), i.u32(52), i.u32(56)) }

// queues returns the bytes that wait to be read and to be acknowledged, without SYN and FIN.
func (s *diagSocket) queues() (receiving, sending uint32) {
	receiving, sending = s.receiving, s.sending
	switch s.state {
	case tcpCloseWait, tcpLastAck, tcpClosing:
		if receiving > 0 {
			receiving--
		}
	}
	switch s.state {
	case tcpSynSent, tcpFinWait1, tcpLastAck, tcpClosing:
		if sending > 0 {
			sending--
		}
	}
	return receiving, sending
}
