package bpf

import (
	"fmt"
	"math"
	"time"

	"culprit/measure"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// connectionMembers are where in the kernel's structs stands what the programs of Connections read:
// bytes.
type connectionMembers struct {
	family, state, protocol, flags, device, uid, net, inum int16 // of struct sock; net: ns.inum
	// struct sock: sk_ino; or sk_socket, and from there to i_ino
	socket, inode, toInode                             int16
	daddr, rcvSaddr, v6daddr, v6rcvSaddr, dport, sport int16
	requests                                           int16 // of icsk_accept_queue: qlen
	chronoType, chronoStart, chronoStat                int16
	chronoShift                                        int32
	fields                                             []connectionField
	rcvNxt, copied, writeSeq, sndUna, sndNxt           int16
	srtt, delivered, interval, mss                     int16
	hz                                                 int32
}

// connectionField is a member of tcp_sock that goes to tcp_info as it is.
type connectionField struct {
	from, to int16
	size     asm.Size
}

// connectionOffsets asks the kernel's types.
func connectionOffsets(types *Types) (*connectionMembers, error) {
	spec, err := types.Kernel()
	if err != nil {
		return nil, err
	}
	w := &structWalk{spec: spec}
	tcp := w.named("tcp_sock")
	of := func(path ...string) int16 { return w.at(tcp, path...) }
	inConn := func(path ...string) int16 { return of(append([]string{"inet_conn"}, path...)...) }
	inInet := func(path ...string) int16 {
		return inConn(append([]string{"icsk_inet"}, path...)...)
	}
	inSock := func(path ...string) int16 { return inInet(append([]string{"sk"}, path...)...) }
	common := func(path ...string) int16 {
		return inSock(append([]string{"__sk_common"}, path...)...)
	}
	m := &connectionMembers{
		family: common("skc_family"), state: common("skc_state"), protocol: inSock("sk_protocol"),
		flags:  common("skc_flags"),
		device: common("skc_bound_dev_if"), uid: inSock("sk_uid"), net: common("skc_net"),
		inum:  w.at(w.named("net"), "ns", "inum"),
		daddr: common("skc_daddr"), rcvSaddr: common("skc_rcv_saddr"),
		v6daddr: common("skc_v6_daddr"), v6rcvSaddr: common("skc_v6_rcv_saddr"),
		dport: common("skc_dport"), sport: inInet("inet_sport"),
		requests:    inConn("icsk_accept_queue", "qlen"),
		chronoStart: of("chrono_start"), chronoStat: of("chrono_stat"),
		rcvNxt: of("rcv_nxt"), copied: of("copied_seq"), writeSeq: of("write_seq"),
		sndUna: of("snd_una"), sndNxt: of("snd_nxt"),
		srtt: of("srtt_us"), delivered: of("rate_delivered"), interval: of("rate_interval_us"),
		mss: of("mss_cache"),
	}
	// The members of tcp_info that are copies; those that are worked out stand in the program
	// (tcp_get_info in net/ipv4/tcp.c).
	m.fields = []connectionField{
		{m.mss, 16, asm.Word}, {of("packets_out"), 24, asm.Word}, {of("snd_cwnd"), 80, asm.Word},
		{of("total_retrans"), 100, asm.Word},
		{inSock("sk_pacing_rate"), 104, asm.DWord}, {of("bytes_acked"), 120, asm.DWord},
		{of("bytes_received"), 128, asm.DWord},
		{of("segs_out"), 136, asm.Word}, {of("segs_in"), 140, asm.Word},
		{of("rtt_min"), 148, asm.Word},
		{of("bytes_sent"), 200, asm.DWord}, {of("bytes_retrans"), 208, asm.DWord},
	}
	m.fields[9].from += 4 // struct minmax { struct minmax_sample { u32 t, v; } s[3]; }
	if w.has(w.named("sock"), "sk_ino") {
		m.inode = inSock("sk_ino")
	} else { // SOCK_INODE in include/net/sock.h
		m.socket = inSock("sk_socket")
		m.toInode = w.at(w.named("socket_alloc"), "vfs_inode", "i_ino") -
			w.at(w.named("socket_alloc"), "socket")
	}
	var ok bool
	if m.chronoType, m.chronoShift, ok = bitsOf(tcp, "chrono_type", 2); !ok && w.err == nil {
		w.err = fmt.Errorf("this kernel's struct tcp_sock has its limit times "+
			"elsewhere: %w", measure.ErrUnsupported)
	}
	if w.err != nil {
		return nil, w.err
	}
	// jiffies have the step of the coarse clocks (clock_getres(2)).
	var res unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &res); err != nil || res.Nano() <= 0 {
		return nil, fmt.Errorf("the length of a jiffy is unknown: %w", measure.ErrUnsupported)
	}
	m.hz = int32(math.Round(float64(time.Second) / float64(res.Nano())))
	if m.hz < 24 || m.hz > 10000 {
		return nil, fmt.Errorf("a jiffy of %d ns: %w", res.Nano(), measure.ErrUnsupported)
	}
	return m, nil
}

