package captured

import (
	"regexp"
	"strings"
)

// loadAverage reads "load average: 0.19, 0.18, 0.17" of uptime, w and top.
func (r *reader) loadAverage(line string, fields []string) bool {
	_, list, ok := strings.Cut(line, "load average")
	if !ok {
		_, list, ok = strings.Cut(line, "Durchschnittslast")
	}
	if !ok {
		return false
	}
	list = strings.TrimLeft(list, "s: ")
	f := strings.Fields(list)
	if len(f) < 3 {
		return false
	}
	f = f[:3]
	for i := range f {
		f[i] = strings.TrimSuffix(f[i], ",")
		if _, is := number(f[i]); !is {
			return false
		}
	}
	tool := "uptime"
	if fields[0] == "top" {
		tool = "top"
	}
	r.table = nil
	t := r.block(Load, tool, "load1", "load5", "load15")
	t.Rows = nil // top prints one per screen: the last one counts
	r.put(t, f[0], f[1], f[2])
	return true
}

var (
	topCPU  = regexp.MustCompile(`^%?Cpu(\d+|\(s\))\s*:`)
	topMode = regexp.MustCompile(
		`([\d.,]*\d)\s*%?\s*(us|sy|ni|id|wa|hi|si|st)\b`)
	topMemory = regexp.MustCompile(`^(?:(KiB|MiB|GiB)\s+)?(Mem|Swap|Spch)\s*:\s*`)
	topSize   = regexp.MustCompile(
		`([\d.,]*\d[kKmMgG]?)\+?\s*(total|gesamt|used|belegt|free|frei|buffers|buff/cache|cached` +
			`|avail Mem)`)
	topTasks = regexp.MustCompile(`(\d+)\s+(total|running|sleeping|stopped|zombie)`)
)

// topLine reads the lines above the processes of top.
func (r *reader) topLine(line string, _ []string) bool {
	if strings.HasPrefix(line, "Tasks:") || strings.HasPrefix(line, "Threads:") {
		t := r.block(Counters, "top", "name", "value")
		for _, m := range topTasks.FindAllStringSubmatch(line, -1) {
			r.put(t, "tasks "+m[2], m[1])
		}
		return true
	}
	if !containsAny(line, "Cpu", "Mem", "Swap", "Spch") {
		return false
	}
	if m := topCPU.FindStringSubmatch(line); m != nil {
		modes := topMode.FindAllStringSubmatch(line, -1)
		if len(modes) < 4 {
			return false
		}
		t := r.block(CPUs, "top", "cpu", "usr", "sys", "nice", "idle", "iowait", "irq", "soft",
			"steal")
		cells := map[string]string{}
		for _, m := range modes {
			cells[m[2]] = m[1]
		}
		cpu := m[1]
		if cpu == "(s)" {
			cpu = "all"
		}
		t.samples = countRows(t, cpu)
		row := r.put(t, cpu, cells["us"], cells["sy"], cells["ni"], cells["id"], cells["wa"],
			cells["hi"], cells["si"], cells["st"])
		row.Sample = t.samples
		return true
	}
	m := topMemory.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	return r.topSizes(line, m[1], strings.Replace(m[2], "Spch", "Mem", 1))
}

func countRows(t *Table, key string) int {
	n := 0
	for _, row := range t.Rows {
		if row.Cells[0] == key {
			n++
		}
	}
	return n
}

// topSizes reads "Mem: 48220M total, 21068M used, 27151M free".
func (r *reader) topSizes(line, unit, name string) bool {
	sizes := topSize.FindAllStringSubmatch(line, -1)
	if len(sizes) < 3 {
		return false
	}
	scale := 1.0
	switch unit {
	case "KiB":
		scale = 1 << 10
	case "MiB":
		scale = 1 << 20
	case "GiB":
		scale = 1 << 30
	}
	t := r.block(Memory, "top", "name", "total", "used", "free", "cache", "available")
	cells := []string{name, "", "", "", "", ""}
	for _, m := range sizes {
		v, ok := number(m[1])
		if !ok {
			continue
		}
		if last := m[1][len(m[1])-1]; last >= '0' && last <= '9' && unit == "" {
			v *= 1024
		}
		text := formatNumber(v * scale)
		switch m[2] {
		case "total", "gesamt":
			cells[1] = text
		case "used", "belegt":
			cells[2] = text
		case "free", "frei":
			cells[3] = text
		case "buff/cache", "cached":
			cells[4] = text
		case "avail Mem":
			r.setAvailable(t, text)
		}
	}
	r.put(t, cells...)
	return true
}

// setAvailable adds to the row of memory what top prints in the line of swap.
func (r *reader) setAvailable(t *Table, text string) {
	for _, row := range t.Rows {
		if row.Cells[0] == "Mem" {
			row.Cells[5] = text
		}
	}
}

