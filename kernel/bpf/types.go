package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"weak"

	"culprit/kernel"
	"culprit/measure"

	"github.com/cilium/ebpf/btf"
)

// Types are the kernel's own types (BTF) in /sys/kernel/btf. The file is mapped and indexed at the
// first call (about 20 ms and 6 MB), and each type is decoded when it is requested. Safe for
// concurrent use.
type Types struct {
	root kernel.Root

	mu    sync.Mutex           // guards all below
	cache *btf.Cache           // of the running kernel
	specs map[string]*btf.Spec // of a captured tree; "" is vmlinux
	names map[string]*TypeNames
}

// NewTypes returns the kernel's types and reads nothing yet.
func NewTypes(r kernel.Root) *Types { return &Types{root: r} }

// sharedCache returns the types of the running kernel that other parts of this process have just
// now: at its start several read them, at the same time. They are dropped with the last user.
//
// table: locked, and what it returns may be used by several goroutines
var sharedCache = func() func() *btf.Cache {
	var mu sync.Mutex
	var cache weak.Pointer[btf.Cache]
	return func() *btf.Cache {
		mu.Lock()
		defer mu.Unlock()
		c := cache.Value()
		if c == nil {
			c = btf.NewCache()
			cache = weak.Make(c)
		}
		return c
	}
}()

// Kernel returns the types of the kernel itself, without modules. errors.Is measure.ErrUnsupported:
// the kernel has no BTF.
func (t *Types) Kernel() (*btf.Spec, error) {
	if t.root.Sys != "" {
		return t.captured("")
	}
	spec, err := t.Cache().Kernel()
	return spec, typesErr("vmlinux", err)
}

// Module returns the types of a loaded module on top of those of the kernel. "vmlinux" is the
// kernel itself. The errors are those of Kernel.
func (t *Types) Module(name string) (*btf.Spec, error) {
	if name == "" || name == "vmlinux" {
		return t.Kernel()
	}
	if t.root.Sys != "" {
		return t.captured(name)
	}
	spec, err := t.Cache().Module(name)
	return spec, typesErr(name, err)
}

// Modules lists the loaded modules that have types, sorted, without vmlinux. The errors are those
// of Kernel.
func (t *Types) Modules() ([]string, error) {
	if t.root.Sys != "" {
		return nil, nil
	}
	names, err := t.Cache().Modules()
	return names, typesErr("modules", err)
}

// Cache returns the cache to pass to the loader of programs, so that it does not read the types
// again.
func (t *Types) Cache() *btf.Cache {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cache == nil {
		t.cache = sharedCache()
	}
	return t.cache
}

// Release drops the cache; the next call reads the file again where nobody else has it. Types that
// were returned stay valid.
func (t *Types) Release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cache, t.specs, t.names = nil, nil, nil
}

func (t *Types) captured(module string) (*btf.Spec, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if spec := t.specs[module]; spec != nil {
		return spec, nil
	}
	load := func(name string) (*btf.Spec, error) {
		spec, err := btf.LoadSpec(t.root.InSys("kernel/btf/" + name))
		return spec, typesErr(name, err)
	}
	if t.specs == nil {
		base, err := load("vmlinux")
		if err != nil {
			return nil, err
		}
		t.specs = map[string]*btf.Spec{"": base}
		if module == "" {
			return base, nil
		}
	}
	if strings.Contains(module, "/") {
		return nil, typesErr(module, fs.ErrNotExist)
	}
	spec, err := btf.LoadSplitSpec(t.root.InSys("kernel/btf/"+module), t.specs[""])
	if err != nil {
		return nil, typesErr(module, err)
	}
	t.specs[module] = spec
	return spec, nil
}

// typesErr maps an error of package btf to the errors of package measure.
func typesErr(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, btf.ErrNotSupported):
		return fmt.Errorf("types of %s: compiled without CONFIG_DEBUG_INFO_BTF: %w", what,
			measure.ErrUnsupported)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("types of %s: not in /sys/kernel/btf: %w", what, measure.ErrUnsupported)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("types of %s: %w", what,
			&measure.Denied{Doing: "read /sys/kernel/btf/" + what, Needs: "read permission"})
	}
	return fmt.Errorf("types of %s: %w: %w", what, measure.ErrUnclear, err)
}
