package probe

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"culprit/kernel/bpf"
	"culprit/lang/check"

	"github.com/cilium/ebpf/btf"
)

const (
	firstSDT   = 10_000
	firstRawTP = 50_000
	mostEvents = 40_000
)

// sdtProvider has the kernel's tracepoints, sdt:net::netif_receive_skb. Their arguments are those
// of the call in the kernel's source, not the fields of the trace event.
func sdtProvider() *provider {
	return &provider{
		name: "sdt", first: firstSDT, last: firstSDT + mostEvents - 1,
		list: func(e *Env, w *want, yield func(*found)) error {
			return listTracepoints(e, w, "sdt", firstSDT, yield)
		},
		args: func(e *Env, f *found, p *check.Probe) ([]check.Arg, string) {
			args, why := tracepointArgs(e, f, p)
			if args != nil {
				// The verifier knows the types too, so programs read pointers without a helper.
				p.Site = check.SiteTracepointBTF
			}
			return args, why
		},
	}
}

// rawtpProvider has the same tracepoints, and those without a trace event (sched:::pelt_cfs_tp).
// The verifier does not know the types of their arguments.
func rawtpProvider() *provider {
	return &provider{
		name: "rawtp", first: firstRawTP, last: firstRawTP + mostEvents - 1, named: true,
		list: func(e *Env, w *want, yield func(*found)) error {
			if err := listTracepoints(e, w, "rawtp", firstRawTP, yield); err != nil {
				return err
			}
			return listBareTracepoints(e, yield)
		},
		args: tracepointArgs,
	}
}

// eventless reports whether the trace events of a subsystem have no tracepoint of their own: those
// of the tracer itself, of system calls, and those that users create.
func eventless(subsystem string) bool {
	switch subsystem {
	case "syscalls", "ftrace", "kprobes", "uprobes", "synthetic", "user_events":
		return true
	}
	return false
}

func listTracepoints(e *Env, w *want, provider string, first uint32, yield func(*found)) error {
	events, err := e.TraceEvents()
	if err != nil {
		return err
	}
	f := &found{}
	for i, event := range events {
		if i >= mostEvents/2 || w.id == 0 && !w.name.match(event.Name) ||
			eventless(event.Subsystem) {
			continue
		}
		*f = found{
			Listed: Listed{
				ID:       first + uint32(i),
				Provider: provider,
				Module:   event.Subsystem,
				Name:     event.Name,
			},
			site: check.SiteRawTracepoint, event: event.Name,
		}
		yield(f)
	}
	return nil
}

// tracepointType is the prefix of type names in the kernel's BTF: btf_trace_NAME is the type of the
// functions that the tracepoint NAME calls.
const tracepointType = "btf_trace_"

// listBareTracepoints lists the tracepoints of the kernel itself that have no trace event.
func listBareTracepoints(e *Env, yield func(*found)) error {
	names, err := e.types.TypeNames("")
	if err != nil {
		return err
	}
	events, err := e.TraceEvents()
	if err != nil {
		return err
	}
	have := make(map[string]bool, len(events))
	for _, event := range events {
		have[event.Name] = true
	}
	id := uint32(firstRawTP + mostEvents/2)
	names.Each(bpf.KindTypedef, func(_ btf.TypeID, typedef string) {
		name, ok := strings.CutPrefix(typedef, tracepointType)
		if !ok || have[name] {
			return
		}
		module, _, _ := strings.Cut(name, "_")
		yield(&found{
			Listed: Listed{ID: id, Provider: "rawtp", Module: module, Name: name},
			site:   check.SiteRawTracepoint, event: name,
		})
		id++
	})
	return nil
}

// tracepointArgs returns the arguments of a tracepoint. The type btf_trace_NAME points to a
// function whose first argument is for the kernel itself. The names of the arguments are not in
// that type but in the function __traceiter_NAME.
func tracepointArgs(e *Env, f *found, _ *check.Probe) ([]check.Arg, string) {
	spec, typedef, err := e.tracepointTypes(f.event)
	if err != nil {
		return nil, err.Error()
	}
	pointer, _ := btf.UnderlyingType(typedef.Type).(*btf.Pointer)
	if pointer == nil {
		return nil, "the kernel's types have no function of " + f.event
	}
	proto, _ := btf.UnderlyingType(pointer.Target).(*btf.FuncProto)
	if proto == nil || len(proto.Params) == 0 {
		return nil, "the kernel's types have no arguments of " + f.event
	}
	var caller *btf.Func
	var named []btf.FuncParam
	if err := spec.TypeByName("__traceiter_"+f.event, &caller); err == nil {
		if p, ok := caller.Type.(*btf.FuncProto); ok && len(p.Params) == len(proto.Params) {
			named = p.Params
		}
	}
	args := make([]check.Arg, 0, len(proto.Params)-1)
	for i, param := range proto.Params[1:] {
		a := check.Arg{Name: param.Name, Type: param.Type, From: i, User: ofUser(param.Type)}
		if named != nil {
			a.Name = named[i+1].Name
		}
		if a.Name == "" {
			a.Name = fmt.Sprintf("arg%d", i)
		}
		args = append(args, a)
	}
	return args, ""
}

// tracepointTypes returns the type of a tracepoint from the BTF of the kernel or of a module.
func (k *kernelInfo) tracepointTypes(name string) (*btf.Spec, *btf.Typedef, error) {
	find := func(module string) (*btf.Spec, *btf.Typedef, error) {
		spec, err := k.types.Module(module)
		if err != nil {
			return nil, nil, err
		}
		var typedef *btf.Typedef
		err = spec.TypeByName(tracepointType+name, &typedef)
		return spec, typedef, err
	}
	spec, typedef, err := find("vmlinux")
	if err == nil || !errors.Is(err, btf.ErrNotFound) {
		return spec, typedef, err
	}
	modules, err := k.types.Modules()
	if err != nil {
		return nil, nil, err
	}
	for _, module := range modules {
		if names, err := k.types.TypeNames(module); err != nil ||
			!slices.Contains(namesOf(names, bpf.KindTypedef), tracepointType+name) {
			continue
		}
		return find(module)
	}
	return nil, nil, fmt.Errorf(
		"neither the kernel nor its modules have types for the tracepoint %s", name,
	)
}

func namesOf(names *bpf.TypeNames, kind bpf.TypeKind) []string {
	var out []string
	names.Each(kind, func(_ btf.TypeID, name string) { out = append(out, name) })
	return out
}

// ofUser reports whether a type is a pointer into the memory of a process. Only kernels that were
// built with such marks (btf_type_tag) have them.
func ofUser(t btf.Type) bool {
	pointer, ok := btf.UnderlyingType(t).(*btf.Pointer)
	if !ok {
		return false
	}
	for target := pointer.Target; ; {
		switch v := target.(type) {
		case *btf.TypeTag:
			if v.Value == "user" {
				return true
			}
			target = v.Type
		case *btf.Const:
			target = v.Type
		case *btf.Volatile:
			target = v.Type
		default:
			return false
		}
	}
}
