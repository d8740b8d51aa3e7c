package probe

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"culprit/symbol"
)

// This file finds the functions that indirect functions such as strlen choose when a program
// starts: those that running processes use. All processes of a machine choose the same, because
// they have the same CPU, unless the environment of one forbids some instructions
// (GLIBC_TUNABLES).

// chosen returns the function that a process uses for an indirect function of one of its files. It
// returns f itself, which is Indirect, when the choice is not known, and for a pattern that omits
// the chosen function.
func (pr *processProbes) chosen(
	w *want, pid int, c *symbol.Code, f symbol.Function,
) (symbol.Function, error) {
	all, err := pr.code(w, pid)
	if err != nil {
		return f, err
	}
	real, err := pr.of.Chosen(pid, all, c, f)
	if err == nil && w.omits(c, real) {
		return f, nil
	}
	return real, err
}

// omits reports whether a pattern leaves out a chosen function: it matches that function too, or
// the kernel puts no probe there.
func (w *want) omits(c *symbol.Code, real symbol.Function) bool {
	if w.function.isLit {
		return false
	}
	at, ok := c.Offset(real.Start)
	return !ok || c.Probeable([]uint64{at})[0] != nil || w.matchesAt(c, real.Start)
}

// matchesAt reports whether a pattern matches a function that begins at an address of a file.
func (w *want) matchesAt(c *symbol.Code, at uint64) bool {
	funcs, _ := c.Functions()
	for _, f := range funcs {
		if f.Start == at && !f.Indirect && w.function.match(f.Name) {
			return true
		}
	}
	return false
}

// mostAsked is how many processes are asked which function a file has chosen.
const mostAsked = 8

// chosenAnywhere is chosen of a file in any process that executes it: those of -p and -c first.
func (pr *processProbes) chosenAnywhere(
	w *want, c *symbol.Code, f symbol.Function,
) (symbol.Function, error) {
	for _, pid := range pr.env.Processes {
		real, err := pr.chosen(w, pid, c, f)
		if err == nil || errors.Is(err, symbol.ErrUnavailable) {
			return real, err
		}
	}
	for _, pid := range pr.executing(c) {
		all, err := pr.of.Code(pid)
		if err != nil {
			continue
		}
		real, err := pr.of.Chosen(pid, all, c, f)
		for _, o := range all {
			o.Close() //nolint:errcheck // it was read from
		}
		if errors.Is(err, symbol.ErrUnavailable) {
			return f, err
		}
		if err == nil {
			if w.omits(c, real) {
				return f, nil
			}
			return real, nil
		}
	}
	return f, symbol.ErrUnchosen
}

// executing returns processes whose files in /proc/PID/map_files contain the file, at most
// mostAsked.
func (pr *processProbes) executing(c *symbol.Code) []int {
	own, err := os.Stat(c.Opened())
	if err != nil {
		return nil
	}
	entries, err := os.ReadDir(pr.env.root.InProc(""))
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || len(out) >= mostAsked {
			continue
		}
		dir := pr.env.root.InProc(filepath.Join(e.Name(), "map_files"))
		maps, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, m := range maps {
			st, err := os.Stat(filepath.Join(dir, m.Name()))
			if err == nil && os.SameFile(st, own) {
				out = append(out, pid)
				break
			}
		}
	}
	return out
}
