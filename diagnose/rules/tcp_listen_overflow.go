package rules

import (
	"fmt"
	"strconv"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// tcpListenOverflow finds servers that accept connections more slowly than they arrive.
func tcpListenOverflow() diagnose.Rule {
	return diagnose.Rule{
		ID: "tcp-listen-overflow", Checks: "listen queues",
		Needs: []string{facts.ProtocolEvents},
		Uses: []string{facts.ListenQueue, facts.ListenLimit, facts.DeviceAddress,
			facts.Descriptors, facts.DescriptorLimit},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.ProtocolEvents)
			counted := false
			for _, netns := range t.Keys("netns") {
				over := t.One("netns", netns, "protocol", "TcpExt", "counter", "ListenOverflows")
				drops := t.One("netns", netns, "protocol", "TcpExt", "counter", "ListenDrops")
				if over.Mean(nil) == over.Mean(nil) || drops.Mean(nil) == drops.Mean(nil) {
					counted = true
				}
				half := halfOpen(t, netns)
				if s, ok := diagnose.Lasting(t, diagnose.HasValue(half), func(c int) bool {
					return half.At(c) >= threshold.HalfRate
				}); ok {
					accuseHalfOpen(l, netns, half, s)
				}
				// ListenDrops counts both full queues, and other drops. Only ListenOverflows is the
				// accept queue: a SYN flood is not a slow server.
				row := over
				if row == nil || row.Mean(nil) != row.Mean(nil) {
					row = drops
				}
				lost := 0.0
				for c, sec := range t.Seconds {
					lost += series.Or(row.At(c), 0) * sec
				}
				s, ok := diagnose.Lasting(t, diagnose.HasValue(row), func(c int) bool {
					return row.At(c) >= threshold.ListenLost
				})
				if ok {
					accuseListener(l, netns, row, over, drops, s, true)
				} else if lost >= 10 && s.Known >= threshold.LeastSeconds {
					accuseListener(l, netns, row, over, drops, s, false)
				}
			}
			if !counted {
				l.Unchecked("the counter ListenOverflows is missing")
			}
		},
	}
}

