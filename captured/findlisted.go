package captured

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
)

// Limits of lists of sockets. A list is one moment.
const (
	// leastUnanswered is how many connections to one peer may wait for an answer at a moment.
	leastUnanswered = 5
	// leastUnclosed is how many connections a program may have that the peer has closed.
	leastUnclosed = 50
	// leastHalfOpen is how many attempts may wait for the last packet of the handshake.
	leastHalfOpen = 100
	// localPorts is the number of ports of the default range, 32768-60999, and fullPorts the share
	// of it from which on few are left for one destination.
	localPorts, fullPorts = 28232, 0.8
	// leastUnread is how much data of a connection a program leaves unread, in bytes.
	leastUnread = 100_000
)

// listed judges the lists of sockets that ss and netstat print.
func (s *study) listed() {
	for _, t := range s.of(Connections) {
		s.shown["tcp"] = true
		by := map[string][]*Row{}
		for _, r := range t.Rows {
			by[r.Word("state")] = append(by[r.Word("state")], r)
		}
		before := len(s.report.Findings)
		s.fullListeners(by["LISTEN"])
		s.unanswered(by["SYN-SENT"])
		s.unclosed(by["CLOSE-WAIT"])
		s.usedPorts(by["TIME-WAIT"])
		s.unread(by["ESTAB"])
		if n := len(by["SYN-RECV"]); n >= leastHalfOpen {
			s.halfOpen(by["SYN-RECV"])
		}
		if len(s.report.Findings) == before {
			s.clear("tcp", "%s, no full queue (%s)", phrase.Plural(len(t.Rows), "socket",
				"sockets"), t.Rows[0].Place())
		}
	}
}

// listener is a local address with its program.
func listener(r *Row) string {
	if p := r.Word("program"); p != "" {
		return p + " at " + r.Word("local")
	}
	return r.Word("local")
}

// fullListeners reports listeners with more connections in their queue than it takes. ss has the
// size of the queue as Send-Q; netstat has none.
func (s *study) fullListeners(rows []*Row) {
	for _, r := range rows {
		n, most := r.Num("recvq"), r.Num("sendq")
		if r.Table.Tool != "ss" || most == 0 || n < most {
			continue
		}
		f := s.find("tcp-listen-overflow", r.Word("local"), diagnose.Medium, 0.85,
			listenerCulprit(r), fmt.Sprintf("Connections wait for %s: its queue is full, %s of %s.",
				listener(r), phrase.Count(n), phrase.Count(most)))
		evidence(f, r, n, "connection", "Recv-Q %s, Send-Q %s", phrase.Count(n),
			phrase.Count(most))
		caveat(f, "The list is one moment: a second one shows whether it lasts.")
		f.Verify = "ss -ltn; nstat -az TcpExtListenOverflows"
		if strings.HasPrefix(r.Word("local"), "/") || strings.HasPrefix(r.Word("local"), "@") {
			f.Verify = "ss -xl"
		}
	}
}

func listenerCulprit(r *Row) diagnose.Culprit {
	if p := r.Word("program"); p != "" {
		return diagnose.Culprit{Kind: "process", Name: p, Local: r.Word("local")}
	}
	return diagnose.Culprit{Kind: "host", Name: "listener " + r.Word("local"),
		Local: r.Word("local")}
}

// largestGroup returns the largest group of rows by a column, and its name.
func largestGroup(rows []*Row, column string) (name string, group []*Row) {
	by := map[string][]*Row{}
	for _, r := range rows {
		by[r.Word(column)] = append(by[r.Word(column)], r)
	}
	for n, list := range by {
		if c := cmp.Compare(len(list), len(group)); c > 0 || c == 0 && n < name {
			name, group = n, list
		}
	}
	return name, group
}

// unanswered reports connections to one peer that wait for an answer.
func (s *study) unanswered(rows []*Row) {
	peer, list := largestGroup(rows, "peer")
	if len(list) < leastUnanswered {
		return
	}
	f := s.find("connections-fail", peer, diagnose.Medium, 0.75, diagnose.Culprit{Kind: "peer",
		Name: peer, Peer: peer}, fmt.Sprintf("%s does not answer: %s wait for its first packet.",
		peer, phrase.Plural(len(list), "connection", "connections")))
	evidence(f, list[0], float64(len(list)), "connection", "%s in SYN-SENT to %s, of %d",
		phrase.Count(float64(len(list))), peer, len(rows))
	caveat(f, "The list is one moment: a second one shows whether they are the same.")
	f.Verify = "ss -tno state syn-sent dst " + phrase.Shell(peer)
}

