package probe

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"culprit/lang/check"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/symbol"
)

// The probes of processes: pidNNN:module:function:entry, return or an offset, and those that
// programs bring with them (USDT), whose provider has the number of the process behind its name.
// They are there because they are named: a description names the process, or it is one of those of
// -p and -c.

// firstUser is the first number of a probe of a process; they are given in the order in which they
// are met.
const firstUser = lastFBT + 1

// A userEnv is what an Env knows of processes.
type userEnv struct {
	of    *symbol.Processes
	codes map[int][]*symbol.Code
	ids   map[string]uint32
	kinds map[*symbol.Code][]usdt // read
	multi *bool
}

// A spot is where in a file a probe of a process is.
type spot struct {
	code      *symbol.Code
	pid       int
	offset    uint64 // in the file
	semaphore uint64
	operands  []check.Operand
}

// userFault is a mistake in a description, with dtrace's name of it.
func userFault(w *want, tag, hint, format string, args ...any) *NoProbe {
	return &NoProbe{
		Description: w.text,
		Message:     fmt.Sprintf(format, args...),
		Hint:        hint,
		Tag:         tag,
	}
}

// processOf takes the name of a provider and a process apart: pid123, node123; !ok: there is no
// number.
func processOf(provider string) (name string, pid int, ok bool) {
	name = strings.TrimRight(provider, "0123456789")
	n, err := strconv.ParseInt(provider[len(name):], 10, 32)
	return name, int(n), err == nil && name != ""
}

// user reports whether a description is of probes of processes, judged by its provider.
func (e *Env) user(w *want) bool {
	if w.id != 0 {
		return w.id >= firstUser
	}
	if w.provider.any() {
		return false
	}
	if w.provider.isLit {
		_, _, ok := processOf(w.provider.literal)
		return ok &&
			!slices.ContainsFunc(
				e.providers, func(p *provider) bool { return p.name == w.provider.literal },
			)
	}
	return len(e.Processes) > 0
}

// searchUser calls yield with each probe of a process that w fits.
func (e *Env) searchUser(w *want, yield func(*found)) error {
	var pids []int
	if w.provider.isLit {
		_, pid, _ := processOf(w.provider.literal)
		pids = []int{pid}
	} else {
		pids = e.Processes
	}
	for _, pid := range pids {
		name := "pid" + strconv.Itoa(pid)
		if w.provider.match(name) {
			if err := e.pidProbes(w, pid, name, yield); err != nil {
				return err
			}
			if w.provider.isLit {
				continue
			}
		}
		if err := e.usdtProbes(w, pid, yield); err != nil {
			return err
		}
	}
	return nil
}

// code returns the files that a process executes. An error has dtrace's tag.
func (e *Env) code(w *want, pid int) ([]*symbol.Code, error) {
	if c, ok := e.users.codes[pid]; ok {
		return c, nil
	}
	if pid <= 0 {
		return nil, userFault(w, "D_PROC_BADPID", "", "there is no process %d", pid)
	}
	if _, err := e.PIDNamespace(); err != nil || e.space.proc != nil {
		f := userFault(w, "D_PROC_GRAB", "", "%v", cmp.Or(err, e.space.proc))
		f.Err = measure.ErrUnsupported
		return nil, f
	}
	if e.users.of == nil {
		e.users.of = symbol.NewProcesses(e.root)
		e.users.codes, e.users.ids = map[int][]*symbol.Code{}, map[string]uint32{}
		e.users.kinds = map[*symbol.Code][]usdt{}
	}
	c, err := e.users.of.Code(pid)
	if err != nil {
		f := userFault(w, "D_PROC_GRAB", "", "%v", err)
		if errors.Is(err, fs.ErrNotExist) {
			f.Message = fmt.Sprintf("there is no process %d", pid)
		}
		f.Err = err
		return nil, f
	}
	if len(c) == 0 {
		return nil, userFault(
			w, "D_PROC_GRAB", "",
			"process %d executes no file: it is a thread of the kernel, or it is ending", pid,
		)
	}
	e.users.codes[pid] = c
	return c, nil
}

// closeUser closes the files of processes.
func (e *Env) closeUser() {
	for _, list := range e.users.codes {
		for _, c := range list {
			c.Close() //nolint:errcheck // it was read from
		}
	}
	e.users.codes = nil
}

// userID returns the number of a probe of a process, the same each time that it is asked for.
func (e *Env) userID(parts ...string) uint32 {
	key := strings.Join(parts, ":")
	id, ok := e.users.ids[key]
	if !ok {
		id = firstUser + uint32(len(e.users.ids))
		e.users.ids[key] = id
	}
	return id
}

