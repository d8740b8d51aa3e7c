package connection

import (
	"culprit/kernel/proc"
)

// emitCounts puts the number of sockets in each state.
func (r *flowReading) emitCounts(s *flowSpace) {
	if r.tables.connections == nil {
		return
	}
	s.countBySockstat(r.pace.paused > 0 || r.notes.partial != "")
	for state, word := range stateWords {
		if word != "" {
			r.tables.connections.Put(float64(s.counts[state]), s.name, r.out.Label(word))
		}
	}
}

// countBySockstat takes numbers of connections from /proc/net/sockstat: of those in TIME_WAIT, and
// if the dump was slow or incomplete, of those that are established.
func (s *flowSpace) countBySockstat(inexact bool) {
	inuse, known := 0, inexact
	for i, f := range s.sockstat {
		if f == nil {
			known = known && i > 0 // no IPv6
			continue
		}
		b, err := f.ReadOne()
		if err != nil {
			known = false
			continue
		}
		if i == 0 {
			if waiting, ok := parseTCPSockets(b, sockstatLines[0], "tw"); ok {
				s.counts[tcpTimeWait] = max(0, int(waiting)-s.minis)
			}
		}
		n, ok := parseTCPSockets(b, sockstatLines[i], "inuse")
		inuse, known = inuse+int(n), known && ok
	}
	if !known {
		return
	}
	others := -s.minis // in FIN_WAIT2 without a socket
	for _, state := range [...]int{tcpSynSent, tcpFinWait1, tcpFinWait2, tcpCloseWait, tcpLastAck,
		tcpListen, tcpClosing} {
		others += s.counts[state]
	}
	s.counts[tcpEstablished] = max(0, inuse-others)
}

// parseTCPSockets returns the number after a word in a line of /proc/net/sockstat or sockstat6. In
// the line TCP: "tw" is the number of connections, of IPv4 and IPv6, that the kernel keeps without
// a socket in TIME_WAIT or FIN_WAIT2. "inuse" is the number of sockets in the tables, including
// listeners (sockstat_seq_show in net/ipv4/proc.c).
func parseTCPSockets(b []byte, line, word string) (uint64, bool) {
	for c := proc.Scan(b); !c.End(); c.NextLine() {
		if string(c.Word()) != line {
			continue
		}
		for c.More() {
			if string(c.Word()) == word {
				v := c.Uint()
				return v, c.Err() == nil
			}
			c.Skip(1)
		}
	}
	return 0, false
}
