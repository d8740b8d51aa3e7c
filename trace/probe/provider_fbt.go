package probe

import (
	"errors"
	"fmt"
	"strings"

	"culprit/kernel/bpf"
	"culprit/kernel/feature"
	"culprit/kernel/proc"
	"culprit/lang/check"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// An AttachMethod is the kernel facility that attaches programs to functions of the kernel.
type AttachMethod uint8

// The attach methods.
const (
	AttachAny AttachMethod = iota // the best one for a probe: see methodOf
	// AttachKprobe patches a breakpoint or a call into each function. It is the oldest method,
	// which most kernels have.
	AttachKprobe
	AttachMulti // one attachment for all functions of a program (kprobe.multi)
	// AttachFentry uses a trampoline per function (fentry, fexit). The verifier knows the types of
	// the arguments.
	AttachFentry
)

// String returns the name of the method: any, kprobe, multi or fentry.
func (r AttachMethod) String() string {
	switch r {
	case AttachAny:
		return "any"
	case AttachKprobe:
		return "kprobe"
	case AttachMulti:
		return "multi"
	case AttachFentry:
		return "fentry"
	}
	return fmt.Sprintf("attach method %d", uint8(r))
}

const (
	firstFBT   = 100_000   // of functions in the kernel's BTF: plus twice their number there
	firstBare  = 4_000_000 // of other functions: plus twice their index in the tracer's list
	lastFBT    = 8_000_000
	severalFBT = 8 // functions that are named one by one are attached together from here on
)

// functions are the functions of the kernel that can be probed.
type functions struct {
	list         []function      // by address; nil: not read
	err          error           // why there is no list
	unattachable error           // why no function can be probed; nil: some can
	asked        bool            // unattachable is known
	single       map[string]bool // functions that were named one by one
}

func fbtProvider() *provider {
	return &provider{
		name: "fbt", first: firstFBT, last: lastFBT,
		list: listFunctions,
		args: functionArgs,
	}
}

// listFunctions lists the functions of the function tracer's list, or if that can't be read those
// in the kernel's BTF. A function that is named completely is looked up in BTF alone, because the
// kernel needs long to produce the list.
func listFunctions(e *Env, w *want, yield func(*found)) error {
	if w.id == 0 && !w.name.match("entry") && !w.name.match("return") {
		return nil
	}
	if err := e.kprobeFunctions(); err != nil {
		return err
	}
	names, err := e.types.TypeNames("")
	if err != nil && !errors.Is(err, measure.ErrUnsupported) {
		return err
	}
	if names != nil && w.function.isLit && w.id == 0 {
		if ids := names.Find(bpf.KindFunc, w.function.literal); len(ids) > 0 {
			if w.module.match("vmlinux") {
				yieldFunction(
					proc.KernelFunction{Module: "vmlinux", Name: w.function.literal},
					firstFBT+2*uint32(ids[0]), !e.several(w.function.literal), yield,
				)
			}
			return nil
		}
	}
	list, err := e.functionList(names)
	if err != nil {
		return err
	}
	for i := range list {
		f := &list[i]
		if w.id != 0 && w.id&^1 != f.id ||
			w.id == 0 && (!w.function.match(f.Name) && !w.function.match(sourceName(f.Name)) ||
				!w.module.match(f.Module)) {
			continue
		}
		yieldFunction(f.KernelFunction, f.id, false, yield)
	}
	return nil
}

func yieldFunction(f proc.KernelFunction, id uint32, alone bool, yield func(*found)) {
	one := &found{
		Listed: Listed{ID: id, Provider: "fbt", Module: f.Module, Function: f.Name, Name: "entry"},
		site:   check.SiteKprobe, key: uint64(id), alias: sourceName(f.Name), alone: alone,
	}
	yield(one)
	one.ID++
	one.key++
	one.Name, one.site = "return", check.SiteKretprobe
	yield(one)
}

// sourceName returns the name of a function in the source. Compilers create variants of a function
// that are named foo.isra.0 or foo.constprop.1.part.2.
func sourceName(name string) string {
	name, _, _ = strings.Cut(name, ".")
	return name
}

// several counts the functions that were named one by one, and reports whether they are more than
// severalFBT.
func (e *Env) several(name string) bool {
	if e.fbt.single == nil {
		e.fbt.single = map[string]bool{}
	}
	e.fbt.single[name] = true
	return len(e.fbt.single) > severalFBT
}

// A function is one that can be probed. id is the number of its entry probe.
type function struct {
	proc.KernelFunction
	id uint32
}

// functionList returns the list of functions, which it reads once. Functions of the same name are
// one entry.
func (e *Env) functionList(names *bpf.TypeNames) ([]function, error) {
	if e.fbt.list != nil || e.fbt.err != nil {
		return e.fbt.list, e.fbt.err
	}
	ids := map[string]uint32{}
	if names != nil {
		ids = make(map[string]uint32, 80_000)
		names.Each(bpf.KindFunc, func(id btf.TypeID, name string) {
			if _, have := ids[name]; !have {
				ids[name] = firstFBT + 2*uint32(id)
			}
		})
	}
	var list []proc.KernelFunction
	t, err := e.openTracefs()
	if err == nil {
		list, err = t.Functions()
	}
	if err != nil {
		if names == nil {
			e.fbt.err = err
			return nil, err
		}
		names.Each(bpf.KindFunc, func(_ btf.TypeID, name string) {
			list = append(list, proc.KernelFunction{Module: "vmlinux", Name: name})
		})
	}
	out := make([]function, 0, len(list))
	for i, f := range list {
		id, known := ids[f.Name]
		switch {
		case known && id == 0:
			continue // yielded before
		case !known || f.Module != "vmlinux":
			id = firstBare + 2*uint32(i)
		}
		ids[f.Name] = 0
		out = append(out, function{f, id})
	}
	e.fbt.list = out
	return out, nil
}

// kprobeFunctions returns why no function of this kernel can be probed, or nil. It tries once.
func (e *Env) kprobeFunctions() error {
	if !e.fbt.asked {
		e.fbt.asked = true
		e.fbt.unattachable = e.findKprobeFunctions()
	}
	return e.fbt.unattachable
}

// AssumeFunctions makes programs compile that probe functions of the kernel, also where the kernel
// allows none: they can't be loaded there.
func (e *Env) AssumeFunctions() { e.fbt.asked, e.fbt.unattachable = true, nil }

func (e *Env) findKprobeFunctions() error {
	_, err := proc.ReadSys(e.root, "bus/event_source/devices/kprobe/type", nil)
	if err == nil || !e.root.Real() {
		return nil
	}
	if err := feature.Fentry.Have(e.root); err != nil {
		return fmt.Errorf(
			"functions of this kernel cannot be probed: it is compiled without kprobes, and %w",
			err,
		)
	}
	return nil
}

// functionArgs returns the arguments of a function, or its result, from the kernel's types. A probe
// whose arguments are used is moved to fentry if possible: the verifier then knows the types, and
// reading through pointers costs less.
func functionArgs(e *Env, f *found, p *check.Probe) ([]check.Arg, string) {
	spec, err := e.types.Module(f.Module)
	if err != nil {
		return nil, err.Error()
	}
	var fn *btf.Func
	if err := spec.TypeByName(f.Function, &fn); err != nil {
		if errors.Is(err, btf.ErrMultipleMatches) {
			return nil, "the kernel has several functions named " + f.Function +
				", with different arguments"
		}
		return nil, "the kernel's types don't have the function " + f.Function
	}
	proto, ok := fn.Type.(*btf.FuncProto)
	if !ok {
		return nil, "the kernel's types have no arguments of " + f.Function
	}
	if (f.alone && e.Method == AttachAny || e.Method == AttachFentry) &&
		f.site == check.SiteKprobe &&
		e.canFentry(f, proto) {
		p.Site = check.SiteFentry
	}
	if f.site == check.SiteKretprobe {
		// In dtrace arg0 is the offset of the returning instruction, which Linux does not report.
		args := []check.Arg{{Name: "offset", C: "long", From: 0}}
		if _, void := btf.UnderlyingType(proto.Return).(*btf.Void); !void {
			args = append(
				args,
				check.Arg{Name: "return", Type: proto.Return, From: -1, User: ofUser(proto.Return)},
			)
		}
		return args, ""
	}
	args := make([]check.Arg, 0, len(proto.Params))
	for i, param := range proto.Params {
		args = append(
			args, check.Arg{Name: param.Name, Type: param.Type, From: i, User: ofUser(param.Type)},
		)
	}
	return args, ""
}

// canFentry reports whether a function can have a trampoline. Its arguments and result must be in
// registers, and the kernel must load a program for it.
func (e *Env) canFentry(f *found, proto *btf.FuncProto) bool {
	if strings.Contains(f.Function, ".") || len(proto.Params) > 6 || !inRegister(proto.Return) {
		return false
	}
	for _, param := range proto.Params {
		if param.Type == nil || !inRegister(param.Type) {
			return false
		}
	}
	spec := &ebpf.ProgramSpec{
		Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTo: f.Function, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	}
	c, err := ebpf.NewCollectionWithOptions(
		&ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"try": spec}},
		ebpf.CollectionOptions{
			Cache:    e.types.Cache(),
			Programs: ebpf.ProgramOptions{LogDisabled: true},
		},
	)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// inRegister reports whether a value of a type is passed in one register.
