package facts

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/measure"
)

// Program is a group of processes: those with one name, since eight workers are one culprit, or an
// actor (see Actors).
type Program struct {
	Name   string
	pids   []int   // most active first
	Rate   float64 // of all processes
	First  float64 // of the most active process
	Rows   []*diagnose.Row
	Series []float64
	actor  *actor // nil: all processes with the name
}

// String returns "iperf3[123]", or "nginx (8 processes, mainly 123)".
func (a Program) String() string {
	title, group := a.title()
	if group != "" {
		group = " in " + group
	}
	switch {
	case a.actor != nil && len(a.actor.members) > 0:
		return title
	case len(a.pids) > 1:
		return title + " (" + phrase.Plural(len(a.pids), "process", "processes") +
			", mainly " + strconv.Itoa(a.pids[0]) + ")" + group
	case a.actor != nil && a.actor.script != "":
		return title + "[" + strconv.Itoa(a.PID()) + "]" + group
	}
	return phrase.ProcessName(a.Name, a.PID()) + group
}

// PID returns the most active process; 0 when none is known.
func (a Program) PID() int {
	if len(a.pids) == 0 {
		return 0
	}
	return a.pids[0]
}

// PIDs returns the processes, the most active first. The caller must not change them.
func (a Program) PIDs() []int { return a.pids }

// Has reports whether a process is one of the program's.
func (a Program) Has(pid int) bool { return slices.Contains(a.pids, pid) }

// Culprit returns the program as the culprit of a finding.
func (a Program) Culprit() diagnose.Culprit {
	c := diagnose.Culprit{Kind: "process", Name: a.Name, PID: a.PID(), Group: a.Group()}
	if a.actor != nil {
		c.Script = a.actor.script
		if len(a.actor.members) > 0 {
			c.Kind, c.Name, c.PID, c.Script = "cgroup", a.actor.cgroup, 0, ""
		}
	}
	return c
}

// Identity returns the part of the program in the ID of a finding: the name, since pids change with
// each start. For the same reason containers are left out.
func (a Program) Identity() string {
	switch {
	case a.actor == nil:
	case len(a.actor.members) > 0 && !isContainer(a.actor.cgroup):
		return strings.ReplaceAll(GroupOf(a.actor.cgroup), " ", ":")
	case len(a.actor.members) == 0 && a.actor.script != "":
		return phrase.Clean(a.actor.script)
	}
	return phrase.Clean(a.Name)
}

// Programs groups rows with the fields pid and process by name, the most active group first. Rates
// are means over all cells in mask: a process that ran in one cell of ten counts a tenth. A process
// with less than a hundredth of its group is left out of pids.
func Programs(t *diagnose.Table, rows []*diagnose.Row, mask []bool) []Program {
	type one struct {
		pid  int
		rate float64
	}
	groups := map[string]*Program{}
	pids := map[string]map[int]float64{}
	var names []string
	for _, r := range rows {
		rate := r.Part(mask)
		if !(rate > 0) {
			continue
		}
		name := r.Word("process")
		a := groups[name]
		if a == nil {
			a = &Program{Name: name}
			groups[name], pids[name] = a, map[int]float64{}
			names = append(names, name)
		}
		pid, _ := strconv.Atoi(r.Word("pid"))
		a.Rate += rate
		a.Rows = append(a.Rows, r)
		pids[name][pid] += rate
	}
	var out []Program
	for _, name := range names {
		a := groups[name]
		var ones []one
		for pid, rate := range pids[name] {
			ones = append(ones, one{pid, rate})
		}
		sort.Slice(ones, func(i, j int) bool {
			if ones[i].rate != ones[j].rate {
				return ones[i].rate > ones[j].rate
			}
			return ones[i].pid < ones[j].pid
		})
		for _, o := range ones {
			if o.pid > 0 && (len(a.pids) == 0 || o.rate >= a.Rate/100) {
				a.pids = append(a.pids, o.pid)
			}
		}
		a.First = ones[0].rate
		a.Series = t.Sum(a.Rows)
		out = append(out, *a)
	}
	sortPrograms(out)
	return out
}

