// Licenses writes NOTICE, the licenses of all that is linked into culprit or bundled into its page,
// and a software bill of materials of a built program.
//
//	go run ./tools/licenses                           writes NOTICE
//	go run ./tools/licenses -sbom bin/culprit         prints CycloneDX as JSON
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

func main() {
	root := flag.String("root", ".", "the directory of go.mod")
	program := flag.String("sbom", "", "print the bill of materials of this program instead")
	version := flag.String("version", "", "with -sbom: the version of the program")
	flag.Parse()
	var err error
	if *program != "" {
		err = printSBOM(os.Stdout, *root, *program, *version)
	} else {
		err = writeNotice(*root)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

// component is a module or package that is part of the program.
type component struct {
	name    string // "github.com/cilium/ebpf"
	version string
	kind    string   // of a package URL: "golang", "npm"
	dir     string   // with its files
	texts   []string // its licenses and notices
}

// id returns the license as SPDX names it, by sentences of its text; "" for another one.
func (c *component) id() string {
	text := strings.ToLower(strings.Join(strings.Fields(strings.Join(c.texts, " ")), " "))
	for _, l := range []struct{ id, sentence string }{
		{"Apache-2.0", "Apache License"},
		{"MIT", "Permission is hereby granted, free of charge"},
		{"ISC", "Permission to use, copy, modify, and/or distribute"},
		{"BSD-3-Clause", "be used to endorse or promote products derived"},
		{"CC0-1.0", "Creative Commons CC0 1.0 Universal"},
		{"BSD-2-Clause", "Redistribution and use in source and binary forms"},
	} {
		if strings.Contains(text, strings.ToLower(l.sentence)) {
			return l.id
		}
	}
	return ""
}

// purl returns the package URL.
func (c *component) purl() string { return "pkg:" + c.kind + "/" + c.name + "@" + c.version }

// targets are the machines that culprit is built for. Modules may differ between them.
//
// table: values of GOARCH
var targets = []string{"amd64", "arm64"}

// linked returns the Go modules of the program, by name, and Go's own library.
func linked(root string) ([]component, error) {
	found := map[string]component{}
	const format = "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}"
	for _, arch := range targets {
		c := exec.Command("go", "list", "-deps", "-f", format, "./cmd/culprit")
		c.Dir = root
		c.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
		out, err := c.Output()
		if err != nil {
			return nil, fmt.Errorf("list the modules: %w", err)
		}
		for line := range strings.Lines(string(out)) {
			f := strings.Fields(line)
			if len(f) == 3 {
				found[f[0]] = component{name: f[0], version: f[1], kind: "golang", dir: f[2]}
			}
		}
	}
	all := []component{{name: "std", version: goVersion(root), kind: "golang", dir: goRoot()}}
	for _, c := range found {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b component) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// goVersion returns the version of Go that go.mod names, as "1.26".
func goVersion(root string) string {
	text, _ := os.ReadFile(filepath.Join(root, "go.mod")) // go list has read it
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "go "); ok {
			return strings.TrimSpace(v)
		}
	}
	return runtime.Version()
}

// goRoot returns the directory of Go; "" if the go command does not say.
func goRoot() string {
	out, _ := exec.Command("go", "env", "GOROOT").Output() // the doc comment
	return strings.TrimSpace(string(out))
}

// bundled are the packages of which code is in the page. The others are tools of its build.
//
// table: names of npm packages
var bundled = []string{"clsx", "esm-env", "svelte"}

// read reads the licenses of a component.
func (c *component) read() error {
	files, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("read the license of %s: %w", c.name, err)
	}
	for _, f := range files {
		name := strings.ToLower(f.Name())
		if f.IsDir() || !strings.HasPrefix(name, "licen") && !strings.HasPrefix(name, "copying") &&
			!strings.HasPrefix(name, "notice") && !strings.HasPrefix(name, "patents") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(c.dir, f.Name()))
		if err != nil {
			return err
		}
		c.texts = append(c.texts, clean(text))
	}
	if len(c.texts) == 0 {
		return fmt.Errorf("%s has no license in %s", c.name, c.dir)
	}
	return nil
}

// clean returns a text without blanks at the ends of its lines and around it.
func clean(text []byte) string {
	var b strings.Builder
	for line := range bytes.Lines(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))) {
		b.Write(bytes.TrimRight(line, " \t\f\n"))
		b.WriteByte('\n')
	}
	return strings.Trim(b.String(), "\n")
}