// bitsOf returns the byte of a member that has size bits or a whole byte, and how far its bits are
// from the lowest one; !ok: the member has another layout.
func bitsOf(s *btf.Struct, name string, size btf.Bits) (at int16, shift int32, ok bool) {
	if s == nil || native.Uint16([]byte{1, 0}) != 1 {
		return 0, 0, false
	}
	for _, m := range s.Members {
		if m.Name != name {
			continue
		}
		bits := m.BitfieldSize
		if n, err := btf.Sizeof(m.Type); bits == 0 && err == nil {
			bits = btf.Bits(8 * n)
		}
		return int16(m.Offset / 8), int32(m.Offset % 8), (bits == size || bits == 8) &&
			m.Offset%8+bits <= 8
	}
	return 0, 0, false
}

// markProgram marks a socket that begins. Of arguments it has (sk, old state, new state).
//
//	r6 the socket
func (c *Connections) markProgram(m *connectionMembers) asm.Instructions {
	const sockDone = 1 << 1 // enum sock_flags in include/net/sock.h: a FIN has come (tcp_fin)
	p := asm.Instructions{
		asm.LoadMem(asm.R6, asm.R1, 0, asm.DWord),
		asm.LoadMem(asm.R7, asm.R1, 8, asm.DWord),
		asm.LoadMem(asm.R8, asm.R1, 16, asm.DWord),
		asm.LoadMem(asm.R2, asm.R6, m.protocol, asm.Half), // since 5.6
		asm.JNE.Imm(asm.R2, tcpProtocol, "end"),
		asm.Mov.Imm(asm.R9, countFailed),
		asm.JEq.Imm(asm.R8, tcpClose, "closed"),
		asm.LoadMapPtr(asm.R1, c.marks.FD()),
		asm.Mov.Reg(asm.R2, asm.R6),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, 1), // BPF_SK_STORAGE_GET_F_CREATE
		asm.FnSkStorageGet.Call(),
		asm.JNE.Imm(asm.R0, 0, "end"),
		asm.Ja.Label("count"),
		asm.JNE.Imm(asm.R7, tcpFinWait2, "end").WithSymbol("closed"),
		asm.LoadMem(asm.R2, asm.R6, m.flags, asm.DWord),
		asm.And.Imm(asm.R2, sockDone),
		asm.JNE.Imm(asm.R2, 0, "end"),
		asm.Mov.Imm(asm.R9, countShort),
	}
	return append(p,
		asm.StoreMem(asm.RFP, -4, asm.R9, asm.Word).WithSymbol("count"),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, c.counts.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return())
}

// adoptProgram marks the socket of a step over the table, if it is one.
func (c *Connections) adoptProgram(m *connectionMembers) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.R1, 8, asm.DWord), // struct bpf_iter__tcp { meta, sk_common }
		asm.JEq.Imm(asm.R1, 0, "end"),
		asm.FnSkcToTcpSock.Call(), // NULL of what is no whole socket
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.Mov.Reg(asm.R2, asm.R0),
		asm.LoadMapPtr(asm.R1, c.marks.FD()),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, 1), // BPF_SK_STORAGE_GET_F_CREATE
		asm.FnSkStorageGet.Call(),
		asm.JNE.Imm(asm.R0, 0, "end"),
		asm.Mov.Imm(asm.R1, countFailed),
		asm.StoreMem(asm.RFP, -4, asm.R1, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, c.counts.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return(),
	}
}

