package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// crashLoop finds programs that fail, are started again, and fail again. A signal that only faulty
// programs get counts under any parent; other ends only under a parent that supervises services.
func crashLoop() diagnose.Rule {
	return diagnose.Rule{
		ID: "crash-loop", Checks: "programs that crash again and again",
		Finds: []string{facts.FailedProcesses}, Uses: []string{facts.FailedProcessTimes},
		Check: func(l *diagnose.Look) {
			all := crashesOf(l.Table(facts.FailedProcesses))
			slices.SortStableFunc(all, func(a, b *crashes) int {
				return cmp.Compare(b.count, a.count)
			})
			named := 0
			for _, c := range all {
				if c.shell(all) || !c.lasts() || c.code() && !c.loops(l) {
					continue
				}
				c.accuse(l)
				if named++; named == threshold.CrashMost {
					break
				}
			}
		},
	}
}

// crashes is the failures of a program under parents with one name, in one unit.
type crashes struct {
	process, parent, unit string
	rows                  []*diagnose.Row
	ends                  map[string]float64
	parents               map[string]bool // process IDs
	series                []float64       // per second
	count                 float64
	first, last           int // cells; -1: none
	s                     diagnose.Period
	supervised            bool
}

// crashesOf groups the failures that count.
func crashesOf(t *diagnose.Table) (all []*crashes) {
	units := map[[2]string]map[string]bool{}
	unitOf := func(r *diagnose.Row) string {
		group := facts.GroupOf(r.Word("cgroup"))
		if !strings.HasPrefix(group, "unit ") || strings.Contains(group, "container ") {
			return "" // a container changes with each start
		}
		return group
	}
	for _, r := range t.Rows {
		key := [2]string{r.Word("process"), r.Word("parentprocess")}
		if u := unitOf(r); u != "" {
			if units[key] == nil {
				units[key] = map[string]bool{}
			}
			units[key][u] = true
		}
	}
	at := map[[3]string]*crashes{}
	for _, r := range t.Rows {
		process, parent, end := r.Word("process"), r.Word("parentprocess"), r.Word("end")
		supervised := facts.IsSupervisor(parent)
		if !(r.Part(nil) > 0) || !isCrash(end, supervised) && !mayLoop(process, end) {
			continue
		}
		unit := unitOf(r)
		if known := units[[2]string{process, parent}]; unit == "" && len(known) == 1 {
			for unit = range known { // the control group of some processes could not be read
			}
		}
		key := [3]string{process, parent, unit}
		c := at[key]
		if c == nil {
			c = &crashes{process: process, parent: parent, unit: unit, supervised: supervised,
				ends: map[string]float64{}, parents: map[string]bool{}}
			at[key] = c
			all = append(all, c)
		}
		c.rows = append(c.rows, r)
		c.ends[end] += r.Part(nil) * diagnose.WholePeriod(t).Known
		c.parents[r.Word("parent")] = true
	}
	for _, c := range all {
		c.measure(t)
	}
	return all
}

// isCrash reports whether an end counts as a crash. Programs are also ended on purpose (SIGTERM,
// SIGINT, SIGHUP, SIGPIPE), and supervisors know who was killed.
func isCrash(end string, supervised bool) bool {
	if facts.CrashMeaning(end) != "" {
		return true
	}
	return supervised && (end == "SIGKILL" || strings.HasPrefix(end, "code "))
}

// mayLoop reports whether an end counts where the same parent starts the program again and again.
// Some programs answer a question with their code.
func mayLoop(process, end string) bool {
	return strings.HasPrefix(end, "code ") && !facts.AnswersByCode(process)
}

// loops reports whether one parent that supervises no services starts the program again and again,
// and it ends with the same code each time. Code 1 after some milliseconds is an answer, as grep's.
func (c *crashes) loops(l *diagnose.Look) bool {
	if len(c.parents) != 1 || len(c.ends) != 1 || c.parents["0"] || c.parents["1"] ||
		c.ends["code 1"] > 0 && c.lived(l) < threshold.CrashAsks {
		return false
	}
	return c.count >= threshold.CrashLoops && c.seconds() >= threshold.CrashLoopLasts &&
		c.s.Share() >= threshold.CrashLoopShare && !c.over()
}

// code reports whether the program ends by itself, with a code, under a parent that supervises no
// services.
func (c *crashes) code() bool {
	for end := range c.ends {
		if isCrash(end, c.supervised) {
			return false
		}
	}
	return true
}

func (c *crashes) measure(t *diagnose.Table) {
	c.series = t.Sum(c.rows)
	for _, n := range c.ends {
		c.count += n
	}
	c.first, c.last = -1, -1
	c.s, _ = diagnose.Lasting(t, nil, func(cell int) bool {
		if !(series.AtOrZero(c.series, cell)*t.Seconds[cell] >= 0.5) {
			return false
		}
		if c.first < 0 {
			c.first = cell
		}
		c.last = cell
		return true
	})
}

// shell reports whether a program only reports the end of another: sh ends with code 139 when what
// it ran ended by signal 11.
func (c *crashes) shell(all []*crashes) bool {
	for _, other := range all {
		if other.parent == c.process && other != c && other.count >= c.count/2 {
			return !slices.ContainsFunc(slices.Collect(maps.Keys(c.ends)), func(end string) bool {
				code, _ := strconv.Atoi(strings.TrimPrefix(end, "code "))
				return code <= 128
			})
		}
	}
	return false
}

// seconds returns the measured time from the first to the last crash.
func (c *crashes) seconds() (n float64) {
	for cell := c.first; cell < c.last; cell++ {
		n += c.rows[0].Table.Seconds[cell]
	}
	return n
}

