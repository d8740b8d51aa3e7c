package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// report prints the goals and a table of each world in Markdown.
func report(out io.Writer, all []result) {
	goals(out, all)
	for _, r := range all {
		w := r.World
		fmt.Fprintf(
			out, "\n### %s\n\n%d processes, %d connections, %d network devices.\n\n",
			strings.ToUpper(w.Name[:1])+w.Name[1:], w.Processes, w.Connections, w.Devices+1,
		)
		if w.Serve {
			serverTable(out, r.Server)
			continue
		}
		fmt.Fprint(
			out,
			"| work | tool | CPU ms per interval | numbers | us per number | system calls "+
				"| resident MB | first line ms |\n|---|---|--:|--:|--:|--:|--:|--:|\n",
		)
		for i, c := range r.Costs {
			group := c.Tool.Group
			if i > 0 && r.Costs[i-1].Tool.Group == group {
				group = ""
			}
			if c.Failed != "" {
				fmt.Fprintf(out, "| %s | %s | %s | | | | | |\n", group, c.Tool.name(), c.Failed)
				continue
			}
			fmt.Fprintf(
				out, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", group, c.Tool.name(),
				number(ms(c.CPU), 2), number(c.Numbers, 0), number(c.each(), 1),
				number(c.Syscalls, 0), number(float64(c.Resident)/1e6, 1), number(ms(c.First), 0),
			)
		}
	}
}

// serverTable prints the server's resource usage in each stage.
func serverTable(out io.Writer, stages []stage) {
	fmt.Fprint(
		out,
		"| program | after | viewers | values per second | % of one CPU since the line before "+
			"| of it collections | resident MB | of it its own | peak MB | heap alive MB "+
			"| most before it MB | archive MB |\n"+
			"|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
	)
	for _, g := range stages {
		who := "the page is open"
		if g.After <= 30*time.Second {
			who = "nobody"
		}
		mb := func(n int64) string { return number(float64(n)/1e6, 1) }
		fmt.Fprintf(
			out, "| %s | %v | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n",
			filepath.Base(g.Program), g.After, who, number(g.Values, 0), number(100*g.CPU, 2),
			number(100*g.GC, 2), mb(g.Resident), mb(g.Anon), mb(g.Peak), mb(g.Heap), mb(g.Goal),
			mb(g.Disk),
		)
	}
}

// lastOf returns the last stage of the first program. The others run beside it for comparison.
func lastOf(stages []stage) stage {
	end := stages[0]
	for _, g := range stages {
		if g.Program == end.Program {
			end = g
		}
	}
	return end
}

// growth returns the growth of the server's own memory in megabytes per hour: the slope of a line
// through the ends of all stages after the first ten minutes. 0: fewer than three stages.
func growth(stages []stage) float64 {
	var n, x, y, xx, xy float64
	for _, g := range stages {
		if h := g.After.Hours(); g.After > 10*time.Minute {
			n, x, y, xx, xy = n+1, x+h, y+float64(g.Anon)/1e6, xx+h*h, xy+h*float64(g.Anon)/1e6
		}
	}
	if n < 3 {
		return 0
	}
	return (n*xy - x*y) / (n*xx - x*x)
}

// goals prints the goals with the measured values. It omits goals whose world was not measured.
func goals(out io.Writer, all []result) {
	find := func(world, tool string) *cost {
		for i := range all {
			for k := range all[i].Costs {
				c := &all[i].Costs[k]
				if all[i].World.Name == world && strings.Trim(c.Tool.name(), "*") == tool &&
					c.Failed == "" {
					return c
				}
			}
		}
		return nil
	}
	const (
		every  = "all statistics"
		kept   = "all statistics, as `serve` reads them"
		system = "all statistics but processes' and connections'"
		most   = "500 processes, 20,000 connections"
	)
	fmt.Fprint(out, "| what | goal | measured |\n|---|--:|--:|\n")
	row := func(what, goal string, measured float64, decimals int, unit string) {
		if measured > 0 {
			fmt.Fprintf(
				out, "| %s | %s %s | %s %s |\n", what, goal, unit, number(measured, decimals), unit,
			)
		}
	}
	share := func(world, tool string) float64 {
		if c := find(world, tool); c != nil {
			return ms(c.CPU) / 10
		}
		return 0
	}
	for _, w := range []struct{ world, goal, of string }{
		{"10 processes", "0.3", ""}, {"500 processes", "0.7", ", 500 processes"},
	} {
		row(every+" each second"+w.of, w.goal, share(w.world, every), 2, "% of one CPU")
		row("the same, as `serve` reads them"+w.of, w.goal, share(w.world, kept), 2, "% of one CPU")
	}
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
	for _, r := range all {
		if r.World.Resident > 0 && len(r.Server) > 0 {
			end := lastOf(r.Server)
			row(
				fmt.Sprintf("%s: resident after %v", r.World.Name, end.After),
				strconv.Itoa(r.World.Resident), float64(end.Resident)/1e6, 0, "MB",
			)
		}
		if r.World.Name == "server" && len(r.Server) > 0 {
			end := lastOf(r.Server)
			row(
				"the server with one viewer, "+number(end.Values, 0)+" values per second", "1",
				100*end.CPU, 2, "% of one CPU",
			)
			row(
				fmt.Sprintf("the same, resident after %v", end.After), "80",
				float64(end.Resident)/1e6, 0, "MB",
			)
			if len(r.Server) > 4 {
				fmt.Fprintf(
					out, "| the same, growth of its own memory | 0 MB an hour | %s MB an hour |\n",
					number(growth(r.Server), 2),
				)
			}
		}
	}
	// The same work: one run of culprit, and the classic tools with the same numbers.
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
	units(out, find)
}

