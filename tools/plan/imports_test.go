package plan_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// unwanted are packages that nothing imports, with the reason.
var unwanted = map[string]string{
	"C":         "the binary is static and builds without a C compiler",
	"log":       "errors are returned and notes are part of the answer",
	"io/ioutil": "deprecated",
	"plugin":    "the binary is static",
}

// checkImports wants each import of each file to be allowed: packages of the tree by the plan,
// modules of others by docs/DEPENDENCIES.md. Each directory with Go code is in the plan.
func checkImports(t *tree) []string {
	var out []string
	granted := t.dependencies()
	strangers := map[string]bool{}
	for _, s := range t.sources {
		r, known := planOf(s.dir)
		if !known {
			if !strangers[s.dir] {
				out = append(
					out,
					s.dir+": contains Go code but is not in the plan: it needs a line in "+
						"plan_test.go and a paragraph in docs/ARCHITECTURE.md",
				)
			}
			strangers[s.dir] = true
			continue
		}
		for _, spec := range s.file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				out = append(out, t.at(spec.Pos(), "import %s: %v", spec.Path.Value, err))
				continue
			}
			if why, bad := unwanted[name]; bad {
				out = append(out, t.at(spec.Pos(), "imports %q: %s", name, why))
				continue
			}
			target, ours := strings.CutPrefix(name, t.module+"/")
			first, _, _ := strings.Cut(name, "/")
			switch {
			case ours:
				ok := s.test && (target == s.dir || target == fuzzLimits)
				for _, imported := range r.importList() {
					ok = ok || covers(imported, target)
				}
				if !ok {
					out = append(
						out,
						t.at(
							spec.Pos(), "%s may not import %s (it may import: %s)", s.dir, target,
							cmp.Or(r.imports, "nothing"),
						),
					)
				}
			case strings.Contains(first, "."):
				module, d, ok := findModule(granted, name)
				if !ok {
					out = append(
						out,
						t.at(
							spec.Pos(), "%s is of a module that docs/DEPENDENCIES.md does not list",
							name,
						),
					)
				} else if !d.grants(s.dir) {
					const text = "docs/DEPENDENCIES.md does not grant %s to %s"
					out = append(out, t.at(spec.Pos(), text, module, s.dir))
				}
			}
		}
	}
	return out
}

// checkPlanned wants each line of the plan to have a directory with Go code.
func checkPlanned(t *tree) []string {
	var out []string
	for _, p := range plan {
		if !slices.ContainsFunc(t.sources, func(s *source) bool { return covers(p.dir, s.dir) }) {
			out = append(out, fmt.Sprintf("the plan lists %s, which contains no Go code", p.dir))
		}
	}
	return out
}

// vague are names of directories and packages that say nothing about their content.
var vague = []string{
	"internal",
	"pkg",
	"util",
	"utils",
	"common",
	"helpers",
	"helper",
	"types",
	"config",
	"model",
	"models",
	"misc",
	"base",
	"shared",
	"lib",
}

func checkNames(t *tree) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range t.sources {
		name := strings.TrimSuffix(s.file.Name.Name, "_test")
		for _, part := range append(strings.Split(s.dir, "/"), name) {
			key := s.dir + " " + part
			if slices.Contains(vague, part) && !seen[key] {
				seen[key] = true
				out = append(
					out,
					fmt.Sprintf("%s: %q is a vague name: name it after its content", s.dir, part),
				)
			}
		}
	}
	return out
}
