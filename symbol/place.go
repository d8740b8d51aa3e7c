// Package symbol resolves addresses to names: of the kernel by /proc/kallsyms, of processes by
// their maps, their ELF files, the vDSO, and the maps of just-in-time compilers. It reads on demand
// and caches what it has read. An address without a name stays an address, with a note why. It
// walks no stacks and needs no debug packages.
package symbol

import (
	"strconv"
	"strings"

	"culprit/measure"
)

// A Place is what is known of an address.
type Place struct {
	Address uint64
	// vmlinux, a kernel module, the base name of a program or library, [vdso]; "" is not known
	Module string
	Name   string // the function or variable; "" is not known
	Offset uint64 // from the start of Name
	// Base is the start of the part of the module that contains the address: the lowest symbol of
	// the kernel or of a module, or the mapping of a file. 0: unknown.
	Base uint64
	// Late means that the name was not read yet: it may be known the next time.
	Late bool
}

// String returns the place as DTrace prints it in stacks: module`name+0x1f, module`name,
// module`0x7f12, 0x7f12.
func (p Place) String() string {
	if p.Name == "" || p.Offset == 0 {
		return p.Symbol()
	}
	return p.Symbol() + "+0x" + strconv.FormatUint(p.Offset, 16)
}

// Symbol returns the place as DTrace's sym() prints it: String without the offset.
func (p Place) Symbol() string {
	name := p.Name
	if name == "" {
		name = "0x" + strconv.FormatUint(p.Address, 16)
	}
	if p.Module == "" {
		return name
	}
	return p.Module + "`" + name
}

// Unresolved returns the place as DTrace prints it with the option noresolve: the file, and the
// offset from the start of its mapping. It is for programs whose symbols are resolved later.
func (p Place) Unresolved() string {
	if p.Module == "" || p.Base == 0 || p.Address < p.Base {
		return "0x" + strconv.FormatUint(p.Address, 16)
	}
	return p.Module + ":0x" + strconv.FormatUint(p.Address-p.Base, 16)
}

// ModuleName returns the place as DTrace's mod() prints it: the module, or the address without one.
func (p Place) ModuleName() string {
	if p.Module == "" {
		return "0x" + strconv.FormatUint(p.Address, 16)
	}
	return p.Module
}

// Plain returns the place as most tools of Linux print it: name+0x1f [module], without the module
// for the kernel itself.
func (p Place) Plain() string {
	s := p.Name
	switch {
	case s == "":
		s = "0x" + strconv.FormatUint(p.Address, 16)
	case p.Offset > 0:
		s += "+0x" + strconv.FormatUint(p.Offset, 16)
	}
	if p.Module != "" && p.Module != vmlinux {
		s += " [" + p.Module + "]"
	}
	return s
}

// vmlinux is the module name of the kernel itself.
const vmlinux = "vmlinux"

// Bare returns a function's name without the suffixes of compilers for parts and copies: .isra.0,
// .part.1, .constprop.0, .cold, .llvm.123, .lto_priv.0. A part does not start where the function
// starts.
func Bare(name string) string {
	for {
		i := strings.LastIndexByte(name, '.')
		if i <= 0 {
			return name
		}
		end := name[i+1:]
		if _, err := strconv.ParseUint(end, 10, 64); err == nil {
			j := strings.LastIndexByte(name[:i], '.')
			if j <= 0 || !clone(name[j+1:i]) {
				return name
			}
			name = name[:j]
			continue
		}
		if !clone(end) {
			return name
		}
		name = name[:i]
	}
}

func clone(s string) bool {
	switch s {
	case "isra", "part", "constprop", "cold", "llvm", "lto_priv", "localalias":
		return true
	}
	return false
}

// clean removes control characters, which could affect a terminal, from the text of a file.
func clean(s string) string { return measure.Clean(s) }
