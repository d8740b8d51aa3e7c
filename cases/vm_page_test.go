package cases

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/KERNELS.md anew")

// A kernelFound is what came of one kernel: commands of vm/check, and what tests log of features
// and probes.
type kernelFound struct {
	rows   []kernelRow
	needs  [][]string // name, version, true or false, what is used without it
	probes map[string]string
}

// A kernelRow is a Result of vm/check.
type kernelRow struct {
	Row, Cell, Problem string
	Seconds            float64
}

// readFound reads the output of an emulated machine.
func readFound(out []byte) *kernelFound {
	f := &kernelFound{probes: map[string]string{}}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		var r kernelRow
		if strings.HasPrefix(line, `{"Row":`) && json.Unmarshal([]byte(line), &r) == nil {
			f.rows = append(f.rows, r)
		}
		_, logged, _ := strings.Cut(line, ".go:")
		_, logged, _ = strings.Cut(logged, ": ")
		switch words := strings.Split(logged, "\t"); {
		case len(words) == 5 && words[0] == "need":
			f.needs = append(f.needs, words[1:])
		case len(words) == 3 && words[0] == "probe":
			f.probes[words[1]] = words[2]
		}
	}
	slices.SortFunc(f.rows, func(a, b kernelRow) int { return strings.Compare(a.Row, b.Row) })
	return f
}

// longest names the commands that took longest.
func (f *kernelFound) longest() string {
	rows := slices.Clone(f.rows)
	slices.SortFunc(rows, func(a, b kernelRow) int { return int(1000 * (b.Seconds - a.Seconds)) })
	var out []string
	for _, r := range rows[:min(len(rows), 8)] {
		out = append(out, fmt.Sprintf("%s %.0f s", r.Row, r.Seconds))
	}
	return strings.Join(out, ", ")
}

// checkKernelPage holds docs/KERNELS.md against what was found, or writes it with -update.
func checkKernelPage(t *testing.T, found map[string]*kernelFound) {
	t.Helper()
	const path = "../docs/KERNELS.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	probes, err := probeTable(found)
	if err != nil {
		t.Error(err)
	}
	page := string(text)
	tables := map[string]string{"features": featureTable(t, found), "probes": probes}
	if withCommands() {
		tables["commands"] = commandTable(t, found)
	}
	for name, table := range tables {
		begin, end := "<!-- "+name+", from go test ./cases -run TestKernels -update -->\n", "<!-- end of "+name+" -->\n"
		before, rest, ok := strings.Cut(page, begin)
		_, after, ended := strings.Cut(rest, end)
		if !ok || !ended {
			t.Fatalf("%s lacks %q or %q", path, begin, end)
		}
		page = before + begin + table + end + after
	}
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if page != string(text) {
		t.Errorf("%s is not what was found; go test ./cases -run TestKernels -update writes it:\n%s", path, page)
	}
}

// heads returns the kernels from the oldest on, as the head of a table.
func heads(before, after string) (series []string, head string) {
	series = []string{"5.10", "6.1", "6.12", "7.2"}
	columns := slices.Concat([]string{before}, series, strings.Fields(after))
	return series, "| " + strings.Join(columns, " | ") + " |\n" + strings.Repeat("|---", len(columns)) + "|\n"
}

// commandTable has a row per command.
func commandTable(t *testing.T, found map[string]*kernelFound) string {
	t.Helper()
	series, out := heads("command", "")
	for i, row := range found[series[0]].rows {
		out += "| " + row.Row
		for _, s := range series {
			if len(found[s].rows) <= i || found[s].rows[i].Row != row.Row {
				t.Fatalf("%s has %d commands, and no %s", s, len(found[s].rows), row.Row)
			}
			out += " | " + found[s].rows[i].Cell
		}
		out += " |\n"
	}
	return out
}

// featureTable has a row per part of the kernel, with what is used without it. It refuses a version
// that a kernel refutes.
func featureTable(t *testing.T, found map[string]*kernelFound) string {
	t.Helper()
	series, out := heads("feature", "since without")
	for i, need := range found[series[0]].needs {
		out += "| " + need[0]
		for _, s := range series {
			if len(found[s].needs) <= i || found[s].needs[i][0] != need[0] {
				t.Fatalf("%s: no result for %s", s, need[0])
			}
			out += " | " + map[string]string{"true": "yes", "false": "no"}[found[s].needs[i][2]]
		}
		out += " | " + need[1] + " | " + need[3] + " |\n"
	}
	return strings.Replace(out, " without |", " without it |", 1)
}

// probeTable has a row per stable probe that an older kernel lacks and a newer one has. The message
// of the older one has to name the version that brought it.
func probeTable(found map[string]*kernelFound) (out string, err error) {
	series, out := heads("probe", "")
	newest := found[series[len(series)-1]].probes
	var names []string
	for name, have := range newest {
		if strings.HasPrefix(have, "yes ") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		row, lacking := "| `"+name+"`", false
		for _, s := range series {
			why := found[s].probes[name]
			if why == newest[name] {
				row += " | yes"
				continue
			}
			// A place that is missing leaves firings out.
			if n, ok := strings.CutPrefix(why, "yes "); ok {
				row += " | yes; " + n + " of " + strings.TrimPrefix(
					newest[name], "yes ",
				) + " places"
				lacking = true
				continue
			}
			lacking = true
			_, version, ok := strings.Cut(why, ": Linux ")
			version, _, named := strings.Cut(version, " brought it")
			if !ok || !named {
				err = errors.Join(
					err, fmt.Errorf("%s on Linux %s: %q names no version", name, s, why),
				)
			}
			row += " | from " + version
		}
		if lacking {
			out += row + " |\n"
		}
	}
	return out, err
}

// A probe that an older kernel lacks needs a version in its message; one that no kernel has does
// not.
func TestProbeTable(t *testing.T) {
	found := func(lock string) map[string]*kernelFound {
		all := map[string]*kernelFound{}
		series, _ := heads("", "")
		for _, s := range series {
			out := "    x_test.go:1: probe\tlockstat:::b\tyes 2\n    x_test.go:1: probe\tio:::wait\tcan't be had here\n"
			if s == "5.10" {
				out = "    x_test.go:1: probe\tlockstat:::b\t" + lock + "\n"
			}
			all[s] = readFound([]byte(out))
		}
		return all
	}
	if out, err := probeTable(found("no tracepoint e: Linux 5.19 brought it")); err != nil ||
		!strings.Contains(out, "| `lockstat:::b` | from 5.19 | yes | yes | yes |\n") ||
		strings.Contains(out, "io:::wait") {
		t.Errorf("%v, %s", err, out)
	}
	if out, err := probeTable(found("yes 1")); err != nil ||
		!strings.Contains(out, "| `lockstat:::b` | yes; 1 of 2 places | yes | yes | yes |\n") {
		t.Errorf("%v, %s", err, out)
	}
	if _, err := probeTable(found("no tracepoint e")); err == nil {
		t.Error("a message without a version passes")
	}
}
