package captured

import (
	"regexp"
	"strings"
)

// phrases are lines of netstat -s of Linux, by what stands after the number.
func phrases() map[string]string {
	return map[string]string{
		"segments received": "InSegs", "segments sent out": "OutSegs",
		"segments send out": "OutSegs", "segments retransmitted": "RetransSegs",
		"segments retransmited": "RetransSegs", "bad segments received": "InErrs",
		"times the listen queue of a socket overflowed":                      "ListenOverflows",
		"SYNs to LISTEN sockets dropped":                                     "ListenDrops",
		"SYNs to LISTEN sockets ignored":                                     "ListenDrops",
		"packet receive errors":                                              "UdpInErrors",
		"receive buffer errors":                                              "UdpRcvbufErrors",
		"packets received":                                                   "InDatagrams",
		"packets pruned from receive queue because of socket buffer overrun": "PruneCalled",
		"total packets received":                                             "InReceives",
	}
}

var namedCounter = regexp.MustCompile(`\b([a-z][A-Za-z0-9]+)\s*=\s*(\d+)\b`)

// protocol reads counters of netstat -s (Linux, Solaris), nstat and ss -s.
func (r *reader) protocol(line string, fields []string) bool {
	if len(fields) > 1 && strings.Trim(fields[0], "0123456789") == "" {
		if name, ok := r.phrases[strings.Join(fields[1:], " ")]; ok {
			r.counter("netstat", name, fields[0])
			return true
		}
	}
	if len(fields) == 2 && strings.HasPrefix(fields[0], "TCP") &&
		strings.HasSuffix(fields[0], ":") {
		if _, ok := number(fields[1]); ok {
			r.counter("netstat", strings.TrimSuffix(fields[0], ":"), fields[1])
			return true
		}
	}
	if len(fields) == 3 && (strings.HasPrefix(fields[0], "Tcp") ||
		strings.HasPrefix(fields[0], "Udp") || strings.HasPrefix(fields[0], "Ip")) {
		if _, ok := number(fields[1]); ok {
			name := strings.TrimPrefix(strings.TrimPrefix(fields[0], "TcpExt"), "Tcp")
			r.counter("nstat", name, fields[1])
			return true
		}
	}
	if !containsAny(line, "=", "timewait") {
		return false
	}
	if m := socketSummary.FindStringSubmatch(line); m != nil {
		r.counter("ss", "tcp estab", m[1])
		r.counter("ss", "tcp timewait", m[2])
		return true
	}
	return r.solarisCounters(line)
}

var socketSummary = regexp.MustCompile(`^TCP: \d+ \(estab (\d+),.* timewait (\d+)`)

// solarisCounters reads "tcpRetransSegs = 123   tcpRetransBytes = 456".
func (r *reader) solarisCounters(line string) bool {
	names := map[string]string{"tcpOutDataSegs": "OutSegs", "tcpRetransSegs": "RetransSegs",
		"tcpListenDrop": "ListenOverflows", "tcpListenDropQ0": "ListenDrops",
		"tcpInSegs": "InSegs", "udpInOverflows": "UdpRcvbufErrors",
		"udpInDatagrams": "InDatagrams"}
	found := false
	for _, m := range namedCounter.FindAllStringSubmatch(line, -1) {
		if name, ok := names[m[1]]; ok {
			r.counter("netstat", name, m[2])
			found = true
		} else if strings.HasPrefix(m[1], "tcp") || strings.HasPrefix(m[1], "udp") ||
			strings.HasPrefix(m[1], "ip") {
			found = true
		}
	}
	return found
}

func (r *reader) counter(tool, name, value string) {
	r.put(r.block(Counters, tool, "name", "value"), name, value)
}

var (
	iftopRow = regexp.MustCompile(
		`^(?:\d+\s+)?(\S+)\s+(=>|<=)\s+([\d.,]+\s?[KMGT]?b)\s+([\d.,]+\s?[KMGT]?b)`)
	iftopTotal = regexp.MustCompile(
		`^Total (send|receive) rate:\s+([\d.,]+\s?[KMGT]?b)\s+([\d.,]+\s?[KMGT]?b)`)
)

// bits parses a rate of iftop, "991Mb" or "0.99Gb", to bit/s. iftop's prefixes are powers of 1024
// in versions of before 1.0pre3 and of 1000 after it; 1000 is assumed.
func bits(s string) string {
	s = strings.TrimSuffix(strings.ReplaceAll(s, " ", ""), "b")
	scale := map[byte]float64{'K': 1e3, 'M': 1e6, 'G': 1e9, 'T': 1e12}
	factor := 1.0
	if s != "" && scale[s[len(s)-1]] > 0 {
		factor = scale[s[len(s)-1]]
		s = s[:len(s)-1]
	}
	v, ok := number(s)
	if !ok {
		return ""
	}
	return formatNumber(v * factor)
}

// iftop reads the text output and the screen of iftop.
func (r *reader) iftop(line string, _ []string) bool {
	if d, ok := strings.CutPrefix(line, "interface:"); ok {
		r.facts["link"] = strings.TrimSpace(d)
		return true
	}
	if !containsAny(line, "=>", "<=", "Total ") {
		return false
	}
	if m := iftopTotal.FindStringSubmatch(line); m != nil {
		t := r.block(Flows, "iftop", "from", "to", "rate")
		t.Subject = r.facts["link"]
		r.put(t, "total "+m[1], "", bits(m[2]))
		return true
	}
	m := iftopRow.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	t := r.block(Flows, "iftop", "from", "to", "rate")
	t.Subject = r.facts["link"]
	if m[2] == "=>" {
		r.facts["from"] = m[1]
		r.put(t, m[1], "", bits(m[3]))
		return true
	}
	if n := len(t.Rows); n > 0 && t.Rows[n-1].Cells[1] == "" {
		t.Rows[n-1].Cells[1] = m[1]
	}
	r.put(t, m[1], r.facts["from"], bits(m[3]))
	return true
}

var iperfRow = regexp.MustCompile(
	`([\d.,]+)\s*-\s*([\d.,]+)\s+sec\s+[\d.,]+ \w?Bytes\s+([\d.,]+) ([KMG]?)bits/sec(?:\s+(\d+))?`)

// throughput reads results of iperf3, iperf and netperf.
func (r *reader) throughput(line string, fields []string) bool {
	if strings.Contains(line, "STREAM TEST") {
		r.facts["netperf"] = "yes"
		return true
	}
	var m []string
	if strings.Contains(line, "bits/sec") {
		m = iperfRow.FindStringSubmatch(line)
	}
	if m != nil {
		v, ok := number(m[3])
		if !ok {
			return false
		}
		v *= map[string]float64{"": 1, "K": 1e3, "M": 1e6, "G": 1e9}[m[4]]
		r.put(r.block(Throughput, "iperf", "rate"), formatNumber(v))
		return true
	}
	if (r.facts["netperf"] != "" || strings.Contains(r.command, "netperf")) && len(fields) == 5 {
		for _, f := range fields {
			if _, ok := number(f); !ok {
				return false
			}
		}
		v, _ := number(fields[4])
		r.put(r.block(Throughput, "netperf", "rate"), formatNumber(v*1e6))
		return true
	}
	return false
}
