package probe

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"culprit/measure"
	"culprit/symbol"
)

// pidProbes calls yield with the probes of pidNNN that w matches. It fails when a function that is
// named completely cannot be probed. Of a pattern it yields those that can.
func (pr *processProbes) pidProbes(w *want, pid int, provider string, yield func(*found)) error {
	codes, err := pr.code(w, pid)
	if err != nil {
		return err
	}
	kinds, err := pidNamesOf(w)
	if err != nil {
		return err
	}
	if w.function.isLit && w.function.literal == "-" {
		return pr.addressProbe(w, pid, provider, codes, yield)
	}
	var modules []*symbol.Code
	for _, c := range codes {
		if moduleFits(&w.module, c) {
			modules = append(modules, c)
		}
	}
	if later, err := pr.later(w, pid, modules); err != nil {
		return err
	} else if later != nil {
		modules = []*symbol.Code{later}
	}
	if len(modules) == 0 {
		var names []string
		for _, c := range codes {
			names = append(names, c.Name)
		}
		f := userFault(w, "D_PDESC_ZERO", "", "process %d executes no %s", pid, w.module.text)
		if near := measure.Nearest(w.module.text, names); near != "" {
			f.Hint = "did you mean " + near + "?"
		} else if len(names) <= 12 {
			f.Hint = "it has " + strings.Join(names, ", ") +
				"; name one that it loads later by its path"
		}
		return f
	}
	if exact, ok := exactFunction(w, modules); ok {
		w = exact
	}
	var trouble error
	same := pr.merging()
	defer same.each(yield)
	many := !w.function.isLit || !w.name.isLit
	n := 0
	for _, c := range modules {
		if c.Class == symbol.Foreign {
			trouble = userFault(
				w, "D_PROC_LIB", "", "%s is of another architecture, which can't be traced", c.Name,
			)
			continue
		}
		funcs, err := c.Functions()
		if errors.Is(err, symbol.ErrUnavailable) {
			return unread(w, fmt.Errorf("read the functions of %s: %w", c.Name, err))
		}
		if err != nil {
			trouble = userFault(
				w, "D_PROC_LIB", "", "the functions of %s can't be read: %v", c.Name, err,
			)
			continue
		}
		for i := 0; i < len(funcs); {
			next := i + 1
			for next < len(funcs) && funcs[next].Start == funcs[i].Start {
				next++
			}
			f, fits := w.nameOf(funcs[i:next])
			i = next
			if !fits || !w.function.isLit && f.Size == 0 || !c.Executable(f.Start) {
				continue
			}
			if f.Indirect {
				f, err = pr.chosen(w, pid, c, f)
				if errors.Is(err, symbol.ErrUnavailable) {
					return unread(w, err)
				}
			}
			if f.Indirect {
				trouble = userFault(
					w,
					"D_PROC_FUNC",
					"name the function that it chooses, which begins with __"+f.Name+
						"_ if the file has its name",
					"%s of %s is not a function: it chooses one when the program starts",
					f.Name,
					c.Name,
				)
				continue
			}
			n++
			at := spot{code: c, pid: pid}
			err := pr.functionProbes(w, kinds, f, at, provider, many, same.add)
			if errors.Is(err, symbol.ErrUnavailable) {
				return err
			}
			if err != nil {
				trouble = err
			}
		}
	}
	if many && n > 0 || trouble == nil && n > 0 {
		return nil
	}
	if trouble != nil {
		return trouble
	}
	return pr.noFunction(w, pid, modules)
}

// later opens the file that a description names by its path, if the process does not execute it
// yet: a library that it will load. The kernel puts the probes there when it does. It returns nil
// for other descriptions.
func (pr *processProbes) later(w *want, pid int, modules []*symbol.Code) (*symbol.Code, error) {
	if len(modules) > 0 || !w.module.isLit || !strings.HasPrefix(w.module.literal, "/") {
		return nil, nil
	}
	c, err := pr.fileOf(pid, w.module.literal)
	if err != nil {
		return nil, userFault(w, "D_PDESC_ZERO", "", "%v", err)
	}
	return c, nil
}

// fileOf opens a file by the path by which a process calls it, once.
func (pr *processProbes) fileOf(pid int, name string) (*symbol.Code, error) {
	key := strconv.Itoa(pid) + ":" + name
	if c := pr.files[key]; c != nil {
		return c, nil
	}
	c, err := pr.of.OpenCodeOf(pid, name)
	if err != nil {
		return nil, err
	}
	pr.files[key] = c
	return c, nil
}

