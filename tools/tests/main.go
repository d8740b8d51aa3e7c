// Command tests runs all tests that this machine can run, in tiers, cheapest first. It stops at the
// first tier that fails. It prints a line per package, the output of failed tests, and every skip
// with its reason. Each skip is compared with the machine: see judge. The last line is always
//
//	N passed, N failed, N skipped
//
// and the exit status is 1 when anything failed or a skip was not justified. It
// installs nothing: .ci/needs does.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// A tier is one run of go test.
type tier struct {
	name     string
	args     []string // after go test -json
	packages []string // patterns in order; "./..." excludes those of the plan, runner and lab tiers
	program  []string // what go test hands to the test program unread
	sparse   bool     // most packages have nothing to run: say nothing of those
}

// tiers returns the tiers, cheapest first. -count=1: results of another moment say nothing about a
// live machine. make check runs vet.
func tiers() []tier {
	return []tier{
		{name: "plan", args: []string{"-count=1"}, packages: []string{"./tools/plan"}},
		{name: "runner", args: []string{"-count=1"}, packages: []string{"./tools/tests"}},
		// Three at a time: the longest wait for most of theirs, and so begin first.
		{
			name: "rooms",
			args: []string{"-count=1", "-vet=off", "-p=3"},
			packages: []string{
				"./cmd/culprit",
				"./trace/...",
				"./cmd/...",
				"./store",
				"./view/prom",
				"./symbol",
				"./...",
			},
		},
		// Times are not read here, so two packages run at a time, which go test -bench refuses.
		{
			name:     "benchmarks, once each",
			args:     []string{"-count=1", "-vet=off", "-run=^$", "-p=2"},
			packages: []string{"./collect/...", "./store", "./..."},
			sparse:   true,
			program:  []string{"-test.bench=.", "-test.benchtime=1x"},
		},
		// The lab shapes links and loads CPUs: one story at a time.
		{
			name:     "lab",
			args:     []string{"-count=1", "-vet=off", "-p=1", "-timeout=25m"},
			packages: []string{"./cases/..."},
		},
	}
}

func main() {
	root := flag.String("root", ".", "top of the tree")
	only := flag.String("only", "", "run only the tier of this name")
	flag.Parse()

	total := newTally(os.Stdout, host())
	for _, t := range tiers() {
		if *only != "" && t.name != *only {
			continue
		}
		start := time.Now()
		ran, err := run(total, *root, t)
		if err != nil {
			fmt.Printf("tier %s: %v\n", t.name, err)
			total.failed++
		}
		if ran {
			fmt.Printf("== %s: %.1f s\n", t.name, time.Since(start).Seconds())
		}
		if total.failed > 0 || total.unjustified > 0 {
			fmt.Println("stopped: the tiers after this one were not run")
			break
		}
	}
	if quick := os.Getenv("CULPRIT_LAB"); quick != "" {
		fmt.Printf("CULPRIT_LAB=%s: the lab's stories and comparisons were left out\n", quick)
	}
	total.report()
	if total.failed > 0 || total.unjustified > 0 {
		os.Exit(1)
	}
}

// run runs one tier and feeds its events to the tally. It says whether there was anything to run.
func run(total *tally, root string, t tier) (bool, error) {
	packages, err := list(root, t)
	if err != nil || len(packages) == 0 {
		return false, err
	}
	fmt.Printf("== %s\n", t.name)
	cmd := exec.Command(
		"go",
		slices.Concat(
			[]string{"test", "-json", "-trimpath"}, t.args, packages, []string{"-args"}, t.program,
		)...)
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return true, err
	}
	if err := cmd.Start(); err != nil {
		return true, err
	}
	before := total.failed
	total.sparse = t.sparse
	if err := total.read(out); err != nil {
		return true, err
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && total.failed > before {
		return true, nil // reported test by test
	}
	return true, err
}

// list returns the packages of a tier. It is no error when there are none.
func list(root string, t tier) ([]string, error) {
	var packages []string
	for _, pattern := range t.packages {
		more, err := listed(root, pattern)
		if err != nil {
			return nil, err
		}
		for _, p := range more {
			if !slices.Contains(packages, p) {
				packages = append(packages, p)
			}
		}
	}
	return packages, nil
}

// listed returns the packages of a pattern.
func listed(root, pattern string) ([]string, error) {
	cmd := exec.Command("go", "list", pattern)
	cmd.Dir = root
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if strings.Contains(errs.String(), "matched no packages") ||
		strings.Contains(errs.String(), "no such file or directory") {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, errs.String())
	}
	var packages []string
	for p := range strings.FieldsSeq(string(out)) {
		_, below, _ := strings.Cut(p, "/")
		if pattern == "./..." &&
			(below == "tools/plan" || below == "tools/tests" ||
				strings.HasPrefix(below+"/", "cases/")) {
			continue
		}
		packages = append(packages, p)
	}
	return packages, nil
}

// An event is one line of go test -json; see "go doc test2json". Build output has ImportPath.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// A tally counts leaves: a test with subtests counts only when it failed by itself.
type tally struct {
	out                     io.Writer
	host                    machine
	passed, failed, skipped int
	unjustified             int  // skips that do not hold
	sparse                  bool // say nothing of packages that ran nothing
	skips                   []string
	failures                []string
	packages                map[string]*packageTally
	build                   map[string]*strings.Builder
}

