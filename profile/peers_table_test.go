package profile

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// callTrees are inferno's test data other than those of perf script and DTrace, with inferno's
// results.
func callTrees(data string) (cases []peer) {
	for _, c := range []struct {
		in, want string
		o        Options
		more     int
	}{
		{in: "perf/single-event.txt", want: "single-event-collapsed.txt"},
		{in: "perf/no-events.txt", want: "no-events-collapsed.txt"},
		// inferno keeps the last of several lines with the same names. This package adds them, like
		// FlameGraph's script.
		{in: "sample/sample.txt", want: "sample-default.txt", more: 2},
		{in: "vtune/vtune.csv", want: "vtune-default.txt"},
		{in: "vsprof/CallTreeSummary.csv", want: "vsprof-default.txt", more: 5}, // as above
		{in: "ghcprof/percent.prof", want: "percent.txt"},
		{in: "ghcprof/ticks.prof", want: "ticks.txt"},
		{in: "ghcprof/ticks.prof", want: "ticks_ticks.txt", o: Options{Value: "ticks"}},
		{in: "ghcprof/ticks.prof", want: "ticks_bytes.txt", o: Options{Value: "bytes"}},
		{in: "ghcprof/utf8.prof", want: "utf8.txt"},
		{in: "ghcprof/utf8.prof", want: "utf8_ticks.txt", o: Options{Value: "ticks"}},
		{in: "ghcprof/utf8.prof", want: "utf8_bytes.txt", o: Options{Value: "bytes"}},
		{in: "xctrace/basic.xml", want: "basic.folded"},
		{in: "xctrace/simple_frame_without_binary_info.xml", want: "simple_frame_without_binary_info.folded"},
	} {
		in := filepath.Join(data, "collapse-"+c.in)
		cases = append(
			cases,
			peer{in: in, want: filepath.Join(filepath.Dir(in), "results", c.want), o: c.o,
				more: c.more},
		)
	}
	// Files with two amounts: the other file contains the other amount. --diff does what inferno's
	// options to normalise and strip addresses do.
	diff := filepath.Join(data, "diff-folded")
	return append(
		cases,
		peer{in: filepath.Join(diff, "results/default.txt"),
			want: filepath.Join(diff, "before.txt"), o: Options{Amount: 1}},
		peer{in: filepath.Join(diff, "results/default.txt"), want: filepath.Join(diff, "after.txt"),
			o: Options{Amount: 2}},
	)
}

// Reasons why a file of inferno is not compared with a result of inferno.
const (
	itself  = "folded already: a line's amount is that of its stack"
	refused = "inferno refuses it, or says what is wrong: so it is here, as an error or a note"
	waiting = "all threads wait, and it has no end: both are notes"
	large   = "a benchmark: inferno has no result of it"
	unlike  = "no stacks: names and their attributes, colours, or another text"
)

// others are the files of inferno that callTrees and TestPeers don't contain, by the end of their
// names.
var others = map[string]string{ // table: never changed
	"collapse-dtrace/only-header-lines.txt":                                        refused,
	"collapse-guess/invalid-perf-with-empty-line-after-event-line.txt":             refused,
	"collapse-guess/unknown-format.txt":                                            refused,
	"collapse-perf/empty-line.txt":                                                 refused,
	"collapse-perf/weird-stack-line.txt":                                           refused,
	"collapse-recursive/basic.txt":                                                 itself,
	"collapse-sample/bad-stack-line.txt":                                           refused,
	"collapse-sample/end-before-call-graph-end.txt":                                waiting,
	"collapse-sample/end-before-call-graph-start.txt":                              refused,
	"collapse-sample/invalid-samples-field.txt":                                    refused,
	"collapse-sample/large.txt.gz":                                                 large,
	"collapse-sample/no-four-spaces.txt":                                           refused,
	"collapse-sample/odd-indentation.txt":                                          refused,
	"collapse-sample/skipped-indentation.txt":                                      refused,
	"collapse-sample/stack-line-only-indent-chars.txt":                             refused,
	"collapse-vsprof/empty-file.csv":                                               refused,
	"collapse-vsprof/incorrect-header.csv":                                         refused,
	"collapse-vsprof/invalid-depth.csv":                                            refused,
	"collapse-vsprof/invalid-function-name.csv":                                    refused,
	"collapse-vsprof/invalid-number-of-calls.csv":                                  refused,
	"collapse-vsprof/missing-function-name.csv":                                    refused,
	"collapse-vtune/bad-stack-line.csv":                                            refused,
	"collapse-vtune/end-before-header.csv":                                         refused,
	"collapse-vtune/invalid-time-field.csv":                                        refused,
	"collapse-vtune/skipped-indentation.csv":                                       refused,
	"diff-folded/after.txt":                                                        itself,
	"diff-folded/bad_before.txt":                                                   refused,
	"diff-folded/before.txt":                                                       itself,
	"diff-folded/before_fractionals.txt":                                           itself,
	"flamegraph/austin/flames.txt":                                                 itself,
	"flamegraph/bad-lines/bad-lines.txt":                                           refused,
	"flamegraph/base/flames.txt":                                                   itself,
	"flamegraph/colors/async-profiler-collapsed-part.txt":                          itself,
	"flamegraph/differential/perf-cycles-instructions-01-collapsed-all-diff.txt":   itself,
	"flamegraph/empty/empty.txt":                                                   refused,
	"flamegraph/flamechart/flames.txt":                                             itself,
	"flamegraph/fractional-samples/fractional.txt":                                 itself,
	"flamegraph/fractional-samples/no-fractionals.txt":                             itself,
	"flamegraph/fractional-samples/tricky-stack.txt":                               itself,
	"flamegraph/fractional-samples/with-space.txt":                                 itself,
	"flamegraph/fractional-samples/zero-fractionals.txt":                           itself,
	"flamegraph/grey-frames/grey-frames.txt":                                       itself,
	"flamegraph/multiple-inputs/perf-vertx-stacks-01-collapsed-all-unsorted-1.txt": itself,
	"flamegraph/multiple-inputs/perf-vertx-stacks-01-collapsed-all-unsorted-2.txt": itself,
	"flamegraph/narrow-blocks/narrow-blocks.txt":                                   itself,
	"flamegraph/unsorted-input/perf-vertx-stacks-01-collapsed-all-unsorted.txt":    itself,
	"flamegraph/nameattr/nameattr.txt":                                             unlike,
	"flamegraph/nameattr/nameattr_duplicate_attributes.txt":                        unlike,
	"flamegraph/nameattr/nameattr_empty_attribute.txt":                             unlike,
	"flamegraph/nameattr/nameattr_empty_first_line.txt":                            unlike,
	"flamegraph/nameattr/nameattr_invalid_attribute.txt":                           unlike,
	"flamegraph/example-perf-stacks/palette.map":                                   unlike,
	"flamegraph/palette-map/palette.map":                                           unlike,
	"flamegraph/palette-map/palette_invalid.map":                                   unlike,
}

