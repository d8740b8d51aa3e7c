package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const head = `culprit contains the work of others, under the licenses below. Modules of Go are linked
into the program. Packages of npm are bundled into the page.
Written by "go run ./tools/licenses".
`

// rule separates the licenses.
const rule = "\n----------------------------------------------------------------------\n\n"

// pagePackages returns the packages of which code is in the page, with the versions of the lock
// file.
func pagePackages(root string) ([]component, error) {
	text, err := os.ReadFile(filepath.Join(root, "ui", "package-lock.json"))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct{ Version string }
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, fmt.Errorf("read ui/package-lock.json: %w", err)
	}
	var all []component
	for _, name := range bundled {
		version := lock.Packages["node_modules/"+name].Version
		if version == "" {
			return nil, fmt.Errorf("ui/package-lock.json does not contain %s", name)
		}
		dir := filepath.Join(root, "ui", "node_modules", name)
		all = append(all, component{name: name, version: version, kind: "npm", dir: dir})
	}
	return all, nil
}

// components returns all that is part of the program, without the licenses.
func components(root string) ([]component, error) {
	all, err := linked(root)
	if err != nil {
		return nil, err
	}
	page, err := pagePackages(root)
	return append(all, page...), err
}

// writeNotice writes NOTICE.
func writeNotice(root string) error {
	all, err := components(root)
	if err != nil {
		return err
	}
	for i := range all {
		if err := all[i].read(); err != nil {
			if all[i].kind == "npm" {
				err = errors.Join(err, errors.New("run .ci/page build first"))
			}
			return err
		}
	}
	return os.WriteFile(filepath.Join(root, "NOTICE"), []byte(notice(all)), 0o644)
}

// notice returns each license once, below the components that have it.
func notice(all []component) string {
	owners := map[string][]string{}
	for i := range all {
		for _, text := range all[i].texts {
			owners[text] = append(owners[text], all[i].line())
		}
	}
	var parts []string
	for text, names := range owners {
		parts = append(parts, strings.Join(names, "\n")+"\n\n"+text+"\n")
	}
	slices.Sort(parts)
	return head + rule + strings.Join(parts, rule)
}

// line returns the line of a component in NOTICE.
func (c *component) line() string { return "* " + c.kind + " " + c.name + " " + c.version }

// listed returns the lines of components in a NOTICE.
func listed(notice string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(notice) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "* golang ") || strings.HasPrefix(line, "* npm ") {
			all[line] = true
		}
	}
	return all
}
