package captured

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

// limitedShare is the share of the time that a connection is limited by a window from which on the
// window is reported, in percent.
const limitedShare = 50

// sockets judges connections that ss -ti prints.
func (s *study) sockets() {
	for _, t := range s.of(Sockets) {
		s.shown["tcp"] = true
		for _, r := range t.Rows {
			switch {
			case r.Num("rwnd") >= limitedShare:
				s.limited(r, "rwnd", fmt.Sprintf("%s reads too slowly: its receive window limits "+
					"the connection for %s of the time", r.Word("peer"), percent(r.Num("rwnd"))))
			case r.Num("sndbuf") >= limitedShare:
				s.limited(r, "sndbuf", fmt.Sprintf("The send buffer limits the connection to %s "+
					"for %s of the time", r.Word("peer"), percent(r.Num("sndbuf"))))
			case r.Num("resent") >= 100 && r.Num("resent") >= threshold.RetransmitHigh*
				r.Num("sent"):
				s.limited(r, "resent", fmt.Sprintf("The path to %s loses packets: %s of %s "+
					"segments were retransmitted", r.Word("peer"), phrase.Count(r.Num("resent")),
					phrase.Count(r.Num("sent"))))
			}
		}
	}
}

func (s *study) limited(r *Row, column, claim string) {
	id := "connection-limited/" + phrase.Clean(r.Word("peer"))
	if s.find1(id) != nil {
		return
	}
	f := s.find("connection-limited", r.Word("peer"), diagnose.Medium, 0.75, diagnose.Culprit{
		Kind: "peer", Name: r.Word("peer"), Local: r.Word("local"), Peer: r.Word("peer")},
		claim+".")
	evidence(f, r, r.Num(column), "1", "%s: %s B unsent or unacknowledged, round trip %s ms",
		r.Word("peer"), phrase.Count(r.Num("sendq")), phrase.Digits(r.Num("rtt")))
	f.Verify = "ss -tin dst " + phrase.Shell(r.Word("peer"))
}

// packets judges the backlog of the CPUs, /proc/net/softnet_stat.
func (s *study) packets() {
	for _, t := range s.of(Packets) {
		for _, r := range t.Rows {
			n := r.Num("dropped")
			if n < leastLosses || n < threshold.DropsShare*r.Num("processed") {
				continue
			}
			f := s.find("net-drops", "backlog-cpu"+r.Word("cpu"), diagnose.Low, 0.7,
				diagnose.Culprit{Kind: "cpu", Name: "CPU " + r.Word("cpu")}, fmt.Sprintf(
					"The backlog of CPU %s dropped %s of %s packets.", r.Word("cpu"),
					phrase.Count(n), phrase.Count(r.Num("processed"))))
			evidence(f, r, n, "packet", "%s packets dropped, %s times squeezed", phrase.Count(n),
				phrase.Count(r.Num("squeezed")))
			caveat(f, "Counters since boot: two readings show whether it goes on.")
			f.Verify = "cat /proc/net/softnet_stat"
			break
		}
	}
}

// fullSockets reports datagrams that found their socket full.
func (s *study) fullSockets(r *Row, lost, all float64) {
	if s.find1("net-drops/udp") != nil {
		return
	}
	f := s.find("net-drops", "udp", diagnose.Medium, 0.7, diagnose.Culprit{Kind: "host",
		Name: "UDP sockets"}, fmt.Sprintf("Programs read UDP sockets too slowly: %s of %s "+
		"datagrams found their socket full.", phrase.Count(lost), phrase.Count(all)))
	evidence(f, r, lost/all, "1", "%s of %s datagrams lost (%s)", phrase.Count(lost),
		phrase.Count(all), phrase.Percent(lost/all))
	caveat(f, "Counters since boot: two readings show whether it goes on.")
	f.Verify = "nstat -az UdpRcvbufErrors UdpInDatagrams; ss -lun"
}
