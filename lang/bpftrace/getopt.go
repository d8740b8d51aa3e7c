package bpftrace

import (
	"slices"
	"strconv"
	"strings"

	"culprit/lang/syntax"
)

// An option is an argument --name or --name=value of a program.
type option struct {
	value string
	given bool // it has a value
	used  bool // the program asks for it
}

// arguments sets the positional arguments and the options of the program.
func (p *parser) arguments(args []string) {
	for _, a := range args {
		name, ok := strings.CutPrefix(a, "--")
		if !ok || name == "" {
			p.args = append(p.args, a)
			continue
		}
		name, value, given := strings.Cut(name, "=")
		p.options[name] = option{value: value, given: given}
	}
}

// getopt returns the value of getopt(NAME, DEFAULT, DESCRIPTION): a constant of the type of
// DEFAULT. Without DEFAULT it is 1 if the option is given, else 0.
func (p *parser) getopt(at syntax.Span, args []syntax.Expr) syntax.Expr {
	wrong := func(message string) syntax.Expr {
		p.report(BadCall, int(at.From), int(at.To), message,
			"write getopt(\"NAME\" [, DEFAULT [, \"DESCRIPTION\"]])")
		return &syntax.Int{Span: at}
	}
	if len(args) < 1 || len(args) > 3 {
		return wrong("getopt() takes 1 to 3 arguments, not " + strconv.Itoa(len(args)))
	}
	name, ok := args[0].(*syntax.String)
	if !ok {
		return wrong("the name of an option must be a string")
	}
	o, set := p.options[name.Value]
	if set {
		o.used = true
		p.options[name.Value] = o
	}
	var preset syntax.Expr = &syntax.Ident{Name: "false"}
	if len(args) > 1 {
		preset = args[1]
	}
	switch preset := preset.(type) {
	case *syntax.String:
		if !set {
			return preset
		}
		return &syntax.String{Span: at, Value: o.value}
	case *syntax.Ident:
		value, known := knownConstants[preset.Name]
		if !known || preset.Name != "true" && preset.Name != "false" {
			break
		}
		switch {
		case !set:
		case !o.given || o.value == "true" || o.value == "1":
			value = 1
		case o.value == "false" || o.value == "0":
			value = 0
		default:
			return wrong("--" + name.Value + "=" + shown(o.value) + " must be true or false")
		}
		return number(at, value)
	}
	value, ok := constant(preset)
	if !ok {
		return wrong("the default of an option must be a constant")
	}
	if set {
		n, err := strconv.ParseInt(o.value, 0, 64)
		if err != nil {
			return wrong("--" + name.Value + "=" + shown(o.value) + " must be a number")
		}
		value = n
	}
	return number(at, value)
}

// unusedOptions reports options that the program does not ask for.
func (p *parser) unusedOptions() {
	var names []string
	for name, o := range p.options {
		if !o.used {
			names = append(names, "--"+name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		p.report(BadCall, 0, 0, "the program has no option "+shown(strings.Join(names, ", ")),
			"the program reads options by getopt(\"NAME\", DEFAULT)")
	}
}
