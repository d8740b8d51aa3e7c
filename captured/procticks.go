package captured

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	statRow    = regexp.MustCompile(`^cpu(\d*)((?: \d+){7,10})$`)
	softnetRow = regexp.MustCompile(`^[0-9a-f]{8}(?: [0-9a-f]{8}){8,14}$`)
	socketLine = regexp.MustCompile(`^(?:ESTAB|CLOSE-WAIT|FIN-WAIT-1) (\d+) (\d+) (\S+) (\S+)`)
	socketInfo = regexp.MustCompile(`\b(?:cubic|bbr|reno|dctcp|vegas|htcp|bic)\b.*\brtt:`)
	limitedFor = regexp.MustCompile(`\b(rwnd_limited|sndbuf_limited):[\d.]+m?s\(([\d.]+)%\)`)
	rttOf      = regexp.MustCompile(`\brtt:([\d.]+)/`)
	resent     = regexp.MustCompile(`\bretrans:\d+/(\d+)`)
	segsOut    = regexp.MustCompile(`\bsegs_out:(\d+)`)
)

// snapshot returns the table of a file of counters. A key that repeats begins the next snapshot.
func (r *reader) snapshot(kind Kind, tool, key string, columns ...string) *Table {
	t := r.block(kind, tool, columns...)
	for _, row := range t.Rows {
		if row.Cells[0] == key {
			delete(r.open, tool+" "+string(kind))
			return r.block(kind, tool, columns...)
		}
	}
	return t
}

// ticks reads /proc/stat, diskstats, net/softnet_stat and the swap counters of vmstat.
func (r *reader) ticks(line string, fields []string) bool {
	if m := statRow.FindStringSubmatch(line); m != nil {
		cells := append([]string{m[1]}, strings.Fields(m[2])...)
		if m[1] == "" {
			cells[0] = "all"
		}
		cells = append(cells, "0", "0", "0")[:9]
		r.put(r.snapshot(Ticks, "/proc/stat", cells[0], "cpu", "usr", "nice", "sys", "idle",
			"iowait", "irq", "soft", "steal"), cells...)
		return true
	}
	if len(fields) >= 9 && len(fields[0]) == 8 && softnetRow.MatchString(line) {
		cells := []string{""}
		for _, f := range fields[:3] {
			n, _ := strconv.ParseUint(f, 16, 32)
			cells = append(cells, strconv.FormatUint(n, 10))
		}
		t := r.block(Packets, "/proc/net/softnet_stat", "cpu", "processed", "dropped", "squeezed")
		cells[0] = strconv.Itoa(len(t.Rows))
		r.put(t, cells...)
		return true
	}
	if n := len(fields); n >= 14 && n <= 20 && allWhole(fields[3:]) && allWhole(fields[:2]) {
		if _, is := number(fields[2]); !is {
			r.put(r.snapshot(DiskTicks, "/proc/diskstats", fields[2], "device", "reads", "readms",
				"writes", "writems", "busyms", "queuems"), fields[2], fields[3], fields[6],
				fields[7], fields[10], fields[12], fields[13])
			return true
		}
	}
	if len(fields) == 2 && (fields[0] == "pswpin" || fields[0] == "pswpout") {
		r.put(r.snapshot(Counters, "/proc/vmstat", fields[0], "name", "value"), fields...)
		return true
	}
	return false
}

// interrupts reads /proc/interrupts: for each interrupt the CPU that served most of them.
func (r *reader) interrupts(line string, fields []string) bool {
	if strings.HasPrefix(line, "CPU0 ") || line == "CPU0" {
		n := 0
		for _, f := range fields {
			if strings.HasPrefix(f, "CPU") && allWhole([]string{f[3:]}) {
				n++
			}
		}
		if n == len(fields) {
			r.facts["cpus"] = strconv.Itoa(n)
			return true
		}
	}
	n, err := strconv.Atoi(r.facts["cpus"])
	if err != nil || len(fields) < n+2 || !strings.HasSuffix(fields[0], ":") ||
		!allWhole(fields[1:n+1]) {
		return false
	}
	most, cpu := -1.0, 0
	for i, f := range fields[1 : n+1] {
		if v, ok := number(f); ok && v > most {
			most, cpu = v, i
		}
	}
	if most > 0 && allWhole([]string{strings.TrimSuffix(fields[0], ":")}) {
		r.put(r.block(Handlers, "/proc/interrupts", "irq", "cpu", "handler"),
			strings.TrimSuffix(fields[0], ":"), strconv.Itoa(cpu), fields[len(fields)-1])
	}
	return true
}

func allWhole(fields []string) bool {
	for _, f := range fields {
		if strings.Trim(f, "0123456789") != "" {
			return false
		}
	}
	return true
}

// socket reads connections of ss -ti: a line with queues and addresses, then one of TCP's state.
func (r *reader) socket(line string, _ []string) bool {
	if m := socketLine.FindStringSubmatch(line); m != nil {
		t := r.block(Sockets, "ss", "peer", "local", "recvq", "sendq", "rwnd", "sndbuf", "rtt",
			"resent", "sent")
		r.put(t, m[4], m[3], m[1], m[2], "", "", "", "", "")
		if !socketInfo.MatchString(line) {
			return true
		}
	}
	t := r.open["ss "+string(Sockets)]
	if t == nil || !strings.Contains(line, "rtt:") || !socketInfo.MatchString(line) {
		return false
	}
	row := t.Rows[len(t.Rows)-1]
	for _, m := range limitedFor.FindAllStringSubmatch(line, -1) {
		row.Cells[t.index(strings.TrimSuffix(m[1], "_limited"))] = m[2]
	}
	for name, re := range map[string]*regexp.Regexp{"rtt": rttOf, "resent": resent,
		"sent": segsOut} {
		if m := re.FindStringSubmatch(line); m != nil {
			row.Cells[t.index(name)] = m[1]
		}
	}
	return true
}
