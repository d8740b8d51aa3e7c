package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// A failure is a test that failed by itself, or a package that did not build, panicked or took too
// long.
type failure struct {
	pkg, test string // test is empty for a package
	certain   bool   // a data race or a panic, which no second run disproves
}

func (f failure) String() string { return strings.TrimSpace(f.pkg + " " + f.test) }

// secondRuns is how many failed tests of a tier are run again: tests that measure a live machine
// can fail while others load it. Where more fail, load is not the reason.
const secondRuns = 4

// again runs the failures since number before once more, one at a time. Those that pass then are
// counted as passed and reported as unsteady: they are work to do, but no reason to stop.
func (t *tally) again(before int, runTest func(*tally, failure) error) {
	failures := t.failures[before:]
	if len(failures) == 0 || len(failures) > secondRuns || slices.ContainsFunc(failures, lasting) {
		return
	}
	failures = slices.Clone(failures)
	t.failures = t.failures[:before]
	for _, f := range failures {
		fmt.Fprintf(t.out, "== once more, alone: %s\n", f)
		second := newTally(t.out, t.host)
		err := runTest(second, f)
		if err != nil {
			fmt.Fprintf(t.out, "%s: %v\n", f, err)
		}
		if err != nil || second.failed > 0 || second.passed == 0 {
			t.failures = append(t.failures, f)
			continue
		}
		t.failed--
		t.passed++
		t.unsteady = append(t.unsteady, f.String())
	}
}

// lasting says whether a second run would prove nothing.
func lasting(f failure) bool { return f.test == "" || f.certain }

// runTest runs one test of a tier.
func (r tierRun) runTest(total *tally, f failure) error {
	args := slices.Concat(
		[]string{"test", "-json", "-trimpath"}, r.args, []string{"-run", pattern(f.test), f.pkg},
	)
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = r.root, r.env
	return total.follow(cmd)
}

// pattern returns the value of go test's -run that chooses one test, or one subtest.
func pattern(test string) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}