// accountFor checks that the table contains each file of inferno's test data, and that its
// statements are true.
func accountFor(t *testing.T, data string, cases []peer) {
	held := map[string]bool{}
	for _, c := range cases {
		held[c.in] = true
	}
	seen := map[string]int{}
	err := filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Base(filepath.Dir(path)) == "results" ||
			strings.HasSuffix(path, ".svg") {
			return err
		}
		name := strings.TrimPrefix(path, data+"/")
		why, known := others[name]
		switch {
		case held[path]:
			why = "held to its result"
			if known && others[name] != itself {
				t.Errorf("%s is in the table, and held to a result", name)
			}
		case !known:
			t.Errorf("%s is not in the table", name)
			return nil
		}
		seen[why]++
		in, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		tree, wrong := Read(never, bytes.NewReader(in), name, Options{})
		switch why {
		case refused:
			if wrong == nil && len(tree.Notes) == 0 {
				t.Errorf("%s: nothing is wrong with it here", name)
			}
		case waiting:
			if wrong != nil || len(tree.Notes) != 2 {
				t.Errorf("%s: %v", name, wrong)
			}
		case unlike:
			if wrong == nil {
				t.Errorf("%s is read as stacks", name)
			}
		case itself, large:
			if wrong != nil {
				t.Errorf("%s: %v", name, wrong)
				return nil
			}
			if why == itself {
				got, want := (peer{}).amounts(folded(t, tree), ""), (peer{}).amounts(string(in), "")
				if strings.HasSuffix(name, "-diff.txt") { // the second of two
					want = map[string]float64{}
					for line := range strings.Lines(string(in)) {
						rest, n, _ := cutCount([]byte(strings.TrimSpace(line)))
						stack, _, _ := cutCount(rest)
						want[string(stack)] += n
					}
				}
				for stack, n := range want {
					if d := got[stack] - n; d > 1e-9 || d < -1e-9 {
						t.Errorf("%s: %s: %v here, %v there", name, stack, got[stack], n)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for why, n := range seen {
		t.Logf("%d files: %s", n, why)
	}
}

// TestScripts compares readers of dumps and lists with FlameGraph's scripts, which have no test
// data.
func TestScripts(t *testing.T) {
	dir := os.Getenv("CULPRIT_FLAMEGRAPH")
	if _, err := exec.LookPath("perl"); dir == "" || err != nil {
		t.Skip("needs: tool flamegraph-tests (unpacked, in CULPRIT_FLAMEGRAPH, and perl)")
	}
	for _, c := range []struct{ script, in string }{
		{"jstack", jstackText}, {"gdb", gdbText}, {"elfutils", euStackText}, {"faulthandler", faultText}, {"go", goRawText},
	} {
		t.Run(c.script, func(t *testing.T) {
			cmd := exec.Command("perl", filepath.Join(dir, "stackcollapse-"+c.script+".pl"))
			cmd.Stdin = strings.NewReader(c.in)
			want, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			tree, err := Read(never, strings.NewReader(c.in), c.script, Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, other := (peer{}).amounts(folded(t, tree), ""), (peer{}).amounts(string(want), "")
			if len(other) == 0 || len(got) != len(other) {
				t.Errorf("%d stacks here, %d there", len(got), len(other))
			}
			for stack, n := range other {
				if got[stack] != n {
					t.Errorf("%s: %v here, %v there", stack, got[stack], n)
				}
			}
		})
	}
}
