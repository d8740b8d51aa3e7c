package probe

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"culprit/kernel/bpf"
	"culprit/kernel/proc"
	"culprit/measure"

	"github.com/cilium/ebpf/btf"
)

// The table of symbols of a kernel without CONFIG_KALLSYMS_ALL lists only functions. This file
// finds the addresses of some variables in other ways: by pointers that lead to them from a known
// task, or by their text, if it is known and occurs once in the kernel's memory.

// errNotListed is the error for a variable whose address cannot be found in another way.
var errNotListed = errors.New("not in the table of symbols")

// fromInitTask are variables to which init_task always points. init_task is the idle thread of the
// first CPU and never changes its initial values (init/init_task.c). The texts are members, each a
// pointer.
//
// table: made once, never changed
var fromInitTask = map[string]string{
	"init_task":      "",
	"init_cred":      "cred",
	"init_user_ns":   "cred.user_ns",
	"init_fs":        "fs",
	"init_files":     "files",
	"init_nsproxy":   "nsproxy",
	"init_net":       "nsproxy.net_ns",
	"init_uts_ns":    "nsproxy.uts_ns",
	"init_ipc_ns":    "nsproxy.ipc_ns",
	"init_pid_ns":    "nsproxy.pid_ns_for_children",
	"init_cgroup_ns": "nsproxy.cgroup_ns",
	"init_css_set":   "cgroups",
	"cgrp_dfl_root":  "cgroups.dfl_cgrp.root",
}

// unlisted returns the address of a variable of the kernel that its table of symbols lacks. It
// fails with errNotListed for a variable that cannot be found in another way.
func (k *kernelInfo) unlisted(name string) (uint64, error) {
	if a, ok := k.unnamed[name]; ok {
		return a, nil
	}
	path, pointed := fromInitTask[name]
	if !pointed && name != "linux_banner" {
		return 0, errNotListed
	}
	m, err := bpf.NewMemory()
	if err != nil {
		return 0, fmt.Errorf(
			"find %s, which the kernel's table of symbols lacks: %w", name, err,
		)
	}
	defer m.Close()
	var addr uint64
	if pointed {
		addr, err = k.reached(m, path)
	} else {
		addr, err = k.banner(m)
	}
	if err != nil {
		return 0, fmt.Errorf(
			"find %s, which the kernel's table of symbols lacks: %w", name, err,
		)
	}
	if k.unnamed == nil {
		k.unnamed = map[string]uint64{}
	}
	k.unnamed[name] = addr
	return addr, nil
}

// reached follows the members of path from init_task. To find init_task, it follows the parents of
// this process: init_task is its own parent.
func (k *kernelInfo) reached(m *bpf.Memory, path string) (uint64, error) {
	spec, err := k.BTF()
	if err != nil {
		return 0, err
	}
	var first error
	for range 3 { // a parent may end while it is read
		at, err := initTask(spec, m)
		if err == nil && path != "" {
			_, at, err = follow(spec, path, m.Word, at)
		}
		if err == nil {
			return at, nil
		}
		first = err
	}
	return 0, first
}

// initTask returns the address of init_task.
func initTask(spec *btf.Spec, m *bpf.Memory) (uint64, error) {
	at, err := m.Task()
	if err != nil {
		return 0, err
	}
	const generations = 1000
	for range generations {
		_, parent, err := follow(spec, "group_leader.real_parent", m.Word, at)
		if err != nil {
			return 0, err
		}
		if parent == at {
			// It must be the kernel's own task, with process ID 0.
			task, err := taskStruct(spec)
			if err != nil {
				return 0, err
			}
			off, ok := memberOf(task, "pid")
			number := make([]byte, 4)
			if !ok {
				return 0, fmt.Errorf("task_struct has no member pid: %w", measure.ErrUnsupported)
			}
			if err := m.Read(at+uint64(off), number); err != nil {
				return 0, err
			}
			if !bytes.Equal(number, make([]byte, 4)) {
				return 0, errors.New("a task that is its own parent has a process ID other than 0")
			}
			return at, nil
		}
		at = parent
	}
	return 0, errors.New("this process has more than 1000 generations of parents")
}

func taskStruct(spec *btf.Spec) (*btf.Struct, error) {
	var task *btf.Struct
	if err := spec.TypeByName("task_struct", &task); err != nil {
		return nil, fmt.Errorf("task_struct: %w", err)
	}
	return task, nil
}

// pointed returns the type of the struct that path leads to from init_task; "": task_struct.
func pointed(spec *btf.Spec, path string) (btf.Type, error) {
	t, _, err := follow(spec, path, func(uint64) (uint64, error) { return 0, nil }, 0)
	return t, err
}

// follow follows members that are pointers, from a task_struct at an address on. It returns the
// type and the address that the last one points to. word reads a pointer.
func follow(
	spec *btf.Spec, path string, word func(uint64) (uint64, error), at uint64,
) (btf.Type, uint64, error) {
	task, err := taskStruct(spec)
	if err != nil {
		return nil, 0, err
	}
	var t btf.Type = task
	for name := range strings.SplitSeq(path, ".") {
		if name == "" {
			break
		}
		member, off := pointerMember(t, name)
		if member == nil {
			return nil, 0, fmt.Errorf(
				"%s has no pointer %s: %w", t.TypeName(), name, measure.ErrUnsupported,
			)
		}
		if at, err = word(at + uint64(off)); err != nil {
			return nil, 0, err
		}
		t = member
	}
	return t, at, nil
}

// pointerMember returns the struct that a member points to and the offset of the member, or nil
// when there is no such member.
func pointerMember(t btf.Type, name string) (target btf.Type, off int) {
	s, ok := btf.UnderlyingType(t).(*btf.Struct)
	if !ok {
		return nil, 0
	}
	for _, m := range s.Members {
		if p, ok := btf.UnderlyingType(m.Type).(*btf.Pointer); ok && m.Name == name {
			if target, ok := btf.UnderlyingType(p.Target).(*btf.Struct); ok {
				return target, int(m.Offset.Bytes())
			}
		}
	}
	return nil, 0
}

// banner returns the address of linux_banner. It searches the kernel's constants for the text of
// /proc/version with a 0 behind it. It fails with errNotListed when it does not know where the
// constants are, or when the text does not occur exactly once.
func (k *kernelInfo) banner(m *bpf.Memory) (uint64, error) {
	f, err := proc.Open("/proc/version")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	text, err := f.Read()
	if err != nil {
		return 0, err
	}
	begin, _, ok := k.symbols.Lookup("", "__start_rodata")
	if !ok || len(text) < 2 || text[len(text)-1] != '\n' {
		return 0, errNotListed
	}
	end := uint64(0)
	for _, name := range []string{"__start_ro_after_init", "__end_rodata", "__init_begin"} {
		if a, _, ok := k.symbols.Lookup("", name); ok && a > begin && (end == 0 || a < end) {
			end = a
		}
	}
	const most = 64 << 20 // bytes of constants
	if end == 0 || end-begin > most {
		return 0, errNotListed
	}
	text = append(slices.Clone(text), 0)
	var found []uint64
	const step = 1 << 20
	piece := make([]byte, step+len(text)-1)
	for at := begin; at < end; at += step {
		b := piece[:min(uint64(len(piece)), end-at)]
		if err := m.Read(at, b); err != nil {
			return 0, err
		}
		for from := 0; ; {
			i := bytes.Index(b[from:], text)
			if i < 0 {
				break
			}
			found = append(found, at+uint64(from+i))
			from += i + 1
		}
	}
	if len(found) != 1 {
		return 0, errNotListed
	}
	return found[0], nil
}
