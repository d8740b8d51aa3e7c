package captured

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// A oneCPU is a CPU of a table, with the row that is typical for it.
type oneCPU struct {
	name string
	row  *Row
}

// busy returns the busy share of a row of CPU time, 0 to 1; NaN when it is not printed.
func busy(r *Row) float64 {
	return (100 - r.Num("idle") - zero(r.Num("wt")) - zero(r.Num("iowait"))) / 100
}

// kernelShare returns the share of system and interrupt time of a row, 0 to 1.
func kernelShare(r *Row) float64 {
	return (zero(r.Num("sys")) + zero(r.Num("irq")) + zero(r.Num("soft"))) / 100
}

// cpusOf returns the CPUs of a table, without the rows for all of them together.
func cpusOf(t *Table) (cpus []oneCPU) {
	names, by := group(t.measured(), "cpu")
	for _, name := range names {
		if _, ok := number(name); !ok {
			continue
		}
		if r := typical(by[name], "idle"); r != nil {
			cpus = append(cpus, oneCPU{name, r})
		}
	}
	return cpus
}

// cpus finds a CPU unlike its peers.
func (s *study) cpus() {
	for _, t := range s.of(CPUs) {
		cpus := cpusOf(t)
		if len(cpus) < 2 {
			continue
		}
		worst := slices.MaxFunc(cpus, func(a, b oneCPU) int {
			return compare(busy(a.row), busy(b.row))
		})
		var others []float64
		for _, c := range cpus {
			if c.name != worst.name {
				others = append(others, busy(c.row))
			}
		}
		usual := series.Median(others)
		away := series.Deviations(busy(worst.row), others, threshold.PeerFloor)
		if !unlike(busy(worst.row), usual, away, len(others)) {
			continue
		}
		s.accuseCPU(t, worst, usual, away, len(others))
	}
}

// unlike reports whether a CPU differs from its peers enough to be named: by a third of a CPU and
// PeerAway deviations; with few peers it must be full.
func unlike(b, usual, away float64, others int) bool {
	if others+1 < threshold.PeerLeast {
		return b >= 1-threshold.SoftirqNoIdle && usual <= 1-threshold.OneIdle
	}
	return b-usual >= threshold.SoftirqOthersIdle && away >= threshold.PeerAway &&
		usual <= 1-threshold.SoftirqOthersIdle
}

func (s *study) accuseCPU(t *Table, c oneCPU, usual, away float64, others int) {
	severity, confidence := diagnose.Medium, 0.8
	if kernelShare(c.row) >= threshold.SoftirqHalf || busy(c.row) >= 1-threshold.SoftirqNoIdle {
		severity, confidence = diagnose.High, 0.9
	}
	claim := fmt.Sprintf("CPU %s is unlike its %d peers: %s, %s idle, where the others are %s idle",
		c.name, others, modes(c.row), percent(c.row.Num("idle")), phrase.Percent(1-usual))
	served := s.servedBy(c.name)
	if len(served) > 0 {
		claim += "; it serves " + phrase.List(served)
	}
	other := s.elsewhere(t, c)
	if other != nil {
		claim += fmt.Sprintf("; it is %s idle in %s", percent(other.Num("idle")),
			other.Table.label())
	}
	f := s.find("cpu-unlike-peers", "cpu"+c.name, severity, confidence,
		diagnose.Culprit{Kind: "cpu", Name: "CPU " + c.name}, claim+".")
	evidence(f, c.row, busy(c.row), "1", "CPU %s: %s, %s idle%s", c.name, modes(c.row),
		percent(c.row.Num("idle")), interruptsOf(c.row))
	f.Evidence[0].ComparedWith = diagnose.Number(usual)
	f.Evidence[0].ComparedAs = "median of the other CPUs"
	evidence(f, nil, away, "1", "%s robust deviations above the median of the others",
		phrase.Digits(away))
	if other != nil {
		evidence(f, other, busy(other), "1", "the same CPU in %s: %s, %s idle%s",
			other.Table.label(), modes(other), percent(other.Num("idle")), interruptsOf(other))
	}
	for _, h := range s.handlersOf(c.name) {
		evidence(f, h, 1, "1", "interrupt %s on CPU %s: %s", h.Word("irq"), c.name,
			h.Word("handler"))
	}
	f.Verify = "perf record -C " + phrase.Shell(c.name) + " -a -g -- sleep 10"
	if s.solaris() {
		f.Verify = "dtrace -n 'profile-997 /cpu == " + c.name +
			"/ { @[stack()] = count(); } tick-10s { exit(0); }'"
	}
}

// modes returns the modes that take most of a CPU: "71 % sys" or "40 % sys and 12 % usr".
func modes(r *Row) string {
	var list []string
	for _, mode := range []string{"sys", "usr", "soft", "irq", "iowait", "steal"} {
		if v := r.Num(mode); v >= 10 {
			list = append(list, percent(v)+" "+mode)
		}
	}
	if len(list) == 0 {
		return percent(zero(r.Num("sys"))) + " sys"
	}
	return phrase.List(list)
}

