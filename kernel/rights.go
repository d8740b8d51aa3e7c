package kernel

import (
	"strings"
	"sync"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// rights returns the effective capabilities of this process.
// table: asked once, at the first refusal; rights are dropped before anything is read
var rights = sync.OnceValue(func() Capabilities {
	c, err := Root{}.Capabilities()
	if err != nil {
		return 0
	}
	return c
})

// Refused returns the error of an operation that requires all of the capabilities. It names those
// that this process lacks; or is an alternative to them, "" if there is none. If the process holds
// all, the error names what may refuse it then. errors.Is measure.ErrDenied.
func Refused(doing, or string, capabilities ...int) error {
	return refused(rights(), doing, or, capabilities)
}

// Refused is the function Refused for a process that holds these capabilities.
func (c Capabilities) Refused(doing, or string, capabilities ...int) error {
	return refused(c, doing, or, capabilities)
}

func refused(have Capabilities, doing, or string, capabilities []int) error {
	lacks := lacking(have, capabilities)
	if len(lacks) == 0 {
		return &refusedThoughHeld{doing, names(capabilities)}
	}
	needs := strings.Join(lacks, " and ")
	if or != "" {
		needs += ", or " + or
	}
	return &measure.Denied{Doing: doing, Needs: needs}
}

// RefusedNote returns a note about an operation that requires all of the capabilities: lacking,
// which names them, or, where this process holds them, a note that begins with what and asks for
// nothing.
func RefusedNote(lacking, what string, capabilities ...int) string {
	return refusedNote(rights(), lacking, what, capabilities)
}

func refusedNote(have Capabilities, note, what string, capabilities []int) string {
	if len(lacking(have, capabilities)) > 0 {
		return note
	}
	return (&refusedThoughHeld{what, names(capabilities)}).Error()
}

// Holds reports whether this process has all of the capabilities.
func Holds(capabilities ...int) bool { return len(lacking(rights(), capabilities)) == 0 }

// lacking returns the names of the capabilities that are not held. CAP_SYS_ADMIN includes those
// that were split from it in Linux 5.8 and 5.9 (perfmon_capable, bpf_capable,
// checkpoint_restore_ns_capable).
func lacking(have Capabilities, capabilities []int) (names []string) {
	for _, c := range capabilities {
		switch c {
		case unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_CHECKPOINT_RESTORE:
			if have.Has(unix.CAP_SYS_ADMIN) {
				continue
			}
		}
		if !have.Has(c) {
			names = append(names, capabilityName(c))
		}
	}
	return names
}

func names(capabilities []int) string {
	var all []string
	for _, c := range capabilities {
		all = append(all, capabilityName(c))
	}
	return strings.Join(all, " and ")
}

// refusedThoughHeld is an operation that the kernel refused although the process holds its
// capabilities.
type refusedThoughHeld struct{ doing, held string }

// Error returns one line that asks for no right.
func (r *refusedThoughHeld) Error() string {
	return r.doing + ": refused though " + r.held +
		" is held: a security module, a filter of system calls or a user namespace forbids it"
}

// Is makes errors.Is(err, measure.ErrDenied) true.
func (r *refusedThoughHeld) Is(target error) bool { return target == measure.ErrDenied }
