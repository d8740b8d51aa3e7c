package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const head = `# How often the diagnosis is right

The fault lab (` + "`cases/`" + `) makes each fault for real, and knows the culprit. A run plays a fault,
or its healthy twin, starts ` + "`culprit diagnose`" + ` (ten seconds), and compares the findings with the
truth. This page is made of ` + "`cases/accuracy/runs.jsonl`" + `, which has a line for each run; a test
compares both.

    sudo make cases                        # runs what is missing, then writes this page
    sudo make cases RUNS=5 ONLY=peer FOR=30m

* **recall**: the share of the runs in which the right culprit was found: rule, kind and name.
* **first**, **in three**: it was the first finding, or among the first three.
* **precision**: the share of the findings of high and medium severity that are true: the fault, or
  what the lab lists as its consequence.
* **seconds**: from the start of the command to its report, the median and the highest. A report
  that measures more after its findings, in an experiment, is three seconds later.
* **loaded**: runs while programs outside the lab used more than 30 % of the CPUs. They count only
  where quiet runs are missing. Findings about CPUs are not counted there, except of the fault.
* A row has the newest 20 runs of the five stories of the tutorials and their twins, and 10 of
  other stories.
`

// document returns docs/ACCURACY.md.
func document(runs []Run) string {
	var b strings.Builder
	b.WriteString(head)
	counted := newest(runs)
	writeOrigin(&b, runs, counted)
	writeTotals(&b, counted)
	for _, part := range []struct {
		title  string
		beside bool
	}{
		{"Faults alone", false},
		{"Faults beside a second workload", true},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n", part.title)
		if part.beside {
			b.WriteString("The second workload is healthy: a fifth of each CPU in several " +
				"processes, and 20 MB/s over\nloopback.\n\n")
		}
		writeFaults(&b, counted, part.beside)
	}
	writeTwins(&b, counted)
	writeRules(&b)
	writeMistakes(&b, counted)
	return b.String()
}

// stories returns the names of the stories of the runs, with or without a fault: the five and their
// twins first. A story without runs is not on the page, so a new story does not change the page.
func stories(counted map[mode][]Run, fault bool) (out []string) {
	five := map[string]bool{}
	for m, some := range counted {
		if _, seen := five[m.story]; !seen && some[0].Fault == fault {
			five[m.story] = some[0].Five
			out = append(out, m.story)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(boolOrder(five[a], five[b]), strings.Compare(a, b))
	})
	return out
}

// boolOrder sorts true before false.
func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// total returns the summary of all stories of a kind in a mode.
func total(counted map[mode][]Run, names []string, beside bool) summary {
	var all []Run
	for _, name := range names {
		all = append(all, counted[mode{name, beside}]...)
	}
	return summarize(all)
}

// writeOrigin writes when, where and on which commits the runs were made.
func writeOrigin(b *strings.Builder, runs []Run, counted map[mode][]Run) {
	var some []Run
	for _, c := range counted {
		some = append(some, c...)
	}
	if len(some) == 0 {
		b.WriteString("\nThere are no runs yet.\n")
		return
	}
	slices.SortFunc(some, func(x, y Run) int { return x.At.Compare(y.At) })
	kernels, commits := map[string]bool{}, map[string]bool{}
	for _, r := range some {
		kernels[fmt.Sprintf("Linux %s with %d CPUs", r.Kernel, r.CPUs)] = true
		commits[r.Commit] = true
	}
	void := 0
	for _, r := range runs {
		if r.Void != "" {
			void++
		}
	}
	s := summarize(some)
	writeText(b, fmt.Sprintf("%d runs count, of %s to %s, on %s, of %d commits from %s to %s. %d "+
		"of them are loaded. %d runs are void: the scene was not as it should be.", len(some),
		some[0].At.UTC().Format("2006-01-02"), some[len(some)-1].At.UTC().Format("2006-01-02"),
		strings.Join(sorted(kernels), ", "), len(commits), some[0].Commit,
		some[len(some)-1].Commit, s.Loaded, void))
}

