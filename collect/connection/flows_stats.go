package connection

import (
	"culprit/measure"
)

// flowFields returns the fields of a connection.
func flowFields() []measure.Field {
	return []measure.Field{
		{Name: "netns", Type: measure.Word, Help: "network namespace; empty is the tool's own"},
		{Name: "local", Type: measure.Word, Help: "own address; IPv4 in IPv6 is shown as IPv4; " +
			"%N for a socket bound to device number N"},
		{Name: "localport", Type: measure.Number, Help: "own port"},
		{Name: "peer", Type: measure.Word, Help: "address of the other end"},
		{Name: "peerport", Type: measure.Number, Help: "port of the other end"},
		{Name: "pid", Type: measure.Number, Help: "process that has the socket open, the first " +
			"one found; empty if unknown, or if the connection was too short"},
		{Name: "process", Type: measure.Word, Help: "its name; [kernel] for a socket of no " +
			"process; a connection to a listener that was too short has the listener's"},
		{Name: "side", Type: measure.Word, Help: "server if the local port has a listener, " +
			"else client"},
	}
}

// Stats implements Collector.
func (Flows) Stats() []measure.Stat {
	with := func(fields []measure.Field, f ...measure.Field) []measure.Field {
		return append(append([]measure.Field{}, fields...), f...)
	}
	flowFields := flowFields()
	directed := with(
		flowFields, measure.Field{Name: "direction", Type: measure.Word, Help: "rx or tx"},
	)
	limited := with(flowFields, measure.Field{Name: "by", Type: measure.Word,
		Help: "busy: data was sent or waiting to be sent; this includes rwnd: stopped by the " +
			"peer's receive window, and sndbuf: stopped by the own send buffer"})
	part := with(flowFields, measure.Field{Name: "kind", Type: measure.Word,
		Help: "size: what the send buffer may hold; used: what it holds"})
	listener := with(flowFields[:3], flowFields[5:7]...)
	delta := func(
		id measure.StatID, unit measure.Unit, fields []measure.Field, help string,
	) measure.Stat {
		return measure.Stat{
			ID: id, Kind: measure.Delta, Unit: unit, Fields: fields, Sparse: true, Help: help,
		}
	}
	level := func(
		id measure.StatID, unit measure.Unit, fold measure.Fold, fields []measure.Field,
		help string,
	) measure.Stat {
		return measure.Stat{
			ID: id, Kind: measure.Level, Unit: unit, Fold: fold, Fields: fields, Help: help,
		}
	}
	const moving = "; only rows for connections that moved data or have data queued"
	return []measure.Stat{
		delta("tcp.flow.bytes", measure.Bytes, directed, "payload received (rx), or sent and "+
			"acknowledged (tx), each byte once (tcp_info bytes_received, bytes_acked)"),
		delta("tcp.flow.segments", measure.Packets, directed, "segments of any kind, also "+
			"without data (tcp_info segs_in, segs_out)"),
		delta("tcp.flow.retransmits", measure.Events, flowFields, "segments sent again "+
			"(tcp_info total_retrans)"),
		level("tcp.flow.rtt", measure.Nanoseconds, measure.Mean, flowFields, "smoothed round "+
			"trip time (tcp_info rtt)"+moving),
		level("tcp.flow.minrtt", measure.Nanoseconds, measure.Min, flowFields, "least round "+
			"trip time of the last minutes (tcp_info min_rtt)"+moving),
		level("tcp.flow.delivery", measure.BitsPerSec, measure.Max, flowFields, "rate at which "+
			"the last data sent was acknowledged (tcp_info delivery_rate)"+moving),
		level("tcp.flow.pacing", measure.BitsPerSec, measure.Max, flowFields, "rate at which "+
			"the sender limits itself (tcp_info pacing_rate)"+moving),
		level("tcp.flow.cwnd", measure.Count, measure.Max, flowFields, "congestion window in "+
			"segments (tcp_info snd_cwnd)"+moving),
		level("tcp.flow.mss", measure.Bytes, measure.Max, flowFields, "largest segment sent "+
			"(tcp_info snd_mss)"+moving),
		level("tcp.flow.unsent", measure.Bytes, measure.Sum, flowFields, "bytes written that "+
			"are not yet sent (tcp_info notsent_bytes)"+moving),
		level("tcp.flow.unacked", measure.Packets, measure.Sum, flowFields, "segments sent "+
			"that are not yet acknowledged (tcp_info unacked)"+moving),
		level("tcp.flow.queue", measure.Bytes, measure.Sum, directed, "bytes in the socket: "+
			"received and not yet read (rx), written and not yet acknowledged (tx) (inet_diag "+
			"rqueue, wqueue)"+moving),
		level("tcp.flow.buffer", measure.Bytes, measure.Sum, part, "memory of the send buffer, "+
			"with what the kernel needs beside the data (inet_diag skmeminfo sndbuf, "+
			"wmem_queued)"+moving),
		delta("tcp.flow.limited", measure.Nanoseconds, limited, "time sending, and what "+
			"limited it (tcp_info busy_time, rwnd_limited, sndbuf_limited)"),
		level("tcp.connections", measure.Count, measure.Sum, []measure.Field{flowFields[0],
			{Name: "state", Type: measure.Word, Help: "established, time-wait, listen ... as " +
				"in ss(8)"}}, "sockets by state (inet_diag)"),
		level("tcp.listen.queue", measure.Count, measure.Sum, listener, "connections that wait "+
			"for accept(2) (inet_diag rqueue of a listener)"),
		level("tcp.listen.limit", measure.Count, measure.Sum, listener, "how many may wait; "+
			"the kernel accepts one more (inet_diag wqueue of a listener)"),
	}
}