var (
	topParts = regexp.MustCompile(`\s(top - \d|Tasks:|%?Cpu\(s\)\s*:|(?:[KMG]iB )?Mem\s*:` +
		`|(?:[KMG]iB )?Swap\s*:|PID\s+USER)`)
	topProcess = regexp.MustCompile(`(?:^|\s)(\d+\s+\S+\s+(?:RT|rt|-?\d+)\s+-?\d+\s+\S+\s+\S+` +
		`\s+\S+\s+[RSDZTIt]\s+[\d.,]+\s+[\d.,]+\s+\d+:[\d.:]+\s+)`)
)

// wide reads a line that contains the whole output of a tool: lines lost their ends. It reports
// whether it found a table in it.
func (r *reader) wide(line string, fields []string) bool {
	before := len(r.Tables)
	if at := topProcess.FindAllStringSubmatchIndex(line, -1); len(at) >= 2 ||
		strings.Contains(line, "Cpu(s)") {
		end := len(line)
		if len(at) > 0 {
			end = at[0][2]
		}
		head := topParts.ReplaceAllString(" "+line[:end], "\n$1")
		for part := range strings.SplitSeq(head, "\n") {
			r.part(part)
		}
		for i, m := range at {
			next := len(line)
			if i+1 < len(at) {
				next = at[i+1][2]
			}
			r.part(line[m[2]:next])
		}
		return len(r.Tables) > before
	}
	return r.unfold(fields)
}

func (r *reader) part(line string) {
	if line = strings.TrimSpace(line); line != "" {
		if f := strings.Fields(line); len(f) > 0 {
			r.short(line, f)
		}
	}
}

// rowStarts matches what begins a row of a block, after its first character. It finds rows in
// lines that lost their ends.
var rowStarts = regexp.MustCompile("\\s(" + strings.Join([]string{
	`[A-Za-z_]\w*#\d+ \|`,              // intrstat
	`\d+ \d+% +\d+% +[\d.]+ \d+ `,      // lockstat
	`Profiling interrupt:`,             //
	`-?\d+ \|@* ?\d+`,                  // quantize
	`\d+ 0x[0-9a-f]+ \d+ `,             // ::interrupts
	`\S+: flags=`, `inet6? `, `ether `, // ifconfig
	"[\\w.]+`\\w[\\w.:]*\\+0x[0-9a-f]+", // stacks
	`\d+ \d+ :\S+ `,                     // DTrace: CPU, probe
	`[a-z]\w*\d speed \d`,               // dladm
	`Supported link modes:`, `Supports auto`, `Advertised `, `Link partner adv`, `Speed:`,
	`Duplex:`, `Port:`, `Auto-negotiation:`, `Link detected:`, // ethtool
}, "|") + ")")

// stackCount matches the number below a stack.
var stackCount = regexp.MustCompile("(`\\w[\\w.:]*\\+0x[0-9a-f]+) (\\d+)(?:\\s|$)")

// split reads a line of several rows of a block. It reports whether it found any.
func (r *reader) split(line string) bool {
	if r.parts || !containsAny(line, "|", "0x", "% ", "flags=", " speed ", "Speed:", " modes:",
		":tick") {
		return false
	}
	text := rowStarts.ReplaceAllString(line, "\n$1")
	text = stackCount.ReplaceAllString(text, "$1\n$2\n")
	parts := strings.Split(text, "\n")
	if len(parts) < 3 {
		return false
	}
	r.parts = true
	before := r.rows
	for i, p := range parts {
		if p = strings.TrimSpace(p); p != "" && (i > 0 || !strings.HasPrefix(p, "#")) {
			if f := strings.Fields(p); len(f) < wideLine || !r.unfold(f) {
				r.part(p)
			}
		}
	}
	r.parts = false
	return r.rows > before
}

// containsAny reports whether s contains one of the parts. It keeps lines of prose away from
// regular expressions.
func containsAny(s string, parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

// unfold cuts the tokens of a line into a header and rows of the same number of tokens.
func (r *reader) unfold(fields []string) bool {
	before := len(r.Tables)
	for i := 0; i < len(fields); {
		n := r.headerLength(fields[i:])
		if n == 0 {
			i++
			continue
		}
		head := fields[i : i+n]
		i += n
		r.short(strings.Join(head, " "), head)
		when, _ := cutTime(fields[i:min(i+4, len(fields))])
		size := n + len(strings.Fields(when))
		if len(r.Tables) == 0 {
			continue
		}
		for i < len(fields) {
			row := fields[i:min(i+size, len(fields))]
			if r.headerLength(row) > 0 || !r.row(row) {
				break
			}
			i += len(row)
		}
	}
	return len(r.Tables) > before
}

// headerLength returns how many tokens at the start are names of columns of one format.
func (r *reader) headerLength(fields []string) int {
	best := 0
	for i := range r.formats {
		n := 0
		for n < len(fields) && n < 60 {
			if _, ok := r.formats[i].columns[fields[n]]; !ok {
				break
			}
			n++
		}
		if n >= 3 && n > best {
			if t, _ := r.formats[i].header(fields[:n]); t != nil {
				best = n
			}
		}
	}
	return best
}
