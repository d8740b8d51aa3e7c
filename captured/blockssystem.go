package captured

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	// perfEvent is a line of perf stat, with the time of perf stat -I in front:
	//
	//	1,204,311,882 cycles # 1.204 GHz (50.02%)
	//	0.500584272 1007.63 msec cpu-clock # 2.015 CPUs utilized
	perfEvent = regexp.MustCompile(`^(?:\d+[.,]\d+ )?(\d[\d.,\x{202f}']*) (?:(msec|Joules) )?` +
		`([a-zA-Z][\w./=,-]*(?::[a-zA-Z]+)?)(?: # .*| \(\d+[.,]\d+%\)| *)$`)

	// slabRow is a row of slabtop: objects, active ones, use, size of one, slabs, objects of a
	// slab, size of the cache and its name.
	slabRow = regexp.MustCompile(
		`^(\d+) (\d+) (\d+)% (\d+[.,]\d+)K (\d+) (\d+) (\d+)K ([A-Za-z_][\w:()-]*)$`)

	qdiscLine = regexp.MustCompile(`^qdisc (\S+) ([0-9a-f]+:) (?:\[\w+\] )?dev (\S+)`)
	qdiscSent = regexp.MustCompile(
		`^Sent (\d+) bytes (\d+) pkts? \(dropped (\d+), overlimits (\d+) requeues (\d+)\)`)
	qdiscLeft = regexp.MustCompile(`^(?:rate \S+ \S+ )?backlog (\w+) (\d+)p requeues`)

	// descriptor is the column FD of lsof.
	descriptor = regexp.MustCompile(`^(?:\d+[rwu]?[a-zA-Z]?|cwd|rtd|txt|mem|DEL|mmap)$`)
)

// perfEvents are the events of perf stat that findings use; others are left out.
func perfEvents() []string {
	return []string{"cycles", "instructions", "task-clock", "cpu-clock", "context-switches",
		"cpu-migrations", "page-faults", "branches", "branch-misses", "cache-references",
		"cache-misses", "LLC-loads", "LLC-load-misses", "dTLB-loads", "dTLB-load-misses",
		"stalled-cycles-backend", "stalled-cycles-frontend", "node-loads", "node-load-misses"}
}

// perfStat reads perf stat: the table, that of -x and that of -I. Events of hybrid CPUs have a
// prefix, "cpu_core/cycles/", and those of user mode a suffix, "cycles:u".
func (r *reader) perfStat(line string, _ []string) bool {
	if strings.HasPrefix(line, "Performance counter stats for") {
		r.table = nil
		delete(r.open, "perf stat counter")
		return true
	}
	value, unit, event := "", "", ""
	if m := perfEvent.FindStringSubmatch(line); m != nil && (strings.Contains(line, " # ") ||
		slices.Contains(perfEvents(), eventName(m[3])) && r.table == nil) {
		value, unit, event = m[1], m[2], m[3]
	} else {
		value, unit, event = perfFields(line)
	}
	if event = eventName(event); !slices.Contains(perfEvents(), event) {
		return false
	}
	v, ok := number(strings.NewReplacer("\u202f", "", "'", "").Replace(value))
	if whole, isWhole := groups(value); unit == "" && isWhole {
		v, ok = whole, true
	}
	if !ok || v < 0 {
		return false
	}
	if unit == "" && strings.HasSuffix(event, "-clock") {
		v /= 1e6 // nanoseconds
	}
	r.put(r.block(Counters, "perf stat", "name", "value"), event, formatNumber(v))
	return true
}

