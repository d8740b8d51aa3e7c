package captured

import (
	"regexp"
	"strconv"
	"strings"
)

// A block reads a line of a tool that prints no plain table. It reports whether the line is its.
type block func(r *reader, line string, fields []string) bool

func blocks() []block {
	return []block{
		(*reader).log, (*reader).bucket, (*reader).stack, (*reader).lockstat, (*reader).intrstat,
		(*reader).handlers, (*reader).ticks, (*reader).interrupts,
		(*reader).listed, (*reader).socket, (*reader).average, (*reader).listing,
		(*reader).loadAverage,
		(*reader).topLine, (*reader).ethtool, (*reader).dladm, (*reader).ifconfig, (*reader).ipLink,
		(*reader).protocol, (*reader).iftop, (*reader).throughput, (*reader).procFile,
		(*reader).profile, (*reader).iotop, (*reader).dstat, (*reader).nfsiostat,
		(*reader).perfStat, (*reader).slabtop, (*reader).qdisc, (*reader).numaStat, (*reader).lsof,
		(*reader).lscpu,
	}
}

// bucket reads a row of quantize or lquantize: "8192 |@@@@@@ 65".
func (r *reader) bucket(line string, fields []string) bool {
	if strings.HasPrefix(line, "value ") && strings.Contains(line, "Distribution") {
		r.stackEnds()
		r.table = nil
		delete(r.open, "dtrace bucket")
		return true
	}
	left, right, ok := strings.Cut(line, "|")
	if !ok || strings.Contains(right, "|") {
		r.keyLine(line, fields)
		return false
	}
	left = strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(left), "<>= "))
	value, isNumber := number(left)
	right = strings.TrimLeft(strings.TrimSpace(right), "@ ")
	count, isCount := number(right)
	if !isNumber || !isCount || strings.ContainsAny(right, " .") {
		return false
	}
	t := r.open["dtrace bucket"]
	if t != nil && len(t.Rows) > 0 && t.Rows[len(t.Rows)-1].Num("value") >= value {
		delete(r.open, "dtrace bucket")
	}
	t = r.block(Buckets, "dtrace", "value", "count")
	if len(t.Rows) == 0 {
		t.Subject, t.ByShape = r.facts["key"], r.command == ""
	}
	r.put(t, left, strconv.FormatFloat(count, 'f', -1, 64))
	return true
}

// keyLine keeps a short line: it may be the key of the distribution below it.
func (r *reader) keyLine(line string, fields []string) {
	if len(fields) <= 4 && len(line) < 80 && !strings.HasPrefix(line, "^") && r.facts != nil {
		if _, is := number(fields[0]); !is {
			r.facts["key"] = line
		}
	}
}

// stack reads a stack of DTrace: frames "module`function+0x1f", then a number.
func (r *reader) stack(line string, fields []string) bool {
	if len(fields) == 1 && isFrame(fields[0]) {
		if frames := r.facts["frames"]; len(frames) < 16<<10 {
			r.facts["frames"] = frames + line + ";"
		}
		return true
	}
	frames := r.facts["frames"]
	if frames == "" {
		return false
	}
	delete(r.facts, "frames")
	if _, is := number(fields[0]); !is || len(fields) != 1 {
		return false
	}
	t := r.block(Stacks, "dtrace", "stack", "count")
	t.Subject = r.facts["function"]
	r.put(t, strings.TrimSuffix(frames, ";"), fields[0])
	return true
}

func (r *reader) stackEnds() { delete(r.facts, "frames") }

// isFrame reports whether a token is a frame: "ip`tcp_connect+0x9f", "libc.so.1`read".
func isFrame(s string) bool {
	module, function, ok := strings.Cut(s, "`")
	return ok && module != "" && function != "" && !strings.ContainsAny(s, "|@{}();'\"")
}

var lockRow = regexp.MustCompile(
	`^(\d+)\s+(\d+)%\s+(\d+)%\s+([\d.,]+)\s+(\d+)\s+(\S+)\s+(\S+)$`)

var lockEvents = regexp.MustCompile(`^([A-Z][\w /-]+): ([\d.,]+) events in ([\d.,]+) seconds`)

// lockstat reads profiles (-I) and contention of lockstat.
func (r *reader) lockstat(line string, _ []string) bool {
	if !containsAny(line, "%", " events in ") {
		return false
	}
	if m := lockEvents.FindStringSubmatch(line); m != nil {
		r.facts["event"], r.facts["events"], r.facts["seconds"] = m[1], m[2], m[3]
		delete(r.open, "lockstat sample")
		delete(r.open, "lockstat lock")
		r.table = nil
		return true
	}
	m := lockRow.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	var t *Table
	if strings.HasPrefix(strings.ToLower(m[6]), "cpu") {
		t = r.block(Samples, "lockstat", "count", "share", "sum", "cpu", "function")
		r.put(t, m[1], m[2], m[3], m[6], m[7])
	} else {
		t = r.block(Locks, "lockstat", "count", "share", "ns", "lock", "function")
		r.put(t, m[1], m[2], m[5], m[6], m[7])
		t.Subject = r.facts["event"]
	}
	if total, ok := number(r.facts["events"]); ok {
		t.Total = total
	}
	return true
}

