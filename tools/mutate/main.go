// Command mutate changes one operator, constant or statement of a package at a time. It reports the
// changes that the tests do not notice.
//
//	mutate [-n 40] [-seed 1] [-timeout 2m] [-own] PACKAGE...
//
// Each changed package is compiled through an overlay; the tree is never written. A mutant is
// killed when tests fail or do not end in time: those of its package, then those of the packages
// below the same top directory that import it. It survives when all of them pass. With -own only
// the tests of its package run: that is quicker, and the rate is a lower bound. A mutant that does
// not compile is replaced by another one. Mutants of equivalent.txt change nothing that a test
// could see, and are left out; each line there has a reason. The exit status is 1 when fewer
// mutants than -least percent are killed.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed equivalent.txt
var equivalentText string

// An options is what the command line asks for.
type options struct {
	count   int           // mutants per package
	seed    uint64        // of the draw
	timeout time.Duration // of the tests of one mutant
	own     bool          // only the tests of the mutant's package decide
	least   float64       // percentage of killed mutants below which the exit status is 1
}

func main() {
	var o options
	flag.IntVar(&o.count, "n", 40, "mutants per package; 0: all")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the draw")
	flag.DurationVar(&o.timeout, "timeout", 2*time.Minute, "time for the tests of one mutant")
	flag.BoolVar(&o.own, "own", false, "run only the tests of the changed package")
	flag.Float64Var(&o.least, "least", 0, "lowest percentage of killed mutants")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(
			os.Stderr,
			"usage: mutate [-n N] [-seed N] [-timeout 2m] [-own] [-least 85] PACKAGE...",
		)
		os.Exit(2)
	}
	ok, err := run(o, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// run tries the mutants of each package and prints a table. It reports whether enough were killed.
func run(o options, patterns []string) (bool, error) {
	equivalent, err := parseEquivalent(equivalentText)
	if err != nil {
		return false, err
	}
	packages, err := list(patterns)
	if err != nil {
		return false, err
	}
	var all tally
	for _, p := range packages {
		p.testers = []string{p.ImportPath}
		if !o.own {
			if err := p.addImporters(); err != nil {
				return false, err
			}
		}
		t, err := tryPackage(p, o, equivalent)
		if err != nil {
			return false, err
		}
		fmt.Printf("%-24s %s\n", p.ImportPath, t)
		all.killed += t.killed
		all.survived += t.survived
		all.equivalent += t.equivalent
	}
	fmt.Printf("%-24s %s\n", "all", all)
	return all.percent() >= o.least, nil
}

// A tally counts the mutants of one package or of all.
type tally struct{ killed, survived, equivalent int }

// percent returns the percentage of killed mutants, 100 where there are none.
func (t tally) percent() float64 {
	if t.killed+t.survived == 0 {
		return 100
	}
	return 100 * float64(t.killed) / float64(t.killed+t.survived)
}

func (t tally) String() string {
	return fmt.Sprintf("%3d killed, %3d survived, %2d equivalent: %.0f %%",
		t.killed, t.survived, t.equivalent, t.percent())
}

// A goPackage is what go list -json reports.
type goPackage struct {
	Dir, ImportPath string
	GoFiles         []string

	Imports, TestImports, XTestImports []string

	testers []string // import paths of the packages whose tests decide, its own first
}

// addImporters adds the packages of p's top directory that import it to the packages whose tests
// decide about mutants of p.
func (p *goPackage) addImporters() error {
	module, rest, _ := strings.Cut(p.ImportPath, "/")
	top, _, _ := strings.Cut(rest, "/")
	neighbors, err := list([]string{module + "/" + top + "/..."})
	if err != nil {
		return err
	}
	for _, n := range neighbors {
		all := slices.Concat(n.Imports, n.TestImports, n.XTestImports)
		if n.ImportPath != p.ImportPath && slices.Contains(all, p.ImportPath) {
			p.testers = append(p.testers, n.ImportPath)
		}
	}
	return nil
}

func list(patterns []string) ([]goPackage, error) {
	fields := "-json=Dir,ImportPath,GoFiles,Imports,TestImports,XTestImports"
	args := append([]string{"list", fields}, patterns...)
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p goPackage
		if err := d.Decode(&p); err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, p)
	}
	return packages, nil
}

// tryPackage draws mutants of one package and runs its tests on each. It prints the survivors.
func tryPackage(p goPackage, o options, equivalent map[string]string) (tally, error) {
	var mutants []mutant
	for _, name := range p.GoFiles {
		path := filepath.Join(p.Dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return tally{}, err
		}
		found, err := mutantsOf(path, text)
		if err != nil {
			return tally{}, err
		}
		mutants = append(mutants, found...)
	}
	r := rand.New(rand.NewPCG(o.seed, 0))
	r.Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return tally{}, err
	}
	defer os.RemoveAll(dir)
	var t tally
	for _, m := range mutants {
		if o.count > 0 && t.killed+t.survived == o.count {
			break
		}
		if equivalent[m.key(p.ImportPath)] != "" {
			t.equivalent++
			continue
		}
		switch result, err := try(p, m, dir, o.timeout); {
		case err != nil:
			return t, err
		case result == killed:
			t.killed++
		case result == survived:
			t.survived++
			fmt.Printf("  survived: %s\n", m.describe(p.ImportPath))
		}
	}
	return t, nil
}

// A result is what became of one mutant.
type result int

const (
	killed result = iota
	survived
	notCompiled
)

// try runs the tests that decide about p with m in place of the file that it changes, until some
// fail.
func try(p goPackage, m mutant, dir string, timeout time.Duration) (result, error) {
	changed := filepath.Join(dir, "changed.go")
	if err := os.WriteFile(changed, m.text, 0o644); err != nil {
		return 0, err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {m.path: changed}})
	if err != nil {
		return 0, err
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o644); err != nil {
		return 0, err
	}
	for _, tester := range p.testers {
		if result, err := runTests(tester, overlayFile, timeout); err != nil || result != survived {
			return result, err
		}
	}
	return survived, nil
}

// runTests runs the tests of one package with an overlay.
func runTests(path, overlayFile string, timeout time.Duration) (result, error) {
	ctx, stop := context.WithTimeout(context.Background(), 2*timeout)
	defer stop()
	cmd := exec.CommandContext(ctx, "go", "test", "-overlay", overlayFile, "-count=1", "-failfast",
		"-vet=off", "-ldflags=-s -w", // a test without symbols is linked in less time
		"-timeout", timeout.String(), path)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return survived, nil
	case !errors.As(err, &exit) && ctx.Err() == nil:
		return 0, fmt.Errorf("go test: %w", err)
	case strings.Contains(string(out), "[build failed]"):
		return notCompiled, nil
	}
	return killed, nil
}

// parseEquivalent parses lines "KEY # reason". Empty lines and lines that begin with # are skipped.
func parseEquivalent(text string) (map[string]string, error) {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, reason, ok := strings.Cut(line, " # ")
		if !ok || reason == "" {
			return nil, fmt.Errorf("equivalent.txt: %q has no reason behind \" # \"", line)
		}
		out[strings.TrimSpace(key)] = reason
	}
	return out, nil
}
