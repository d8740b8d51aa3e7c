package captured

import (
	"math"
)

// ticksPerSecond is USER_HZ, the unit of /proc/stat on all architectures of Linux but alpha.
const ticksPerSecond = 100

// derive makes tables of rates out of two snapshots of counters. The interval is that of the CPU
// time in /proc/stat. Of one snapshot of /proc/stat it makes the shares since boot.
func (s *study) derive() {
	stats := s.of(Ticks)
	seconds := math.NaN()
	switch len(stats) {
	case 0:
	case 1:
		t := ticksToShares(nil, stats[0])
		t.SinceBoot = true
		s.tables = append(s.tables, t)
	default:
		first, last := stats[0], stats[len(stats)-1]
		seconds = interval(first, last)
		if seconds > 0 {
			s.tables = append(s.tables, ticksToShares(first, last))
		}
	}
	if !(seconds > 0) {
		return
	}
	if d := s.of(DiskTicks); len(d) > 1 {
		s.tables = append(s.tables, diskRates(d[0], d[len(d)-1], seconds))
	}
	var devices []*Table
	for _, t := range s.of(Totals) {
		if t.Tool == "/proc/net/dev" {
			devices = append(devices, t)
		}
	}
	if len(devices) > 1 {
		s.tables = append(s.tables, deviceRates(devices[0], devices[len(devices)-1], seconds))
	}
	var paging []*Table
	for _, t := range s.of(Counters) {
		if t.Tool == "/proc/vmstat" {
			paging = append(paging, t)
		}
	}
	if len(paging) > 1 {
		s.tables = append(s.tables, swapRates(paging[0], paging[len(paging)-1], seconds))
	}
}

// byKey returns the rows of a table by their first cell.
func byKey(t *Table) map[string]*Row {
	m := map[string]*Row{}
	if t == nil {
		return m
	}
	for _, r := range t.Rows {
		m[r.Cells[0]] = r
	}
	return m
}

// difference returns the increase of a counter; its value when there is no earlier row.
func difference(earlier, r *Row, column string) float64 {
	if earlier == nil {
		return r.Num(column)
	}
	return r.Num(column) - earlier.Num(column)
}

func ticksOf(earlier, r *Row) float64 {
	sum := 0.0
	for _, c := range r.Table.Columns[1:] {
		sum += zero(difference(earlier, r, c))
	}
	return sum
}

// interval returns the seconds between two snapshots: the CPU time of one CPU.
func interval(first, last *Table) float64 {
	before := byKey(first)
	for _, r := range last.Rows {
		if r.Cells[0] != "all" && before[r.Cells[0]] != nil {
			return ticksOf(before[r.Cells[0]], r) / ticksPerSecond
		}
	}
	return math.NaN()
}

// derived returns an empty table that quotes the place of another.
func derived(kind Kind, from *Table, columns ...string) *Table {
	t := newTable(kind, from.Tool, columns...)
	t.File, t.Line, t.Host, t.cpus, t.samples = from.File, from.Line, from.Host, from.cpus, 1
	return t
}

func ticksToShares(first, last *Table) *Table {
	columns := last.Columns
	t := derived(CPUs, last, columns...)
	before := byKey(first)
	for _, r := range last.Rows {
		all := ticksOf(before[r.Cells[0]], r)
		if !(all > 0) {
			continue
		}
		cells := []string{r.Cells[0]}
		for _, c := range columns[1:] {
			cells = append(cells, formatNumber(
				100*math.Max(0, zero(difference(before[r.Cells[0]], r, c)))/all))
		}
		t.add(r.Line, r.Time, cells...)
	}
	return t
}

func diskRates(first, last *Table, seconds float64) *Table {
	t := derived(Disks, last, "device", "reads", "writes", "util", "await", "queue")
	before := byKey(first)
	for _, r := range last.Rows {
		b := before[r.Cells[0]]
		if b == nil {
			continue
		}
		reads, writes := difference(b, r, "reads"), difference(b, r, "writes")
		wait := (difference(b, r, "readms") + difference(b, r, "writems")) / (reads + writes)
		t.add(r.Line, r.Time, r.Cells[0], formatNumber(reads/seconds),
			formatNumber(writes/seconds), formatNumber(difference(b, r, "busyms")/seconds/10),
			formatNumber(wait), formatNumber(difference(b, r, "queuems")/seconds/1000))
	}
	return t
}

func deviceRates(first, last *Table, seconds float64) *Table {
	columns := []string{"rxpackets", "txpackets", "rxbytes", "txbytes", "rxerrors", "txerrors",
		"rxdropped", "txdropped"}
	t := derived(Devices, last, "device", "rxpackets", "txpackets", "rxbytes", "txbytes",
		"rxerrors", "txerrors", "rxdrops", "txdrops")
	before := byKey(first)
	for _, r := range last.Rows {
		if before[r.Cells[0]] == nil {
			continue
		}
		cells := []string{r.Cells[0]}
		for _, c := range columns {
			cells = append(cells, formatNumber(difference(before[r.Cells[0]], r, c)/seconds))
		}
		t.add(r.Line, r.Time, cells...)
	}
	return t
}

func swapRates(first, last *Table, seconds float64) *Table {
	t := derived(Paging, last, "si", "so")
	before, after := byKey(first), byKey(last)
	cells := []string{"", ""}
	line := last.Line
	for i, name := range []string{"pswpin", "pswpout"} {
		if r := after[name]; r != nil && before[name] != nil {
			cells[i] = formatNumber(difference(before[name], r, "value") * pageSize / seconds)
			line = r.Line
		}
	}
	t.add(line, "", cells...)
	return t
}

const pageSize = 4096
