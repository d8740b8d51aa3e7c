package probe

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"culprit/lang/check"
	"culprit/symbol"
)

// A usdt is a probe that a file defines (USDT), with all its places within one function. The
// function may also only ask whether the probe is enabled.
type usdt struct {
	provider, function, name string
	aliases                  []symbol.Function // the names of the function, the best last
	places                   []usdtPlace
	types                    []string    // of the arguments, in D; nil: integers of their sizes
	asked                    []usdtPlace // where the function asks whether the probe is enabled
}

// A usdtPlace is one of the places of a probe.
type usdtPlace struct {
	offset, semaphore uint64
	operands          []check.Operand
}

// usdtOf returns the probes that a file defines. It reads them once. The error is that of reading
// the notes.
func (pr *processProbes) usdtOf(c *symbol.Code) ([]usdt, error) {
	if known, ok := pr.kinds[c]; ok {
		return known, nil
	}
	list, err := readUSDT(c)
	if err == nil {
		pr.kinds[c] = list
	}
	return list, err
}

// usdtOfAll returns the probes that files define, by file. Malformed files define none. The error
// is that files cannot be read now.
func (pr *processProbes) usdtOfAll(codes []*symbol.Code) ([][]usdt, error) {
	var out [][]usdt
	for _, c := range codes {
		list, err := pr.usdtOf(c)
		if errors.Is(err, symbol.ErrUnavailable) {
			return nil, fmt.Errorf("read the probes of %s: %w", c.Name, err)
		}
		out = append(out, list)
	}
	return out, nil
}

func readUSDT(c *symbol.Code) ([]usdt, error) {
	if c.Class == symbol.Foreign {
		return nil, nil
	}
	notes, err := c.Notes()
	if err != nil {
		return nil, err
	}
	var funcs []symbol.Function
	if len(notes) > 0 {
		if funcs, err = c.Functions(); errors.Is(err, symbol.ErrUnavailable) {
			return nil, err
		} // with another error the functions are not known
	}
	at := map[[3]string]int{}
	asked := map[[3]string][]usdtPlace{} // by provider, function and name
	var out []usdt
	for i := range notes {
		n := &notes[i]
		off, ok := c.Offset(n.Address)
		if !ok || !c.Executable(n.Address) {
			continue
		}
		place := usdtPlace{offset: off, operands: operandsOf(n)}
		deaf := false // its semaphore cannot be incremented
		if n.Semaphore != 0 {
			place.semaphore, ok = c.Counter(n.Semaphore)
			deaf = !ok
		}
		aliases := functionAt(funcs, n.Address)
		function := ""
		if len(aliases) > 0 {
			function = aliases[len(aliases)-1].Name
		}
		key := [3]string{n.Provider, function, strings.ReplaceAll(n.Name, "__", "-")}
		j, known := at[key]
		if !known {
			j = len(out)
			at[key] = j
			out = append(
				out, usdt{provider: key[0], function: key[1], name: key[2], aliases: aliases},
			)
		}
		if n.Enabled {
			asked[key] = append(asked[key], place)
			continue
		}
		if deaf {
			asked[key] = append(asked[key], usdtPlace{offset: place.offset})
		}
		if len(out[j].places) == 0 {
			out[j].types = n.Types
		}
		out[j].places = append(out[j].places, place)
	}
	for i := range out {
		out[i].asked = asked[[3]string{out[i].provider, out[i].function, out[i].name}]
	}
	return out, nil
}

// functionAt returns the names of the function that contains an address, the best last, or nil.
func functionAt(funcs []symbol.Function, addr uint64) []symbol.Function {
	i, _ := slices.BinarySearchFunc(funcs, addr, func(f symbol.Function, a uint64) int {
		if f.Start <= a {
			return -1
		}
		return 1
	})
	for n := 0; i > 0 && n < 16; n++ {
		i--
		if addr-funcs[i].Start >= funcs[i].Size {
			continue
		}
		from, to := i, i+1
		for from > 0 && funcs[from-1].Start == funcs[i].Start {
			from--
		}
		for to < len(funcs) && funcs[to].Start == funcs[i].Start {
			to++
		}
		return funcs[from:to]
	}
	return nil
}