// walkProgram writes a record for each tagged socket into c.out, and their number into its first
// element. A number above maxConnections means that there were too many.
//
//	r6 the context, r7 the tcp_sock, r8 the state, r9 the present jiffy
func (c *Connections) walkProgram(m *connectionMembers) asm.Instructions {
	const (
		rec  = -connectionRecord
		head = rec + connectionHead
		info = rec + connectionInfo
		key  = rec - 8
	)
	element := func() asm.Instructions { // r0 is the element whose number is in key
		return asm.Instructions{
			asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, key),
			asm.LoadMapPtr(asm.R1, c.out.FD()),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "end"),
		}
	}
	p := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		// struct bpf_iter__bpf_sk_storage_map { meta, map, sk, value }
		asm.LoadMem(asm.R1, asm.R6, 16, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "end"),
		asm.FnSkcToTcpSock.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.LoadMem(asm.R8, asm.R7, m.state, asm.Byte),
		asm.JEq.Imm(asm.R8, tcpClose, "end"),
		asm.JEq.Imm(asm.R8, tcpTimeWait, "end"),
		asm.JGE.Imm(asm.R8, tcpNewSyn, "end"),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, key, asm.R1, asm.Word),
	}
	p = append(p, element()...)
	p = append(p,
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.JGT.Imm(asm.R1, maxConnections, "end"),
		asm.Mov.Imm(asm.R1, 0))
	for at := int16(rec); at < 0; at += 8 {
		p = append(p, asm.StoreMem(asm.RFP, at, asm.R1, asm.DWord))
	}
	move := func(to, from int16, size asm.Size) {
		p = append(p, asm.LoadMem(asm.R1, asm.R7, from, size),
			asm.StoreMem(asm.RFP, to, asm.R1, size))
	}
	set := func(to int16, value int32, size asm.Size) {
		p = append(p, asm.Mov.Imm(asm.R1, value), asm.StoreMem(asm.RFP, to, asm.R1, size))
	}
	// less stores the difference of two sequence numbers, or 0 where it is negative and that is
	// asked for.
	less := func(to, a, b int16, positive bool) {
		p = append(p, asm.LoadMem(asm.R1, asm.R7, a, asm.Word),
			asm.LoadMem(asm.R2, asm.R7, b, asm.Word), asm.Sub.Reg32(asm.R1, asm.R2))
		if positive {
			// all bits, or none
			p = append(p, asm.Mov.Reg(asm.R2, asm.R1), asm.RSh.Imm(asm.R2, 31),
				asm.Sub.Imm(asm.R2, 1), asm.And.Reg(asm.R1, asm.R2))
		}
		p = append(p, asm.StoreMem(asm.RFP, to, asm.R1, asm.Word))
	}
	// struct inet_diag_msg (include/uapi/linux/inet_diag.h).
	p = append(p,
		asm.LoadMem(asm.R1, asm.R7, m.net, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "end"),
		asm.LoadMem(asm.R1, asm.R1, m.inum, asm.Word),
		asm.StoreMem(asm.RFP, rec, asm.R1, asm.Word),
		asm.StoreMem(asm.RFP, head+1, asm.R8, asm.Byte))
	move(head+4, m.sport, asm.Half)
	move(head+6, m.dport, asm.Half)
	p = append(p,
		asm.LoadMem(asm.R1, asm.R7, m.family, asm.Half),
		asm.StoreMem(asm.RFP, head, asm.R1, asm.Byte),
		asm.JNE.Imm(asm.R8, tcpListen, "connection"))
	p = append(p,
		asm.LoadMem(asm.R1, asm.R7, m.requests, asm.Word),
		asm.StoreMem(asm.RFP, info, asm.R1, asm.Word),
		asm.Ja.Label("write"),
		asm.JEq.Imm(asm.R1, unix.AF_INET6, "v6").WithSymbol("connection"),
		asm.JNE.Imm(asm.R1, unix.AF_INET, "end"))
	move(head+8, m.rcvSaddr, asm.Word)
	move(head+24, m.daddr, asm.Word)
	p = append(p, asm.Ja.Label("addressed"))
	at := len(p)
	for i := int16(0); i < 16; i += 4 {
		move(head+8+i, m.v6rcvSaddr+i, asm.Word)
		move(head+24+i, m.v6daddr+i, asm.Word)
	}
	p[at] = p[at].WithSymbol("v6")
	at = len(p)
	move(head+40, m.device, asm.Word)
	p[at] = p[at].WithSymbol("addressed")
	less(head+56, m.rcvNxt, m.copied, true)
	less(head+60, m.writeSeq, m.sndUna, false)
	move(head+64, m.uid, asm.Word)
	if m.socket == 0 {
		move(head+68, m.inode, asm.Word)
	} else {
		p = append(p,
			asm.LoadMem(asm.R3, asm.R7, m.socket, asm.DWord),
			asm.JEq.Imm(asm.R3, 0, "orphan"),
			asm.Add.Imm(asm.R3, int32(m.toInode)),
			asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, head+68),
			asm.Mov.Imm(asm.R2, 4),
			asm.FnProbeReadKernel.Call())
	}
	p = append(p,
		asm.Mov.Reg(asm.R1, asm.R7).WithSymbol("orphan"),
		asm.FnGetSocketCookie.Call(),
		asm.StoreMem(asm.RFP, head+44, asm.R0, asm.Word),
		asm.RSh.Imm(asm.R0, 32),
		asm.StoreMem(asm.RFP, head+48, asm.R0, asm.Word))
	// INET_DIAG_INFO: struct tcp_info (include/uapi/linux/tcp.h).
	set(rec+connectionAttr, connectionRecord-connectionAttr, asm.Half)
	set(rec+connectionAttr+2, 2, asm.Half)
	p = append(p, asm.StoreMem(asm.RFP, info, asm.R8, asm.Byte))
	for _, f := range m.fields {
		move(info+f.to, f.from, f.size)
	}
	p = append(p,
		asm.LoadMem(asm.R1, asm.R7, m.srtt, asm.Word),
		asm.RSh.Imm(asm.R1, 3),
		asm.StoreMem(asm.RFP, info+68, asm.R1, asm.Word))
	less(info+144, m.writeSeq, m.sndNxt, true)
	// tcp_compute_delivery_rate
	p = append(p,
		asm.LoadMem(asm.R2, asm.R7, m.interval, asm.Word),
		asm.JEq.Imm(asm.R2, 0, "undelivered"),
		asm.LoadMem(asm.R1, asm.R7, m.delivered, asm.Word),
		asm.LoadMem(asm.R3, asm.R7, m.mss, asm.Word),
		asm.Mul.Reg(asm.R1, asm.R3),
		asm.Mul.Imm(asm.R1, 1_000_000),
		asm.Div.Reg(asm.R1, asm.R2),
		asm.StoreMem(asm.RFP, info+160, asm.R1, asm.DWord))
	// tcp_get_info_chrono_stats
	p = append(p,
		asm.FnJiffies64.Call().WithSymbol("undelivered"),
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.LoadMem(asm.R2, asm.R7, m.chronoStart, asm.Word),
		asm.Sub.Reg32(asm.R9, asm.R2),
		asm.LoadMem(asm.R3, asm.R7, m.chronoType, asm.Byte),
		asm.RSh.Imm(asm.R3, m.chronoShift),
		asm.And.Imm(asm.R3, 3), // TCP_CHRONO_*
		asm.Mov.Imm(asm.R4, 0))
	for i := int16(0); i < 3; i++ { // TCP_CHRONO_BUSY is 1
		other := fmt.Sprint("other", i)
		p = append(p,
			asm.LoadMem(asm.R1, asm.R7, m.chronoStat+4*i, asm.Word),
			asm.JNE.Imm(asm.R3, int32(i+1), other),
			asm.Add.Reg(asm.R1, asm.R9),
			asm.Mul.Imm(asm.R1, 1_000_000/m.hz).WithSymbol(other),
			asm.Add.Reg(asm.R4, asm.R1),
			asm.StoreMem(asm.RFP, info+168+8*i, asm.R1, asm.DWord))
	}
	p = append(p, asm.StoreMem(asm.RFP, info+168, asm.R4, asm.DWord)) // busy is all of it
	write := element()
	write[0] = write[0].WithSymbol("write") // key is still 0
	p = append(p, write...)
	p = append(p,
		asm.LoadMem(asm.R8, asm.R0, 0, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R8),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		asm.JGE.Imm(asm.R8, maxConnections, "end"),
		asm.StoreMem(asm.RFP, key, asm.R1, asm.Word))
	p = append(p, element()...)
	for at := int16(rec); at < 0; at += 8 {
		p = append(p, asm.LoadMem(asm.R1, asm.RFP, at, asm.DWord),
			asm.StoreMem(asm.R0, at-rec, asm.R1, asm.DWord))
	}
	return append(p,
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return())
}
