package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
)

// report prints the goals and a table of each world in Markdown.
func report(out io.Writer, all []result) {
	goals(out, all)
	for _, r := range all {
		w := r.World
		fmt.Fprintf(out, "\n### %s\n\n%d processes, %d connections, %d network devices.\n\n", strings.ToUpper(w.Name[:1])+w.Name[1:], w.Processes, w.Connections, w.Devices+1)
		fmt.Fprint(out, "| work | tool | CPU ms an interval | % of one CPU | system calls | resident MB | first line ms |\n|---|---|--:|--:|--:|--:|--:|\n")
		for i, c := range r.Costs {
			group := c.Tool.Group
			if i > 0 && r.Costs[i-1].Tool.Group == group {
				group = ""
			}
			if c.Failed != "" {
				fmt.Fprintf(out, "| %s | %s | %s | | | | |\n", group, c.Tool.name(), c.Failed)
				continue
			}
			fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %s |\n", group, c.Tool.name(), number(ms(c.CPU), 2), number(ms(c.CPU)/10, 3),
				number(c.Syscalls, 0), number(float64(c.Resident)/1e6, 1), number(ms(c.First), 0))
		}
	}
}

// goals prints the goals and what was measured of them; a goal whose world was not made is left out.
func goals(out io.Writer, all []result) {
	find := func(world, tool string) *cost {
		for i := range all {
			for k := range all[i].Costs {
				c := &all[i].Costs[k]
				if all[i].World.Name == world && strings.Trim(c.Tool.name(), "*") == tool && c.Failed == "" {
					return c
				}
			}
		}
		return nil
	}
	const every, system, most = "all statistics", "all statistics but processes' and connections'", "500 processes, 20,000 connections"
	fmt.Fprint(out, "| what | goal | measured |\n|---|--:|--:|\n")
	row := func(what, goal string, measured float64, decimals int, unit string) {
		if measured > 0 {
			fmt.Fprintf(out, "| %s | %s %s | %s %s |\n", what, goal, unit, number(measured, decimals), unit)
		}
	}
	share := func(world string) float64 {
		if c := find(world, every); c != nil {
			return ms(c.CPU) / 10
		}
		return 0
	}
	row("all statistics each second", "0.3", share("10 processes"), 2, "% of one CPU")
	row("all statistics each second, 500 processes", "0.7", share("500 processes"), 2, "% of one CPU")
	if c := find("20,000 connections", "culprit flows 1"); c != nil {
		row("20,000 connections, an interval", "30", ms(c.CPU), 0, "ms")
	}
	var memory, first float64
	for _, r := range all {
		for _, c := range r.Costs {
			if r.World.Name == most && c.Failed == "" {
				memory = max(memory, float64(c.Resident)/1e6)
			}
			if strings.HasPrefix(c.Tool.name(), "**") && c.Tool.Over < 5 {
				first = max(first, ms(c.First))
			}
		}
	}
	row("most resident of any command, "+most, "40", memory, 0, "MB")
	row("latest first line of a tool", "50", first, 0, "ms after the interval")
	// The same work: what one run of culprit sees, and the tools that it takes to see as much.
	for _, w := range []struct {
		what, world, ours string
		theirs            []string
	}{
		{"the system beside sar -A, iostat, mpstat -I and nicstat", "system", system, []string{"sar -A 1", "iostat -x 1", "mpstat -P ALL -I ALL 1", "nicstat 1"}},
		{"500 processes: `ps` beside pidstat", "500 processes", "culprit ps 1", []string{"pidstat -u -r -d -w -v 1"}},
		{"20,000 connections: `flows` beside ss", "20,000 connections", "culprit flows 1", []string{"ss -tinp, once a second"}},
	} {
		c := find(w.world, w.ours)
		var sum float64
		for _, name := range w.theirs {
			if t := find(w.world, name); t != nil {
				sum += ms(t.CPU)
			}
		}
		if c != nil && sum > 0 {
			row(w.what, number(sum, 2), ms(c.CPU), 2, "ms")
		}
	}
}

// name gives what a reader would type; ours are bold.
func (t *tool) name() string {
	line := strings.Join(append([]string{filepath.Base(t.Args[0])}, t.Args[1:]...), " ")
	switch {
	case t.Args[0] == "everything" && strings.Contains(line, notOfTheSystem):
		return "**all statistics but processes' and connections'**"
	case t.Args[0] == "everything":
		return "**all statistics**"
	case t.Args[0] == "culprit":
		return "**" + line + "**"
	case t.Loop:
		return line + ", once a second"
	}
	return line
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

func number(v float64, decimals int) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.*f", decimals, v)
}
