package captured

import (
	"fmt"
	"math"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

// memory judges swapping and free memory.
func (s *study) memory() {
	for _, t := range s.of(Paging) {
		rows := t.measured()
		in, out := typical(rows, "si"), typical(rows, "so")
		if in != nil {
			s.judgeSwap(in, zero(in.Num("si")), out)
		}
		if r := typical(rows, "sr"); r != nil {
			s.judgeScan(r)
		}
		if r := typical(rows, "b"); r != nil && r.Num("b") >= threshold.DoubtBlocked {
			s.blocked(r, r.Num("b"), "tasks are blocked, mostly in I/O")
		}
	}
	for _, t := range s.of(Memory) {
		s.judgeMemory(t)
	}
	for _, t := range s.of(Counters) {
		if t.Tool == "/proc/meminfo" {
			c := counters(t)
			total, free := c["MemTotal"], c["MemAvailable"]
			if total != nil && free != nil {
				s.judgeAvailable(free, free.Num("value")*1024, total.Num("value")*1024)
			}
		}
	}
}

func (s *study) judgeSwap(r *Row, in float64, out *Row) {
	if in < threshold.SwapIn {
		s.clear("memory", "%s swapped in per second (%s, %s)", phrase.Memory(in), r.Table.Tool,
			r.Place())
		return
	}
	if s.find1("swapping/machine") != nil {
		return
	}
	written := 0.0
	if out != nil {
		written = zero(out.Num("so"))
	}
	severity := diagnose.Medium
	if in >= threshold.SwapBoth || in+written >= threshold.SwapBoth {
		severity = diagnose.High
	}
	f := s.find("swapping", "machine", severity, 0.85, diagnose.Culprit{Kind: "memory",
		Name: "memory"}, fmt.Sprintf("The machine swaps: %s in and %s out per second.",
		phrase.Memory(in), phrase.Memory(written)))
	evidence(f, r, in, "B/s", "%s swapped in per second", phrase.Memory(in))
	if written > 0 {
		evidence(f, out, written, "B/s", "%s swapped out per second", phrase.Memory(written))
	}
	f.Verify = "vmstat 1 5"
}

// scanRate is the rate of Solaris's page scanner from which on memory is short.
const scanRate = 200

func (s *study) judgeScan(r *Row) {
	if r.Num("sr") < scanRate {
		s.clear("memory", "the page scanner scans %s pages/s (%s)", phrase.Count(r.Num("sr")),
			r.Place())
		return
	}
	f := s.find("memory-pressure", "machine", diagnose.Medium, 0.8, diagnose.Culprit{Kind: "memory",
		Name: "memory"}, fmt.Sprintf("Memory is short: the page scanner scans %s pages/s, %s free.",
		phrase.Count(r.Num("sr")), phrase.Memory(r.Num("free"))))
	evidence(f, r, r.Num("sr"), "page/s", "sr %s pages/s", phrase.Count(r.Num("sr")))
	f.Verify = "vmstat 1 5"
}

func (s *study) judgeMemory(t *Table) {
	for _, r := range t.measured() {
		name := strings.ToLower(r.Word("name"))
		if strings.HasPrefix(name, "swap") || strings.HasPrefix(name, "auslager") ||
			strings.HasPrefix(name, "-/+") {
			continue
		}
		total, available := r.Num("total"), r.Num("available")
		if available != available {
			available = r.Num("free") + zero(r.Num("buff")) + zero(r.Num("cache"))
			if t.Tool == "top" && r.Word("cache") == "" {
				available = math.NaN()
			}
		}
		if t.Tool == "sar" && r.Num("used") == r.Num("used") {
			total = r.Num("free") + r.Num("used")
		}
		if total > 0 && available == available {
			s.judgeAvailable(r, available, total)
			return
		}
		if total > 0 && r.Num("free") >= threshold.MemoryPlenty*total {
			s.judgeAvailable(r, r.Num("free"), total)
			return
		}
	}
}

func (s *study) judgeAvailable(r *Row, available, total float64) {
	share := available / total
	if share >= threshold.MemoryLow {
		s.clear("memory", "%s available (%s, %s)", phrase.Percent(share), r.Table.Tool, r.Place())
		return
	}
	if s.find1("memory-pressure/machine") != nil {
		return
	}
	severity := diagnose.Low
	if s.find1("swapping/machine") != nil {
		severity = diagnose.Medium
	}
	f := s.find("memory-pressure", "machine", severity, 0.75, diagnose.Culprit{Kind: "memory",
		Name: "memory"}, fmt.Sprintf("Little memory is available: %s.", phrase.Percent(share)))
	evidence(f, r, share, "1", "%s of the memory available", phrase.Percent(share))
	caveat(f, "Sizes do not show whether tasks wait: vmstat 1 (si) and /proc/pressure/memory do.")
	f.Verify = "free -m; cat /proc/pressure/memory"
}

// pressure judges stalls of /proc/pressure.
func (s *study) pressure() {
	rules := map[string]string{"cpu": "cpu-saturated", "io": "io-stalled",
		"memory": "memory-pressure"}
	limits := map[string]float64{"cpu": threshold.CPUPressure, "io": threshold.IOStall,
		"memory": threshold.MemoryStall}
	shown := map[string]string{"cpu": "cpu", "io": "disk", "memory": "memory"}
	for _, t := range s.of(Pressure) {
		for _, r := range t.Rows {
			name := r.Word("resource")
			v := r.Num("avg10") / 100
			if r.Word("kind") != "some" || rules[name] == "" {
				continue
			}
			if v < limits[name] {
				s.clear(shown[name], "tasks stalled %s of the time (%s)", phrase.Percent(v),
					r.Place())
				continue
			}
			if s.find1any(rules[name]) != nil {
				continue
			}
			severity := diagnose.Medium
			if v >= threshold.IOStallHigh {
				severity = diagnose.High
			}
			f := s.find(rules[name], "machine", severity, 0.8, diagnose.Culprit{Kind: "host",
				Name: name}, fmt.Sprintf("Tasks are stalled for %s %s of the time (PSI).", name,
				phrase.Percent(v)))
			evidence(f, r, v, "1", "some avg10 %s", phrase.Percent(v))
			f.Verify = "cat /proc/pressure/" + name
		}
	}
}

// fileSystems finds file systems without space or inodes.
func (s *study) fileSystems() {
	for _, t := range s.of(Files) {
		for _, r := range t.Rows {
			mount := r.Word("mount")
			for _, column := range []string{"share", "ishare"} {
				v := r.Num(column)
				if !(v >= 100*threshold.CgroupFull) || readOnlyMount(r) {
					continue
				}
				what := map[string]string{"share": "space", "ishare": "inodes"}[column]
				severity := diagnose.Medium
				if v >= 100 {
					severity = diagnose.High
				}
				f := s.find("filesystem-full", mount, severity, 0.9,
					diagnose.Culprit{Kind: "disk", Name: mount}, fmt.Sprintf(
						"File system %s has %s of its %s in use.", mount, percent(v), what))
				evidence(f, r, v/100, "1", "%s: %s in use, %s available", mount, percent(v),
					orNone(r.Word("avail")+r.Word("ifree")))
				f.Verify = "df -h " + phrase.Shell(mount) + "; df -i " + phrase.Shell(mount)
			}
		}
		s.fullest(t)
	}
}

// fullest records how full the fullest file system of a table is.
func (s *study) fullest(t *Table) {
	var most *Row
	column := "share"
	if t.Has("ishare") {
		column = "ishare"
	}
	for _, r := range t.Rows {
		if v := r.Num(column); v == v && !readOnlyMount(r) &&
			(most == nil || v > most.Num(column)) {
			most = r
		}
	}
	if most != nil {
		s.clear("filesystem", "the fullest, %s, is %s full (%s, %s)",
			phrase.Clean(most.Word("mount")), percent(most.Num(column)), t.Tool, most.Place())
	}
}

// readOnlyMount reports whether a file system is full by design: images and snaps.
func readOnlyMount(r *Row) bool {
	device, mount := r.Word("device"), r.Word("mount")
	return strings.HasPrefix(device, "/dev/loop") || strings.HasPrefix(mount, "/snap") ||
		strings.HasPrefix(mount, "/media") ||
		device == "squashfs" || strings.HasPrefix(mount, "/cdrom")
}

// overview judges the columns of sysperfstat.
func (s *study) overview() {
	for _, t := range s.of(Overview) {
		last := t.Rows[len(t.Rows)-1]
		for _, one := range []struct{ column, resource string }{
			{"cpu", "cpu"}, {"mem", "memory"}, {"disk", "disk"}, {"net", "network"},
		} {
			var high []*Row
			most := 0.0
			for _, r := range t.Rows {
				v := zero(r.Num(one.column))
				most = max(most, v)
				if v >= 100*threshold.LinkFull {
					high = append(high, r)
				}
			}
			if len(high) < threshold.LeastCells {
				s.clear(
					one.resource, "at most %s in use (%s, %s:%d)", percent(most), t.Tool, t.File,
					t.Line,
				)
				continue
			}
			if s.find1any("interface-unused", "link-saturated") != nil && one.column == "net" {
				continue
			}
			s.busyResource(one.resource, one.column, high, last)
		}
	}
}

func (s *study) busyResource(resource, column string, high []*Row, last *Row) {
	rule := map[string]string{"cpu": "cpu-saturated", "memory": "memory-pressure",
		"disk": "disk-saturated", "network": "network-busy"}[resource]
	r := typical(high, column)
	f := s.find(rule, "machine", diagnose.Medium, 0.7, diagnose.Culprit{Kind: "host",
		Name: resource}, fmt.Sprintf("The %s is busy: %s in %s from %s on, CPU %s.", resource,
		percent(r.Num(column)), phrase.Plural(len(high), "row", "rows"), high[0].Time,
		percent(last.Num("cpu"))))
	evidence(f, r, r.Num(column)/100, "1", "%s %s", resource, percent(r.Num(column)))
	if column == "net" && r.Num(column) > 100 {
		caveat(f, "More than 100 % is the sum of several interfaces: nicstat 1 shows which.")
	}
	if resource == "network" {
		f.Verify = "nicstat 1; intrstat 1"
	}
}