var intrRow = regexp.MustCompile(`^([A-Za-z_][\w]*)#(\d+)\s*\|(.*)$`)

// intrstat reads "hme#0 | 1232 32.8 | ..."; CPUs are counted over the tables side by side.
func (r *reader) intrstat(line string, fields []string) bool {
	if fields[0] == "device" && strings.Contains(line, "%tim") {
		r.facts["cpu"] = ""
		for _, f := range fields {
			if strings.HasPrefix(f, "cpu") {
				r.facts["cpu"] += strings.TrimPrefix(f, "cpu") + " "
			}
		}
		return true
	}
	if !containsAny(line, "|") {
		return false
	}
	m := intrRow.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	t := r.block(Interrupts, "intrstat", "device", "cpu", "rate", "share")
	cpus := strings.Fields(r.facts["cpu"])
	cells := strings.Fields(strings.ReplaceAll(m[3], "|", " "))
	for i := 0; i+1 < len(cells); i += 2 {
		cpu := strconv.Itoa(i / 2)
		if i/2 < len(cpus) {
			cpu = cpus[i/2]
		}
		if share, ok := number(cells[i+1]); !ok || share > 100 {
			break
		}
		r.put(t, m[1]+m[2], cpu, cells[i], cells[i+1])
	}
	return true
}

// handlers reads rows of mdb's ::interrupts: "67 0x43 6 PCI Edg MSI-X 23 1 - igb_intr_rx".
func (r *reader) handlers(_ string, fields []string) bool {
	if len(fields) < 6 || !strings.HasPrefix(fields[1], "0x") {
		return false
	}
	for i, f := range fields {
		if (f == "MSI-X" || f == "MSI" || f == "Fixed" || f == "IPI") && i+2 < len(fields) {
			t := r.block(Handlers, "mdb ::interrupts", "irq", "cpu", "handler")
			r.put(t, fields[0], fields[i+1], strings.TrimSuffix(fields[len(fields)-1], ","))
			return true
		}
	}
	return false
}

var (
	averageRow = regexp.MustCompile(
		`(?i)\b(?:avg|average|mean)[\w ]*[:=]\s*([\d.,]+)\s*(nsn|ns|us|ms|s)?[ .]*$`)
	probeName = regexp.MustCompile(`([A-Za-z_][\w.]*):entry`)
)

// average reads a mean that a script prints: "average: 2903005 ns".
func (r *reader) average(line string, _ []string) bool {
	if !containsAny(line, "avg", "verage", "mean", "AVG") {
		return false
	}
	m := averageRow.FindStringSubmatch(line)
	if m == nil || strings.Contains(line, "load average") {
		return false
	}
	if _, ok := number(m[1]); !ok {
		return false
	}
	t := r.block(Latencies, "dtrace", "value", "unit")
	t.Subject = r.facts["function"]
	r.put(t, m[1], strings.TrimSuffix(m[2], "n"))
	return true
}

// commandFacts keeps what a command says about its output: the function of a probe.
func (r *reader) commandFacts(command string) {
	if m := probeName.FindStringSubmatch(command); m != nil {
		r.facts["function"] = m[1]
	}
}

// listing reads a count of the lines of a listing, as wc prints it below its command.
func (r *reader) listing(_ string, fields []string) bool {
	if len(fields) > 3 || r.table != nil {
		return false
	}
	var v []float64
	for _, f := range fields {
		n, ok := number(f)
		if !ok || n != float64(int64(n)) || n < 0 {
			return false
		}
		v = append(v, n)
	}
	name := listed(r.command)
	if name == "" && (len(v) != 3 || v[0] < 1000 || v[1] < v[0] || v[2] < 2*v[1]) ||
		name != "" && len(v) == 2 || len(v) == 3 && (v[1] < v[0] || v[2] < v[1]) {
		return false
	}
	t := r.block(Sizes, "wc", "name", "entries")
	t.ByShape = name == ""
	r.put(t, name, fields[0])
	return true
}

// listed returns the name of the kernel table that a command lists; "" when it lists none.
func listed(command string) string {
	f := strings.Fields(command)
	if len(f) == 0 {
		return ""
	}
	flags := ""
	for _, s := range f[1:] {
		if s == "|" {
			break
		}
		if strings.HasPrefix(s, "-") {
			flags += s
		}
	}
	switch {
	case strings.HasSuffix(f[0], "netstat") && strings.Contains(flags, "d"):
		return "dce"
	case strings.HasSuffix(f[0], "netstat") && strings.Contains(flags, "r"):
		return "routes"
	case strings.HasSuffix(f[0], "netstat") && strings.Contains(flags, "a"),
		strings.HasSuffix(f[0], "ss"):
		return "sockets"
	case strings.HasSuffix(f[0], "arp"):
		return "arp"
	case strings.HasSuffix(f[0], "conntrack"), strings.Contains(command, "nf_conntrack"):
		return "conntrack"
	}
	return ""
}
