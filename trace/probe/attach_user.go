package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"

	"culprit/kernel/bpf"
	"culprit/kernel/feature"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/measure"
	"culprit/symbol"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// canUserMulti reports whether the kernel has uprobe.multi that covers all threads of a process.
// Before Linux 6.10 it covers only one thread. This cannot be tried directly; cookies of
// tracepoints, which also came with 6.10, are tried instead.
func (e *Env) canUserMulti() bool {
	if e.Method == AttachKprobe {
		return false
	}
	if e.userMulti == nil {
		have := feature.UprobeMulti.Have(e.root) == nil &&
			feature.TracepointCookies.Have(e.root) == nil
		e.userMulti = &have
	}
	return *e.userMulti
}

// A group is places in one file of one process. which are the indexes of their probes in
// Placed.Probes.
type group struct {
	code  *symbol.Code
	pid   int
	spots []spot
	which []int
}

// attachUser attaches a program to its places in processes: to all of a file at once if the kernel
// can.
func (e *Env) attachUser(a *Attachment, p *Placed) {
	type key struct {
		code *symbol.Code
		pid  int
	}
	at := map[key]*group{}
	var groups []*group
	failed := map[int]error{}
	refused := e.refusedSpots(p)
	for i, probe := range p.Probes {
		for _, s := range e.targets[probe].asked {
			if err := e.enable(a, p, s); err != nil {
				a.Passed = append(a.Passed, Skipped{probe, fmt.Errorf("attach %s: %w", probe, err)})
				break
			}
		}
		for _, s := range e.targets[probe].spots {
			if err := refused[codeOffset{s.code, s.offset}]; err != nil {
				failed[i] = err
				continue
			}
			k := key{s.code, s.pid}
			g := at[k]
			if g == nil {
				g = &group{code: s.code, pid: s.pid}
				at[k] = g
				groups = append(groups, g)
			}
			g.spots, g.which = append(g.spots, s), append(g.which, i)
		}
	}
	for _, g := range groups {
		if e.canUserMulti() {
			a.userTogether(p, g, failed)
			continue
		}
		for i, s := range g.spots {
			link, err := bpf.AttachUprobe(p.Program, bpf.UserProbe{
				Path:      g.code.Opened(),
				Offset:    s.offset,
				Return:    p.Probes[g.which[i]].Site == check.SiteUretprobe,
				PID:       g.pid,
				Semaphore: s.semaphore,
				Cookie:    uint64(g.which[i]),
			})
			if err != nil {
				failed[g.which[i]] = err
				continue
			}
			a.links = append(a.links, attached{link, p})
		}
	}
	for i, probe := range p.Probes {
		if err := failed[i]; err != nil {
			a.Skipped = append(
				a.Skipped, Skipped{probe, fmt.Errorf("attach %s: %w", probe, userErr(err))},
			)
			continue
		}
		a.Attached++
	}
}

// A codeOffset is a place in a file.
type codeOffset struct {
	code   *symbol.Code
	offset uint64
}

// refusedSpots returns the places of a program that can't have a probe, and why.
func (e *Env) refusedSpots(p *Placed) map[codeOffset]error {
	offsets := map[*symbol.Code][]uint64{}
	for _, probe := range p.Probes {
		for _, s := range e.targets[probe].spots {
			offsets[s.code] = append(offsets[s.code], s.offset)
		}
	}
	out := map[codeOffset]error{}
	for code, all := range offsets {
		for i, err := range code.Probeable(all) {
			if err != nil {
				out[codeOffset{code, all[i]}] = err
			}
		}
	}
	return out
}

// enable makes a process find that one of its probes is enabled, at a place where it asks.
func (e *Env) enable(a *Attachment, p *Placed, s spot) error {
	if slices.ContainsFunc(
		a.enabled,
		func(o spot) bool { return o.code == s.code && o.offset == s.offset && o.pid == s.pid },
	) {
		return nil
	}
	if len(s.operands) == 0 {
		return fmt.Errorf("the address of the semaphore is not known: %w", measure.ErrUnsupported)
	}
	code, err := gen.Enable(gen.Kernel{Arch: runtime.GOARCH}, s.operands[0])
	if err != nil {
		return err
	}
	prog, err := bpf.NewProgram(
		&ebpf.ProgramSpec{
			Name:         "culprit_enable",
			Type:         code.Type,
			Instructions: code.Instructions,
			License:      "GPL",
		},
	)
	if err != nil {
		return fmt.Errorf(
			"this kernel does not let programs write into a process (bpf_probe_write_user): %w",
			measure.ErrUnsupported,
		)
	}
	defer prog.Close() // the link keeps the program loaded
	link, err := bpf.AttachUprobe(
		prog, bpf.UserProbe{Path: s.code.Opened(), Offset: s.offset, PID: s.pid},
	)
	if err != nil {
		return err
	}
	a.links = append(a.links, attached{link, p})
	a.enabled = append(a.enabled, s)
	return nil
}

// userTogether attaches a program to all places of a group at once. When the kernel refuses some
// place, it tries each half by itself.
func (a *Attachment) userTogether(p *Placed, g *group, failed map[int]error) {
	m := bpf.MultiUserProbe{
		Path:   g.code.Opened(),
		PID:    g.pid,
		Return: p.Probes[g.which[0]].Site == check.SiteUretprobe,
	}
	for i, s := range g.spots {
		m.Offsets = append(m.Offsets, s.offset)
		m.Cookies = append(m.Cookies, uint64(g.which[i]))
		if s.semaphore != 0 && m.Semaphores == nil {
			m.Semaphores = make([]uint64, len(g.spots))
		}
		if s.semaphore != 0 {
			m.Semaphores[i] = s.semaphore
		}
	}
	link, err := bpf.AttachUprobeMulti(p.Program, m)
	switch {
	case err == nil:
		a.links = append(a.links, attached{link, p})
	case len(g.spots) == 1 || !perPlace(err):
		for _, i := range g.which {
			failed[i] = err
		}
	default:
		half := len(g.spots) / 2
		a.userTogether(p, &group{g.code, g.pid, g.spots[:half], g.which[:half]}, failed)
		a.userTogether(p, &group{g.code, g.pid, g.spots[half:], g.which[half:]}, failed)
	}
}

// perPlace reports whether an error of attaching may be due to a single place.
func perPlace(err error) bool {
	return !errors.Is(err, measure.ErrDenied) && !errors.Is(err, unix.ESRCH) &&
		!errors.Is(err, unix.ENOMEM) &&
		!errors.Is(err, unix.EMFILE)
}

// userErr explains an error of attaching to a place of a process.
func userErr(err error) error {
	switch {
	case errors.Is(err, measure.ErrDenied), errors.Is(err, symbol.ErrUnsafe):
		return err
	case errors.Is(err, unix.ESRCH):
		return fmt.Errorf("the process has ended: %w", err)
	case errors.Is(err, unix.EOPNOTSUPP),
		errors.Is(err, unix.Errno(524)),
		errors.Is(err, unix.EINVAL),
		errors.Is(err, unix.EILSEQ):
		return fmt.Errorf("the kernel doesn't put a breakpoint on the instruction there: %w", err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the file is gone: %w", err)
	}
	return err
}
