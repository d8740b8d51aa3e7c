package probe

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"culprit/lang/check"
	"culprit/measure"
	"culprit/symbol"
)

// This file lists the probes of processes: pidNNN:module:function:entry, return or an offset, and
// probes that programs define (USDT), whose provider's name ends with the process ID. A description
// names the process, or its pattern matches processes of -p and -c.

// firstUser is the first number of a probe of a process. Numbers are assigned in the order in which
// the probes are first found.
const firstUser = lastFBT + 1

// processProbes lists the probes of processes.
type processProbes struct {
	env   *Env
	of    *symbol.Processes // nil: no process was read yet
	codes map[int][]*symbol.Code
	ids   map[string]uint32
	kinds map[*symbol.Code][]usdt // the USDT probes of files that were read
	files map[string]*symbol.Code // that descriptions name
	all   []*symbol.Code          // with USDT probes, of all processes
	read  bool                    // all was read
}

// A spot is the place of a probe in a file of a process.
type spot struct {
	code      *symbol.Code
	pid       int
	offset    uint64 // in the file
	semaphore uint64
	operands  []check.Operand
}

// processOf splits the name of a provider, such as pid123 or node123, into name and process ID. It
// returns false when there is no number.
func processOf(provider string) (name string, pid int, ok bool) {
	name = strings.TrimRight(provider, "0123456789")
	n, err := strconv.ParseInt(provider[len(name):], 10, 32)
	return name, int(n), err == nil && name != ""
}

// user reports whether the provider of a description is one of processes.
func (e *Env) user(w *want) bool {
	if w.id != 0 {
		return w.id >= firstUser
	}
	if w.provider.any() {
		return false
	}
	if w.provider.isLit {
		_, _, ok := processOf(w.provider.literal)
		return ok &&
			!slices.ContainsFunc(
				e.providers, func(p *provider) bool { return p.name == w.provider.literal },
			)
	}
	return len(e.Processes) > 0 || e.anywhere(w)
}

// searchUser calls yield with each probe of a process that w matches.
func (e *Env) searchUser(w *want, yield func(*found)) error {
	if e.anywhere(w) {
		return e.users.searchAnywhere(w, yield)
	}
	var pids []int
	if w.provider.isLit {
		_, pid, _ := processOf(w.provider.literal)
		pids = []int{pid}
	} else {
		pids = e.Processes
	}
	for _, pid := range pids {
		name := "pid" + strconv.Itoa(pid)
		if w.provider.match(name) {
			if err := e.users.pidProbes(w, pid, name, yield); err != nil {
				return err
			}
			if w.provider.isLit {
				continue
			}
		}
		if err := e.users.usdtProbes(w, pid, yield); err != nil {
			return err
		}
	}
	return nil
}

// code returns the files that a process executes. It fails with a *NoProbe, which has dtrace's tag.
func (pr *processProbes) code(w *want, pid int) ([]*symbol.Code, error) {
	if c, ok := pr.codes[pid]; ok {
		return c, nil
	}
	if pid <= 0 {
		return nil, userFault(w, "D_PROC_BADPID", "", "there is no process %d", pid)
	}
	if _, err := pr.env.PIDNamespace(); err != nil || pr.env.space.proc != nil {
		f := userFault(w, "D_PROC_GRAB", "", "%v", cmp.Or(err, pr.env.space.proc))
		f.Err = measure.ErrUnsupported
		return nil, f
	}
	pr.start()
	c, err := pr.of.Code(pid)
	if err != nil {
		f := unread(w, err)
		if errors.Is(err, fs.ErrNotExist) {
			f.Message = fmt.Sprintf("there is no process %d", pid)
		}
		return nil, f
	}
	if len(c) == 0 {
		without := fmt.Sprintf(
			"process %d executes no file: it is a kernel thread, or it is ending", pid,
		)
		if !strings.HasPrefix(w.provider.text, "pid") { // nfsv3 may be a provider of Solaris
			without = fmt.Sprintf("there is no provider %s: %s", w.provider.text, without)
		}
		return nil, userFault(w, "D_PROC_GRAB", "", "%s", without)
	}
	pr.codes[pid] = c
	return c, nil
}

// close closes the files of processes.
func (pr *processProbes) close() {
	for _, list := range pr.codes {
		for _, c := range list {
			c.Close() //nolint:errcheck // it was read from
		}
	}
	for _, c := range pr.files {
		c.Close() //nolint:errcheck // it was read from
	}
	for _, c := range pr.all {
		c.Close() //nolint:errcheck // it was read from
	}
	pr.codes, pr.files, pr.all = nil, nil, nil
}

// probeID returns the number of the probe of a process that parts identify. It is the same in each
// call.
func (pr *processProbes) probeID(parts ...string) uint32 {
	key := strings.Join(parts, ":")
	id, ok := pr.ids[key]
	if !ok {
		id = firstUser + uint32(len(pr.ids))
		pr.ids[key] = id
	}
	return id
}

// moduleFits reports whether the module of a description matches a file: its name, its name up to
// one of its dots, a.out for the program itself, or its path.
func moduleFits(g *glob, c *symbol.Code) bool {
	if g.any() || c.Main && g.match("a.out") {
		return true
	}
	if g.isLit {
		rest, ok := strings.CutPrefix(c.Name, g.literal)
		return ok && (rest == "" || rest[0] == '.' || strings.HasSuffix(g.literal, ".")) ||
			c.Path == g.literal
	}
	return g.match(c.Name)
}

// userProvider is the provider of the probes of processes. The list of providers does not contain
// it.
//
// table: made once, never changed
var userProvider = &provider{name: "pid", first: firstUser, last: 1<<32 - 1, args: usdtArgs}

// internSpots groups the places of a probe by where their arguments are. Each group becomes a
// check.Probe: the first is p, the others are in p.Also.
func (e *Env) internSpots(own *found, p *check.Probe) {
	p.AtEntry = own.entry
	all := own.spots
	own.spots = nil
	at := map[string]*found{}
	for _, s := range all {
		narrow := s.code != nil && s.code.Class == symbol.I386
		key := fmt.Sprint(s.operands, narrow)
		g := at[key]
		switch {
		case g != nil:
		case len(at) == 0:
			g = own
			p.Operands, p.Narrow = s.operands, narrow
		default:
			other := *own
			g = &other
			g.spots = nil
			also := *p
			also.Operands, also.Narrow, also.Also = s.operands, narrow, nil
			p.Also = append(p.Also, &also)
			e.targets[&also] = g
		}
		at[key] = g
		g.spots = append(g.spots, s)
	}
}

// KnownProcesses returns Processes and the processes that descriptions named.
func (e *Env) KnownProcesses() []int {
	out := slices.Clone(e.Processes)
	for pid := range e.users.codes {
		if !slices.Contains(out, pid) {
			out = append(out, pid)
		}
	}
	return out
}