// writeTotals writes the table of all faults and twins together.
func writeTotals(b *strings.Builder, counted map[mode][]Run) {
	b.WriteString("\n## Together\n\n| | second workload | runs | loaded | recall | first | " +
		"in three | precision |\n|---|---|---|---|---|---|---|---|\n")
	five, others := []string{}, []string{}
	for _, name := range stories(counted, true) {
		if isFive(counted, name) {
			five = append(five, name)
		} else {
			others = append(others, name)
		}
	}
	for _, part := range []struct {
		title string
		names []string
	}{{"five stories", five}, {"other faults", others}} {
		for _, beside := range []bool{false, true} {
			s := total(counted, part.names, beside)
			fmt.Fprintf(b, "| %s | %s | %d | %d | %s | %s | %s | %s |\n", part.title,
				yes(beside), s.Runs, s.Loaded, share(s.Found, s.Runs), share(s.First, s.Runs),
				share(s.Near, s.Runs), share(s.True, s.Severe))
		}
	}
	b.WriteString("\n| | second workload | runs | loaded | runs with a false accusation |\n" +
		"|---|---|---|---|---|\n")
	for _, beside := range []bool{false, true} {
		s := total(counted, stories(counted, false), beside)
		fmt.Fprintf(b, "| healthy twins | %s | %d | %d | %s |\n", yes(beside), s.Runs, s.Loaded,
			share(s.Accused, s.Runs))
	}
}

// isFive reports whether the runs of a story are of the five.
func isFive(counted map[mode][]Run, story string) bool {
	for _, beside := range []bool{false, true} {
		if some := counted[mode{story, beside}]; len(some) > 0 {
			return some[0].Five
		}
	}
	return false
}

// writeFaults writes the table of the faults of a mode.
func writeFaults(b *strings.Builder, counted map[mode][]Run, beside bool) {
	b.WriteString("| fault | runs | loaded | recall | first | in three | precision | median s | " +
		"highest s |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, name := range stories(counted, true) {
		s := summarize(counted[mode{name, beside}])
		median, highest := "-", "-"
		if n := len(s.Seconds); n > 0 {
			median = fmt.Sprintf("%.1f", s.Seconds[n/2])
			highest = fmt.Sprintf("%.1f", s.Seconds[n-1])
		}
		fmt.Fprintf(b, "| %s | %d | %d | %s | %s | %s | %s | %s | %s |\n", name, s.Runs, s.Loaded,
			share(s.Found, s.Runs), share(s.First, s.Runs), share(s.Near, s.Runs),
			share(s.True, s.Severe), median, highest)
	}
}

// writeTwins writes the table of the healthy stories.
func writeTwins(b *strings.Builder, counted map[mode][]Run) {
	b.WriteString("\n## Healthy twins\n\nA false accusation is a finding of high or medium " +
		"severity.\n\n| twin | runs | loaded | accused | runs beside | loaded | accused |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, name := range stories(counted, false) {
		alone := summarize(counted[mode{name, false}])
		beside := summarize(counted[mode{name, true}])
		fmt.Fprintf(b, "| %s | %d | %d | %s | %d | %d | %s |\n", name, alone.Runs, alone.Loaded,
			accused(alone), beside.Runs, beside.Loaded, accused(beside))
	}
}

// accused formats the number of runs with a false accusation.
func accused(s summary) string {
	if s.Runs == 0 {
		return "-"
	}
	return fmt.Sprint(s.Accused)
}

// writeMistakes lists the runs in which something was wrong, the newest first per story.
func writeMistakes(b *strings.Builder, counted map[mode][]Run) {
	b.WriteString("\n## What was wrong\n")
	n := 0
	for _, name := range append(stories(counted, true), stories(counted, false)...) {
		for _, beside := range []bool{false, true} {
			for _, r := range counted[mode{name, beside}] {
				if len(r.Wrong) == 0 {
					continue
				}
				n++
				which := name
				if beside {
					which += ", second workload"
				}
				if r.Loaded {
					which += fmt.Sprintf(", others used %.1f CPUs", r.Others)
				}
				writeText(b, fmt.Sprintf("* %s (%s, %s): %s", which,
					r.At.UTC().Format("2006-01-02 15:04"), r.Commit, plain(r.Wrong)))
			}
		}
	}
	if n == 0 {
		b.WriteString("\nNothing in the runs that count.\n")
	}
}

// plain joins what was wrong, without what Markdown or a table would read as its own.
func plain(wrong []string) string {
	return strings.NewReplacer("|", "/", "<", "(", ">", ")", "*", "", "`", "'", "_", "\\_").Replace(
		strings.Join(wrong, "; "))
}

// writeText writes a paragraph, wrapped at 100 columns.
func writeText(b *strings.Builder, text string) {
	indent := ""
	if strings.HasPrefix(text, "* ") {
		indent = "  "
	}
	b.WriteString("\n")
	width := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case width+1+len([]rune(word)) > 100:
			b.WriteString("\n" + indent)
			width = len(indent)
		default:
			b.WriteString(" ")
			width++
		}
		b.WriteString(word)
		width += len([]rune(word))
	}
	b.WriteString("\n")
}

// yes formats a bool.
func yes(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}

// sorted returns the keys of a set in order.
func sorted(set map[string]bool) (out []string) {
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