// exactFunction returns w with the function as a literal name, when a function has the name as it
// is written: main.(*conn).Read. It returns false when none has.
func exactFunction(w *want, modules []*symbol.Code) (*want, bool) {
	if w.function.isLit || w.function.any() || !strings.ContainsAny(w.function.text, "([") {
		return nil, false
	}
	for _, c := range modules {
		funcs, err := c.Functions()
		if err != nil {
			continue
		}
		if slices.ContainsFunc(
			funcs, func(f symbol.Function) bool {
				return f.Name == w.function.plain || f.Signature != "" &&
					(f.Signature == w.function.plain ||
						strings.HasSuffix(f.Signature, " "+w.function.plain))
			},
		) {
			exact := *w
			exact.function = w.function.asLiteral()
			return &exact, true
		}
	}
	return nil, false
}

// shortTypes returns the name of a Go function as Go prints it in stacks: with [...] in place of
// type arguments.
func shortTypes(name string) string {
	var out strings.Builder
	depth := 0
	for i := range len(name) {
		switch c := name[i]; c {
		case '[':
			if depth++; depth == 1 {
				out.WriteString("[...]")
			}
		case ']':
			depth--
		default:
			if depth == 0 {
				out.WriteByte(c)
			}
		}
	}
	return out.String()
}

// pidNames are the probes of a function that a description matches.
type pidNames struct {
	entry, ret bool
	offsets    bool // the offsets that match the name's pattern
	one        bool // the offset at
	at         uint64
}

// pidNamesOf parses the name of a description.
func pidNamesOf(w *want) (pidNames, error) {
	k := pidNames{entry: w.name.match("entry"), ret: w.name.match("return")}
	if !w.name.isLit {
		k.offsets = true
		return k, nil
	}
	if k.entry || k.ret {
		return k, nil
	}
	at, err := strconv.ParseUint(w.name.literal, 16, 64)
	if err != nil {
		return k, userFault(
			w, "D_PROC_NAME", "entry, return, or an offset into the function in hexadecimal digits",
			"no function has a probe %s", w.name.literal,
		)
	}
	k.one, k.at = true, at
	return k, nil
}

// A merging merges probes of the same name: a file may have several functions of one name, such as
// static functions of its sources. They are one probe with several places.
type merging struct {
	of   *processProbes
	list []*found
	at   map[string]*found
}

func (pr *processProbes) merging() *merging { return &merging{of: pr, at: map[string]*found{}} }

// add adds a probe of one function.
func (m *merging) add(f *found) {
	path := f.spots[0].code.Path
	key := strings.Join([]string{path, f.Function, f.Name}, "\x00")
	first := m.at[key]
	if first == nil {
		m.at[key] = f
		m.list = append(m.list, f)
		return
	}
	for _, s := range f.spots { // two indirect functions of a name may choose the same
		if !slices.ContainsFunc(first.spots, func(o spot) bool { return o.offset == s.offset }) {
			first.spots = append(first.spots, s)
		}
	}
	// Under another name of these functions a probe may have fewer places, so the places are part
	// of the ID.
	parts := []string{f.Provider, path, f.Function, f.Name}
	for _, s := range first.spots {
		parts = append(parts, strconv.FormatUint(s.offset, 16))
	}
	first.ID = m.of.probeID(parts...)
}

// each calls yield with each merged probe.
func (m *merging) each(yield func(*found)) {
	for _, f := range m.list {
		yield(f)
	}
}

// nameOf returns a function under the name by which w matches it; aliases are its names, the best
// last. A literal name is that name. Of several names that match a pattern it takes the one with
// the fewest leading underscores, and of those the best: fread, not _IO_fread. A name that matches
// only in its readable form ranks last. A function of C++ has its signature as its name, unless w
// is its linker name. It returns false when no name matches.
func (w *want) nameOf(aliases []symbol.Function) (f symbol.Function, ok bool) {
	least := 0
	short := strings.Contains(w.function.plain, "[...]")
	for _, a := range aliases {
		rank := len(a.Name) - len(strings.TrimLeft(a.Name, "_"))
		switch {
		case w.function.match(a.Name):
		case short && w.function.plain == shortTypes(a.Name):
		case w.function.match(a.Readable), a.Signature != "" && w.signed(a.Signature):
			rank += len(a.Name)
		default:
			continue
		}
		if !ok || rank <= least {
			f, ok, least = a, true, rank
		}
	}
	for _, a := range aliases {
		f.Indirect = f.Indirect || a.Indirect
		f.Size = max(f.Size, a.Size)
	}
	if f.Signature != "" && !(w.function.isLit && w.function.literal == f.Name) {
		f.Name = f.Signature
	}
	return f, ok
}

// signed reports whether w matches a signature, with the type that a template returns or without:
// long shop::get<long>(long).
func (w *want) signed(signature string) bool {
	return w.function.match(signature) ||
		w.function.plain != "" && strings.HasSuffix(signature, " "+w.function.plain)
}

// identity returns the part of a probe's ID that is about a function: functions of C++ may have the
// same signature, such as the two constructors of a class.
func identity(f symbol.Function) string {
	if f.Name == f.Signature {
		return f.Name + "@" + strconv.FormatUint(f.Start, 16)
	}
	return f.Name
}