// quiet returns the measured time after the last crash.
func (c *crashes) quiet() (n float64) {
	seconds := c.rows[0].Table.Seconds
	for _, sec := range seconds[c.last+1:] {
		n += sec
	}
	return n
}

// perMinute returns how often the program fails, from the first to the last crash.
func (c *crashes) perMinute() float64 {
	t := c.rows[0].Table
	last := c.series[c.last] * t.Seconds[c.last]
	return (c.count - last) / max(c.seconds(), 1) * 60
}

// lasts reports whether the program crashes again and again.
func (c *crashes) lasts() bool {
	cells := 0
	for _, in := range c.s.Mask {
		if in {
			cells++
		}
	}
	return cells >= threshold.LeastCells && c.perMinute() >= threshold.CrashRate
}

// over reports whether the program has stopped crashing.
func (c *crashes) over() bool {
	return c.quiet() >= threshold.CrashOver*60/c.perMinute()
}

// lived returns the mean lifetime in seconds; NaN when it is not known.
func (c *crashes) lived(l *diagnose.Look) float64 {
	t, sum := l.Table(facts.FailedProcessTimes), 0.0
	for _, r := range c.rows {
		sum += series.Or(t.Exact(r.Words()).Part(nil), 0)
	}
	if sum == 0 {
		return measure.NaN
	}
	return sum * diagnose.WholePeriod(t).Known / c.count
}

func (c *crashes) severity(lived float64) diagnose.Severity {
	code := slices.ContainsFunc(slices.Collect(maps.Keys(c.ends)), func(end string) bool {
		return strings.HasPrefix(end, "code ")
	})
	switch {
	case c.over(), c.code():
		return diagnose.Low
	case c.supervised && lived < threshold.CrashLife &&
		!(code && facts.IsContainerRuntime(c.parent)):
		return diagnose.High // the service is not there
	}
	return diagnose.Medium
}

// endings returns how the processes ended, the most frequent first: "SIGSEGV (7) and code 1 (2)".
func (c *crashes) endings() (text, most string) {
	ends := slices.SortedFunc(maps.Keys(c.ends), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.ends[b], c.ends[a]), strings.Compare(a, b))
	})
	var words []string
	for i, end := range ends[:min(len(ends), 3)] {
		if end = phrase.Clean(end); len(ends) > 1 {
			end = fmt.Sprintf("%s (%s)", end, phrase.Count(c.ends[ends[i]]))
		}
		words = append(words, end)
	}
	return phrase.List(words), ends[0]
}

// restarter returns who starts the program again.
func (c *crashes) restarter() string {
	name := phrase.Clean(c.parent)
	switch {
	case c.parent == "":
		return "parents that have ended"
	case len(c.parents) > 1:
		return name
	}
	for pid := range c.parents {
		if number, _ := strconv.Atoi(pid); number > 0 {
			name = phrase.ProcessName(c.parent, number)
		}
	}
	return name
}

// groups returns the control groups of the processes.
func (c *crashes) groups() (all []string) {
	for _, r := range c.rows {
		if g := r.Word("cgroup"); g != "" && !slices.Contains(all, g) {
			all = append(all, g)
		}
	}
	return all
}

func (c *crashes) accuse(l *diagnose.Look) {
	t := l.Table(facts.FailedProcesses)
	ends, most := c.endings()
	lived := c.lived(l)
	name, group := phrase.Clean(c.process), c.unit
	if all := c.groups(); group == "" && len(all) == 1 {
		group = facts.GroupOf(all[0])
	}
	if strings.HasPrefix(group, "cgroup ") {
		group = "" // it is neither a unit nor a container
	}
	culprit := diagnose.Culprit{Kind: "process", Name: c.process, Group: group}
	identity := name
	if c.unit != "" {
		identity += "/" + strings.ReplaceAll(c.unit, " ", ":")
	}
	if group != "" {
		name += " in " + group
	}
	claim := fmt.Sprintf("%s fails %s times per minute and is started again by %s: it ends with %s",
		name, phrase.Count(c.perMinute()), c.restarter(), ends)
	if lived == lived {
		claim += fmt.Sprintf(" after %s", phrase.Duration(lived*1e9))
	}
	if c.over() {
		claim += fmt.Sprintf("; not in the last %s s", phrase.Seconds(c.quiet()))
	}
	f := l.Found(identity, c.severity(lived), 0.9, culprit, claim+".")
	f.Subject = facts.CrashLoop{Process: c.process, Ends: c.ends, Cgroups: c.groups()}
	query := t.QueryOf(nil, "process", c.process, "parentprocess", c.parent)
	text := fmt.Sprintf("%s of them ended, %s s from the first to the last, %s",
		phrase.Count(c.count), phrase.Seconds(c.seconds()), ends)
	if means := facts.CrashMeaning(most); means != "" {
		text += ": " + means
	}
	f.AddEvidence(t, c.s, query, t.Part(c.series, nil), t.Unit, text)
	if lived == lived {
		lives := l.Table(facts.FailedProcessTimes)
		f.AddEvidence(lives, c.s, lives.QueryOf(nil, "process", c.process, "parentprocess",
			c.parent), lived, "s", fmt.Sprintf("they lived for %s each",
			phrase.Duration(lived*1e9)))
	}
	if c.code() {
		f.AddCaveat(0.2, "A script that asks by this program until something holds looks the same.")
	}
	if strings.HasPrefix(most, "code ") && facts.IsContainerRuntime(c.parent) {
		f.AddCaveat(0.2, "A command in the container that fails, such as a check of its health, "+
			"looks the same.")
	}
	f.Verify = fmt.Sprintf("journalctl -b -n 50 _COMM=%s; culprit trace exitsnoop -x",
		phrase.Shell(c.process))
}