// groups reads a whole number with separators of thousands: "1,204,311", "1.204.311".
func groups(s string) (float64, bool) {
	parts := strings.FieldsFunc(s, func(c rune) bool { return c == '.' || c == ',' })
	for _, p := range parts[min(1, len(parts)):] {
		if len(p) != 3 {
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(strings.Join(parts, ""), 64)
	return v, err == nil
}

// eventName returns an event of perf without the CPU's type and the modifier.
func eventName(s string) string {
	if _, inner, ok := strings.Cut(strings.TrimSuffix(s, "/"), "/"); ok {
		s = inner
	}
	s, _, _ = strings.Cut(s, ":")
	if s == "cpu-cycles" {
		return "cycles"
	}
	return s
}

// perfFields reads a line of perf stat -x: [time] [CPU] value unit event time-run percent ...
func perfFields(line string) (value, unit, event string) {
	separator := ""
	for _, s := range []string{",", ";", "|", ":"} {
		if strings.Count(line, s) >= 4 {
			separator = s
			break
		}
	}
	if separator == "" {
		return "", "", ""
	}
	f := strings.Split(line, separator)
	for i := 2; i < len(f) && i < 7; i++ {
		if slices.Contains(perfEvents(), eventName(strings.TrimSpace(f[i]))) {
			if _, ok := number(f[i-2]); ok {
				return strings.TrimSpace(f[i-2]), strings.TrimSpace(f[i-1]), f[i]
			}
		}
	}
	return "", "", ""
}

// slabtop reads slabtop -o and the table of its interactive form.
func (r *reader) slabtop(line string, _ []string) bool {
	if m := slabRow.FindStringSubmatch(line); m != nil {
		size, _ := number(m[7])
		r.put(r.block(Slabs, "slabtop", "name", "objects", "active", "bytes"), m[8], m[1], m[2],
			formatNumber(size*1024))
		return true
	}
	return strings.HasPrefix(line, "OBJS ACTIVE USE OBJ SIZE") ||
		strings.HasPrefix(line, "Active / Total ") || strings.HasPrefix(line, "Minimum / Average")
}

// qdisc reads tc -s qdisc: a line that names the queue, and lines of its counters.
func (r *reader) qdisc(line string, _ []string) bool {
	if m := qdiscLine.FindStringSubmatch(line); m != nil {
		r.facts["qdisc"], r.table = m[3]+" "+m[1]+" "+m[2], nil
		return true
	}
	if r.facts["qdisc"] == "" {
		return false
	}
	t := r.open["tc "+string(Qdiscs)]
	if m := qdiscSent.FindStringSubmatch(line); m != nil {
		name := strings.Fields(r.facts["qdisc"])
		t = r.block(Qdiscs, "tc", "device", "kind", "handle", "packets", "dropped", "requeues",
			"backlog")
		r.put(t, name[0], name[1], name[2], m[2], m[3], m[5], "")
		return true
	}
	if m := qdiscLeft.FindStringSubmatch(line); m != nil && t != nil && len(t.Rows) > 0 {
		t.Rows[len(t.Rows)-1].set("backlog", m[2], r.line)
		return true
	}
	return false
}

// numaStat reads numastat: a row of nodes per counter, and with -m or -p a row per kind of memory
// in MB, with the total behind the nodes.
func (r *reader) numaStat(line string, fields []string) bool {
	if nodes := nodesOf(fields); nodes > 0 {
		r.table, r.facts["numa"] = nil, "yes"
		delete(r.open, "numastat "+string(NUMA))
		return true
	}
	if name, ok := strings.CutPrefix(line, "Per-node process memory usage"); ok {
		r.facts["numa process"] = strings.TrimSpace(name[strings.LastIndex(name, ")")+1:])
		if i := strings.Index(name, "for PID "); i >= 0 {
			r.facts["numa process"] = name[i+len("for "):]
		}
		return true
	}
	if len(fields) < 3 || !isNUMACounter(fields[0]) || !allNumbers(fields[1:]) {
		return false
	}
	memory := !strings.Contains(fields[0], "_")
	if memory && r.facts["numa"] == "" {
		return false
	}
	t := r.block(NUMA, "numastat", "name", "node", "value")
	if t.Subject == "" {
		t.Subject = r.facts["numa process"]
	}
	for i, v := range fields[1:] {
		if memory && i == len(fields)-2 {
			break // the total
		}
		r.put(t, fields[0], strconv.Itoa(i), v)
	}
	return true
}

// nodesOf returns the number of nodes of a header, "node0 node1" or "Node 0 Node 1 Total"; 0: it is
// none.
func nodesOf(fields []string) int {
	n := 0
	for i, f := range fields {
		lower := strings.ToLower(f)
		switch {
		case lower == "node"+strconv.Itoa(n),
			lower == "node" && i+1 < len(fields) && fields[i+1] == strconv.Itoa(n):
			n++
		case lower == "pid" && i == 0, lower == "total" && i == len(fields)-1,
			i > 0 && strings.EqualFold(fields[i-1], "node") && f == strconv.Itoa(n-1):
		default:
			return 0
		}
	}
	return n
}

func isNUMACounter(s string) bool {
	switch s {
	case "numa_hit", "numa_miss", "numa_foreign", "interleave_hit", "local_node", "other_node",
		"MemTotal", "MemFree", "MemUsed", "Huge", "Heap", "Stack", "Private", "Total":
		return true
	}
	return false
}

func allNumbers(fields []string) bool {
	for _, f := range fields {
		if _, ok := number(f); !ok {
			return false
		}
	}
	return true
}

// lsof reads a row of lsof. Rows of threads repeat those of their process and are left out.
func (r *reader) lsof(line string, fields []string) bool {
	if len(fields) >= 5 && fields[0] == "COMMAND" && fields[1] == "PID" {
		r.table = nil
		return true
	}
	if len(fields) < 6 || len(fields[1]) == 0 || fields[1][0] < '0' || fields[1][0] > '9' {
		return false
	}
	at := 0
	for i := 3; i < 6 && i+2 < len(fields); i++ {
		if descriptor.MatchString(fields[i]) && isFileType(fields[i+1]) {
			at = i
			break
		}
	}
	if at == 0 || at == 5 { // 5: with TID and TASKCMD
		return at == 5
	}
	deleted, size := "", ""
	if n := len(fields); strings.HasSuffix(line, "(deleted)") && n > at+4 {
		deleted, size = "deleted", fields[at+3]
	}
	t := r.block(Descriptors, "lsof", "command", "pid", "fd", "type", "size", "deleted", "name")
	r.put(t, fields[0], fields[1], fields[at], fields[at+1], size, deleted,
		fileName(fields[at+2:]))
	return true
}

// fileName returns the last column of lsof: a path with its blanks, or else the last word.
func fileName(fields []string) string {
	for i, f := range fields {
		if strings.HasPrefix(f, "/") && i > 0 {
			return strings.TrimSuffix(strings.Join(fields[i:], " "), " (deleted)")
		}
	}
	return strings.Join(fields[max(0, len(fields)-2):], " ")
}

func isFileType(s string) bool {
	switch s {
	case "REG", "DIR", "CHR", "BLK", "FIFO", "IPv4", "IPv6", "unix", "sock", "a_inode", "netlink",
		"unknown", "LINK", "pack", "raw", "raw6":
		return true
	}
	return false
}

// lscpu keeps the number of CPUs, and what of lscpu findings use.
func (r *reader) lscpu(line string, _ []string) bool {
	name, value, ok := strings.Cut(line, ": ")
	if !ok {
		return false
	}
	value = strings.TrimSpace(value)
	switch name {
	case "CPU(s)":
		if n, ok := number(value); ok && n >= 1 && n < 1<<16 {
			r.cpus = int(n)
			r.table = nil
			r.put(r.block(Counters, "lscpu", "name", "value"), name, value)
			return true
		}
	case "CPU max MHz", "CPU MHz", "NUMA node(s)":
		if v, ok := number(value); ok && v > 0 {
			r.put(r.block(Counters, "lscpu", "name", "value"), name, value)
			return true
		}
	case "Off-line CPU(s) list":
		r.put(r.block(Counters, "lscpu", "name", "value"), name, value)
		return true
	}
	return false
}