// percent returns a percentage as tools print it: "37.8 %", "71 %"; "? %" when unknown.
func percent(v float64) string {
	if math.IsNaN(v) || v > 0 && v < 0.05 || v > 99.9 && v < 100 {
		return phrase.Percent(v / 100)
	}
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) + " %"
}

// quoted returns a number with commas and at most one digit after the point, which is not rounded
// up to a whole number: 8,642.5.
func quoted(v float64) string {
	whole := phrase.Count(math.Trunc(v))
	if tenths := math.Trunc(v*10+1e-6) - math.Trunc(v)*10; v >= 10 && v < 1e5 && tenths > 0 {
		return whole + "." + strconv.Itoa(int(tenths))
	}
	if v < 10 {
		return phrase.Count(v)
	}
	return whole
}

func interruptsOf(r *Row) string {
	if v := r.Num("intr"); v == v {
		return fmt.Sprintf(", %s interrupts/s", phrase.Count(v))
	}
	return ""
}

// label returns the name of a table for comparisons: host, file, or file and line.
func (t *Table) label() string {
	if t.Host != "" {
		return t.Host + " (" + t.File + ")"
	}
	return fmt.Sprintf("%s:%d", t.File, t.Line)
}

// elsewhere returns the row of the same CPU in another table in which it is much less busy.
func (s *study) elsewhere(t *Table, c oneCPU) *Row {
	tables := s.of(CPUs)
	for _, o := range tables[:min(len(tables), mostCompared)] {
		if o == t {
			continue
		}
		for _, oc := range cpusOf(o) {
			if oc.name == c.name && busy(c.row)-busy(oc.row) >= threshold.SoftirqOthersIdle {
				return oc.row
			}
		}
	}
	return nil
}

// handlersOf returns the interrupts that a CPU serves, except those between CPUs.
func (s *study) handlersOf(cpu string) (rows []*Row) {
	for _, t := range s.of(Handlers) {
		for _, r := range t.Rows {
			if r.Word("cpu") == cpu {
				rows = append(rows, r)
			}
		}
	}
	return rows
}

// servedBy returns the names of interrupts and devices that a CPU serves.
func (s *study) servedBy(cpu string) (names []string) {
	for _, h := range s.handlersOf(cpu) {
		if name := h.Word("handler"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, t := range s.of(Interrupts) {
		for _, r := range t.Rows {
			if r.Word("cpu") == cpu && r.Num("share") >= 100*threshold.SoftirqPart &&
				!slices.Contains(names, r.Word("device")) {
				names = append(names, r.Word("device"))
			}
		}
	}
	return names
}

// mostCompared is the number of tables that are compared with each other: the first ones.
const mostCompared = 16

// compareCPUs finds CPUs that are much busier in one table than in another, where no CPU is unlike
// its peers.
func (s *study) compareCPUs() {
	tables := s.of(CPUs)
	tables = tables[:min(len(tables), mostCompared)]
	var lists [][]oneCPU
	for _, t := range tables {
		lists = append(lists, cpusOf(t))
	}
	for i, a := range lists {
		for _, b := range lists[i+1:] {
			for _, ca := range a {
				for _, cb := range b {
					if ca.name == cb.name &&
						math.Abs(busy(ca.row)-busy(cb.row)) >= threshold.SoftirqOthersIdle {
						s.changedCPU(ca, cb)
					}
				}
			}
		}
	}
}

func (s *study) changedCPU(a, b oneCPU) {
	if busy(a.row) < busy(b.row) {
		a, b = b, a
	}
	if s.find1("cpu-unlike-peers/cpu"+a.name) != nil || s.find1("cpu-changed/cpu"+a.name) != nil {
		return
	}
	f := s.find(
		"cpu-changed",
		"cpu"+a.name,
		diagnose.Medium,
		0.7,
		diagnose.Culprit{Kind: "cpu", Name: "CPU " + a.name},
		fmt.Sprintf(
			"CPU %s is %s idle in %s and %s idle in %s.", a.name, percent(a.row.Num("idle")),
			a.row.Table.label(), percent(b.row.Num("idle")), b.row.Table.label(),
		),
	)
	evidence(f, a.row, busy(a.row), "1", "CPU %s: %s%s", a.name, modes(a.row), interruptsOf(a.row))
	evidence(f, b.row, busy(b.row), "1", "CPU %s: %s%s", b.name, modes(b.row), interruptsOf(b.row))
}

func compare(a, b float64) int {
	switch {
	case a < b || a != a && b == b:
		return -1
	case a > b || b != b && a == a:
		return 1
	}
	return 0
}

// joined reports whether two names share a word of at least three letters: "purge.d" and
// "dnlc_purge_vp".
func joined(a, b string) bool {
	words := func(s string) []string {
		return strings.FieldsFunc(strings.ToLower(s), func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < '0' || c > '9')
		})
	}
	for _, w := range words(a) {
		if len(w) >= 3 && slices.Contains(words(b), w) {
			return true
		}
	}
	return false
}
