package captured

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/measure"
)

// A study is a diagnosis of tables.
type study struct {
	tables []*Table
	report *diagnose.Report
	shown  map[string]bool   // resources that some table shows
	fine   map[string]string // resource to the number that clears it
}

// Diagnose returns the findings that the tables of the captures allow. Resources that they clear
// are in Fine with the numbers; those that they do not show are in Missing with the command that
// does. Evidence quotes the file and line of each number.
func Diagnose(captures []*Capture) *diagnose.Report {
	s := &study{report: &diagnose.Report{}, shown: map[string]bool{}, fine: map[string]string{}}
	hosts := map[string]bool{}
	for _, c := range captures {
		s.tables = append(s.tables, c.Tables...)
		s.report.Notes = append(s.report.Notes, c.Notes...)
		for _, h := range c.Hosts {
			hosts[h] = true
			s.report.Host = h
		}
	}
	if len(hosts) != 1 {
		s.report.Host = ""
	}
	s.report.Captured = s.sources()
	s.derive()
	for _, check := range []func(*study){
		(*study).interfaces, (*study).cpus, (*study).machine, (*study).compareCPUs,
		(*study).interruptTime, (*study).sizes, (*study).profiles, (*study).latencies,
		(*study).links, (*study).traffic, (*study).losses, (*study).listed, (*study).tcp,
		(*study).disks,
		(*study).memory, (*study).pressure, (*study).processes, (*study).threads, (*study).locks,
		(*study).fileSystems, (*study).overview, (*study).sockets,
		(*study).packets, (*study).addresses, (*study).logged, (*study).processIO, (*study).nfs,
		(*study).rankIO, (*study).hardware, (*study).numa, (*study).descriptors, (*study).slabs,
		(*study).queues,
	} {
		check(s)
	}
	s.conclude()
	return s.report
}

// sources lists the tables: "mpstat (24 rows, a.txt:3)".
func (s *study) sources() []string {
	var list []string
	for _, t := range s.tables {
		text := fmt.Sprintf("%s (%s, %s:%d)", t.Tool, phrase.Plural(len(t.Rows), "row", "rows"),
			t.File, t.Line)
		if t.ByShape {
			text += " by the shape of its rows"
		}
		list = append(list, text)
	}
	return list
}

// mostFindings bounds a report. Further findings are dropped.
const mostFindings = 300

// find adds a finding. resource is what it accuses; "" none.
func (s *study) find(
	rule, id string, severity diagnose.Severity, confidence float64, culprit diagnose.Culprit,
	claim string,
) *diagnose.Finding {
	culprit.Name = phrase.Clean(culprit.Name)
	if len(s.report.Findings) >= mostFindings {
		return &diagnose.Finding{} // is not reported
	}
	s.report.Findings = append(s.report.Findings, diagnose.Finding{
		ID: rule + "/" + phrase.Clean(id), Rule: rule, Severity: severity,
		Confidence: diagnose.Number(confidence), Culprit: culprit, Claim: phrase.Printable(claim),
		Explains: diagnose.Number(measure.NaN), Effect: diagnose.Number(measure.NaN),
		Evidence: []diagnose.Evidence{}, Symptoms: []diagnose.Symptom{}, Exonerated: []string{},
		Against: []string{},
	})
	return &s.report.Findings[len(s.report.Findings)-1]
}

// evidence adds a number to a finding, with the place that it was read from.
func evidence(f *diagnose.Finding, r *Row, value float64, unit, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if r != nil {
		text += fmt.Sprintf(" (%s, %s)", r.Table.Tool, r.Place())
	}
	f.Evidence = append(f.Evidence, diagnose.Evidence{Text: phrase.Printable(text),
		Value: diagnose.Number(value), Unit: unit, ComparedWith: diagnose.Number(measure.NaN)})
	if r != nil && r.Table.SinceBoot && r.Table.samples == 1 && r.Sample == 0 {
		caveat(f, r.Table.Tool+" prints means since boot first, and the table has one sample: the "+
			"present may differ.")
	}
}

func caveat(f *diagnose.Finding, text string) {
	if !slices.Contains(f.Against, text) {
		f.Against = append(f.Against, text)
	}
}

// of returns the tables of a kind in the order in which they were read.
func (s *study) of(kind Kind) []*Table {
	var list []*Table
	for _, t := range s.tables {
		if t.Kind == kind {
			list = append(list, t)
		}
	}
	return list
}

// clear records a number that rules a resource out, unless a finding accuses it.
func (s *study) clear(resource, format string, args ...any) {
	s.shown[resource] = true
	if s.fine[resource] == "" {
		s.fine[resource] = fmt.Sprintf(format, args...)
	}
}

func (s *study) find1(id string) *diagnose.Finding {
	for i := range s.report.Findings {
		if s.report.Findings[i].ID == id {
			return &s.report.Findings[i]
		}
	}
	return nil
}

