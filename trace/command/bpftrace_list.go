package command

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"culprit/lang/check"
	"culprit/lang/syntax"
	"culprit/trace/probe"
)

// list prints the probes that a pattern matches, as bpftrace -l does; with -v also the fields of
// args.
func (r *BpftraceRequest) list(env *probe.Env, out io.Writer) error {
	pattern := "*"
	if len(r.Args) > 0 {
		pattern = r.Args[0]
	}
	w := bufio.NewWriterSize(out, 64<<10)
	kind, rest, _ := strings.Cut(pattern, ":")
	for _, l := range []struct {
		names    []string
		provider string
		each     func(*check.Probe) []string
	}{
		{[]string{"tracepoint", "t"}, "tracepoint", nil},
		{[]string{"rawtracepoint", "rt"}, "rawtp", nil},
		{[]string{"kprobe", "k"}, "fbt", nil},
		{[]string{"kretprobe", "kr"}, "fbt", nil},
		{[]string{"kfunc", "fentry", "f"}, "fbt", nil},
		{[]string{"kretfunc", "fexit", "fr"}, "fbt", nil},
		{[]string{"software", "s"}, "software", nil},
		{[]string{"hardware", "h"}, "hardware", nil},
	} {
		named := slices.Contains(l.names, kind)
		if !named && (rest != "" || slices.Contains([]string{"kretprobe", "kretfunc", "kfunc"},
			l.names[0])) {
			continue
		}
		full := pattern
		if named {
			full = l.names[0] + ":" + rest
			if rest == "" {
				full += "*"
			}
		}
		if err := r.listProvider(env, w, l.provider, l.names[0], full); err != nil {
			return err
		}
	}
	return w.Flush()
}

// listProvider prints the probes of a provider whose names a pattern matches.
func (r *BpftraceRequest) listProvider(
	env *probe.Env, w io.Writer, provider, kind, pattern string,
) error {
	d := &syntax.Probe{Parts: 4, Provider: syntax.Name{Text: provider}}
	if provider == "fbt" {
		d.Name.Text = "entry"
	}
	var names []probe.Listed
	err := env.List(d, func(l probe.Listed) { names = append(names, l) })
	if err != nil {
		return err
	}
	for _, l := range names {
		text := kind + ":" + l.Name
		switch provider {
		case "tracepoint":
			text = kind + ":" + l.Module + ":" + l.Name
		case "fbt":
			text = kind + ":" + l.Function
			if kind == "kfunc" || kind == "kretfunc" {
				text = kind + ":" + l.Module + ":" + l.Function
			}
		case "software", "hardware":
			text += ":"
		}
		if ok, err := path.Match(pattern, text); err != nil {
			return fmt.Errorf("the pattern %s is not valid: %w", pattern, err)
		} else if !ok {
			continue
		}
		fmt.Fprintln(w, text)
		if r.Verbose {
			if err := listFields(env, w, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// listFields prints the fields of args of a probe.
func listFields(env *probe.Env, w io.Writer, l probe.Listed) error {
	word := func(s string) syntax.Name { return syntax.Name{Text: s} }
	all, err := env.Probes(&syntax.Probe{Parts: 4, Provider: word(l.Provider),
		Module: word(l.Module), Function: word(l.Function), Name: word(l.Name)})
	if err != nil {
		return err
	}
	args, _ := all[0].Arguments()
	for _, a := range args {
		what := a.C
		if what == "" && a.Type != nil {
			what = cType(a.Type)
		}
		if i := strings.IndexByte(what, '['); i > 0 {
			fmt.Fprintf(w, "    %s %s%s\n", strings.TrimSpace(what[:i]), a.Name, what[i:])
			continue
		}
		fmt.Fprintf(w, "    %s %s\n", what, a.Name)
	}
	return nil
}
