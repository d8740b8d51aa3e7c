package check

import (
	"cmp"
	"slices"
)

// A WordKind says what a predefined name of D is.
type WordKind string

// The kinds of predefined names.
const (
	WordVariable    WordKind = "variable"
	WordFunction    WordKind = "function"
	WordAction      WordKind = "action"
	WordAggregating WordKind = "aggregating function"
	WordOption      WordKind = "option"
)

// A Word is a predefined name of D.
type Word struct {
	Name  string
	Kind  WordKind
	Proto string // the type of a variable, or the prototype of a function; "": not known
}

// Words returns the predefined names of D, sorted by name.
func Words() []Word {
	var out []Word
	add := func(name string, kind WordKind, proto string) {
		out = append(out, Word{Name: name, Kind: kind, Proto: proto})
	}
	for name, b := range builtins {
		proto := ""
		if b.t != nil {
			proto = b.t.String()
		}
		add(name, WordVariable, proto)
	}
	for name, s := range subroutines {
		add(name, WordFunction, s.proto)
	}
	for name := range symbols {
		add(name, WordFunction, name+"(address)")
	}
	for name, a := range actions {
		add(name, WordAction, a.proto)
	}
	for name, f := range aggFuncs {
		add(name, WordAggregating, f.proto)
	}
	for name, o := range options {
		if !o.outside {
			add(name, WordOption, "")
		}
	}
	slices.SortFunc(out, func(a, b Word) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}
