package diagnose

import (
	"fmt"
	"strconv"
)

// listenLost: connections a second that found no room. A burst of a moment is a remark; what goes on is a fault.
const listenLost = 0.5

// tcpListenOverflow finds servers that accept connections more slowly than they come.
func tcpListenOverflow() Rule {
	return Rule{
		ID: "tcp-listen-overflow", Checks: "listen queues",
		Needs: []string{protocolEvents},
		Uses:  []string{listenQueue, listenLimit},
		Check: func(l *Look) {
			t := l.Table(protocolEvents)
			told := false
			for _, netns := range t.Keys("netns") {
				over := t.One("netns", netns, "protocol", "TcpExt", "counter", "ListenOverflows")
				drops := t.One("netns", netns, "protocol", "TcpExt", "counter", "ListenDrops")
				if over.Mean(nil) == over.Mean(nil) || drops.Mean(nil) == drops.Mean(nil) {
					told = true
				}
				row := over
				if !(or(over.Mean(nil), 0) >= or(drops.Mean(nil), 0)) {
					row = drops
				}
				lost := 0.0
				for c, sec := range t.Seconds {
					lost += or(row.At(c), 0) * sec
				}
				s, ok := lasting(t, known(row), func(c int) bool { return row.At(c) >= listenLost })
				if ok {
					accuseListener(l, netns, row, over, drops, s, true)
				} else if lost >= 10 && s.of >= leastSeconds {
					accuseListener(l, netns, row, over, drops, s, false)
				}
			}
			if !told {
				l.Unchecked("ListenOverflows is not among the counters")
			}
		},
	}
}

func accuseListener(l *Look, netns string, row, over, drops *Row, s spell, lasts bool) {
	t := l.Table(protocolEvents)
	q, limits := l.Table(listenQueue), l.Table(listenLimit)
	// The listener: whose queue is full. A queue over its limit by one is what the kernel calls full.
	var who *Row
	fullest, limit := 0.0, 0.0
	for _, r := range q.Where("netns", netns) {
		lim := limits.One("netns", netns, "local", r.Word("local"), "localport", r.Word("localport"), "pid", r.Word("pid")).Max()
		if most := r.Max(); lim >= 0 && most >= 1 && most >= lim && most/max(lim, 1) > fullest {
			who, fullest, limit = r, most/max(lim, 1), lim
		}
	}
	rate := row.Part(s.mask)
	severity, confidence := Medium, 0.85
	when := "for " + s.String()
	if lasts {
		severity, confidence = High, 0.9
	} else {
		when = fmt.Sprintf("in %s of %s s", seconds(s.held), seconds(s.of))
	}
	culprit, identity := Culprit{Kind: "host", Name: "a listener", NetNS: netns}, slot(netns, "listener")
	name := "A server" + inside(netns)
	if who != nil {
		pid, _ := strconv.Atoi(who.Word("pid"))
		process := who.Word("process")
		culprit, identity = Culprit{Kind: "process", Name: process, PID: pid, NetNS: netns, Local: plainAddress(who.Word("local")) + ":" + who.Word("localport")}, slot(netns, process+":"+who.Word("localport"))
		name = named(process, pid) + " on port " + clean(who.Word("localport")) + inside(netns)
	}
	f := l.Found(identity, severity, confidence, culprit, fmt.Sprintf("%s accepts too slowly: %s connection attempts a second find its queue full, %s.", name, count(rate), when))
	for _, x := range []struct {
		r    *Row
		text string
	}{{over, "%s connections a second found the accept queue full"}, {drops, "%s connection attempts a second were dropped at a listener"}} {
		if v := x.r.Part(s.mask); v > 0 {
			f.proof(t, s, x.r.Sentence(), v, t.Unit, fmt.Sprintf(x.text, count(v)))
		}
	}
	if who != nil {
		f.proof(q, s, who.Sentence(), who.Max(), q.Unit, fmt.Sprintf("up to %s connections wait to be accepted, %s may", count(who.Max()), count(limit))).than(limit, "limit")
		f.explains(1)
	} else {
		f.but(0.1, "Which listener it is could not be seen: no queue was full at a reading.")
	}
	if c := t.One("netns", netns, "protocol", "TcpExt", "counter", "SyncookiesSent"); c.Part(s.mask) > 0 {
		f.proof(t, s, c.Sentence(), c.Part(s.mask), t.Unit, fmt.Sprintf("%s SYN cookies a second were sent: attempts came faster than they were completed", count(c.Part(s.mask))))
	}
	f.Verify = within(netns, "ss -tln") + "; " + within(netns, "nstat -az TcpExtListenOverflows TcpExtListenDrops")
	f.covering("tcp-retransmits", func(o *Finding) bool { return o.Culprit.NetNS == netns })
}
