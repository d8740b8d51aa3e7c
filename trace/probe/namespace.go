package probe

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"culprit/kernel/bpf"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/ir"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Process IDs are those of the PID namespace that culprit runs in, as in /proc and kill(1) there.
// The kernel's own helper function for programs returns IDs of the first namespace.

// firstNamespace is the inode of the first PID namespace: PROC_PID_INIT_INO of linux/proc_ns.h.
const firstNamespace = 0xEFFFFFFC

// A pidSpace is culprit's PID namespace.
type pidSpace struct {
	asked   bool
	of      *check.Namespace // nil: it is the first one, or not known
	numbers error            // why process IDs are not known
	proc    error            // why /proc cannot be used
}

// PIDNamespace returns the PID namespace of culprit, or nil when it is the first one. It never
// fails: if the namespace cannot be determined, CheckProcessIDs fails.
func (k *kernelInfo) PIDNamespace() (*check.Namespace, error) {
	s := &k.space
	if s.asked || !k.root.Real() {
		return s.of, nil
	}
	s.asked = true
	if self, err := os.Readlink("/proc/self"); err == nil && self != strconv.Itoa(os.Getpid()) {
		s.proc = fmt.Errorf(
			"/proc shows another PID namespace than culprit's, so its process IDs do not match: "+
				"mount that of this namespace (unshare --mount-proc, mount -t proc proc /proc): %w",
			measure.ErrUnsupported,
		)
	}
	info, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return nil, nil // without /proc, nothing can be read about processes
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Ino == firstNamespace {
		return nil, nil
	}
	level, err := k.namespaceLevel()
	if err != nil {
		s.numbers = fmt.Errorf("determine process IDs in a PID namespace: %w", err)
		return nil, nil
	}
	s.of = &check.Namespace{Level: level, Inum: uint32(st.Ino)}
	return s.of, nil
}

// SetPIDNamespace makes ns the PID namespace that e reports, instead of that of this process. Tests
// of generated programs call it.
func (k *kernelInfo) SetPIDNamespace(
	ns *check.Namespace,
) {
	k.space = pidSpace{asked: true, of: ns}
}

// namespaceLevel returns how many levels below the first namespace this thread is. It runs a BPF
// program that returns current->thread_pid->level.
func (k *kernelInfo) namespaceLevel() (int, error) {
	pid, err := k.MemberOffset("task_struct", "thread_pid")
	if err != nil {
		return 0, err
	}
	level, err := k.MemberOffset("pid", "level")
	if err != nil {
		return 0, err
	}
	// r0 = 0, then bpf_probe_read_kernel(&r0, size, r0 + offset)
	read := func(offset, size int) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Reg(asm.R3, asm.R0),
			asm.Add.Imm(asm.R3, int32(offset)),
			asm.Mov.Reg(asm.R1, asm.R10),
			asm.Add.Imm(asm.R1, -8),
			asm.Mov.Imm(asm.R2, int32(size)),
			asm.Mov.Imm(asm.R4, 0),
			asm.StoreMem(asm.R10, -8, asm.R4, asm.DWord),
			asm.FnProbeReadKernel.Call(),
			asm.LoadMem(asm.R0, asm.R10, -8, asm.DWord),
		}
	}
	code := asm.Instructions{asm.FnGetCurrentTask.Call()}
	code = append(code, read(pid, 8)...)
	code = append(code, read(level, 4)...)
	p, err := bpf.NewProgram(
		&ebpf.ProgramSpec{
			Name:         "culprit_level",
			Type:         ebpf.RawTracepoint,
			License:      "GPL",
			Instructions: append(code, asm.Return()),
		},
	)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	n, err := RunOnce(p)
	if err == nil && (n == 0 || n > 32) { // MAX_PID_NS_LEVEL
		err = errors.New("the kernel reports no level of the namespace")
	}
	return int(n), err
}

// CheckProcessIDs returns an error where a program uses process IDs and they cannot be determined.
func (k *kernelInfo) CheckProcessIDs(p *ir.Program, o check.Options) error {
	if o.Target == 0 && !usesIDs(p) {
		return nil
	}
	return errors.Join(k.space.proc, k.space.numbers)
}

// usesIDs reports whether a program uses process IDs.
func usesIDs(p *ir.Program) bool {
	for _, f := range p.Clauses {
		for _, b := range f.Blocks {
			for i := range b.Steps {
				s := &b.Steps[i]
				switch {
				case s.Op == ir.OpBuiltin && (s.Which == check.BuiltinPID ||
					s.Which == check.BuiltinPPID ||
					s.Which == check.BuiltinTID && s.N != ir.Unique):
					return true
				case s.Op == ir.OpCall && s.Sub == check.SubProgenyof:
					return true
				}
			}
		}
	}
	return gen.WantsUserFrames(p)
}

// WithGlobalIDs returns the text of a built-in program that uses IDs of the first PID namespace to
// distinguish threads and to recognize idle CPUs. In culprit's namespace all threads outside of it
// have the ID 0.
func (k *kernelInfo) WithGlobalIDs(text string) string {
	if ns, err := k.PIDNamespace(); err != nil || ns == nil {
		return text
	}
	return strings.NewReplacer(
		"[tid]", "[curthread->pid]",
		"tid != 0", "curthread->pid != 0",
		"/pid != 0/", "/curthread->pid != 0/",
	).Replace(text)
}
