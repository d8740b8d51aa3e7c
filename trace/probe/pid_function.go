package probe

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"culprit/lang/check"
	"culprit/symbol"
)

// functionProbes calls yield with the probes k of one function f. at is the file and the process.
// many means that the description matches several functions or probes: then a return or an offset
// that can't be probed is no error.
func (pr *processProbes) functionProbes(
	w *want, k pidNames, f symbol.Function, at spot, provider string, many bool, yield func(*found),
) error {
	module := at.code.Name
	one := func(name string, site check.Site, spots []spot) {
		yield(&found{
			Listed: Listed{
				ID:       pr.probeID(provider, at.code.Path, identity(f), name),
				Provider: provider,
				Module:   module,
				Function: f.Name,
				Name:     name,
			},
			site:      site,
			foundUser: foundUser{spots: spots, entry: name == "entry" || name == "0"},
		})
	}
	here, ok := at.code.Offset(f.Start)
	if !ok {
		return userFault(w, "D_PROC_FUNC", "", "%s of %s is not in the file", f.Name, module)
	}
	if k.entry {
		s := at
		s.offset = here
		s.operands = operandsAt(at.code, f, 0)
		one("entry", check.SiteUprobe, []spot{s})
	}
	if k.ret {
		site, spots, err := returnSpots(at, f, here)
		if err == nil {
			one("return", site, spots)
		} else if errors.Is(err, symbol.ErrUnavailable) {
			return unread(w, err)
		} else if !many {
			return userFault(w, "D_PROC_FUNC", "", "%v", err)
		}
	}
	if !k.offsets && !k.one {
		return nil
	}
	starts, err := at.code.Instructions(f)
	if errors.Is(err, symbol.ErrUnavailable) {
		return unread(w, err)
	}
	if k.one {
		switch {
		case slices.Contains(starts, k.at):
			s := at
			s.offset = here + k.at
			s.operands = operandsAt(at.code, f, k.at)
			one(w.name.literal, check.SiteUprobe, []spot{s})
			return nil
		case k.at >= f.Size:
			return userFault(
				w, "D_PROC_OFF", "", "%s has %d bytes, so it ends before %x", f.Name, f.Size, k.at,
			)
		case err != nil:
			return userFault(
				w, "D_PROC_OFF", "",
				"whether an instruction of %s begins at %x is not known: %v", f.Name, k.at, err,
			)
		}
		hint := ""
		if i, _ := slices.BinarySearch(starts, k.at); i > 0 && i < len(starts) {
			hint = fmt.Sprintf("one begins at %x, the next at %x", starts[i-1], starts[i])
		}
		return userFault(w, "D_PROC_OFF", hint, "no instruction of %s begins at %x", f.Name, k.at)
	}
	pr.offsetProbes(w, f, here, starts, at, one)
	return nil
}

// offsetProbes calls one with the probes at those instructions of a function whose offsets w
// matches. starts are the offsets of all, here is that of the function in the file.
func (pr *processProbes) offsetProbes(
	w *want, f symbol.Function, here uint64, starts []uint64, at spot,
	one func(name string, site check.Site, spots []spot),
) {
	var names []string
	var offsets []uint64
	for _, start := range starts {
		if name := strconv.FormatUint(start, 16); w.name.match(name) {
			names, offsets = append(names, name), append(offsets, here+start)
		}
	}
	for i, err := range at.code.Probeable(offsets) {
		if !errors.Is(err, symbol.ErrNever) {
			s := at
			s.offset = offsets[i]
			s.operands = operandsAt(at.code, f, offsets[i]-here)
			one(names[i], check.SiteUprobe, []spot{s})
		}
	}
}

// returnSpots returns the places and the site of a function's return. Normally the kernel replaces
// the return address on the stack at the entry. Go moves and inspects stacks, so in Go functions
// each return instruction is a place instead.
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
	if at.operands = goResult(); at.code.Class == symbol.I386 {
		at.operands = []check.Operand{
			at.operands[0], {Why: "32-bit Go functions return values on the stack"},
		}
	}
	var out []spot
	for _, r := range returns {
		s := at
		s.offset = here + r
		out = append(out, s)
	}
	return check.SiteUprobe, out, nil
}

// operandsAt returns where the arguments of a function are at one of its instructions; nil: where
// the C ABI of this machine has them at the entry. Within a 32-bit function they are not known.
func operandsAt(c *symbol.Code, f symbol.Function, offset uint64) []check.Operand {
	switch {
	case c.Class == symbol.I386 && offset == 0:
		return stackArguments()
	case c.Class == symbol.I386:
		return []check.Operand{}
	case c.Go && offset == 0 && strings.Contains(f.Name, ".") &&
		!strings.HasSuffix(f.Name, ".abi0"):
		return goArguments()
	}
	return nil
}

// mostWords is how many words of 32 bits are arguments of a function: arg0 to arg9.
const mostWords = 10

// stackArguments returns the words above the return address of a 32-bit function, where C and Go
// have their arguments. An argument of 64 bits is two words, the lower half first.
func stackArguments() []check.Operand {
	var out []check.Operand
	for n := range mostWords {
		out = append(out, check.Operand{
			Kind: check.OperandMemory, Size: 4, Reg: "rsp", Number: int64(4 * (n + 1)),
		})
	}
	return out
}

// goArguments returns the registers that contain the integer and pointer arguments of Go functions,
// in order.
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
func (pr *processProbes) addressProbe(
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
	if err != nil || !c.Main || c.Class == symbol.Foreign {
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
				ID:       pr.probeID(provider, c.Path, "-", w.name.literal),
				Provider: provider,
				Module:   c.Name,
				Function: "-",
				Name:     w.name.literal,
			},
			site:      check.SiteUprobe,
			foundUser: foundUser{spots: []spot{{code: c, pid: pid, offset: off}}},
		})
		return nil
	}
	return userFault(w, "D_PROC_OFF", "", "no function of %s has the address %x", c.Name, at)
}