func accuseListener(l *diagnose.Look, netns string, row, over, drops *diagnose.Row,
	s diagnose.Period, lasts bool) {
	t := l.Table(facts.ProtocolEvents)
	q, limits := l.Table(facts.ListenQueue), l.Table(facts.ListenLimit)
	// The listener with a full queue. The kernel allows one connection above the limit.
	var listener *diagnose.Row
	fullest, limit := 0.0, 0.0
	for _, r := range q.Where("netns", netns) {
		lim := limits.One("netns", netns, "local", r.Word("local"), "localport",
			r.Word("localport"), "pid", r.Word("pid")).Max()
		if most := r.Max(); lim >= 0 && most >= 1 && most >= lim && most/max(lim, 1) > fullest {
			listener, fullest, limit = r, most/max(lim, 1), lim
		}
	}
	rate := row.Part(s.Mask)
	severity, confidence := diagnose.Medium, 0.85
	when := "for " + s.String()
	if lasts {
		severity, confidence = diagnose.High, 0.9
	} else {
		when = fmt.Sprintf("in %s of %s s", phrase.Seconds(s.Held), phrase.Seconds(s.Known))
	}
	culprit, identity := diagnose.Culprit{Kind: "host", Name: "a listener", NetNS: netns},
		phrase.Identity(netns, "listener")
	name := "A server" + phrase.NamespaceSuffix(netns)
	if listener != nil {
		pid, _ := strconv.Atoi(listener.Word("pid"))
		process := listener.Word("process")
		culprit, identity = diagnose.Culprit{Kind: "process", Name: process, PID: pid, NetNS: netns,
			Local: facts.PlainAddress(listener.Word("local")) + ":" + listener.Word("localport")},
			phrase.Identity(netns, process+":"+listener.Word("localport"))
		name = phrase.ProcessName(process, pid) + " on port " +
			phrase.Clean(listener.Word("localport")) + phrase.NamespaceSuffix(netns)
	}
	files, most := openFiles(l, culprit.PID)
	noFile := most > 0 && files.Max() >= most-1
	claim := fmt.Sprintf("%s accepts too slowly: %s connection attempts per second find its queue "+
		"full, %s.", name, phrase.Count(rate), when)
	if noFile {
		open := phrase.Count(files.Max()) + " of " + phrase.Count(most) +
			" file descriptors are open, its limit"
		if files.Max() > most { // the limit was lowered, or descriptors above it were inherited
			open = phrase.Count(files.Max()) + " file descriptors are open, and its limit is " +
				phrase.Count(most)
		}
		claim = fmt.Sprintf("%s cannot accept: %s (EMFILE); %s connection attempts per second "+
			"find its queue full, %s.",
			name, open, phrase.Count(rate), when)
	}
	f := l.Found(identity, severity, confidence, culprit, claim)
	if noFile {
		f.Cover("limit-reached", func(o *diagnose.Finding) bool {
			return o.Severity != diagnose.High && o.Culprit.Kind == "process" &&
				o.Culprit.Name == culprit.Name
		})
	}
	for _, x := range []struct {
		r    *diagnose.Row
		text string
	}{{over, "%s connections per second found the accept queue full"},
		{drops, "%s connection attempts per second were dropped at a listener"}} {
		if v := x.r.Part(s.Mask); v > 0 {
			f.AddEvidence(t, s, x.r.Query(), v, t.Unit, fmt.Sprintf(x.text, phrase.Count(v)))
		}
	}
	switch {
	case noFile:
		open := l.Table(facts.Descriptors)
		f.AddEvidence(open, s, files.Query(), files.Max(), open.Unit,
			fmt.Sprintf("up to %s file descriptors of the process are open",
				phrase.Count(files.Max()))).CompareTo(most, "limit")
		f.Fix = &diagnose.Fix{Command: fmt.Sprintf("prlimit --pid %d --nofile=%.0f", culprit.PID,
			4*most), Undo: fmt.Sprintf("prlimit --pid %d --nofile=%.0f", culprit.PID, most),
			Risk: "low: until the process ends; a process that leaks descriptors reaches any " +
				"limit, and its service file has the permanent one (LimitNOFILE=)"}
	case most > 0 || culprit.PID == 0:
	default:
		f.AddCaveat(0, "A server without a free file descriptor (EMFILE) looks the same, and its "+
			"open ones were not counted: compare them with its limit.")
	}
	if listener != nil {
		f.AddEvidence(q, s, listener.Query(), listener.Max(), q.Unit,
			fmt.Sprintf("up to %s connections waited; the limit is %s",
				phrase.Count(listener.Max()),
				phrase.Count(limit))).CompareTo(limit, "limit")
		f.SetExplains(1)
	} else {
		f.AddCaveat(0.1, "The listener is unknown: no queue was full at a reading.")
	}
	if c := t.One("netns", netns, "protocol", "TcpExt", "counter",
		"SyncookiesSent"); c.Part(s.Mask) > 0 {
		f.AddEvidence(t, s, c.Query(), c.Part(s.Mask), t.Unit,
			fmt.Sprintf("%s SYN cookies per second were sent: attempts arrived faster than they "+
				"completed", phrase.Count(c.Part(s.Mask))))
	}
	f.Verify = phrase.InNamespace(netns, "ss -tln") + "; " +
		phrase.InNamespace(netns, "nstat -az TcpExtListenOverflows TcpExtListenDrops")
	if culprit.PID > 0 {
		f.Verify += fmt.Sprintf("; ls /proc/%[1]d/fd | wc -l; grep 'open files' /proc/%[1]d/limits",
			culprit.PID)
	}
	coverAttempts(f, l, netns)
	coverSilence(f, l, netns, listener.Word("localport"))
	coverFailures(f, l, netns, listener.Word("localport"))
	// Attempts that wait for the accept queue stay half open, so the SYN queue becomes full as
	// well.
	f.Cover("tcp-listen-overflow", func(o *diagnose.Finding) bool {
		return o.Culprit.NetNS == netns && o.Culprit.Name == halfOpened
	})
}

// halfOpened is the culprit of accuseHalfOpen.
const halfOpened = "half-open connections"

// coverAttempts covers retransmits that a full queue of the namespace causes: of its answers, and
// of attempts of visible clients.
func coverAttempts(f *diagnose.Finding, l *diagnose.Look, netns string) {
	where := facts.Addresses(l.Table(facts.DeviceAddress))
	f.Cover("tcp-retransmits", func(o *diagnose.Finding) bool {
		return o.Culprit.NetNS == netns || o.Culprit.Peer != "" &&
			len(where[facts.DeviceID{NetNS: netns, Name: facts.PlainAddress(o.Culprit.Peer)}]) > 0
	})
}

// coverSilence covers connections to a listener with a full queue that nobody acknowledges: their
// attempt is complete for the client only, which sends.
func coverSilence(f *diagnose.Finding, l *diagnose.Look, netns, port string) {
	where := facts.Addresses(l.Table(facts.DeviceAddress))
	f.Cover("tcp-stalled", func(o *diagnose.Finding) bool {
		s, ok := o.Subject.(facts.SilentPeer)
		return ok && port != "" && s.OnlyPort(port) && (s.NetNS == netns ||
			len(where[facts.DeviceID{NetNS: netns, Name: s.Peer}]) > 0)
	})
}

