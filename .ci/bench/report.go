package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
)

// report prints a table of each world in Markdown.
func report(out io.Writer, all []result) {
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