// sortPrograms sorts programs, the most active first.
func sortPrograms(all []Program) {
	sort.SliceStable(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		if a.Rate != b.Rate {
			return a.Rate > b.Rate
		}
		return a.Name < b.Name || a.Name == b.Name && a.PID() < b.PID()
	})
}

// Query returns a query for the program: of its only process, of all processes with its name, or of
// its processes.
func (a Program) Query(t *diagnose.Table, by ...string) string {
	if len(a.pids) == 1 {
		return t.QueryOf(by, "pid", strconv.Itoa(a.pids[0]))
	}
	if a.actor != nil && a.actor.split && len(a.pids) > 0 {
		words := make([]string, len(a.pids))
		for i, pid := range a.pids {
			words[i] = strconv.Itoa(pid)
		}
		return t.QueryIn(by, "pid", words)
	}
	return t.QueryOf(by, "process", a.Name)
}

// OtherPrograms returns up to n programs after the first with their shares of total: "rsync[7] 20
// %, cc1 (3 processes ...) 9 %".
func OtherPrograms(all []Program, total float64, n int) string {
	var s []string
	for i, a := range all {
		if i == 0 || i > n || !(a.Rate/total >= 0.03) {
			continue
		}
		s = append(s, a.String()+" "+phrase.Percent(a.Rate/total))
	}
	return strings.Join(s, ", ")
}

// mostNames is the number of programs that ShortNames lists.
const mostNames = 3

// ShortNames returns the first programs as a list: "app[7], sh[8], cron[9] and 2 other programs".
func ShortNames(programs []Program) string {
	var names []string
	for i, p := range programs {
		if i == mostNames {
			names = append(names, phrase.Plural(len(programs)-i, "other program", "other programs"))
			break
		}
		names = append(names, p.String())
	}
	return phrase.List(names)
}

// ParentOfShort returns the parent of the short-lived children that used most CPU time; its rate is
// 0 when there is none.
func ParentOfShort(l *diagnose.Look, mask []bool) Program {
	t := l.Table(ProcessShort)
	if all := Programs(t, t.Rows, mask); len(all) > 0 {
		return all[0]
	}
	return Program{}
}

// ModeOf describes the mode in which a program uses CPU time.
func ModeOf(a Program, mask []bool) string {
	switch k := KernelShare(a, mask); {
	case k != k:
		return "mode unknown"
	case k < 0.1:
		return "in user mode"
	case k > 0.9:
		return "in the kernel"
	default:
		return phrase.Percent(k) + " of it in the kernel"
	}
}

// KernelShare returns the share of a program's CPU time in the kernel, NaN when it has none.
func KernelShare(a Program, mask []bool) float64 {
	sys, all := 0.0, 0.0
	for _, r := range a.Rows {
		v := series.Or(r.Part(mask), 0)
		all += v
		if r.Word("mode") == "sys" {
			sys += v
		}
	}
	if all == 0 {
		return measure.NaN
	}
	return sys / all
}

// PIDWord returns a pid as a word of a statistic; "" for 0.
func PIDWord(pid int) string {
	if pid <= 0 {
		return ""
	}
	return fmt.Sprint(pid)
}

// BytesMoved returns the bytes per second that the processes with a name move, by read and write or
// over TCP, whichever is more: reads of a socket count for both. What recv and send move in other
// sockets is not known.
func BytesMoved(l *diagnose.Look, process string, mask []bool) float64 {
	most := 0.0
	for _, query := range []string{ProcessCallBytes, FlowBytes} {
		t := l.Table(query)
		most = max(most, series.Or(SumRows(t, t.Where("process", process), mask), 0))
	}
	return most
}
