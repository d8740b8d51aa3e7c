package bpf

import (
	"fmt"
	"strings"

	"culprit/kernel"
	"culprit/measure"

	"github.com/cilium/ebpf"
)

// load loads the programs and maps of a spec under Locking, and sets the fields of to, a struct of
// package program. The caller closes to. types may be nil: the programs read no kernel structs, or
// the kernel's types are read for them alone. Maps of shared take the place of those of their name.
//
// The error is that of cilium/ebpf or a *MemoryLimit. errors.Is measure.ErrUnsupported: a struct of
// this kernel has no member of a name.
func load(spec *ebpf.CollectionSpec, to any, types *Types, shared map[string]*ebpf.Map) error {
	cache := sharedCache()
	if types != nil {
		cache = types.Cache()
	}
	err := Locking(kernel.Root{}, func() error {
		return spec.LoadAndAssign(to,
			&ebpf.CollectionOptions{Cache: cache, MapReplacements: shared})
	})
	if err != nil && strings.Contains(err.Error(), "bad CO-RE relocation") {
		return fmt.Errorf("this kernel's structs lack a member that the program reads: %w",
			measure.ErrUnsupported)
	}
	return err
}
