package captured

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	// perfRow is a row of perf report --stdio and of perf top, with or without the command, and
	// with the share of callees before its own:
	//
	//	2.99%  culprit  [kernel.kallsyms]  [k] vsnprintf
	//	41.20%  12.40%  dd  [kernel.kallsyms]  [k] ext4_find_extent
	//	12.34%  [kernel]  [k] native_write_msr
	perfRow = regexp.MustCompile(`^(\d{1,3}\.\d+)%\s+(?:(\d{1,3}\.\d+)%\s+)?\S.*?\s*\[([kgGHu.])\]` +
		`\s+(\S.*?)(?:\s+-\s+-)?$`)

	// iotopRow is a row of iotop -b:
	//
	//	4711 be/4 root  0.00 B/s  12.34 M/s  0.00 % 95.12 % dd if=/dev/zero of=x
	iotopRow = regexp.MustCompile(`^(\d+) +(\w\w/\d|idle) +(\S+) +([\d.]+) ([BKMGT])/s +` +
		`([\d.]+) ([BKMGT])/s +(?:([\d.]+) % +([\d.]+) %|\?unavailable\?) +(\S.*)$`)
)

// profile reads perf report --stdio and perf top. Functions of programs are "(usermode)", as those
// of lockstat. The numbers of samples are percent.
func (r *reader) profile(line string, _ []string) bool {
	if !strings.Contains(line, "%") {
		return false
	}
	m := perfRow.FindStringSubmatch(strings.TrimSpace(line))
	if m == nil {
		return false
	}
	share, _ := number(m[1])
	if last, ok := number(r.facts["perf share"]); ok && share > last {
		delete(r.open, "perf sample") // rows are sorted: another profile begins
	}
	r.facts["perf share"] = m[1]
	if m[2] != "" {
		share, _ = number(m[2])
	}
	function := m[4]
	if m[3] == "." || m[3] == "u" {
		function = "(usermode)"
	}
	t := r.block(Samples, "perf", "count", "function")
	t.Total = 100
	r.put(t, strconv.FormatFloat(share, 'f', 2, 64), function)
	return true
}

// iotop reads a row of iotop -b.
func (r *reader) iotop(line string, _ []string) bool {
	if !strings.Contains(line, "/s ") {
		return false
	}
	m := iotopRow.FindStringSubmatch(strings.TrimSpace(line))
	if m == nil {
		return false
	}
	bytes := func(v, unit string) string {
		n, _ := number(v + strings.TrimPrefix(unit, "B"))
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	r.put(r.block(Processes, "iotop", "pid", "class", "user", "read", "write", "iowait", "command"),
		m[1], m[2], m[3], bytes(m[4], m[5]), bytes(m[6], m[7]), m[9], m[10])
	return true
}

// dstat reads the first group of dstat, CPU time in percent, of lines with bars between groups:
//
//	usr sys idl wai stl| read  writ| recv  send
//	  1   2  95   2   0|  12k  100k|   0     0
func (r *reader) dstat(line string, _ []string) bool {
	group, _, _ := strings.Cut(line, "|")
	f := strings.Fields(group)
	if len(f) >= 5 && strings.Join(f[:4], " ") == "usr sys idl wai" {
		delete(r.open, "dstat cpu")
		r.table, r.facts["dstat"] = nil, strings.Join(f[4:], " ")
		return true
	}
	last, ok := r.facts["dstat"]
	if !ok || !strings.Contains(line, "|") || len(f) != 4+len(strings.Fields(last)) ||
		!allWhole(f) {
		return false
	}
	steal := "0"
	for i, name := range strings.Fields(last) {
		if name == "stl" {
			steal = f[4+i]
		}
	}
	r.put(r.block(CPUs, "dstat", "cpu", "usr", "sys", "idle", "iowait", "steal"), "all", f[0], f[1],
		f[2], f[3], steal)
	return true
}

var (
	nfsMount = regexp.MustCompile(`^(\S+:\S*) mounted on (\S+):$`)
	nfsWay   = regexp.MustCompile(`^(read|write):\s+ops/s\s`)
	nfsRow   = regexp.MustCompile(`^([\d.]+)\s+[\d.]+\s+[\d.]+\s+([\d.]+) \([\d.]+%\)\s+` +
		`([\d.]+)\s+([\d.]+)`)
)

// nfsiostat reads the output of nfsiostat: a mount, and a row each for reads and writes.
func (r *reader) nfsiostat(line string, _ []string) bool {
	line = strings.TrimSpace(line)
	if m := nfsMount.FindStringSubmatch(line); m != nil {
		r.facts["nfs server"], r.facts["nfs mount"], r.facts["nfs way"] = m[1], m[2], ""
		return true
	}
	if r.facts["nfs mount"] == "" {
		return false
	}
	if m := nfsWay.FindStringSubmatch(line); m != nil {
		r.facts["nfs way"] = m[1]
		return true
	}
	m := nfsRow.FindStringSubmatch(line)
	if m == nil || r.facts["nfs way"] == "" {
		return strings.HasPrefix(line, "op") && strings.Contains(line, "rpc bklog")
	}
	t := r.block(NFS, "nfsiostat", "mount", "server", "way", "ops", "retrans", "rtt", "exe")
	r.put(t, r.facts["nfs mount"], r.facts["nfs server"], r.facts["nfs way"], m[1], m[2], m[3],
		m[4])
	r.facts["nfs way"] = ""
	return true
}
