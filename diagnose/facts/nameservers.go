package facts

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
)

// A NameServer is a name server as the lookups of programs show it, those of one network namespace.
type NameServer struct {
	NetNS, Address string

	// Queries, Answers and Failures are per second, by cell; Time is the seconds that the answers
	// of a second took together. Failures are answers with SERVFAIL, REFUSED, FORMERR or NOTIMP.
	Queries, Answers, Failures, Time []float64

	QueryRows, AnswerRows, TimeRows []*diagnose.Row
}

// mostNameServers is how many name servers a program asks at most that has them configured. One
// that asks more resolves names itself, and asks the servers of each name's owner, some of them far
// away or broken.
const mostNameServers = 6

// NameServers returns the name servers that programs ask, those of this machine (loopback) last.
func NameServers(l *diagnose.Look) []*NameServer {
	queries := l.Table(DNSQueries)
	asks := map[string]map[string]bool{}
	for _, r := range queries.Rows {
		pid := r.Word("pid")
		if asks[pid] == nil {
			asks[pid] = map[string]bool{}
		}
		asks[pid][r.Word("server")] = true
	}
	at := map[[2]string]*NameServer{}
	var all []*NameServer
	of := func(r *diagnose.Row) *NameServer {
		k := [2]string{r.Word("netns"), PlainAddress(r.Word("server"))}
		if _, err := netip.ParseAddr(k[1]); err != nil ||
			len(asks[r.Word("pid")]) > mostNameServers {
			return nil
		}
		s := at[k]
		if s == nil {
			n := len(queries.Seconds)
			s = &NameServer{NetNS: k[0], Address: k[1], Queries: make([]float64, n),
				Answers: make([]float64, n), Failures: make([]float64, n),
				Time: make([]float64, n)}
			at[k] = s
			all = append(all, s)
		}
		return s
	}
	for _, r := range queries.Rows {
		if s := of(r); s != nil {
			addTo(s.Queries, r)
			s.QueryRows = append(s.QueryRows, r)
		}
	}
	for _, r := range l.Table(DNSAnswers).Rows {
		if s := of(r); s != nil {
			addTo(s.Answers, r)
			if IsDNSFailure(r.Word("code")) {
				addTo(s.Failures, r)
			}
			s.AnswerRows = append(s.AnswerRows, r)
		}
	}
	for _, r := range l.Table(DNSTimes).Rows {
		if s := of(r); s != nil {
			addTo(s.Time, r)
			s.TimeRows = append(s.TimeRows, r)
		}
	}
	slices.SortStableFunc(all, func(a, b *NameServer) int {
		if a.IsLocal() != b.IsLocal() {
			if b.IsLocal() {
				return -1
			}
			return 1
		}
		return cmp.Or(strings.Compare(a.Address, b.Address), strings.Compare(a.NetNS, b.NetNS))
	})
	return all
}

// IsLocal reports whether the server is a resolver of this machine, which asks others.
func (s *NameServer) IsLocal() bool {
	a, err := netip.ParseAddr(s.Address)
	return err == nil && a.IsLoopback()
}

// Culprit returns the server as the culprit of a finding.
func (s *NameServer) Culprit() diagnose.Culprit {
	return diagnose.Culprit{Kind: "peer", Name: s.Address, NetNS: s.NetNS, Peer: s.Address}
}

// Identity returns the part of the identity of a finding that no other server has.
func (s *NameServer) Identity() string { return phrase.Identity(s.NetNS, s.Address) }

// String returns "10.0.0.2 in namespace pod".
func (s *NameServer) String() string {
	return phrase.Clean(s.Address) + phrase.NamespaceSuffix(s.NetNS)
}

// IsDNSFailure reports whether the code of an answer means that the server failed. NXDOMAIN does
// not: programs ask for names that do not exist, as where domains are searched.
func IsDNSFailure(code string) bool {
	return slices.Contains([]string{"SERVFAIL", "REFUSED", "FORMERR", "NOTIMP"}, code)
}