// unclosed reports a program with connections that its peers have closed.
func (s *study) unclosed(rows []*Row) {
	name, list := largestGroup(rows, "program")
	if name == "" {
		name, list = largestGroup(rows, "local")
	}
	if len(list) < leastUnclosed {
		return
	}
	c, who := diagnose.Culprit{Kind: "process", Name: name}, name
	if list[0].Word("program") == "" {
		c = diagnose.Culprit{Kind: "host", Name: "the program at " + name, Local: name}
		who = "the program at " + name
	}
	f := s.find("connections-unclosed", name, diagnose.Medium, 0.8, c, fmt.Sprintf(
		"%s connections are closed by their peers and not by %s: each keeps a descriptor.",
		phrase.Count(float64(len(list))), who))
	evidence(f, list[0], float64(len(list)), "connection", "%s in CLOSE-WAIT, first from %s",
		phrase.Count(float64(len(list))), list[0].Word("peer"))
	f.Verify = "ss -tnp state close-wait"
}

// usedPorts reports a destination to which nearly all local ports of the default range are used.
func (s *study) usedPorts(rows []*Row) {
	peer, list := largestGroup(rows, "peer")
	n := float64(len(list))
	if n < fullPorts*localPorts {
		return
	}
	f := s.find("limit-reached", "ports-"+peer, diagnose.Medium, 0.8, diagnose.Culprit{
		Kind: "peer", Name: peer, Peer: peer}, fmt.Sprintf("%s connections to %s are in "+
		"TIME-WAIT: of %s local ports few are left for new ones.", phrase.Count(n), peer,
		phrase.Count(localPorts)))
	evidence(f, list[0], n/localPorts, "1", "%s in TIME-WAIT to %s", phrase.Count(n), peer)
	caveat(f, "The default range of ports is assumed, 32768-60999.")
	f.Verify = "ss -tan state time-wait dst " + phrase.Shell(peer) +
		" | wc -l; cat /proc/sys/net/ipv4/ip_local_port_range"
}

// unread reports a program that leaves data of its connections unread.
func (s *study) unread(rows []*Row) {
	var list []*Row
	for _, r := range rows {
		if r.Num("recvq") >= leastUnread {
			list = append(list, r)
		}
	}
	if len(list) == 0 {
		return
	}
	r := slices.MaxFunc(list, func(a, b *Row) int {
		return cmp.Compare(a.Num("recvq"), b.Num("recvq"))
	})
	f := s.find("tcp-stalled", r.Word("local"), diagnose.Low, 0.6, listenerCulprit(r),
		fmt.Sprintf("%s does not read its connection from %s: %s wait.", listener(r),
			r.Word("peer"), phrase.Bytes(r.Num("recvq"))))
	evidence(f, r, r.Num("recvq"), "B", "Recv-Q %s B; %s with %s or more unread",
		phrase.Count(r.Num("recvq")), phrase.Plural(len(list), "connection", "connections"),
		phrase.Bytes(leastUnread))
	caveat(f, "The list is one moment: a program that is fast may be between two reads.")
	f.Verify = "ss -tnpi dst " + phrase.Shell(r.Word("peer"))
}

// halfOpen reports attempts that wait for the last packet of the handshake.
func (s *study) halfOpen(rows []*Row) {
	local, list := largestGroup(rows, "local")
	if len(list) < leastHalfOpen {
		return
	}
	f := s.find("tcp-listen-overflow", "syn-"+local, diagnose.Medium, 0.7, listenerCulprit(list[0]),
		fmt.Sprintf("%s attempts to connect to %s wait for the last packet of the handshake, as "+
			"in a SYN flood.", phrase.Count(float64(len(list))), local))
	evidence(f, list[0], float64(len(list)), "connection", "%s in SYN-RECV",
		phrase.Count(float64(len(list))))
	f.Verify = "ss -tn state syn-recv; nstat -az TcpExtTCPReqQFullDrop TcpExtSyncookiesSent"
}