type packageTally struct {
	output                  map[string]*strings.Builder // by test; "" is the package's own
	parents                 map[string]bool             // tests that have subtests
	brokenBelow             map[string]bool             // tests with a failed subtest
	running                 map[string]bool
	passed, failed, skipped int
	long                    []string // tests that took longSeconds or more, as they ended
}

// A test of so many seconds is named below its package.
const longSeconds = 20

func newTally(out io.Writer, host machine) *tally {
	return &tally{
		out:      out,
		host:     host,
		packages: map[string]*packageTally{},
		build:    map[string]*strings.Builder{},
	}
}

// read folds a stream of events until its end.
func (t *tally) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if len(line) > 0 {
			var e event
			if jsonErr := json.Unmarshal([]byte(line), &e); jsonErr != nil {
				fmt.Fprint(t.out, line) // not ours: show it
			} else {
				t.add(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (t *tally) add(e event) {
	switch e.Action {
	case "build-output":
		if t.build[e.ImportPath] == nil {
			t.build[e.ImportPath] = &strings.Builder{}
		}
		t.build[e.ImportPath].WriteString(e.Output)
		return
	case "build-fail":
		if b := t.build[e.ImportPath]; b != nil {
			fmt.Fprint(t.out, b.String())
		}
		return
	case "start":
		t.packages[e.Package] = &packageTally{
			output: map[string]*strings.Builder{}, parents: map[string]bool{},
			brokenBelow: map[string]bool{}, running: map[string]bool{},
		}
		return
	}
	p := t.packages[e.Package]
	if p == nil {
		return
	}
	parent := ""
	if i := strings.LastIndexByte(e.Test, '/'); i >= 0 {
		parent = e.Test[:i]
	}
	switch e.Action {
	case "run":
		p.running[e.Test] = true
		if parent != "" {
			p.parents[parent] = true
		}
	case "output":
		if p.output[e.Test] == nil {
			p.output[e.Test] = &strings.Builder{}
		}
		p.output[e.Test].WriteString(e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			t.closePackage(e, p)
			return
		}
		delete(p.running, e.Test)
		t.closeTest(e, p, parent)
	}
}

func (t *tally) closeTest(e event, p *packageTally, parent string) {
	if e.Elapsed >= longSeconds && !p.parents[e.Test] {
		p.long = append(p.long, fmt.Sprintf("%s %.0f s", e.Test, e.Elapsed))
	}
	text := ""
	if b := p.output[e.Test]; b != nil {
		text = b.String()
	}
	switch {
	case e.Action == "fail":
		if parent != "" {
			p.brokenBelow[parent] = true
		}
		fmt.Fprint(t.out, text)
		if p.brokenBelow[e.Test] {
			break // counted below
		}
		p.failed++
		t.failures = append(t.failures, e.Package+" "+e.Test)
	case e.Action == "skip":
		p.skipped++
		why := reason(text)
		note := e.Package + " " + e.Test + ": " + why
		if complaint := t.host.judge(why); complaint != "" {
			t.unjustified++
			note += "\n    NOT JUSTIFIED: " + complaint
		}
		t.skips = append(t.skips, note)
	case !p.parents[e.Test]:
		p.passed++
	}
	delete(p.output, e.Test)
}

func (t *tally) closePackage(e event, p *packageTally) {
	verdict := "ok"
	switch {
	case e.Action == "fail" && p.failed == 0:
		// Did not build, panicked, timed out or exited: count it once and show what there is.
		verdict, p.failed = "FAIL", 1
		for test := range p.running {
			if b := p.output[test]; b != nil {
				fmt.Fprint(t.out, b.String())
			}
		}
		if b := p.output[""]; b != nil {
			fmt.Fprint(t.out, b.String())
		}
		t.failures = append(t.failures, e.Package)
	case e.Action == "fail":
		verdict = "FAIL"
	case e.Action == "skip":
		verdict = "none" // no test files
	}
	// A benchmark that goes well ends without an event.
	benchmarks := 0
	for test := range p.running {
		if verdict == "ok" && !p.parents[test] {
			benchmarks++
		}
	}
	var counts []string
	for _, c := range []struct {
		n    int
		what string
	}{
		{p.passed, "passed"},
		{p.failed, "failed"},
		{p.skipped, "skipped"},
		{benchmarks, "benchmarks"},
	} {
		if c.n > 0 {
			counts = append(counts, fmt.Sprint(c.n, " ", c.what))
		}
	}
	if len(counts) > 0 || !t.sparse {
		fmt.Fprintf(
			t.out, "%-4s %-26s %6.1f s  %s\n", verdict, e.Package, e.Elapsed,
			strings.Join(counts, ", "),
		)
	}
	for _, l := range p.long {
		fmt.Fprintf(t.out, "       %s\n", l)
	}
	t.passed += p.passed
	t.failed += p.failed
	t.skipped += p.skipped
	delete(t.packages, e.Package)
}

// report prints the skips, the failures once more by name, and the closing line.
func (t *tally) report() {
	for _, s := range t.skips {
		fmt.Fprintln(t.out, "skip", s)
	}
	for _, f := range t.failures {
		fmt.Fprintln(t.out, "FAILED", f)
	}
	if t.unjustified > 0 {
		fmt.Fprintf(
			t.out, "%d skips are not justified; a skip's reason is one of: %s\n", t.unjustified,
			forms,
		)
	}
	fmt.Fprintf(t.out, "%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped)
}
