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
	AttachAny AttachMethod = iota // whichever is best for a probe: see methodOf
	// a breakpoint or a call patched in for each function: the oldest, which most kernels have
	AttachKprobe
	AttachMulti // one attachment for all functions of a program (kprobe.multi)
	// a trampoline for each function, whose arguments are typed for the verifier (fentry, fexit)
	AttachFentry
)

// String returns the name of a method: any, kprobe, multi, fentry.
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

// ParseAttachMethod returns the method of a name that String returns. It fails on other names.
func ParseAttachMethod(word string) (AttachMethod, error) {
	for r := AttachAny; r <= AttachFentry; r++ {
		if r.String() == word {
			return r, nil
		}
	}
	return 0, fmt.Errorf("there is no attach method %q (any kprobe multi fentry)", word)
}

const (
	firstFBT   = 100_000   // of functions that the kernel's BTF knows: twice their number there
	firstBare  = 4_000_000 // of others: twice their place in the function tracer's list
	lastFBT    = 8_000_000
	severalFBT = 8 // from how many functions on they are attached together
)

// functions are those of the kernel that can be probed.
type functions struct {
	list   []function      // by address; nil: not read
	err    error           // why there is no list
	roads  error           // why no function can be probed
	asked  bool            // err and none are known
	single map[string]bool // functions that were asked for one by one
}

func fbtProvider() *provider {
	return &provider{
		name: "fbt", first: firstFBT, last: lastFBT,
		list: listFunctions,
		args: functionArgs,
	}
}

// listFunctions lists what the function tracer can watch; without that list: what has a type. A
// single function is looked up without that list, which takes the kernel longer than all else.
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
			w.id == 0 &&
				(!w.function.match(f.Name) && !w.function.match(sourceName(f.Name)) || !w.module.match(f.Module)) {
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

// sourceName is the name that a function has in the source: compilers make variants of one,
// foo.isra.0 or foo.constprop.1.part.2.
func sourceName(name string) string {
	name, _, _ = strings.Cut(name, ".")
	return name
}

// several counts the functions that were asked for one by one, and says when they have become many.
func (e *Env) several(name string) bool {
	if e.fbt.single == nil {
		e.fbt.single = map[string]bool{}
	}
	e.fbt.single[name] = true
	return len(e.fbt.single) > severalFBT
}

// A function is one that can be probed, and the number of the probe of its entry.
type function struct {
	proc.KernelFunction
	id uint32
}

// functionList reads the list of functions once. Several of one name are one probe.
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

// kprobeFunctions reports why no function of this kernel can be probed; nil when one can.
func (e *Env) kprobeFunctions() error {
	if !e.fbt.asked {
		e.fbt.asked = true
		e.fbt.roads = e.findKprobeFunctions()
	}
	return e.fbt.roads
}

func (e *Env) findKprobeFunctions() error {
	_, err := proc.ReadSys(e.root, "bus/event_source/devices/kprobe/type", nil)
	if err == nil || !e.root.Real() {
		return nil
	}
	if err := feature.Fentry.Have(e.root); err != nil {
		return fmt.Errorf(
			"functions of this kernel can't be probed: it is compiled without kprobes, and %w", err,
		)
	}
	return nil
}

// functionArgs finds the arguments of a function, or what it returns, in the kernel's types. A
// probe whose arguments are asked for is moved to fentry where that can be: the verifier knows
// their types then, and following them costs less.
func functionArgs(e *Env, f *found, p *check.Probe) ([]check.Arg, string) {
	spec, err := e.types.Module(f.Module)
	if err != nil {
		return nil, err.Error()
	}
	var fn *btf.Func
	if err := spec.TypeByName(f.Function, &fn); err != nil {
		if errors.Is(err, btf.ErrMultipleMatches) {
			return nil, "the kernel has several functions of the name " + f.Function + ", with different arguments"
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
		// What arg0 is at a return, the place of the instruction that returns, Linux does not
		// report.
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

// canFentry reports whether a function can have a trampoline: what its arguments and its result are
// decides, and then the kernel, which is asked to load a program for it.
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

// inRegister reports whether a value of a type travels in a register of its own.
func inRegister(t btf.Type) bool {
	switch v := btf.UnderlyingType(t).(type) {
	case *btf.Void, *btf.Pointer, *btf.Enum:
		return true
	case *btf.Int:
		return v.Size <= 8
	}
	return false
}

// Fit sets the attach type and target of a program for these probes, which lang/gen can't know.
// probes are those of one program, as Attach gets them.
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

// methodOf chooses between kprobe and kprobe.multi. Functions by the dozen go together where the
// kernel can do that: one by one they take a wait for all CPUs each. So do returns: it alone
// forgets none, where a kretprobe has a limited number of calls at a time. A few entries are
// quicker one by one, because the kernel looks through all of its symbols for the others.
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

// canMulti finds out once whether the kernel attaches to many functions in one go.
func (e *Env) canMulti() bool {
	if e.multi == nil {
		have := feature.KprobeMulti.Have(e.root) == nil
		e.multi = &have
	}
	return *e.multi
}
