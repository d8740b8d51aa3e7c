package probe

import (
	"errors"
	"fmt"
	"io/fs"

	"culprit/kernel/bpf"
	"culprit/lang/check"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// attachFunctions attaches a program to functions of the kernel by the method that Fit chose.
func (e *Env) attachFunctions(a *Attachment, p *Placed) {
	if e.targets[p.Probes[0]].method == AttachMulti {
		cookies := make([]uint64, len(p.Probes))
		for i := range cookies {
			cookies[i] = uint64(i)
		}
		a.together(p, p.Probes, cookies)
		return
	}
	a.each(p, func(i int, probe *check.Probe) (*bpf.Link, error) {
		name := probe.Function
		if probe.Module != "vmlinux" {
			name = probe.Module + ":" + name
		}
		link, err := bpf.AttachKprobe(e.root, p.Program, bpf.FunctionProbe{
			Function: name, Return: probe.Site == check.SiteKretprobe, Cookie: uint64(i),
		})
		return link, functionErr(err)
	})
}

// together attaches a program to many functions at once. The kernel accepts all or none, and does
// not report which function it refuses. Then each half is tried by itself, down to single
// functions.
func (a *Attachment) together(p *Placed, probes []*check.Probe, cookies []uint64) {
	names := make([]string, len(probes))
	for i, probe := range probes {
		names[i] = probe.Function
	}
	link, err := bpf.AttachKprobeMulti(p.Program, bpf.MultiProbe{
		Functions: names, Cookies: cookies, Return: probes[0].Site == check.SiteKretprobe,
	})
	switch {
	case err == nil:
		a.links = append(a.links, attached{link, p})
		a.Attached += len(probes)
	case len(probes) == 1 || !perFunction(err):
		for _, probe := range probes {
			a.Skipped = append(
				a.Skipped, Skipped{probe, fmt.Errorf("attach %s: %w", probe, functionErr(err))},
			)
		}
	default:
		half := len(probes) / 2
		a.together(p, probes[:half], cookies[:half])
		a.together(p, probes[half:], cookies[half:])
	}
}

// perFunction reports whether an error of attaching may be due to a single function.
func perFunction(err error) bool {
	return !errors.Is(err, measure.ErrDenied) && !errors.Is(err, measure.ErrUnsupported) &&
		!errors.Is(err, unix.ENOMEM) &&
		!errors.Is(err, unix.EMFILE)
}

// functionErr explains an error of attaching to a function.
func functionErr(err error) error {
	switch {
	case err == nil, errors.Is(err, measure.ErrDenied), errors.Is(err, measure.ErrUnsupported):
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		return fmt.Errorf(
			"the kernel has no such function, or does not allow probing it: %w", err,
		)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("several functions have this name: %w", err)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EILSEQ):
		return fmt.Errorf("the kernel does not allow probing it: %w", err)
	}
	return err
}
