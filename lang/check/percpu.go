package check

import (
	"culprit/lang/syntax"

	"github.com/cilium/ebpf/btf"
)

// perCPUSection is the section of the kernel's BTF that contains its per-CPU variables.
const perCPUSection = ".data..percpu"

// perCPU returns the value that a per-CPU variable of the kernel has on the current CPU:
//
//	*(T *)(&NAME + __per_cpu_offset[cpu])
//
// It returns false for other variables.
func (c *checker) perCPU(e *syntax.Ident) (value, bool) {
	spec := c.types.kernel()
	if spec == nil || e.Module != "" && e.Module != "vmlinux" && e.Module != "kernel" {
		return value{}, false
	}
	var section *btf.Datasec
	if err := spec.TypeByName(perCPUSection, &section); err != nil {
		return value{}, false
	}
	at := e.At()
	for _, one := range section.Vars {
		v, ok := one.Type.(*btf.Var)
		if !ok || v.Name != e.Name {
			continue
		}
		offsets, _, err := c.env.Symbol("", "__per_cpu_offset")
		if err != nil {
			c.fail(
				at, NoSymbol, "D_IDENT_UNDEF", "the kernel variable %s has a value per CPU, whose "+
					"addresses are unknown: %v", e.Name, err,
			)
			return value{}, true
		}
		start, _, err := c.env.Symbol("", "__per_cpu_start")
		if err != nil {
			start = 0 // as on x86 before Linux 6.15, where it has no address
		}
		t := c.types.from(v.Type)
		var number Expr = &Builtin{typed{at, typedefs["processorid_t"]}, BuiltinCPU, 0}
		number = &Binary{typed{at, tLong}, syntax.Shl, convert(number, tLong),
			&Const{typed{at, tLong}, 3}}
		table := &Pointer{Elem: tLong, Space: Kernel}
		base := &Load{typed{at, tLong}, &Binary{
			typed{at, table}, syntax.Add, &Const{typed{at, table}, int64(offsets)}, number,
		}}
		p := &Pointer{Elem: t, Space: Kernel}
		address := &Convert{typed{at, p}, &Binary{
			typed{at, tLong}, syntax.Add, base,
			&Const{typed{at, tLong}, int64(start) + int64(one.Offset)},
		}}
		return c.at(at, address, t), true
	}
	return value{}, false
}
