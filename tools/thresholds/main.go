// Command thresholds proves that the tests of the rules notice a changed threshold. It raises each
// constant of diagnose/threshold by a share, one at a time, and runs TestEdges of diagnose/rules,
// which must fail. It lowers each as well with -share below 0.
//
// The tree is not changed: an overlay makes the constants variables, which one test binary sets
// from its environment.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

func main() {
	share := flag.Float64("share", 0.12, "how much each threshold is raised; below 0: lowered")
	flag.Parse()
	missed, err := run(".", *share)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, name := range missed {
		fmt.Printf("%s: no test notices a change by %.0f %%\n", name, *share*100)
	}
	if len(missed) > 0 {
		os.Exit(1)
	}
}

// constant is a threshold as the source defines it.
type constant struct {
	name  string
	value float64
	whole bool // an integer: raised to the next one
}

// run returns the names of the thresholds below root whose change no test notices. Thresholds that
// the table calls untested are left out.
func run(root string, share float64) (missed []string, err error) {
	root, err = filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "thresholds")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	constants, overlay, err := overlayOf(root, work)
	if err != nil {
		return nil, err
	}
	test := filepath.Join(work, "rules.test")
	build := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", test, "./diagnose/rules")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the tests: %w\n%s", err, out)
	}
	if fails(root, test, "") {
		return nil, errors.New("TestEdges fails with unchanged thresholds")
	}
	for _, c := range constants {
		if !fails(root, test, fmt.Sprintf("%s=%v", c.name, c.changed(share))) {
			missed = append(missed, c.name)
		}
	}
	return missed, nil
}

// changed returns the value changed by a share. An integer changes by one at least.
func (c constant) changed(share float64) float64 {
	v := c.value * (1 + share)
	switch {
	case !c.whole:
		return v
	case share < 0:
		return math.Floor(v)
	}
	return math.Ceil(v)
}

// fails reports whether TestEdges fails with a changed threshold, NAME=VALUE.
func fails(root, test, change string) bool {
	cmd := exec.Command(test, "-test.run", "^TestEdges$", "-test.failfast")
	cmd.Dir = filepath.Join(root, "diagnose/rules")
	cmd.Env = append(os.Environ(), "THRESHOLD="+change)
	return cmd.Run() != nil
}

// overlayOf writes copies of the package's files, in which constants are variables, and the overlay
// that puts them in place of the files.
func overlayOf(root, work string) (all []constant, file string, err error) {
	paths, err := filepath.Glob(filepath.Join(root, "diagnose/threshold/*.go"))
	if err != nil {
		return nil, "", err
	}
	replace := map[string]string{}
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, "", err
		}
		constants, err := constantsOf(source)
		if err != nil {
			return nil, "", fmt.Errorf("read %s: %w", path, err)
		}
		all = append(all, constants...)
		text := strings.ReplaceAll(string(source), "\nconst ", "\nvar ")
		// A constant integer is a float64 where one is wanted; a variable is not.
		for _, c := range constants {
			old := fmt.Sprintf("(%q, %s,", c.name, c.name)
			text = strings.ReplaceAll(text, old, fmt.Sprintf("(%q, float64(%s),", c.name, c.name))
		}
		copied := filepath.Join(work, filepath.Base(path))
		if err := os.WriteFile(copied, []byte(text), 0o644); err != nil {
			return nil, "", err
		}
		replace[path] = copied
	}
	untested := map[string]bool{}
	for path := range replace {
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, "", err
		}
		for _, line := range strings.Split(string(source), "\n") {
			if rest, ok := strings.CutPrefix(strings.TrimSpace(line), `untested("`); ok {
				name, _, _ := strings.Cut(rest, `"`)
				untested[name] = true
			}
		}
	}
	tested := all[:0]
	for _, c := range all {
		if !untested[c.name] {
			tested = append(tested, c)
		}
	}
	setter := filepath.Join(work, "change.go")
	if err := os.WriteFile(setter, []byte(setterOf(tested)), 0o644); err != nil {
		return nil, "", err
	}
	replace[filepath.Join(root, "diagnose/threshold/change.go")] = setter
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, "", err
	}
	file = filepath.Join(work, "overlay.json")
	return tested, file, os.WriteFile(file, b, 0o644)
}

// constantsOf returns the numeric constants of a file.
func constantsOf(source []byte) (all []constant, err error) {
	f, err := parser.ParseFile(token.NewFileSet(), "", source, 0)
	if err != nil {
		return nil, err
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			spec := s.(*ast.ValueSpec)
			for i, name := range spec.Names {
				lit, ok := spec.Values[i].(*ast.BasicLit)
				if !ok {
					return nil, fmt.Errorf("%s is not a number", name)
				}
				v, err := strconv.ParseFloat(lit.Value, 64)
				if err != nil {
					return nil, err
				}
				all = append(all, constant{name.Name, v, lit.Kind == token.INT})
			}
		}
	}
	return all, nil
}

// setterOf returns a file of the package that sets one variable from the environment.
func setterOf(all []constant) string {
	sort.Slice(all, func(i, j int) bool { return all[i].name < all[j].name })
	var b strings.Builder
	b.WriteString(`package threshold

import (
	"os"
	"strconv"
	"strings"
)

func init() {
	name, text, _ := strings.Cut(os.Getenv("THRESHOLD"), "=")
	value, _ := strconv.ParseFloat(text, 64)
	switch name {
`)
	for _, c := range all {
		set := "value"
		if c.whole {
			set = "int(value)"
		}
		fmt.Fprintf(&b, "\tcase %q:\n\t\t%s = %s\n", c.name, c.name, set)
	}
	b.WriteString("\t}\n}\n")
	return b.String()
}
