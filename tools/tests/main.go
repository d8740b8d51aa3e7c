// Command tests runs all tests that this machine can run, in tiers, cheapest first. It stops at the
// first tier that fails. It prints a line per package, the output of failed tests, and every skip
// with its reason. Each skip is compared with the machine: see judge. A few failed tests run once
// more, alone: see again. With -race it runs the packages of its arguments under the race detector,
// without the tests of -skip. The last line is always
//
//	N passed, N failed, N skipped
//
// and the exit status is 1 when anything failed or a skip was not justified. It
// installs nothing: .ci/needs does.
package main

import (
	"errors"
	"flag"
	"fmt"
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
	cgo      bool     // the race detector needs it
}

// A tierRun is a tier on a machine.
type tierRun struct {
	tier
	root string
	env  []string
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
	race := flag.Bool("race", false, "run the packages of the arguments under the race detector")
	skip := flag.String("skip", "", "with -race: a regular expression of tests to leave out")
	flag.Parse()

	chosen := tiers()
	if *race {
		chosen = []tier{raced(*skip, flag.Args())}
	}
	total := newTally(os.Stdout, host())
	for _, t := range chosen {
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

// raced returns the tier of make race, whose packages are named one by one.
func raced(skip string, packages []string) tier {
	return tier{
		name:     "race",
		args:     []string{"-count=1", "-race", "-vet=off", "-timeout=20m", "-p=4", "-skip", skip},
		packages: packages,
		cgo:      true,
	}
}

// run runs one tier and feeds its events to the tally. It says whether there was anything to run.
func run(total *tally, root string, t tier) (bool, error) {
	packages, err := list(root, t)
	if err != nil || len(packages) == 0 {
		return false, err
	}
	fmt.Printf("== %s\n", t.name)
	r := tierRun{tier: t, root: root, env: os.Environ()}
	if t.cgo {
		r.env = append(r.env, "CGO_ENABLED=1")
	}
	cmd := exec.Command(
		"go",
		slices.Concat(
			[]string{"test", "-json", "-trimpath"}, t.args, packages, []string{"-args"}, t.program,
		)...)
	cmd.Dir, cmd.Env = root, r.env
	before := len(total.failures)
	total.sparse = t.sparse
	err = total.follow(cmd)
	total.again(before, r.runTest)
	return true, err
}

// follow runs go test and feeds its events to the tally. That tests failed is no error.
func (t *tally) follow(cmd *exec.Cmd) error {
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	before := t.failed
	if err := t.read(out); err != nil {
		return err
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && t.failed > before {
		return nil // reported test by test
	}
	return err
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