// operandsOf returns the places of a probe's arguments, in the order in which D counts them.
func operandsOf(n *symbol.Note) []check.Operand {
	out := []check.Operand{}
	for _, a := range n.Arguments {
		o := check.Operand{
			Size:   a.Size,
			Signed: a.Signed,
			Number: a.Number,
			Reg:    a.Register,
			Shift:  a.Shift,
			Index:  a.Index,
			Scale:  a.Scale,
			Why:    a.Why,
		}
		if o.Reg == "pc" { // the address of the instruction is known
			o.Number -= int64(n.Address)
		}
		switch a.Where {
		case symbol.InConstant:
			o.Kind = check.OperandNumber
			o.Number = cut(o.Number, a.Size, a.Signed)
		case symbol.InRegister:
			o.Kind = check.OperandReg
		case symbol.InMemory:
			o.Kind = check.OperandMemory
		case symbol.AtAddress:
			o.Kind, o.Reg, o.Number = check.OperandReg, "pc", a.Number-int64(n.Address)
		}
		out = append(out, o)
	}
	if n.Map == nil {
		return out
	}
	mapped := []check.Operand{}
	for _, from := range n.Map {
		o := check.Operand{Why: "the program does not describe where it is"}
		if from < len(out) {
			o = out[from]
		}
		mapped = append(mapped, o)
	}
	return mapped
}

// cut returns a number truncated to size bytes.
func cut(n int64, size int, signed bool) int64 {
	if size >= 8 {
		return n
	}
	shift := 64 - 8*size
	if signed {
		return n << shift >> shift
	}
	return int64(uint64(n) << shift >> shift)
}

// usdtProbes calls yield with the probes that the files of a process define and that w matches. The
// provider's name ends with the process ID.
func (pr *processProbes) usdtProbes(w *want, pid int, yield func(*found)) error {
	codes, err := pr.code(w, pid)
	if err != nil {
		if !w.provider.isLit {
			return err
		}
		name, _, _ := processOf(w.provider.literal)
		// dtrace reports a missing provider for a missing process.
		if f := (*NoProbe)(nil); errors.As(err, &f) && name != "pid" {
			f.Tag = "D_PDESC_ZERO"
		}
		return err
	}
	defined, err := pr.usdtOfAll(codes)
	if err != nil {
		return unread(w, err)
	}
	for i, c := range codes {
		for _, u := range defined[i] {
			provider := u.provider + strconv.Itoa(pid)
			if !w.provider.match(provider) {
				continue
			}
			if f := pr.usdtProbe(w, c, u, provider, pid, c.Path); f != nil {
				yield(f)
			}
		}
	}
	return nil
}

// usdtProbe returns a probe that a file defines; nil: w does not match its module, function or
// name. The file is identified by id. pid 0 means all processes.
func (pr *processProbes) usdtProbe(
	w *want, c *symbol.Code, u usdt, provider string, pid int, id string,
) *found {
	function, fits := u.function, w.function.match(u.function)
	if named, ok := w.nameOf(u.aliases); ok {
		function, fits = named.Name, true
	}
	if !fits || !w.name.match(u.name) || !w.module.match(c.Name) && !moduleFits(&w.module, c) {
		return nil
	}
	f := &found{
		Listed: Listed{
			ID:       pr.probeID(provider, id, function, u.name),
			Provider: provider,
			Module:   c.Name,
			Function: function,
			Name:     u.name,
		},
		site:      check.SiteUprobe,
		foundUser: foundUser{types: u.types},
	}
	for _, p := range u.places {
		f.spots = append(f.spots, spot{code: c, pid: pid, offset: p.offset,
			semaphore: p.semaphore, operands: p.operands})
	}
	for _, p := range u.asked {
		f.asked = append(f.asked, spot{code: c, pid: pid, offset: p.offset, operands: p.operands})
	}
	return f
}

// usdtArgs returns the arguments of a probe as a program's file describes them.
func usdtArgs(_ *Env, f *found, _ *check.Probe) ([]check.Arg, string) {
	if len(f.spots) == 0 || f.spots[0].operands == nil || f.goes() {
		return nil, ""
	}
	args := []check.Arg{}
	for i, o := range f.spots[0].operands {
		c := ""
		if i < len(f.types) {
			c = f.types[i]
		} else {
			c = map[bool]string{true: "int", false: "uint"}[o.Signed] + fmt.Sprint(8*o.Size) + "_t"
		}
		args = append(
			args,
			check.Arg{C: c, From: i, User: strings.Contains(c, "*") || strings.Contains(c, "[")},
		)
	}
	return args, ""
}

// goes reports whether a probe is in a function of a Go or a 32-bit program, whose arguments have
// no types here.
func (f *found) goes() bool {
	c := f.spots[0].code
	return f.types == nil && strings.HasPrefix(f.Provider, "pid") &&
		(c.Go || c.Class == symbol.I386)
}
