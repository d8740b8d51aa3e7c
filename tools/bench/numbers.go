package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
)

// The work of a tool is the count of numbers that it prints per interval. Names of rows (a CPU, a
// process, an interrupt), times and the averages at the end do not count. An unknown number, "-",
// counts. BenchmarkEverything, which prints nothing, reports its own count. The numbers of sadc are
// those that sar -A prints from its file.

var (
	printed = regexp.MustCompile(`^-?\d+(\.\d+)?[KMGTPE%]?$|^-$`)
	rowsOf  = regexp.MustCompile(`([0-9.]+) rows/interval`)
)

// table: names says which heads are those of a row's name.
var names = map[string]bool{
	"CPU":      true,
	"IRQ":      true,
	"INTR":     true,
	"PID":      true,
	"TGID":     true,
	"TID":      true,
	"UID":      true,
	"BUS":      true,
	"idvendor": true,
	"idprod":   true,
}

// numbers returns the count of numbers that the tool prints in one interval; 0: unknown.
func (s *settings) numbers(t tool) float64 {
	args, reports := t.First, max(t.Reports, 1)
	switch {
	case t.Args[0] == "everything":
		args = append(append([]string(nil), t.Args...), "-test.benchtime=1x", "-step=200ms")
	case t.Args[0] == sadc:
		args = []string{"sar", "-A", "1", "1"}
	// text, or the first rows of many
	case len(args) == 0 || t.Loop || t.TTY || t.Over >= 5 || t.Group == inMemory ||
		t.Args[1] == "flows" || t.Args[1] == "ps" || t.Args[0] == "pidstat":
		return 0
	}
	cmd := s.program(args)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "S_TIME_FORMAT=ISO")
	out, err := cmd.Output()
	if err != nil {
		return 0
	}
	if t.Args[0] == "everything" {
		if m := rowsOf.FindSubmatch(out); m != nil {
			n, _ := strconv.ParseFloat(string(m[1]), 64)
			return n
		}
		return 0
	}
	return float64(countNumbers(string(out))) / float64(reports)
}

// countNumbers counts the numbers of a table as a terminal shows it. A line without any is a head.
func countNumbers(text string) (n int) {
	var head []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "Average") {
			continue
		}
		found := 0
		for i, w := range words {
			if !printed.MatchString(w) {
				continue
			}
			// Names of several words shift what stands behind them.
			if found++; i < len(head) && names[head[i]] && (i < 2 || len(words) == len(head)) {
				continue
			}
			n++
		}
		if found == 0 {
			head = words
		}
	}
	return n
}