// resources lists the resources in the order of the report, with the commands that show them on
// Linux and on Solaris, and the rules that accuse them.
func resources() []resource {
	return []resource{
		{"cpu", "CPU time of each CPU", "mpstat -P ALL 1 5", "mpstat 1 5",
			"cpu-saturated cpu-one-saturated cpu-unlike-peers cpu-changed cpu-softirq cpu-steal " +
				"cpu-latency kernel-function cache-purge"},
		{"memory", "memory and swapping", "vmstat 1 5; free -m", "vmstat 1 5; swap -s",
			"swapping memory-pressure"},
		{"disk", "disks", "iostat -x 1 3", "iostat -xn 1 3",
			"disk-saturated disk-slow io-stalled filesystem-full"},
		{"network", "traffic of network interfaces", "sar -n DEV 1 5; iftop -t -s 10",
			"nicstat 1 5", "link-saturated interface-unused net-drops network-busy"},
		{"link", "speed of links", "ethtool eth0", "dladm show-linkprop -p speed",
			"link-below-mode"},
		{"tcp", "retransmits and listen queues", "nstat -az", "netstat -s -P tcp",
			"tcp-retransmits tcp-listen-overflow"},
		{"log", "messages of the kernel", "", "", "cpu-lockup disk-fails " +
			"filesystem-fails hardware-fails table-full tasks-blocked link-unsteady"},
		{"filesystem", "space of file systems", "", "", "filesystem-full deleted-files"},
		{"queues", "queues before interfaces", "", "", "net-drops"},
		{"kernel memory", "caches of the kernel", "", "", "kernel-memory"},
		{"hardware", "what CPUs do with their cycles, and NUMA nodes", "", "",
			"cpu-waits-for-memory cpu-slow tlb-misses branch-misses numa-remote numa-full " +
				"numa-spread"},
		{"process", "processes", "top -b -n 1; pidstat 1 5", "prstat -mLc 1 5", "process-blocked"},
	}
}

type resource struct {
	name, checks, linux, solaris, rules string
}

// conclude orders the findings and states what is ruled out and what was not shown.
func (s *study) conclude() {
	r := s.report
	weight := map[diagnose.Severity]float64{diagnose.High: 1, diagnose.Medium: 0.4,
		diagnose.Low: 0.1}
	slices.SortStableFunc(r.Findings, func(a, b diagnose.Finding) int {
		return cmp.Compare(weight[b.Severity]*float64(b.Confidence),
			weight[a.Severity]*float64(a.Confidence))
	})
	accused := map[string]bool{}
	for _, f := range r.Findings {
		accused[f.Rule] = true
	}
	for _, res := range resources() {
		guilty := slices.ContainsFunc(strings.Fields(res.rules), func(rule string) bool {
			return accused[rule]
		})
		if s.shown[res.name] || guilty {
			r.Checked = append(r.Checked, res.checks)
		}
		switch {
		case guilty:
		case s.fine[res.name] != "":
			r.Fine = append(r.Fine, diagnose.Exoneration{Resource: res.name,
				Because: phrase.Printable(s.fine[res.name])})
		case !s.shown[res.name] && res.linux != "": // a log without messages shows nothing
			command := res.linux
			if s.solaris() {
				command = res.solaris
			}
			r.Missing = append(r.Missing, diagnose.Missing{Rule: res.name, Checks: res.checks,
				Why: "no table shows them; run: " + command})
		}
	}
	empty(&r.Findings)
	empty(&r.Checked)
	empty(&r.Fine)
	empty(&r.Doubtful)
	empty(&r.Missing)
	empty(&r.Notes)
}

// empty replaces nil by an empty list: JSON prints [].
func empty[T any](list *[]T) {
	if *list == nil {
		*list = []T{}
	}
}

// solaris reports whether the tables are of tools of Solaris and illumos.
func (s *study) solaris() bool {
	for _, t := range s.tables {
		switch t.Tool {
		case "intrstat", "prstat", "lockstat", "dladm", "mdb ::interrupts", "sysperfstat":
			return true
		case "mpstat":
			if t.Has("smtx") {
				return true
			}
		case "vmstat":
			if t.Has("sr") {
				return true
			}
		case "dtrace":
			return !s.linux()
		}
	}
	return false
}

// linux reports whether the tables are of tools that only Linux has.
func (s *study) linux() bool {
	return slices.ContainsFunc(s.tables, func(t *Table) bool {
		return slices.Contains([]string{"ethtool", "ip", "nstat", "ss", "free", "pidstat", "sadf",
			"perf", "iotop", "dstat", "nfsiostat", "perf stat", "slabtop", "tc", "numastat",
			"lscpu"},
			t.Tool) || strings.HasPrefix(t.Tool, "/proc/")
	})
}

// typical returns the row of the median of a column: a row that was printed. Of an even number it
// is the lower one. nil without numbers.
func typical(rows []*Row, column string) *Row {
	var known []*Row
	for _, r := range rows {
		if v := r.Num(column); v == v {
			known = append(known, r)
		}
	}
	if len(known) == 0 {
		return nil
	}
	slices.SortStableFunc(known, func(a, b *Row) int {
		return cmp.Compare(a.Num(column), b.Num(column))
	})
	return known[(len(known)-1)/2]
}

// group returns the rows by a column, and the names in the order of appearance.
func group(rows []*Row, column string) (names []string, by map[string][]*Row) {
	by = map[string][]*Row{}
	for _, r := range rows {
		name := r.Word(column)
		if by[name] == nil {
			names = append(names, name)
		}
		by[name] = append(by[name], r)
	}
	return names, by
}

// mean returns the mean of a column; NaN without numbers.
func mean(rows []*Row, column string) float64 {
	sum, n := 0.0, 0.0
	for _, r := range rows {
		if v := r.Num(column); v == v {
			sum, n = sum+v, n+1
		}
	}
	return sum / n
}

// zero returns v, or 0 when it is unknown.
func zero(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}
