package probe

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/symbol"
)

// noFunction returns the error that files of a process have no such function, or nil for a pattern
// that may match nothing.
func (pr *processProbes) noFunction(w *want, pid int, modules []*symbol.Code) error {
	if w.module.any() && !w.function.isLit || w.function.any() {
		return nil
	}
	where := fmt.Sprintf("process %d", pid)
	if len(modules) == 1 {
		where = modules[0].Name
	}
	f := userFault(w, "D_PROC_FUNC", "", "%s has no function %s", where, w.function.text)
	if w.module.any() {
		f.Tag = "D_PDESC_ZERO"
	}
	var names []string
	stripped := ""
	for _, c := range modules {
		funcs, _ := c.Functions()
		for _, fn := range funcs {
			names = append(names, fn.Name)
		}
		if c.Stripped() && (c.Main || len(modules) == 1) {
			stripped = c.Name
		}
	}
	near := measure.Nearest(w.function.text, names)
	switch {
	case near != "":
		f.Hint = "did you mean " + near + "?"
	case stripped != "":
		f.Message += ": the names of functions were stripped from " + stripped
	default:
		f.Hint = "a function that the compiler inlined everywhere has no address"
	}
	return f
}

// explainUser returns the reason why no probe of a process matches.
func (pr *processProbes) explainUser(w *want) *NoProbe {
	if pr.env.anywhere(w) {
		return pr.explainAnywhere(w)
	}
	none := userFault(w, "D_PDESC_ZERO", "", "no probe matches %s", w.text)
	if !w.provider.isLit {
		return none
	}
	name, pid, _ := processOf(w.provider.literal)
	if name == "pid" {
		return none
	}
	none.Message = fmt.Sprintf("%s matches no probe of process %d", w.text, pid)
	codes, err := pr.code(w, pid)
	if fault := (*NoProbe)(nil); errors.As(err, &fault) {
		return fault
	}
	defined, err := pr.usdtOfAll(codes)
	if err != nil {
		none.Message, none.Err = err.Error(), err
		return none
	}
	var providers, names []string
	for _, list := range defined {
		for _, u := range list {
			if !slices.Contains(providers, u.provider) {
				providers = append(providers, u.provider)
			}
			if u.provider == name && !slices.Contains(names, u.name) {
				names = append(names, u.name)
			}
		}
	}
	switch {
	case len(providers) == 0:
		none.Message = fmt.Sprintf(
			"there is no provider %s: the files of process %d define no probes (USDT)",
			w.provider.text, pid,
		)
	case len(names) == 0:
		none.Message = fmt.Sprintf("process %d has no provider %s", pid, name)
		none.Hint = "it has " + strings.Join(providers[:min(8, len(providers))], ", ")
	default:
		if near := measure.Nearest(w.name.text, names); near != "" {
			none.Hint = "did you mean " + near + "?"
		} else {
			none.Hint = "its probes are " + strings.Join(names[:min(8, len(names))], ", ")
		}
	}
	return none
}

// userFault returns the error of a description of probes of processes, with dtrace's tag of it.
func userFault(w *want, tag, hint, format string, args ...any) *NoProbe {
	return &NoProbe{
		Description: w.text,
		Message:     fmt.Sprintf(format, args...),
		Hint:        hint,
		Tag:         tag,
	}
}

// unread returns the error that files of processes cannot be read now.
func unread(w *want, err error) *NoProbe {
	f := userFault(w, "D_PROC_GRAB", "", "%v", err)
	f.Err = err
	return f
}

// diagnostic returns the error as a diagnostic of lang without a position, which the caller adds.
func (n *NoProbe) diagnostic() *syntax.Diagnostic {
	return &syntax.Diagnostic{Tag: n.Tag, Message: n.Message, Hint: n.Hint}
}
