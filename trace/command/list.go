package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"culprit/lang/check"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/trace/probe"
)

// list prints the probes that the parts of a request match, or all probes without parts.
func (r *Request) list(env *probe.Env, s source, o check.Options, out io.Writer) error {
	descriptions := []*syntax.Probe{{Parts: 4}}
	if len(r.Parts) > 0 {
		tree, ds := syntax.Parse(s.text, s.mode)
		if len(ds) > 0 {
			return ds
		}
		descriptions = nil
		for _, item := range tree.Items {
			if c, ok := item.(*syntax.Clause); ok {
				descriptions = append(descriptions, c.Probes...)
			}
		}
	}
	w := bufio.NewWriterSize(out, 64<<10)
	fmt.Fprintf(w, "%5s %10s %17s %33s %s\n", "ID", "PROVIDER", "MODULE", "FUNCTION", "NAME")
	for _, d := range descriptions {
		n := 0
		var err error
		for _, part := range []*syntax.Name{&d.Provider, &d.Module, &d.Function, &d.Name} {
			part.Text = o.Expand(
				part.Text,
				part == &d.Function && syntax.OfProcess(d.Provider.Text),
				func(name string) {
					err = fmt.Errorf("undefined macro %s", name)
					if hint := check.MacroHint(name); hint != "" {
						err = fmt.Errorf("%w (%s)", err, hint)
					}
				},
			)
		}
		if err != nil {
			return err
		}
		if r.Verbose {
			n, err = r.listWith(env, d, w)
		} else {
			err = env.List(d, func(l probe.Listed) {
				n++
				row(w, l.ID, l.Provider, l.Module, l.Function, l.Name)
			})
		}
		if err == nil && n == 0 {
			_, err = env.Probes(d) // fails with the reason and a hint
		}
		if err != nil {
			w.Flush() //nolint:errcheck // the error is returned
			var none *probe.NoProbe
			if errors.As(err, &none) { // without the position in the text
				return errors.New(none.Error())
			}
			return err
		}
	}
	return w.Flush()
}

func row(w io.Writer, id uint32, provider, module, function, name string) {
	if syntax.OfProcess(provider) { // the name as printed must work as a description
		function = syntax.ProbePart(function)
	}
	fmt.Fprintf(w, "%5d %10s %17s %33s %s\n", id, measure.Escape(provider), measure.Escape(module),
		measure.Escape(function), measure.Escape(name))
}

// stability describes how stable a stable probe is, in dtrace's words.
const stability = `
	Probe Description Attributes
		Identifier Names: Private
		Data Semantics:   Private
		Dependency Class: Unknown

	Argument Attributes
		Identifier Names: Evolving
		Data Semantics:   Evolving
		Dependency Class: ISA
`

// listWith lists probes with their arguments.
func (r *Request) listWith(env *probe.Env, d *syntax.Probe, w io.Writer) (int, error) {
	all, err := env.Probes(d)
	for _, p := range all {
		row(w, p.ID, p.Provider, p.Module, p.Function, p.Name)
		args, why := p.Arguments()
		if p.Meaning != nil {
			fmt.Fprint(w, stability)
		}
		if len(args) > 0 {
			fmt.Fprint(w, "\n\tArgument Types\n")
			for i, a := range args {
				what := a.C
				if what == "" && a.Type != nil {
					what = cType(a.Type)
				}
				fmt.Fprintf(w, "\t\targs[%d]: %s", i, what)
				if a.Name != "" {
					fmt.Fprintf(w, " %s", a.Name)
				}
				fmt.Fprintln(w)
			}
			fmt.Fprintln(w)
		} else if p.Meaning != nil && why == "" {
			fmt.Fprint(w, "\n\tArgument Types\n\t\tNone\n\n")
		} else if why != "" {
			fmt.Fprintf(w, "\n\tArgument Types\n\t\tnot known: %s\n\n", why)
		}
	}
	return len(all), err
}
