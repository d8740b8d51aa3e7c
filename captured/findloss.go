package captured

import (
	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"culprit/measure"
	"fmt"
	"slices"
	"strings"
)

// losses finds drops and errors of interfaces.
func (s *study) losses() {
	for _, t := range s.of(Devices) {
		names, by := group(t.measured(), "device")
		for _, name := range names {
			for _, column := range []string{"rxdrops", "txdrops", "rxfifo"} {
				if r := typical(by[name], column); r != nil &&
					r.Num(column) >= threshold.DropsRate {
					s.lossy(r, name, column, r.Num(column), fmt.Sprintf("%s per second",
						phrase.Count(r.Num(column))), diagnose.Medium)
				}
			}
			for _, column := range []string{"rxerrors", "txerrors"} {
				if r := typical(by[name], column); r != nil &&
					r.Num(column) >= threshold.ErrorsRate {
					s.lossy(r, name, column, r.Num(column), fmt.Sprintf("%s per second",
						phrase.Count(r.Num(column))), diagnose.Medium)
				}
			}
		}
	}
	for _, t := range s.of(Totals) {
		for _, r := range t.Rows {
			s.totalLosses(r)
		}
	}
}

const leastLosses = 1000 // packets since boot; fewer are not reported

func (s *study) totalLosses(r *Row) {
	device := r.Word("device")
	if isLoopback(device) {
		return
	}
	for _, column := range []string{"rxdropped", "rxdrops", "rxoverruns", "rxfifo", "rxerrors",
		"txdropped", "txdrops", "txerrors"} {
		all := r.Num(column[:2] + "packets")
		n := r.Num(column)
		if !(n >= leastLosses) || !(n >= threshold.DropsShare*all) {
			continue
		}
		severity := diagnose.Low
		if n >= threshold.DropsPlainShare*all {
			severity = diagnose.Medium
		}
		s.lossy(r, device, column, n, fmt.Sprintf("%s of %s packets (%s)", phrase.Count(n),
			phrase.Count(all), phrase.Percent(n/all)), severity)
	}
}

func (s *study) lossy(
	r *Row, device, column string, n float64, amount string, severity diagnose.Severity,
) {
	if s.find1("net-drops/"+device) != nil {
		return
	}
	what := column[:2] + " " + strings.Replace(column[2:], "fifo", "overruns", 1)
	f := s.find("net-drops", device, severity, 0.75, diagnose.Culprit{Kind: "interface",
		Name: device, Interface: device}, fmt.Sprintf("%s loses packets: %s %s.", device, what,
		amount))
	evidence(f, r, n, string(measure.Packets), "%s: %s %s", device, what, amount)
	if r.Table.Kind == Totals {
		caveat(f, "Counters since boot: two readings some seconds apart show whether it goes on.")
	}
	f.Verify = "ip -s link show " + phrase.Shell(device)
}

// counters returns the last value of each named counter of a table.
func counters(t *Table) map[string]*Row {
	m := map[string]*Row{}
	for _, r := range t.Rows {
		m[r.Word("name")] = r
	}
	return m
}

// tcp judges retransmits and listen queues.
func (s *study) tcp() {
	for _, t := range s.of(Counters) {
		if t.Tool == "sar" {
			s.sarTCP(t)
			continue
		}
		c := counters(t)
		if c["OutSegs"] != nil && c["RetransSegs"] != nil {
			s.retransmits(c["RetransSegs"], c["RetransSegs"].Num("value"),
				c["OutSegs"].Num("value"), true)
		}
		s.listenQueue(c)
		if in, lost := c["InDatagrams"], c["UdpRcvbufErrors"]; in != nil && lost != nil &&
			lost.Num("value") >= leastLosses &&
			lost.Num("value") >= threshold.UDPShare*in.Num("value") {
			s.fullSockets(lost, lost.Num("value"), lost.Num("value")+in.Num("value"))
		}
	}
}

func (s *study) sarTCP(t *Table) {
	r := typical(t.measured(), "RetransSegs/s")
	if r == nil || r.Num("RetransSegs/s") < threshold.RetransmitRate {
		if r != nil {
			s.clear("tcp", "%s retransmits per second (%s)", phrase.Digits(r.Num("RetransSegs/s")),
				r.Place())
		}
		return
	}
	for _, o := range s.of(Counters) {
		if out := typical(o.measured(), "OutSegs/s"); out != nil {
			s.retransmits(r, r.Num("RetransSegs/s"), out.Num("OutSegs/s"), false)
			return
		}
	}
	s.retransmits(r, r.Num("RetransSegs/s"), measure.NaN, false)
}

func (s *study) retransmits(r *Row, again, out float64, since bool) {
	share := again / out
	if share == share && share < threshold.RetransmitShare || since && again < leastLosses {
		s.clear("tcp", "%s of the segments retransmitted (%s)", phrase.Percent(share), r.Place())
		return
	}
	severity := diagnose.Medium
	if share >= threshold.RetransmitHigh && !since {
		severity = diagnose.High
	}
	claim := fmt.Sprintf("TCP retransmits %s of its segments.", phrase.Percent(share))
	if share != share {
		claim = fmt.Sprintf("TCP retransmits %s segments/s.", phrase.Count(again))
	}
	f := s.find("tcp-retransmits", "machine", severity, 0.8,
		diagnose.Culprit{Kind: "host", Name: "network path"}, claim)
	if share == share {
		evidence(f, r, share, "1", "%s of %s segments retransmitted", phrase.Count(again),
			phrase.Count(out))
	} else {
		evidence(f, r, again, "segment/s", "%s segments retransmitted per second",
			phrase.Count(again))
	}
	if since {
		caveat(f, "Counters since boot: nstat shows the present.")
	}
	caveat(f, "The counters do not show the peer: ss -ti or culprit tcp does.")
	f.Verify = "nstat -az TcpRetransSegs TcpOutSegs"
}

func (s *study) listenQueue(c map[string]*Row) {
	for _, name := range []string{"ListenOverflows", "ListenDrops"} {
		r := c[name]
		if r == nil || r.Num("value") == 0 {
			continue
		}
		n := r.Num("value")
		severity := diagnose.Low
		if n >= leastLosses {
			severity = diagnose.Medium
		}
		if i := slices.IndexFunc(s.report.Findings, func(f diagnose.Finding) bool {
			return f.Rule == "tcp-listen-overflow"
		}); i >= 0 { // a list of sockets has named it, or the other counter
			f := &s.report.Findings[i]
			evidence(f, r, n, "event", "%s %s since boot", name, phrase.Count(n))
			return
		}
		f := s.find("tcp-listen-overflow", "machine", severity, 0.75,
			diagnose.Culprit{Kind: "host", Name: "a listener"}, fmt.Sprintf(
				"Connections found the queue of a listener full %s times.", phrase.Count(n)))
		evidence(f, r, n, "event", "%s %s", name, phrase.Count(n))
		caveat(f, "Counters since boot: two readings show whether it goes on.")
		caveat(f, "The counters do not show the listener: in ss -ltn its Recv-Q is at Send-Q.")
		f.Verify = "nstat -az TcpExtListenOverflows; ss -ltn"
	}
}
