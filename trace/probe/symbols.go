package probe

import (
	"errors"
	"fmt"
	"slices"

	"culprit/measure"

	"github.com/cilium/ebpf/btf"
)

// Symbol returns the address and the type of a variable of the kernel; see check.Env. Only per-CPU
// variables have a type in the kernel's BTF. For some others variable knows the type; else it is
// nil. If the kernel's table of symbols has only functions (no CONFIG_KALLSYMS_ALL), unlisted finds
// the addresses of some variables. It fails with measure.ErrUnsupported when the kernel has no such
// variable, or its address cannot be found.
func (k *kernelInfo) Symbol(module, name string) (uint64, btf.Type, error) {
	if module == "vmlinux" || module == "kernel" {
		module = ""
	}
	addr, _, ok := k.symbols.Lookup(module, name)
	if !ok {
		if err := k.symbols.Err(); err != nil {
			return 0, nil, err
		}
		var err error
		if module != "" {
			err = fmt.Errorf("module %s has no symbol %s: %w", module, name, measure.ErrUnsupported)
		} else if addr, err = k.unlisted(name); err != nil && !errors.Is(err, errNotListed) {
			return 0, nil, err
		} else if err != nil {
			err = fmt.Errorf("the kernel has no symbol %s: %w", name, measure.ErrUnsupported)
			if _, _, all := k.symbols.Lookup("", "init_task"); !all {
				err = fmt.Errorf(
					"the kernel's table of symbols lists only functions, no variables "+
						"(CONFIG_KALLSYMS_ALL): %w",
					measure.ErrUnsupported,
				)
			}
		}
		if err != nil {
			return 0, nil, err
		}
	}
	spec, err := k.BTF()
	if err != nil {
		return addr, nil, nil
	}
	var v *btf.Var
	if err := spec.TypeByName(name, &v); err == nil {
		return addr, v.Type, nil
	} else if !errors.Is(err, btf.ErrNotFound) {
		return addr, nil, nil
	}
	return addr, k.variable(spec, name), nil
}

// variable returns the type of a variable that BTF lacks, as the kernel's headers declare it, or
// nil.
func (k *kernelInfo) variable(spec *btf.Spec, name string) btf.Type {
	long := &btf.Int{Name: "unsigned long", Size: 8}
	word := &btf.Int{Name: "unsigned int", Size: 4}
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	switch {
	case name == "avenrun":
		return &btf.Array{Type: long, Nelems: 3}
	case slices.Contains(
		[]string{
			"max_pfn", "min_low_pfn", "max_low_pfn", "jiffies", "totalreserve_pages",
			"_totalram_pages",
		},
		name,
	):
		return long
	case slices.Contains([]string{"nr_cpu_ids", "nr_irqs"}, name):
		return word
	case slices.Contains([]string{"crashing_cpu", "nr_threads", "panic_timeout"}, name):
		return &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	case name == "linux_banner":
		return &btf.Array{Type: char, Nelems: 256}
	case name == "saved_command_line":
		return &btf.Pointer{Target: char}
	}
	if path, ok := fromInitTask[name]; ok {
		if t, err := pointed(spec, path); err == nil {
			return t
		}
		return nil
	}
	named := map[string]string{"init_mm": "mm_struct", "cad_pid": "pid"}[name]
	var s *btf.Struct
	if named == "" || spec.TypeByName(named, &s) != nil {
		return nil
	}
	if name == "cad_pid" {
		return &btf.Pointer{Target: s}
	}
	return s
}