// moduleFits reports whether a file is meant by the module of a description: by its name, by that
// up to one of its dots, by a.out for the program itself, or by its path.
func moduleFits(g *glob, c *symbol.Code) bool {
	if g.any() || c.Main && g.match("a.out") {
		return true
	}
	if g.isLit {
		rest, ok := strings.CutPrefix(c.Name, g.literal)
		return ok && (rest == "" || rest[0] == '.' || strings.HasSuffix(g.literal, ".")) ||
			c.Path == g.literal
	}
	return g.match(c.Name)
}

// pidProbes lists the probes of pidNNN. What is asked for by name and can't be had is an error; of
// many, those that can be had are given.
func (e *Env) pidProbes(w *want, pid int, provider string, yield func(*found)) error {
	codes, err := e.code(w, pid)
	if err != nil {
		return err
	}
	kinds, err := pidNamesOf(w)
	if err != nil {
		return err
	}
	if w.function.isLit && w.function.literal == "-" {
		return e.addressProbe(w, pid, provider, codes, yield)
	}
	var modules []*symbol.Code
	for _, c := range codes {
		if moduleFits(&w.module, c) {
			modules = append(modules, c)
		}
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
			f.Hint = "it has " + strings.Join(names, ", ")
		}
		return f
	}
	if exact, ok := exactFunction(w, modules); ok {
		w = exact
	}
	var trouble error
	same := e.merging()
	defer same.give(yield)
	many := !w.function.isLit || !w.name.isLit
	n := 0
	for _, c := range modules {
		if !c.Wide {
			trouble = userFault(
				w, "D_PROC_LIB", "", "%s is of 32 bits, and such programs can't be traced", c.Name,
			)
			continue
		}
		funcs, err := c.Functions()
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
				trouble = userFault(
					w, "D_PROC_FUNC",
					"name the one that it chooses, which begins with __"+f.Name+"_ where the file has its name",
					"%s of %s is not a function: it chooses one when the program starts", f.Name,
					c.Name,
				)
				continue
			}
			n++
			if err := e.functionProbes(w, kinds, f, spot{code: c, pid: pid}, provider, many, same.add); err != nil {
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
	return e.noFunction(w, pid, modules)
}

// exactFunction returns w for the function alone that is called as w's pattern is written, if there
// is one: main.(*conn).Read.
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
			funcs, func(f symbol.Function) bool { return f.Name == w.function.plain },
		) {
			exact := *w
			exact.function = w.function.asLiteral()
			return &exact, true
		}
	}
	return nil, false
}

// shortTypes returns the name of a Go function as Go prints it in stacks: with [...] for the types
// that it is an instance for.
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

// pidNames are which probes of a function are asked for.
type pidNames struct {
	entry, ret bool
	offsets    bool   // those that the name fits
	at         uint64 // the only one
	one        bool
}

// pidNamesOf reads the name of a description.
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

// A merging puts the probes of one name together: a file may have several functions of a name, as
// static ones of its sources are, and they are one probe with several places.
type merging struct {
	env  *Env
	list []*found
	at   map[string]*found
}

func (e *Env) merging() *merging { return &merging{env: e, at: map[string]*found{}} }

// add takes a probe of one function.
func (m *merging) add(f *found) {
	path := f.spots[0].code.Path
	key := strings.Join([]string{path, f.Function, f.Name}, "\x00")
	first := m.at[key]
	if first == nil {
		m.at[key] = f
		m.list = append(m.list, f)
		return
	}
	first.spots = append(first.spots, f.spots...)
	// by other names of the functions there may be fewer
	parts := []string{f.Provider, path, f.Function, f.Name}
	for _, s := range first.spots {
		parts = append(parts, strconv.FormatUint(s.offset, 16))
	}
	first.ID = m.env.userID(parts...)
}

// give calls yield with each probe.
func (m *merging) give(yield func(*found)) {
	for _, f := range m.list {
		yield(f)
	}
}

