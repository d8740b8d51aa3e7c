package plan_test

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A dependency is a row of docs/DEPENDENCIES.md.
type dependency struct {
	packages []string
	reason   string
}

// grants reports whether the package of dir may import the module.
func (d dependency) grants(dir string) bool {
	return slices.ContainsFunc(d.packages, func(p string) bool { return covers(p, dir) })
}

// dependencies parses the rows `| module | packages | reason |` of docs/DEPENDENCIES.md.
func (t *tree) dependencies() map[string]dependency {
	out := map[string]dependency{}
	for line := range strings.Lines(string(t.texts["docs/DEPENDENCIES.md"])) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 {
			continue
		}
		module := strings.Trim(strings.TrimSpace(cells[0]), "`")
		if !strings.Contains(module, ".") {
			continue
		}
		d := dependency{reason: strings.TrimSpace(cells[2])}
		for _, r := range strings.Split(cells[1], ",") {
			d.packages = append(d.packages, strings.Trim(strings.TrimSpace(r), "`"))
		}
		out[module] = d
	}
	return out
}

func findModule(granted map[string]dependency, name string) (string, dependency, bool) {
	for m, d := range granted {
		if name == m || strings.HasPrefix(name, m+"/") {
			return m, d, true
		}
	}
	return "", dependency{}, false
}

// checkDependencies compares the direct requirements of go.mod with the committed list, both ways.
func checkDependencies(t *tree) []string {
	var out []string
	listed := t.dependencies()
	required := map[string]bool{}
	block := false
	for line := range strings.Lines(string(t.texts["go.mod"])) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "tool"):
			out = append(out, "go.mod: tools live in tools/lint/go.mod")
		case line == "require (":
			block = true
			continue
		case line == ")":
			block = false
		}
		single, one := strings.CutPrefix(line, "require ")
		if one {
			line = single
		}
		if f := strings.Fields(line); (block || one) && len(f) >= 2 &&
			!strings.HasSuffix(line, "// indirect") {
			required[f[0]] = true
		}
	}
	for _, m := range slices.Sorted(maps.Keys(required)) {
		if listed[m].reason == "" {
			out = append(
				out,
				fmt.Sprintf(
					"go.mod: %s is not in docs/DEPENDENCIES.md with its packages and the reason", m,
				),
			)
		}
	}
	for _, m := range slices.Sorted(maps.Keys(listed)) {
		if !required[m] {
			out = append(
				out, fmt.Sprintf("docs/DEPENDENCIES.md: go.mod does not require %s directly", m),
			)
		}
		for _, r := range listed[m].packages {
			known := slices.ContainsFunc(
				plan, func(p planned) bool { return covers(r, p.dir) || covers(p.dir, r) },
			)
			if !known {
				out = append(
					out,
					fmt.Sprintf(
						"docs/DEPENDENCIES.md: %s is granted to %q, which is no package", m, r,
					),
				)
			}
		}
	}
	return out
}

// checkArchitecture wants a paragraph in docs/ARCHITECTURE.md for each package of the plan.
func checkArchitecture(t *tree) []string {
	var out []string
	page := string(t.texts["docs/ARCHITECTURE.md"])
	seen := map[string]bool{}
	for _, s := range t.sources {
		r, known := planOf(s.dir)
		dir := trimStar(r.dir)
		if !known || dir == "." || seen[dir] {
			continue
		}
		seen[dir] = true
		if !strings.Contains(page, "`"+dir+"/`") {
			out = append(out, fmt.Sprintf("docs/ARCHITECTURE.md: has no paragraph on `%s/`", dir))
		}
	}
	return out
}

var link = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)\s]*)?\)`)

// checkLinks wants the target of each link within the tree to exist.
func checkLinks(t *tree) []string {
	var out []string
	for _, p := range slices.Sorted(maps.Keys(t.texts)) {
		if path.Ext(p) != ".md" || inTestdata(p) {
			continue
		}
		for _, m := range link.FindAllSubmatch(t.texts[p], -1) {
			to := path.Join(path.Dir(p), string(m[1]))
			there := t.texts[to] != nil || t.others[to]
			for q := range t.texts {
				there = there || strings.HasPrefix(q, to+"/")
			}
			if !there {
				out = append(out, fmt.Sprintf("%s: links to %s, which does not exist", p, m[1]))
			}
		}
	}
	return out
}

var releaseHeading = regexp.MustCompile(`^## (Unreleased|([0-9.]+) - [0-9]{4}-[0-9]{2}-[0-9]{2})$`)

// checkVersion compares the file VERSION, the version of programs and packages, with the newest
// heading of CHANGELOG.md: that is the same version, or "Unreleased".
func checkVersion(t *tree) []string {
	version, ok := t.texts["VERSION"]
	if !ok {
		return nil
	}
	v := strings.TrimSpace(string(version))
	if !regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`).MatchString(v) {
		return []string{fmt.Sprintf("VERSION: %q is not like 1.0.0", v)}
	}
	for line := range strings.Lines(string(t.texts["CHANGELOG.md"])) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "## ") {
			continue
		}
		m := releaseHeading.FindStringSubmatch(line)
		switch {
		case m == nil:
			return []string{fmt.Sprintf("CHANGELOG.md: %q is not like ## %s - 2026-01-31", line, v)}
		case m[1] != "Unreleased" && m[2] != v:
			return []string{fmt.Sprintf("CHANGELOG.md: the newest release is %s, VERSION is %s", m[2], v)}
		}
		return nil
	}
	return []string{"CHANGELOG.md: no release"}
}
