package captured

import (
	"regexp"
	"strings"
)

// states are the states of sockets by the words of ss and netstat.
func states() map[string]string {
	return map[string]string{
		"LISTEN": "LISTEN", "LISTENING": "LISTEN", "ESTAB": "ESTAB", "ESTABLISHED": "ESTAB",
		"SYN-SENT": "SYN-SENT", "SYN_SENT": "SYN-SENT", "SYN-RECV": "SYN-RECV",
		"SYN_RECV": "SYN-RECV", "SYN_RCVD": "SYN-RECV", "CLOSE-WAIT": "CLOSE-WAIT",
		"CLOSE_WAIT": "CLOSE-WAIT", "TIME-WAIT": "TIME-WAIT", "TIME_WAIT": "TIME-WAIT",
		"FIN-WAIT-1": "FIN-WAIT-1", "FIN_WAIT1": "FIN-WAIT-1", "FIN_WAIT_1": "FIN-WAIT-1",
		"FIN-WAIT-2": "FIN-WAIT-2", "FIN_WAIT2": "FIN-WAIT-2", "FIN_WAIT_2": "FIN-WAIT-2",
		"LAST-ACK": "LAST-ACK", "LAST_ACK": "LAST-ACK", "CLOSING": "CLOSING", "UNCONN": "UNCONN",
	}
}

var (
	// ssProgram and netstatProgram are the program of a socket: users:(("nginx",pid=7,fd=6)) and
	// 7/nginx: worker.
	ssProgram      = regexp.MustCompile(`users:\(\("([^"]*)"`)
	netstatProgram = regexp.MustCompile(`^\d+/(\S+)`)
)

// listed reads a row of a list of sockets, of ss, netstat of Linux or of Solaris:
//
//	[tcp] LISTEN 129 128 0.0.0.0:80 0.0.0.0:* users:(("nginx",pid=7,fd=6))
//	u_str LISTEN 5 4 /run/a.sock 4711 * 0
//	tcp 0 0 192.0.2.1:22 192.0.2.7:4000 ESTABLISHED 7/sshd
//	192.0.2.1.22 192.0.2.7.4000 49640 0 49640 0 ESTABLISHED
//
// Rows of connections that are also of socket are left to it.
func (r *reader) listed(line string, fields []string) bool {
	if len(fields) < 5 {
		return false
	}
	s := listedSocket(fields, r.states)
	if s == nil {
		return false
	}
	if m := ssProgram.FindStringSubmatch(line); m != nil && s.tool == "ss" {
		s.program = m[1]
	}
	r.put(r.block(Connections, s.tool, "state", "recvq", "sendq", "local", "peer", "program"),
		s.state, s.recvq, s.sendq, s.local, s.peer, s.program)
	return !socketLine.MatchString(line)
}

// A socketRow is a row of a list of sockets.
type socketRow struct{ tool, state, recvq, sendq, local, peer, program string }

// listedSocket returns the socket of a row; nil: it is not one.
func listedSocket(f []string, states map[string]string) *socketRow {
	isAddress := func(s string) bool { return strings.ContainsAny(s, ":.*/@") }
	for at := range 2 { // ss, with or without the kind of the socket
		if state := states[f[at]]; state != "" && f[at] == state && len(f) >= at+5 &&
			allWhole(f[at+1:at+3]) && isAddress(f[at+3]) {
			s := &socketRow{"ss", state, f[at+1], f[at+2], f[at+3], f[at+4], ""}
			if at == 1 && strings.HasPrefix(f[0], "u_") {
				s.peer = "" // it is the inode
			} else if !isAddress(f[at+4]) {
				return nil
			}
			return s
		}
	}
	if len(f) >= 6 && strings.HasPrefix(f[0], "tcp") && allWhole(f[1:3]) && states[f[5]] != "" {
		s := &socketRow{"netstat", states[f[5]], f[1], f[2], f[3], f[4], ""}
		for _, word := range f[6:] { // with -o or -e other columns are before it
			if m := netstatProgram.FindStringSubmatch(word); m != nil {
				s.program = strings.TrimSuffix(m[1], ":")
				break
			}
		}
		return s
	}
	if len(f) == 7 && allWhole(f[2:6]) && states[f[6]] != "" && isAddress(f[0]) {
		return &socketRow{"netstat", states[f[6]], f[5], f[3], f[0], f[1], ""}
	}
	return nil
}
