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

// IDs of processes are those of the PID namespace that culprit runs in: those that /proc, -p and
// kill(1) have there. The kernel's own helper for programs has those of the first namespace.

// firstNamespace is the inode of the first PID namespace: PROC_PID_INIT_INO of linux/proc_ns.h.
const firstNamespace = 0xEFFFFFFC

// A pidSpace is what is known of culprit's PID namespace.
type pidSpace struct {
	asked   bool
	of      *check.Namespace // nil: it is the first one, or not known
	numbers error            // why IDs can't be had
	proc    error            // why /proc can't be had
}

// PIDNamespace returns the PID namespace of culprit, or nil where it is the first one. It fails
// never: what could not be found out makes CheckProcessIDs fail.
func (e *Env) PIDNamespace() (*check.Namespace, error) {
	s := &e.space
	if s.asked || !e.root.Real() {
		return s.of, nil
	}
	s.asked = true
	if self, err := os.Readlink("/proc/self"); err == nil && self != strconv.Itoa(os.Getpid()) {
		s.proc = fmt.Errorf(
			"/proc shows another PID namespace than culprit's, so that IDs of processes there are not those here: mount the own one (unshare --mount-proc, mount -t proc proc /proc): %w",
			measure.ErrUnsupported,
		)
	}
	info, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return nil, nil // without /proc nothing is known of processes
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Ino == firstNamespace {
		return nil, nil
	}
	level, err := e.namespaceLevel()
	if err != nil {
		s.numbers = fmt.Errorf("IDs of processes in a PID namespace: %w", err)
		return nil, nil
	}
	s.of = &check.Namespace{Level: level, Inum: uint32(st.Ino)}
	return s.of, nil
}

// SetPIDNamespace makes ns the PID namespace that e reports, instead of that of this process. Tests
// of generated programs call it.
func (e *Env) SetPIDNamespace(ns *check.Namespace) { e.space = pidSpace{asked: true, of: ns} }

// namespaceLevel asks the kernel how far below the first namespace that of this thread is:
// current->thread_pid->level.
func (e *Env) namespaceLevel() (int, error) {
	pid, err := e.MemberOffset("task_struct", "thread_pid")
	if err != nil {
		return 0, err
	}
	level, err := e.MemberOffset("pid", "level")
	if err != nil {
		return 0, err
	}
	read := func(offset, size int) asm.Instructions { // from the address in r0 on, into r0
		return asm.Instructions{
			asm.Mov.Reg(
				asm.R3, asm.R0,
			), asm.Add.Imm(asm.R3, int32(offset)), asm.Mov.Reg(asm.R1, asm.R10), asm.Add.Imm(asm.R1, -8), asm.Mov.Imm(asm.R2, int32(size)),
			asm.Mov.Imm(
				asm.R4, 0,
			), asm.StoreMem(asm.R10, -8, asm.R4, asm.DWord), asm.FnProbeReadKernel.Call(), asm.LoadMem(asm.R0, asm.R10, -8, asm.DWord),
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
		err = errors.New("its level is not known")
	}
	return int(n), err
}

// CheckProcessIDs returns an error where a program uses process IDs and they cannot be determined.
func (e *Env) CheckProcessIDs(p *ir.Program, o check.Options) error {
	if o.Target == 0 && !usesIDs(p) {
		return nil
	}
	return errors.Join(e.space.proc, e.space.numbers)
}

// usesIDs reports whether a program deals with IDs of processes.
func usesIDs(p *ir.Program) bool {
	for _, f := range p.Clauses {
		for _, b := range f.Blocks {
			for i := range b.Steps {
				s := &b.Steps[i]
				switch {
				case s.Op == ir.OpBuiltin && (s.Which == check.BuiltinPID || s.Which == check.BuiltinPPID || s.Which == check.BuiltinTID && s.N != ir.Unique):
					return true
				case s.Op == ir.OpCall && s.Sub == check.SubProgenyof:
					return true
				}
			}
		}
	}
	return gen.WantsUserFrames(p)
}

// WithGlobalIDs returns the text of a built-in program in which threads are distinguished, and idle
// CPUs found, by the IDs of the first PID namespace, where threads outside of culprit's have the
// number 0.
func (e *Env) WithGlobalIDs(text string) string {
	if ns, err := e.PIDNamespace(); err != nil || ns == nil {
		return text
	}
	return strings.NewReplacer("[tid]", "[curthread->pid]", "tid != 0", "curthread->pid != 0", "/pid != 0/", "/curthread->pid != 0/").
		Replace(text)
}
