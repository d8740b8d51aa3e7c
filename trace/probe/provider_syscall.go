package probe

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"

	"culprit/lang/check"
)

// firstSyscall is the number of the probe syscall:vmlinux:read:entry, where read is 0.
const firstSyscall = 2000

// syscallProvider has an entry and a return for each system call, named as in programs: fstat, not
// newfstat as in the kernel. It lists the calls that have trace events, or all calls when trace
// events can't be read. 32-bit programs on a 64-bit kernel use other numbers: their calls fire the
// probes of the same names. Calls that only they have are probes too.
func syscallProvider() *provider {
	return &provider{
		name: "syscall", first: firstSyscall, last: firstSyscall + 4095,
		list: listSyscalls,
		args: syscallArgs,
	}
}

func listSyscalls(e *Env, w *want, yield func(*found)) error {
	if !w.module.match("vmlinux") {
		return nil
	}
	var there map[string]bool
	f := &found{}
	for nr, name := range syscallNames {
		if name == "" || w.id == 0 && !w.function.match(name) ||
			w.id != 0 && int(w.id-firstSyscall)/2 != nr {
			continue
		}
		if there == nil {
			there = e.SyscallEvents()
		}
		if len(there) > 0 && !there[syscallEvent(name)] && !unseen(name) {
			continue
		}
		*f = found{
			Listed: Listed{
				ID:       firstSyscall + uint32(2*nr),
				Provider: "syscall",
				Module:   "vmlinux",
				Function: name,
				Name:     "entry",
			},
			site: check.SiteSyscallEntry, key: uint64(nr),
		}
		f.compat = e.calls32Bit()[name]
		yield(f)
		f.ID++
		f.Name, f.site = "return", check.SiteSyscallReturn
		yield(f)
	}
	if !e.Has32BitCalls() {
		return nil
	}
	for nr, name := range narrowSyscalls {
		nr += check.CompatCalls
		if name == "" || w.id == 0 && !w.function.match(name) ||
			w.id != 0 && int(w.id-firstSyscall)/2 != nr ||
			slices.Contains(syscallNames, name) {
			continue
		}
		*f = found{
			Listed: Listed{
				ID:       firstSyscall + uint32(2*nr),
				Provider: "syscall",
				Module:   "vmlinux",
				Function: name,
				Name:     "entry",
			},
			site: check.SiteSyscallEntry, key: uint64(nr),
		}
		yield(f)
		f.ID++
		f.Name, f.site = "return", check.SiteSyscallReturn
		yield(f)
	}
	return nil
}

// Has32BitCalls reports whether processes of 32 bits can make system calls here.
func (k *kernelInfo) Has32BitCalls() bool { return len(k.calls32Bit()) > 0 }

// calls32Bit returns, by name, the numbers of system calls of 32-bit processes. It is empty when
// these can't run here.
func (k *kernelInfo) calls32Bit() map[string]uint64 {
	if k.narrowed != nil {
		return k.narrowed
	}
	k.narrowed = map[string]uint64{}
	if runtime.GOARCH == "amd64" {
		// The file exists with CONFIG_IA32_EMULATION.
		if _, err := os.Stat(k.root.InProc("sys/abi/vsyscall32")); err != nil {
			return k.narrowed
		}
	} // on arm64 a needless comparison in programs costs almost nothing
	for nr, name := range narrowSyscalls {
		if name != "" {
			k.narrowed[name] = uint64(check.CompatCalls + nr)
		}
	}
	return k.narrowed
}

// SyscallEvents returns the names of system calls that have trace events, as these name them. It is
// empty when trace events can't be read.
func (k *kernelInfo) SyscallEvents() map[string]bool {
	if k.calls != nil {
		return k.calls
	}
	there := map[string]bool{}
	k.calls = there
	events, err := k.TraceEvents()
	if err != nil {
		return there
	}
	for _, event := range events {
		if event.Subsystem != "syscalls" {
			continue
		}
		if name, ok := strings.CutPrefix(event.Name, "sys_enter_"); ok {
			there[name] = true
		}
	}
	return there
}

// unseen reports whether the kernel has a system call without a trace event, because it is not
// defined by the macro SYSCALL_DEFINE.
func unseen(name string) bool { return name == "rt_sigreturn" }

// syscallEvent returns the name of a system call in the kernel's macro SYSCALL_DEFINE and in the
// trace event.
func syscallEvent(name string) string {
	switch name {
	case "stat", "fstat", "lstat", "uname":
		return "new" + name
	case "fstatat": // newfstatat on x86, where the number has that name
		return "newfstatat"
	case "sendfile":
		return "sendfile64"
	case "umount2":
		return "umount"
	case "fadvise64":
		if syscallNames[0] != "read" { // all but x86-64 number the call of four 64-bit words
			return "fadvise64_64"
		}
	}
	return name
}

// syscallArgs returns the arguments of the call at its entry, or its result at its return. Types
// come from the format of the trace event.
func syscallArgs(e *Env, f *found, _ *check.Probe) ([]check.Arg, string) {
	if f.site == check.SiteSyscallReturn {
		ret := check.Arg{Name: "ret", C: "long", From: 0}
		return []check.Arg{ret, ret}, "" // arg0 and arg1, as dtrace has it
	}
	t, err := e.openTracefs()
	if err != nil {
		return nil, err.Error()
	}
	format, err := t.Format("syscalls", "sys_enter_"+syscallEvent(f.Function))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "the kernel has no trace event of " + f.Function +
			", which would describe its arguments"
	}
	if err != nil {
		return nil, err.Error()
	}
	args := []check.Arg{} // not nil: a call without arguments has none for certain
	for _, field := range format.Fields {
		if field.Name == "__syscall_nr" || field.Name == "nr" {
			continue
		}
		// Newer kernels append copies of the data that pointers lead to.
		if strings.HasPrefix(field.Type, "__data_loc") {
			continue
		}
		args = append(
			args,
			check.Arg{
				Name: field.Name,
				C:    field.Type,
				From: len(args),
				User: strings.HasSuffix(field.Type, "*"),
			},
		)
	}
	return args, ""
}
