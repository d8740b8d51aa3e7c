package probe

import (
	"errors"
	"fmt"
	"runtime"

	"culprit/kernel"
	"culprit/kernel/bpf"
	"culprit/kernel/feature"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/ir"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// KernelFeatures returns the features of the kernel that a program can use. It tries only features
// that matter for the program, because each trial loads a program. It fails when the kernel lacks a
// feature that every program needs, or those of -x unwind=tables.
func (e *Env) KernelFeatures(p *ir.Program) (gen.Kernel, error) {
	k := gen.Kernel{Arch: runtime.GOARCH, Offset: e.MemberOffset, Symbol: e.function}
	var err error
	if k.Namespace, err = e.PIDNamespace(); err != nil {
		return k, err
	}
	k.Mounts = mountNamespace(e.root)
	if k.CPUs, err = ebpf.PossibleCPU(); err != nil {
		return k, fmt.Errorf("count the CPUs: %w", err)
	}
	// On some kernels trials need locked memory; without it a feature would seem to be missing.
	bpf.RaiseLocked(e.root)
	// Without ring buffers, or without the right to load programs, nothing works.
	if err := feature.RingBuffer.Have(e.root); err != nil {
		return k, fmt.Errorf("trace: %w", err)
	}
	k.RingBuffer = true
	if p.Self > 0 {
		k.TaskStorage = feature.TaskStorage.Have(e.root) == nil
	}
	k.Loop = feature.BPFLoop.Have(e.root) == nil
	k.LongKeys = feature.LongKeys.Have(e.root) == nil
	k.NoPrealloc = feature.HashOnDemand.Have(e.root) == nil
	k.Compat = e.Has32BitCalls()
	k.Records = e.records(p)
	k.AtomicFetch = k.NoPrealloc || feature.AtomicFetch.Have(e.root) == nil // the atomics are older
	if k.Unwind, err = e.walksByTables(p); err != nil {
		return k, err
	}
	asked := false
	for _, c := range p.Source.Clauses {
		for _, probe := range c.Probes {
			switch probe.Site {
			case check.SiteSyscallEntry, check.SiteSyscallReturn:
				if k.Compat && !asked {
					k.TaskBTF, asked = feature.CurrentTask.Have(e.root) == nil, true
				}
			case check.SiteKprobe, check.SiteKretprobe, check.SiteUprobe, check.SiteUretprobe:
				// Kernels with kprobe.multi and uprobe.multi have cookies too.
				k.Cookies = feature.EventCookies.Have(e.root) == nil
				return k, nil
			}
		}
	}
	return k, nil
}

// mountNamespace returns the number of culprit's mount namespace, 0 if it can't be read.
func mountNamespace(root kernel.Root) uint32 {
	var st unix.Stat_t
	if err := unix.Stat(root.InProc("self/ns/mnt"), &st); err != nil {
		return 0
	}
	return uint32(st.Ino)
}

// function returns the address and the size of a function of the kernel itself.
func (k *kernelInfo) function(name string) (address, size uint64, err error) {
	address, size, ok := k.symbols.Function(name)
	if !ok {
		return 0, 0, fmt.Errorf("function %s: %w", name, measure.ErrUnsupported)
	}
	return address, size, nil
}

// memberOf returns the offset of a member in bytes, also within members without a name.
func memberOf(t btf.Type, name string) (off int, ok bool) {
	var members []btf.Member
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		members = t.Members
	case *btf.Union:
		members = t.Members
	}
	for _, m := range members {
		if m.Name == name {
			return int(m.Offset.Bytes()), true
		}
		if m.Name == "" {
			if off, ok = memberOf(m.Type, name); ok {
				return int(m.Offset.Bytes()) + off, true
			}
		}
	}
	return 0, false
}

// MemberOffset returns the offset of a member of a struct of the kernel, in bytes. It fails with
// measure.ErrUnsupported when this kernel does not have it.
func (k *kernelInfo) MemberOffset(typ, member string) (int, error) {
	spec, err := k.BTF()
	if err != nil {
		return 0, err
	}
	var s *btf.Struct
	if err := spec.TypeByName(typ, &s); err != nil {
		if errors.Is(err, btf.ErrNotFound) {
			return 0, fmt.Errorf("struct %s: %w", typ, measure.ErrUnsupported)
		}
		return 0, fmt.Errorf("read struct %s: %w", typ, err)
	}
	if off, ok := memberOf(s, member); ok {
		return off, nil
	}
	return 0, fmt.Errorf("struct %s has no member %s: %w", typ, member, measure.ErrUnsupported)
}

// records reports whether programs for system calls can be attached to perf's records of
// raw_syscalls. Within such a program the kernel runs no program of a timer or a kprobe. A script
// that uses both attaches to the raw tracepoints instead.
func (e *Env) records(p *ir.Program) bool {
	for _, c := range p.Source.Clauses {
		for _, probe := range c.Probes {
			switch probe.Site {
			case check.SitePerfEvent, check.SiteKprobe, check.SiteKretprobe:
				return false
			}
		}
	}
	return e.HasPerfRecords()
}

// HasPerfRecords reports whether perf's records of raw_syscalls have the layout that lang/gen
// expects.
func (k *kernelInfo) HasPerfRecords() bool {
	t, err := k.openTracefs()
	if err != nil {
		return false
	}
	number, args := gen.RecordedAt()
	for _, event := range [...]string{"sys_enter", "sys_exit"} {
		f, err := t.Format("raw_syscalls", event)
		if err != nil || len(f.Fields) != 2 || f.Fields[0].Offset != number ||
			f.Fields[1].Offset != args ||
			f.Fields[0].Size != 8 {
			return false
		}
	}
	return true
}
