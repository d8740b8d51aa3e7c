package probe

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"culprit/measure"
)

// explain returns the reason why nothing matches.
func (e *Env) explain(w *want) *NoProbe {
	none := &NoProbe{Description: w.text, Message: "no probe matches " + w.text}
	if w.id != 0 {
		none.Message = fmt.Sprintf("no probe has the number %d", w.id)
		return none
	}
	if hint := e.foreignProbe(w); hint != "" {
		none.Hint = hint
		return none
	}
	if e.user(w) {
		return e.users.explainUser(w)
	}
	var meant []*provider
	var names []string
	for _, p := range e.providers {
		names = append(names, p.name)
		if w.provider.match(p.name) {
			meant = append(meant, p)
		}
	}
	if strings.HasPrefix(w.provider.text, "pid") && len(e.Processes) == 0 && len(meant) == 0 {
		none.Message = w.provider.text + " names no process"
		none.Hint = "pid123, or pid$target with -p PID or -c COMMAND"
		return none
	}
	if len(meant) == 0 {
		none.Message = "there is no provider " + w.provider.text
		if near := measure.Nearest(w.provider.text, names); near != "" {
			none.Hint = "did you mean " + near + "?"
		} else {
			none.Hint = "providers are " + strings.Join(names, " ")
		}
		return none
	}
	if len(meant) == 1 && e.missing[meant[0].name] != nil {
		e.explainMissing(w, meant[0].name, none)
		return none
	}
	if e.missing["fbt"] != nil && w.provider.match("fbt") && !w.function.any() &&
		(w.name.match("entry") || w.name.match("return")) {
		e.explainMissing(w, "fbt", none)
		return none
	}
	for _, p := range meant {
		if p.why != nil && !e.elsewhere(w) && p.why(e, w) != "" {
			none.Err = measure.ErrUnsupported
			none.Message = fmt.Sprintf("%s is not available here: %s", w.text, p.why(e, w))
			return none
		}
	}
	e.explainParts(w, none)
	return none
}

// explainMissing sets none to the reason why a provider has no probes, with tracepoints whose names
// are similar to the function as a hint.
func (e *Env) explainMissing(w *want, provider string, none *NoProbe) {
	if fault := (*NoProbe)(nil); errors.As(e.missing[provider], &fault) {
		none.Message, none.Hint = fault.Message, fault.Hint
		return
	}
	none.Err = e.missing[provider]
	none.Message = fmt.Sprintf("%s is not available here: %v", w.text, none.Err)
	if near := e.nearEvents(w); near != "" {
		none.Hint = "similar tracepoints: " + near
	}
}

// elsewhere reports whether the kernel has the probe, but in another module or function than w
// names.
func (e *Env) elsewhere(w *want) (there bool) {
	if w.module.any() && w.function.any() {
		return false
	}
	anywhere := *w
	anywhere.module, anywhere.function = glob{}, glob{}
	// errors of timer names were returned before
	_ = e.search(&anywhere, func(*found) { there = true })
	return there
}

// explainParts adds a hint on the part of the description without which it would match.
func (e *Env) explainParts(w *want, none *NoProbe) {
	for _, part := range []struct {
		what string
		glob func(*want) *glob
		of   func(*found) string
	}{
		{"name", func(w *want) *glob { return &w.name }, func(f *found) string { return f.Name }},
		{"function", func(w *want) *glob { return &w.function }, func(f *found) string { return f.Function }},
		{"module", func(w *want) *glob { return &w.module }, func(f *found) string { return f.Module }},
	} {
		without := *w
		g := part.glob(&without)
		if g.any() {
			continue
		}
		text := g.text
		*g = glob{}
		there := map[string]bool{}
		_ = e.search(&without, func(f *found) { // errors of timer names were returned before
			there[part.of(f)] = true
		})
		if len(there) == 0 {
			continue
		}
		names := slices.Sorted(maps.Keys(there))
		if near := measure.Typo(text, names); near != "" {
			none.Hint = "did you mean " + near + "?"
		} else if len(names) == 1 && names[0] == "" {
			none.Hint = "it has no " + part.what + ": leave that part empty"
		} else if len(names) <= 8 {
			none.Hint = "its " + part.what + " can be " + strings.Join(names, ", ")
		} else {
			none.Hint = fmt.Sprintf("no %s of the %d that exist is similar", part.what, len(names))
		}
		return
	}
}
