package tool

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

// A Tool is one ready-made program.
type Tool struct {
	Name     string
	Purpose  string // one line, lower case, no full stop
	Options  []Option
	Operands []Option // in the order of the command line
	Columns  []Column
	Needs    []string // what the kernel or the machine must have
	Notes    []string // what may mislead
	Text     string   // the script, with its declarations
}

// An Option is a value that a tool takes.
type Option struct {
	Short   string // one letter; "" for none, and for operands
	Name    string // long name; of an operand in upper case
	Kind    Kind
	Default string // "none": the macro is not defined
	Unit    string // "" for none
	Means   string
}

// A Kind is what the value of an option must be.
type Kind string

// The kinds of values. The comment of the package explains them.
const (
	Flag     Kind = "flag"
	Number   Kind = "NUMBER"
	Text     Kind = "TEXT"
	Word     Kind = "WORD"
	Probe    Kind = "PROBE"
	Code     Kind = "CODE"
	Interval Kind = "interval"
)

// A Column is one column of a tool's output.
type Column struct {
	Name  string
	Unit  string // "" for none
	Means string
}

//go:embed scripts/*.d
var scripts embed.FS

// Names returns the names of all tools, sorted.
func Names() []string {
	list, err := scripts.ReadDir("scripts")
	if err != nil {
		panic(err) // the directory is part of the program
	}
	names := make([]string, 0, len(list))
	for _, f := range list {
		names = append(names, strings.TrimSuffix(f.Name(), ".d"))
	}
	return names
}

// All returns all tools, sorted by name.
func All() []*Tool {
	var all []*Tool
	for _, name := range Names() {
		all = append(all, Named(name))
	}
	return all
}

// Named returns the tool of a name; nil: there is none.
func Named(name string) *Tool {
	if !slices.Contains(Names(), name) {
		return nil
	}
	b, err := scripts.ReadFile("scripts/" + name + ".d")
	if err != nil {
		panic(err) // the file is part of the program
	}
	t, err := parse(string(b))
	if err != nil {
		panic(fmt.Sprintf("scripts/%s.d: %v", name, err)) // so is its text
	}
	return t
}