// coverFailures covers attempts of visible clients that nothing answers, since a queue of the
// namespace is full. port is "" where the listener is not known.
func coverFailures(f *diagnose.Finding, l *diagnose.Look, netns, port string) {
	where := facts.Addresses(l.Table(facts.DeviceAddress))
	f.Cover("connections-fail", func(o *diagnose.Finding) bool {
		c, ok := o.Subject.(facts.FailingConnects)
		return ok && c.TimedOut && (port == "" || c.Port == port) &&
			len(where[facts.DeviceID{NetNS: netns, Name: c.Address}]) > 0
	})
}

// Counters of attempts that found the SYN queue full (tcp_conn_request in net/ipv4/tcp_input.c):
// dropped, or answered by a cookie.
const halfDropped, halfCookie = "TCPReqQFullDrop", "TCPReqQFullDoCookies"

// halfOpen returns the attempts that were dropped, or had a cookie that was not returned; nil when
// neither is counted. Where every attempt gets a cookie (tcp_syncookies = 2), most are returned.
func halfOpen(t *diagnose.Table, netns string) *diagnose.Row {
	of := func(counter string) *diagnose.Row {
		return t.One("netns", netns, "protocol", "TcpExt", "counter", counter)
	}
	dropped, cookies, back := of(halfDropped), of(halfCookie), of("SyncookiesRecv")
	like := dropped
	if like == nil {
		like = cookies
	}
	if like == nil {
		return nil
	}
	out := like.With(append([]float64(nil), like.Values...))
	for c := range out.Values {
		if out.Values[c] == out.Values[c] {
			unanswered := series.Or(cookies.At(c), 0) - series.Or(back.At(c), 0)
			if unanswered < 0.5*series.Or(cookies.At(c), 0) {
				unanswered = 0
			}
			out.Values[c] = series.Or(dropped.At(c), 0) + unanswered
		}
	}
	return out
}

// accuseHalfOpen reports that more connections are attempted than completed.
func accuseHalfOpen(l *diagnose.Look, netns string, half *diagnose.Row, s diagnose.Period) {
	t := l.Table(facts.ProtocolEvents)
	dropped := t.One("netns", netns, "protocol", "TcpExt", "counter", halfDropped)
	cookie := t.One("netns", netns, "protocol", "TcpExt", "counter", halfCookie)
	severity, what := diagnose.Medium, "answered by SYN cookies"
	if series.Or(dropped.Mean(s.Mask), 0) >= 0.5*half.Mean(s.Mask) {
		severity, what = diagnose.High, "dropped"
	}
	f := l.Found(phrase.Identity(netns, "half-open"), severity, 0.85,
		diagnose.Culprit{Kind: "host", Name: halfOpened, NetNS: netns},
		fmt.Sprintf("More connections are attempted%s than completed: %s attempts per second find "+
			"the SYN queue full and are %s, for %s.", phrase.NamespaceSuffix(netns),
			phrase.Count(half.Mean(s.Mask)), what, s))
	for _, x := range []struct {
		r    *diagnose.Row
		text string
	}{{dropped, "%s attempts per second were dropped: the queue was full, and SYN cookies are off"},
		{cookie, "%s attempts per second were answered by a SYN cookie"}} {
		if v := x.r.Mean(s.Mask); v > 0 {
			f.AddEvidence(t, s, x.r.Query(), v, t.Unit, fmt.Sprintf(x.text, phrase.Count(v)))
		}
	}
	f.AddCaveat(0, "The senders are unknown: a SYN flood has forged addresses. Clients behind a "+
		"path that loses the answers look the same.")
	f.Verify = phrase.InNamespace(netns, "ss -Htn state syn-recv") + " | head; " +
		phrase.InNamespace(netns, "nstat -az "+"TcpExt"+halfDropped+" TcpExt"+halfCookie)
	if severity == diagnose.High {
		f.Fix = &diagnose.Fix{Command: phrase.InNamespace(netns,
			"sysctl net.ipv4.tcp_syncookies=1"),
			Undo: phrase.InNamespace(netns, "sysctl net.ipv4.tcp_syncookies=0"),
			Risk: "low: connections by cookie lack some options; the default of the " +
				"kernel is 1"}
	}
	coverAttempts(f, l, netns)
	coverFailures(f, l, netns, "")
}

// openFiles returns the open descriptors of a process and their limit; 0 when unknown.
func openFiles(l *diagnose.Look, pid int) (files *diagnose.Row, most float64) {
	files = l.Table(facts.Descriptors).One("pid", strconv.Itoa(pid))
	limit := l.Table(facts.DescriptorLimit).One("pid", strconv.Itoa(pid)).Max()
	if pid == 0 || files.Max() != files.Max() || limit != limit {
		return files, 0
	}
	return files, limit
}