func inRegister(t btf.Type) bool {
	switch v := btf.UnderlyingType(t).(type) {
	case *btf.Void, *btf.Pointer, *btf.Enum:
		return true
	case *btf.Int:
		return v.Size <= 8
	}
	return false
}

// Fit sets the attach type and the target of a program, which lang/gen can't know. probes are the
// probes of that program, as in Placed.
func (e *Env) Fit(spec *ebpf.ProgramSpec, probes []*check.Probe) {
	if len(probes) == 0 {
		return
	}
	if spec.AttachTo == "" {
		spec.AttachTo = e.AttachTo(probes[0])
	}
	if site := probes[0].Site; (site == check.SiteUprobe || site == check.SiteUretprobe) &&
		e.canUserMulti() {
		spec.AttachType = ebpf.AttachTraceUprobeMulti
		return
	} else if site != check.SiteKprobe && site != check.SiteKretprobe {
		return
	}
	method := e.methodOf(probes)
	for _, p := range probes {
		if f := e.targets[p]; f != nil {
			f.method = method
		}
	}
	if method == AttachMulti {
		spec.AttachType = ebpf.AttachTraceKprobeMulti
	}
}

// methodOf chooses between kprobe and kprobe.multi. Many functions are attached together if the
// kernel can, because it waits for all CPUs at each single attachment. Returns are attached
// together too: a kretprobe misses returns when too many calls are open. For a few entries kprobe
// is faster, because kprobe.multi searches all symbols of the kernel.
func (e *Env) methodOf(probes []*check.Probe) AttachMethod {
	if e.Method == AttachKprobe || e.Method == AttachMulti {
		return e.Method
	}
	alone := len(probes) <= 2 && probes[0].Site == check.SiteKprobe
	for _, p := range probes {
		alone = alone && e.targets[p] != nil && e.targets[p].alone
	}
	if alone || !e.canMulti() {
		return AttachKprobe
	}
	return AttachMulti
}

// canMulti reports whether the kernel has kprobe.multi. It tries once.
func (k *kernelInfo) canMulti() bool {
	if k.multi == nil {
		have := feature.KprobeMulti.Have(k.root) == nil
		k.multi = &have
	}
	return *k.multi
}