// each returns the microseconds that a number took; 0 where they were not counted.
func (c *cost) each() float64 {
	if c.Numbers == 0 {
		return 0
	}
	return 1000 * ms(c.CPU) / c.Numbers
}

// units prints the costs of a unit of work, of culprit and of the classic tool. A unit is a printed
// number, or one more device, process or connection.
func units(out io.Writer, find func(world, tool string) *cost) {
	const system, devices = "system", "100 devices"
	fmt.Fprint(out, "\n| a unit of work, us | culprit | classic tool | |\n|---|--:|--:|---|\n")
	row := func(what string, ours, theirs float64, against string) {
		if ours > 0 && theirs > 0 {
			fmt.Fprintf(
				out, "| %s | %s | %s | %s |\n", what, number(ours, 2), number(theirs, 2), against,
			)
		}
	}
	each := func(world, tool string) float64 {
		if c := find(world, tool); c != nil {
			return c.each()
		}
		return 0
	}
	for _, p := range []struct{ world, ours, theirs string }{
		{system, "culprit nic 1", "nicstat 1"}, {system, "culprit nic -w 1", "nicstat -x 1"}, {devices, "culprit nic 1", "nicstat 1"}, {devices, "culprit nic -w 1", "nicstat -x 1"},
		{system, "culprit cpu 1", "mpstat -P ALL 1"}, {system, "culprit cpu -w 1", "mpstat -P ALL 1"},
		{system, "culprit irq 1", "mpstat -P ALL -I ALL 1"}, {system, "culprit irq -a -w 1", "mpstat -P ALL -I ALL 1"},
		{system, "culprit disk 1", "iostat -x 1"}, {system, "culprit disk -w 1", "iostat -x 1"},
		{system, "culprit mem 1", "sar -r ALL -B -W -S 1"}, {system, "culprit mem -w 1", "sar -r ALL -B -W -S 1"},
		{"10 connections", "culprit tcp 1", "sar -n TCP,ETCP,IP,SOCK 1"}, {"10 connections", "culprit tcp -w 1", "sar -n TCP,ETCP,IP,SOCK 1"},
		{system, "all statistics but processes' and connections'", "sadc -S ALL 1"}, {system, "all statistics but processes' and connections'", "sar -A 1"},
	} {
		row(
			fmt.Sprintf("a number, world %s: %s", p.world, p.ours), each(p.world, p.ours),
			each(p.world, p.theirs), p.theirs,
		)
	}
	// more returns the cost of one more unit: the difference between many and few, divided by n.
	more := func(few, many, tool string, n float64) float64 {
		a, b := find(few, tool), find(many, tool)
		if a == nil || b == nil {
			return 0
		}
		return 1000 * (ms(b.CPU) - ms(a.CPU)) / n
	}
	row(
		"a device: nic", more(system, devices, "culprit nic 1", 100),
		more(system, devices, "nicstat 1", 100), "nicstat 1",
	)
	row(
		"a process: ps", more("10 processes", "500 processes", "culprit ps 1", 490),
		more("10 processes", "500 processes", "pidstat -u -r -d -w -v 1", 490),
		"pidstat -u -r -d -w -v 1",
	)
	row(
		"a connection: flows",
		more("10 connections", "20,000 connections", "culprit flows 1", 19990),
		more("10 connections", "20,000 connections", "ss -tinp, once a second", 19990), "ss -tinp",
	)
}

// name returns what a reader would type; ours are bold.
func (t *tool) name() string {
	line := strings.Join(append([]string{filepath.Base(t.Args[0])}, t.Args[1:]...), " ")
	switch {
	case t.Args[0] == "everything" && strings.Contains(line, notOfTheSystem):
		return "**all statistics but processes' and connections'**"
	case t.Args[0] == "everything" && strings.HasSuffix(line, long):
		return "**all statistics, as `serve` reads them**"
	case t.Args[0] == "everything":
		return "**all statistics**"
	case t.Args[0] == "culprit":
		return "**" + line + "**"
	case t.Args[0] == "least":
		return "the least that a Go program can do"
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