// nameOf returns a function under the name by which w asks for it, out of the names that the
// function has, the best last. A name that was written out is that name. Of several names that fit
// a pattern it is the one with the fewest leading underscores, of those the best: fread, not
// _IO_fread. A name that fits only in its readable form comes after all others. !ok: no name fits.
func (w *want) nameOf(aliases []symbol.Function) (f symbol.Function, ok bool) {
	least := 0
	short := strings.Contains(w.function.plain, "[...]")
	for _, a := range aliases {
		rank := len(a.Name) - len(strings.TrimLeft(a.Name, "_"))
		switch {
		case w.function.match(a.Name):
		case short && w.function.plain == shortTypes(a.Name):
		case w.function.match(symbol.Readable(a.Name)):
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
	return f, ok
}

// noFunction says that the files of a process have no such function.
func (e *Env) noFunction(w *want, pid int, modules []*symbol.Code) error {
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
		f.Message += ": " + stripped + " was stripped of the names of its functions"
	default:
		f.Hint = "a function that the compiler put into others (inlined) has no place of its own"
	}
	return f
}

// functionProbes returns the probes of one function.
func (e *Env) functionProbes(
	w *want, k pidNames, f symbol.Function, at spot, provider string, many bool, yield func(*found),
) error {
	module := at.code.Name
	one := func(name string, site check.Site, spots []spot) {
		yield(&found{
			Listed: Listed{
				ID:       e.userID(provider, at.code.Path, f.Name, name),
				Provider: provider,
				Module:   module,
				Function: f.Name,
				Name:     name,
			},
			site: site, spots: spots, entry: name == "entry" || name == "0",
		})
	}
	here, ok := at.code.Offset(f.Start)
	if !ok {
		return userFault(w, "D_PROC_FUNC", "", "%s of %s is not in the file", f.Name, module)
	}
	goes := at.code.Go && !strings.HasSuffix(f.Name, ".abi0") && strings.Contains(f.Name, ".")
	if k.entry {
		s := at
		s.offset = here
		if goes {
			s.operands = goArguments()
		}
		one("entry", check.SiteUprobe, []spot{s})
	}
	if k.ret {
		site, spots, err := returnSpots(at, f, here)
		if err == nil {
			one("return", site, spots)
		} else if !many {
			return userFault(w, "D_PROC_FUNC", "", "%v", err)
		}
	}
	if !k.offsets && !k.one {
		return nil
	}
	starts, err := at.code.Instructions(f)
	if k.one {
		switch {
		case slices.Contains(starts, k.at):
			s := at
			s.offset = here + k.at
			one(w.name.literal, check.SiteUprobe, []spot{s})
			return nil
		case k.at >= f.Size:
			return userFault(
				w, "D_PROC_OFF", "", "%s is %d bytes long, and has nothing at %x", f.Name, f.Size,
				k.at,
			)
		case err != nil:
			return userFault(
				w, "D_PROC_OFF", "",
				"it is not known whether an instruction of %s begins at %x: %v", f.Name, k.at, err,
			)
		}
		hint := ""
		if i, _ := slices.BinarySearch(starts, k.at); i > 0 && i < len(starts) {
			hint = fmt.Sprintf("one begins at %x, the next at %x", starts[i-1], starts[i])
		}
		return userFault(w, "D_PROC_OFF", hint, "no instruction of %s begins at %x", f.Name, k.at)
	}
	for _, start := range starts {
		name := strconv.FormatUint(start, 16)
		if w.name.match(name) {
			s := at
			s.offset = here + start
			if errors.Is(at.code.Probeable(s.offset), symbol.ErrNever) {
				continue
			}
			one(name, check.SiteUprobe, []spot{s})
		}
	}
	return nil
}

// returnSpots returns where a function returns. The kernel can put an address of its own on the
// stack at the entry, and fire where that is returned to. Go moves stacks, and looks through them:
// there each instruction that returns is a place.
func returnSpots(at spot, f symbol.Function, here uint64) (check.Site, []spot, error) {
	if !at.code.Go {
		at.offset = here
		return check.SiteUretprobe, []spot{at}, nil
	}
	returns, err := at.code.Returns(f)
	if err != nil {
		return 0, nil, err
	}
	if len(returns) == 0 {
		return 0, nil, fmt.Errorf("%s has no instruction that returns", f.Name)
	}
	at.operands = goResult()
	var out []spot
	for _, r := range returns {
		s := at
		s.offset = here + r
		out = append(out, s)
	}
	return check.SiteUprobe, out, nil
}

// goArguments are the registers in which Go's functions get their arguments, from the first whole
// number or pointer on.
func goArguments() []check.Operand {
	regs := []string{"rax", "rbx", "rcx", "rdi", "rsi", "r8", "r9", "r10", "r11"}
	if runtime.GOARCH == "arm64" {
		regs = nil
		for n := range 16 {
			regs = append(regs, "x"+strconv.Itoa(n))
		}
	}
	var out []check.Operand
	for _, r := range regs {
		out = append(out, check.Operand{Kind: check.OperandReg, Size: 8, Reg: r})
	}
	return out
}

// goResult is arg0, which is not known, and arg1, what the function returns.
func goResult() []check.Operand {
	return []check.Operand{{Kind: check.OperandNumber, Size: 8}, goArguments()[0]}
}

// addressProbe returns the probe of pidNNN:a.out:-:ADDRESS, an instruction by its address in the
// file.
func (e *Env) addressProbe(
	w *want, pid int, provider string, codes []*symbol.Code, yield func(*found),
) error {
	if !w.name.isLit {
		return userFault(
			w, "D_PROC_NAME", "pid$target:a.out:-:ADDRESS",
			"the function - means an address, which must be given as the name",
		)
	}
	at, err := strconv.ParseUint(w.name.literal, 16, 64)
	if err != nil {
		return userFault(
			w, "D_PROC_NAME", "pid$target:a.out:-:ADDRESS", "%s is no address", w.name.literal,
		)
	}
	if !w.module.any() && !(w.module.isLit && w.module.literal == "a.out") {
		return userFault(w, "D_PROC_LIB", "", "the function - is of the module a.out alone")
	}
	c := codes[0]
	funcs, err := c.Functions()
	if err != nil || !c.Main || !c.Wide {
		return userFault(w, "D_PROC_FUNC", "", "the functions of %s can't be read", c.Name)
	}
	for _, f := range funcs {
		if at < f.Start || at-f.Start >= f.Size {
			continue
		}
		starts, err := c.Instructions(f)
		if !slices.Contains(starts, at-f.Start) {
			if err == nil {
				err = errors.New("its instructions are others")
			}
			return userFault(
				w, "D_PROC_OFF", "", "no instruction of %s is known to begin at %x: %v", f.Name, at,
				err,
			)
		}
		off, ok := c.Offset(at)
		if !ok {
			break
		}
		yield(&found{
			Listed: Listed{
				ID:       e.userID(provider, c.Path, "-", w.name.literal),
				Provider: provider,
				Module:   c.Name,
				Function: "-",
				Name:     w.name.literal,
			},
			site: check.SiteUprobe, spots: []spot{{code: c, pid: pid, offset: off}},
		})
		return nil
	}
	return userFault(w, "D_PROC_OFF", "", "no function of %s has the address %x", c.Name, at)
}

// explainUser reports why no probe of a process matches.
func (e *Env) explainUser(w *want) *NoProbe {
	none := userFault(w, "D_PDESC_ZERO", "", "no probe matches %s", w.text)
	if !w.provider.isLit {
		return none
	}
	name, pid, _ := processOf(w.provider.literal)
	if name == "pid" {
		return none
	}
	none.Message = fmt.Sprintf("process %d has no probe that %s matches", pid, w.text)
	codes, err := e.code(w, pid)
	if fault := (*NoProbe)(nil); errors.As(err, &fault) {
		return fault
	}
	var providers, names []string
	for _, c := range codes {
		for _, u := range e.usdtOf(c) {
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
			"there is no provider %s: the files of process %d have no probes of their own (USDT)",
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

// Diagnostic returns what is wrong in the words of lang; its place is for who has the text to fill
// in.
func (n *NoProbe) diagnostic() *syntax.Diagnostic {
	return &syntax.Diagnostic{Tag: n.Tag, Message: n.Message, Hint: n.Hint}
}

// userProvider is the family of the probes of processes, which no list has.
//
// table: made once, never changed
var userProvider = &provider{name: "pid", first: firstUser, last: 1<<32 - 1, args: usdtArgs}

// internSpots puts the places of a probe together by where their arguments are, and makes a probe
// of its own of each such group.
func (e *Env) internSpots(own *found, p *check.Probe) {
	p.AtEntry = own.entry
	all := own.spots
	own.spots = nil
	at := map[string]*found{}
	for _, s := range all {
		key := fmt.Sprint(s.operands)
		g := at[key]
		switch {
		case g != nil:
		case len(at) == 0:
			g = own
			p.Operands = s.operands
		default:
			other := *own
			g = &other
			g.spots = nil
			also := *p
			also.Operands, also.Also = s.operands, nil
			p.Also = append(p.Also, &also)
			e.targets[&also] = g
		}
		at[key] = g
		g.spots = append(g.spots, s)
	}
}

// KnownProcesses are those that the script is about.
func (e *Env) KnownProcesses() []int {
	out := slices.Clone(e.Processes)
	for pid := range e.users.codes {
		if !slices.Contains(out, pid) {
			out = append(out, pid)
		}
	}
	return out
}
