package facts

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/series"
)

// An HTTPServer is a server as its requests show it: a port of this machine, with the programs that
// answer there, or an address and port elsewhere, with the programs that ask there.
type HTTPServer struct {
	Own     bool   // a program of this machine answers: its side was measured
	NetNS   string // of the program, if Own or the address is a loopback one
	Address string // of the server; "" if Own
	Port    string

	// Requests, Answers and Errors are per second, by cell; Time is the seconds that the answers of
	// a second took together.
	Requests, Answers, Errors, Time []float64

	AnswerRows, RequestRows, TimeRows, LatencyRows []*diagnose.Row
}

// HTTPServers returns the servers, those of this machine first.
func HTTPServers(l *diagnose.Look) []*HTTPServer {
	answers := l.Table(HTTPAnswers)
	at := map[httpKey]*HTTPServer{}
	var all []*HTTPServer
	of := func(r *diagnose.Row) *HTTPServer {
		k := httpKey{netns: r.Word("netns"), port: r.Word("port")}
		if r.Word("side") != "server" {
			k.address = PlainAddress(r.Word("peer"))
			if a, err := netip.ParseAddr(k.address); err != nil || !a.IsLoopback() {
				k.netns = "" // one server, whoever asks it
			}
		}
		s := at[k]
		if s == nil {
			n := len(answers.Seconds)
			s = &HTTPServer{Own: k.address == "", NetNS: k.netns, Address: k.address, Port: k.port,
				Requests: make([]float64, n), Answers: make([]float64, n),
				Errors: make([]float64, n), Time: make([]float64, n)}
			at[k] = s
			all = append(all, s)
		}
		return s
	}
	for _, r := range l.Table(HTTPRequests).Rows {
		s := of(r)
		addTo(s.Requests, r)
		s.RequestRows = append(s.RequestRows, r)
	}
	for _, r := range answers.Rows {
		s := of(r)
		addTo(s.Answers, r)
		if IsServerError(r) {
			addTo(s.Errors, r)
		}
		s.AnswerRows = append(s.AnswerRows, r)
	}
	for _, r := range l.Table(HTTPTimes).Rows {
		s := of(r)
		addTo(s.Time, r)
		s.TimeRows = append(s.TimeRows, r)
	}
	for _, r := range l.Table(HTTPLatency).Rows {
		s := of(r)
		s.LatencyRows = append(s.LatencyRows, r)
	}
	slices.SortStableFunc(all, func(a, b *HTTPServer) int {
		switch {
		case a.Own != b.Own && a.Own:
			return -1
		case a.Own != b.Own:
			return 1
		}
		return cmp.Or(strings.Compare(a.Name(), b.Name()), strings.Compare(a.NetNS, b.NetNS))
	})
	return all
}

// httpKey identifies a server; the address is "" for a port of this machine.
type httpKey struct{ netns, address, port string }

func addTo(sum []float64, r *diagnose.Row) {
	for c := range sum {
		sum[c] += series.AtOrZero(r.Values, c)
	}
}

// IsServerError reports whether a row of answers has a status that means an error of the server,
// 500 to 599.
func IsServerError(r *diagnose.Row) bool {
	status := r.Word("status")
	return len(status) == 3 && status[0] == '5'
}

// Name returns "port 8080", or "10.0.0.5:8080".
func (s *HTTPServer) Name() string {
	if s.Own {
		return "port " + s.Port
	}
	return net.JoinHostPort(s.Address, s.Port)
}

// Reaches reports whether the address of the server leads to another one, of this machine: a
// loopback address does within its network namespace, others may be in any.
func (s *HTTPServer) Reaches(l *diagnose.Look, own *HTTPServer) bool {
	if !own.Own || s.Own || s.Port != own.Port {
		return false
	}
	if a, err := netip.ParseAddr(s.Address); err == nil && a.IsLoopback() {
		return s.NetNS == own.NetNS
	}
	return slices.ContainsFunc(l.Table(DeviceAddress).Rows, func(r *diagnose.Row) bool {
		return PlainAddress(r.Word("address")) == s.Address
	})
}

// Query returns a query for the server in one of its tables.
func (s *HTTPServer) Query(t *diagnose.Table) string {
	if s.Own {
		return t.QueryOf(nil, "netns", s.NetNS, "side", "server", "port", s.Port)
	}
	return t.QueryOf(nil, "netns", s.NetNS, "side", "client", "peer", s.Address, "port", s.Port)
}

// Asks reports whether a program of this server asks another one.
func (s *HTTPServer) Asks(other *HTTPServer) bool {
	if !s.Own || other.Own {
		return false
	}
	return slices.ContainsFunc(other.RequestRows, func(r *diagnose.Row) bool {
		return slices.ContainsFunc(s.RequestRows, func(own *diagnose.Row) bool {
			return own.Word("pid") == r.Word("pid")
		})
	})
}

// Mean returns the mean time of an answer in s over the cells in mask; 0 without answers.
func (s *HTTPServer) Mean(t *diagnose.Table, mask []bool) float64 {
	n := t.Part(s.Answers, mask)
	if !(n > 0) {
		return 0
	}
	return t.Part(s.Time, mask) / n
}
