package diagnose

import (
	"sort"
	"strconv"
	"strings"
)

// actor is a group of processes of one name, the unit in which people think of load: eight workers are one culprit.
type actor struct {
	name   string
	pids   []int   // most active first
	rate   float64 // of all of them
	first  float64 // of the most active one
	rows   []*Row
	series []float64
}

// String gives "iperf3[123]", or "nginx (8 processes, first of them 123)".
func (a actor) String() string {
	if len(a.pids) > 1 {
		return clean(a.name) + " (" + plural(len(a.pids), "process", "processes") + ", most by " + strconv.Itoa(a.pids[0]) + ")"
	}
	return named(a.name, a.pid())
}

func (a actor) pid() int {
	if len(a.pids) == 0 {
		return 0
	}
	return a.pids[0]
}

func (a actor) culprit() Culprit { return Culprit{Kind: "process", Name: a.name, PID: a.pid()} }

// identity gives the actor's part of a finding's id: the name, since pids change with each start.
func (a actor) identity() string { return clean(a.name) }

// actors groups rows with fields pid and process by name, the most active group first. Rates are parts of the whole masked
// time: a process that ran in one cell of ten counts a tenth. A process with less than a hundredth of its group is
// not counted in.
func actors(t *Table, rows []*Row, mask []bool) []actor {
	type one struct {
		pid  int
		rate float64
	}
	groups := map[string]*actor{}
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
			a = &actor{name: name}
			groups[name], pids[name] = a, map[int]float64{}
			names = append(names, name)
		}
		pid, _ := strconv.Atoi(r.Word("pid"))
		a.rate += rate
		a.rows = append(a.rows, r)
		pids[name][pid] += rate
	}
	var out []actor
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
			if o.pid > 0 && (len(a.pids) == 0 || o.rate >= a.rate/100) {
				a.pids = append(a.pids, o.pid)
			}
		}
		a.first = ones[0].rate
		a.series = t.Sum(a.rows)
		out = append(out, *a)
	}
	sort.SliceStable(out, func(i, j int) bool {
		if out[i].rate != out[j].rate {
			return out[i].rate > out[j].rate
		}
		return out[i].name < out[j].name
	})
	return out
}

// sentence gives a sentence for the actor's numbers: of the one process, or of all of its name.
func (a actor) sentence(t *Table, by ...string) string {
	if len(a.pids) == 1 {
		return t.Asking(by, "pid", strconv.Itoa(a.pids[0]))
	}
	return t.Asking(by, "process", a.name)
}

// others names up to n actors after the first with their share of total: "rsync[7] 20 %, cc1 (3 processes ...) 9 %".
func others(all []actor, total float64, n int) string {
	var s []string
	for i, a := range all {
		if i == 0 || i > n || !(a.rate/total >= 0.03) {
			continue
		}
		s = append(s, a.String()+" "+percent(a.rate/total))
	}
	return strings.Join(s, ", ")
}
