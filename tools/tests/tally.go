package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

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
	failures                []failure
	unsteady                []string // failed, then passed alone
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

// certain matches what a test, or a process that it started, prints of a data race or a panic.
var certain = regexp.MustCompile(
	`race detected during|WARNING: DATA RACE|(?m)^\s*(panic|fatal error): `,
)

// longSeconds is from how many seconds on a test is listed below its package.
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
		if p.brokenBelow[e.Test] { // counted by its subtests
			for i, f := range t.failures {
				if f.pkg == e.Package && strings.HasPrefix(f.test, e.Test+"/") &&
					certain.MatchString(text) {
					t.failures[i].certain = true
				}
			}
			break
		}
		p.failed++
		t.failures = append(t.failures, failure{
			pkg: e.Package, test: e.Test, certain: certain.MatchString(text),
		})
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
		t.failures = append(t.failures, failure{pkg: e.Package})
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
	for _, u := range t.unsteady {
		fmt.Fprintln(t.out, "unsteady", u+": failed, then passed alone")
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
