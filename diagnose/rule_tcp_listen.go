package diagnose

import (
	"fmt"
	"strconv"
)

// listenLost: connections a second that found no room. A burst of a moment is a remark; what goes on is a fault.
const listenLost = 0.5

// halfRate: attempts a second that nobody completes. Scanners leave some behind on every machine that the internet sees.
const halfRate = 10.0

// tcpListenOverflow finds servers that accept connections more slowly than they come.
func tcpListenOverflow() Rule {
	return Rule{
		ID: "tcp-listen-overflow", Checks: "listen queues",
		Needs: []string{protocolEvents},
		Uses:  []string{listenQueue, listenLimit, deviceAddress, descriptors, descriptorLimit},
		Check: func(l *Look) {
			t := l.Table(protocolEvents)
			told := false
			for _, netns := range t.Keys("netns") {
				over := t.One("netns", netns, "protocol", "TcpExt", "counter", "ListenOverflows")
				drops := t.One("netns", netns, "protocol", "TcpExt", "counter", "ListenDrops")
				if over.Mean(nil) == over.Mean(nil) || drops.Mean(nil) == drops.Mean(nil) {
					told = true
				}
				half := halfOpen(t, netns)
				if s, ok := lasting(t, known(half), func(c int) bool { return half.At(c) >= halfRate }); ok {
					accuseHalfOpen(l, netns, half, s)
				}
				// ListenDrops has what found either queue full, and what was dropped for other reasons. Only ListenOverflows is the
				// accept queue: a flood of SYNs is no server that accepts too slowly.
				row := over
				if row == nil || row.Mean(nil) != row.Mean(nil) {
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
	files, most := openFiles(l, culprit.PID)
	noFile := most > 0 && files.Max() >= most-1
	claim := fmt.Sprintf("%s accepts too slowly: %s connection attempts a second find its queue full, %s.", name, count(rate), when)
	if noFile {
		open := count(files.Max()) + " of " + count(most) + " file descriptors are open, the most it may have"
		if files.Max() > most { // a limit that was lowered, or descriptors above it that were inherited
			open = count(files.Max()) + " file descriptors are open, and its limit is " + count(most)
		}
		claim = fmt.Sprintf("%s can't accept: %s (EMFILE); %s connection attempts a second find its queue full, %s.",
			name, open, count(rate), when)
	}
	f := l.Found(identity, severity, confidence, culprit, claim)
	for _, x := range []struct {
		r    *Row
		text string
	}{{over, "%s connections a second found the accept queue full"}, {drops, "%s connection attempts a second were dropped at a listener"}} {
		if v := x.r.Part(s.mask); v > 0 {
			f.proof(t, s, x.r.Sentence(), v, t.Unit, fmt.Sprintf(x.text, count(v)))
		}
	}
	switch {
	case noFile:
		open := l.Table(descriptors)
		f.proof(open, s, files.Sentence(), files.Max(), open.Unit, fmt.Sprintf("up to %s file descriptors of the process are open", count(files.Max()))).than(most, "limit")
		f.Fix = &Fix{fmt.Sprintf("prlimit --pid %d --nofile=%.0f", culprit.PID, 4*most), fmt.Sprintf("prlimit --pid %d --nofile=%.0f", culprit.PID, most),
			"low: until the process ends; a process that leaks descriptors fills any limit, and its service file has the lasting one (LimitNOFILE=)"}
	case most > 0 || culprit.PID == 0:
	default:
		f.but(0, "A server without a free file descriptor (EMFILE) looks the same, and how many it has open was not seen: compare it with its limit.")
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
	if culprit.PID > 0 {
		f.Verify += fmt.Sprintf("; ls /proc/%[1]d/fd | wc -l; grep 'open files' /proc/%[1]d/limits", culprit.PID)
	}
	f.coveringAttempts(l, netns)
	// Attempts that wait for room in the accept queue stay half open, and that queue runs full as well.
	f.covering("tcp-listen-overflow", func(o *Finding) bool { return o.Culprit.NetNS == netns && o.Culprit.Name == halfOpened })
}

// halfOpened is what accuseHalfOpen accuses.
const halfOpened = "half-open connections"

// coveringAttempts adds what is sent again for a full queue of the namespace: answers of it, and attempts of clients in sight.
func (f *Finding) coveringAttempts(l *Look, netns string) {
	where := addresses(l.Table(deviceAddress))
	f.covering("tcp-retransmits", func(o *Finding) bool {
		return o.Culprit.NetNS == netns || o.Culprit.Peer != "" && len(where[place{netns, plainAddress(o.Culprit.Peer)}]) > 0
	})
}

// Counters of attempts that found the queue of connections that are not completed yet full (tcp_conn_request in net/ipv4/tcp_input.c):
// dropped, or answered by a cookie instead of being kept.
const halfDropped, halfCookie = "TCPReqQFullDrop", "TCPReqQFullDoCookies"

// halfOpen gives the attempts that were dropped or had a cookie that nobody brought back; nil when neither is counted. Where every
// attempt gets a cookie (tcp_syncookies = 2), most are brought back.
func halfOpen(t *Table, netns string) *Row {
	of := func(counter string) *Row { return t.One("netns", netns, "protocol", "TcpExt", "counter", counter) }
	dropped, cookies, back := of(halfDropped), of(halfCookie), of("SyncookiesRecv")
	like := dropped
	if like == nil {
		like = cookies
	}
	if like == nil {
		return nil
	}
	out := &Row{table: t, key: like.key, Values: append([]float64(nil), like.Values...)}
	for c := range out.Values {
		if out.Values[c] == out.Values[c] {
			unanswered := or(cookies.At(c), 0) - or(back.At(c), 0)
			if unanswered < 0.5*or(cookies.At(c), 0) {
				unanswered = 0
			}
			out.Values[c] = or(dropped.At(c), 0) + unanswered
		}
	}
	return out
}

// accuseHalfOpen tells that more connections are asked for than are completed: whoever asks does not answer the answer.
func accuseHalfOpen(l *Look, netns string, half *Row, s spell) {
	t := l.Table(protocolEvents)
	dropped := t.One("netns", netns, "protocol", "TcpExt", "counter", halfDropped)
	cookie := t.One("netns", netns, "protocol", "TcpExt", "counter", halfCookie)
	severity, what := Medium, "answered by SYN cookies"
	if or(dropped.Mean(s.mask), 0) >= 0.5*half.Mean(s.mask) {
		severity, what = High, "dropped"
	}
	f := l.Found(slot(netns, "half-open"), severity, 0.85, Culprit{Kind: "host", Name: halfOpened, NetNS: netns},
		fmt.Sprintf("More connections are asked for%s than are completed: %s attempts a second find the queue of those under way full and are %s, for %s.", inside(netns), count(half.Mean(s.mask)), what, s))
	for _, x := range []struct {
		r    *Row
		text string
	}{{dropped, "%s attempts a second were dropped, since the queue was full and SYN cookies are off"}, {cookie, "%s attempts a second were answered by a SYN cookie"}} {
		if v := x.r.Mean(s.mask); v > 0 {
			f.proof(t, s, x.r.Sentence(), v, t.Unit, fmt.Sprintf(x.text, count(v)))
		}
	}
	f.but(0, "Who asks can't be told: senders of a flood of SYNs write any address into them. Clients behind a path that loses the answers look the same.")
	f.Verify = within(netns, "ss -Htn state syn-recv") + " | head; " + within(netns, "nstat -az "+"TcpExt"+halfDropped+" TcpExt"+halfCookie)
	if severity == High {
		f.Fix = &Fix{within(netns, "sysctl net.ipv4.tcp_syncookies=1"), within(netns, "sysctl net.ipv4.tcp_syncookies=0"), "low: connections by cookie lack some options; the kernel's own value is 1"}
	}
	f.coveringAttempts(l, netns)
}

// openFiles returns the open descriptors of a process and the most it may have; 0 where that was not seen.
func openFiles(l *Look, pid int) (files *Row, most float64) {
	files = l.Table(descriptors).One("pid", strconv.Itoa(pid))
	limit := l.Table(descriptorLimit).One("pid", strconv.Itoa(pid)).Max()
	if pid == 0 || files.Max() != files.Max() || limit != limit {
		return files, 0
	}
	return files, limit
}
