package probe

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"culprit/lang/check"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/symbol"
)

// This file lists probes by file, in all processes that execute it, now or later: functions,
// uprobe:/bin/bash:readline:, their returns, uretprobe:/bin/bash:readline:, and the probes that a
// program defines (USDT), usdt:/usr/lib/libc.so.6:libc:setjmp. Their numbers are those of probes of
// processes. Provider file has the notation of pid: file:/bin/bash:readline:entry.

func fileProvider(name string) *provider {
	p := &provider{name: name, first: firstUser, last: 1<<32 - 1, named: true}
	p.list = func(e *Env, w *want, yield func(*found)) error {
		if w.id != 0 || !w.module.isLit || w.module.literal == "" {
			asked, _, _ := strings.Cut(w.text, ":") // pid* too
			return userFault(w, "", "name it: "+asked+":/bin/bash:...", "%s requires a file", asked)
		}
		if fault := nameFault(w, name); fault != nil {
			return fault
		}
		c, err := e.users.file(w)
		if err != nil {
			return err
		}
		if name == "usdt" {
			return e.users.fileUSDT(w, c, yield)
		}
		return e.users.fileFunctions(w, c, name, yield)
	}
	if name == "usdt" {
		p.args = usdtArgs
	}
	p.why = func(e *Env, _ *want) string {
		if err := e.missing[name]; err != nil {
			return err.Error()
		}
		return ""
	}
	return p
}

// wantOf returns what a description wants. Without a process of -p or -c,
// pid*:libc.so.6:fread:entry is the function of that file in all processes.
func (e *Env) wantOf(d *syntax.Probe) *want {
	w := newWant(d)
	if w.id == 0 && w.provider.text == "pid*" && len(e.Processes) == 0 && !w.module.any() {
		w.provider = newGlob("file")
	}
	return w
}

// start makes the maps of processProbes.
func (pr *processProbes) start() {
	if pr.of == nil {
		pr.of = symbol.NewProcessesOf(pr.env.root, pr.env.Files)
		pr.codes, pr.ids = map[int][]*symbol.Code{}, map[string]uint32{}
		pr.kinds, pr.files = map[*symbol.Code][]usdt{}, map[string]*symbol.Code{}
	}
}

// file opens the file that a description names, once: a path, a program in PATH, or the name of a
// library: libc is libc.so.6.
func (pr *processProbes) file(w *want) (*symbol.Code, error) {
	pr.start()
	name := w.module.literal
	if c := pr.files[name]; c != nil {
		return c, nil
	}
	path := name
	if !strings.Contains(name, "/") {
		var err error
		if path, err = findFile(name); err != nil {
			return nil, userFault(w, "", "write its path", "%v", err)
		}
	}
	c, err := pr.openFile(name, path)
	if err != nil {
		return nil, userFault(w, "", "", "%v", err)
	}
	if c.Class == symbol.Foreign {
		c.Close()
		return nil, userFault(
			w, "", "", "%s is a program of another architecture, which can't be traced", path,
		)
	}
	pr.files[name] = c
	return c, nil
}

// openFile opens the file of a description. The processes of -p and -c may be in containers: then
// a path is the one that they use. A file that only this process sees is opened too.
func (pr *processProbes) openFile(name, path string) (*symbol.Code, error) {
	for _, pid := range pr.env.Processes {
		if strings.HasPrefix(name, "/") && pr.elsewhere(pid) {
			if c, err := pr.of.OpenCodeOf(pid, path); err == nil {
				return c, nil
			}
		}
	}
	return pr.of.OpenCode(path)
}

// elsewhere reports whether a process has mounts or a root of its own.
func (pr *processProbes) elsewhere(pid int) bool {
	for _, name := range []string{"ns/mnt", "root"} {
		own, err := os.Stat(pr.env.root.InProc("self/" + name))
		its, err2 := os.Stat(pr.env.root.InProc(strconv.Itoa(pid) + "/" + name))
		if err == nil && err2 == nil && !os.SameFile(own, its) {
			return true
		}
	}
	return false
}

// libraryDirs are where libraries are.
//
// table: never changed
var libraryDirs = []string{
	"/lib64", "/usr/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
	"/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib", "/usr/lib", "/usr/local/lib",
}

// findFile returns the path of a program or a library.
func findFile(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range libraryDirs {
		for _, pattern := range []string{name, name + ".so.*", name + ".so"} {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			if err == nil && len(found) > 0 {
				return slices.Max(found), nil
			}
		}
	}
	return "", fmt.Errorf("no program in PATH and no library has the name %s", name)
}

// fileFunctions calls yield with the functions of a file that w matches.
func (pr *processProbes) fileFunctions(
	w *want, c *symbol.Code, provider string, yield func(*found),
) error {
	funcs, err := c.Functions()
	if err != nil {
		return userFault(w, "", "", "the functions of %s can't be read: %v", c.Path, err)
	}
	wanted, offset := *w, uint64(0)
	if name, digits, ok := strings.Cut(w.function.text, "+"); ok && w.function.isLit {
		if offset, err = strconv.ParseUint(digits, 0, 32); err != nil {
			return userFault(w, "", "write FUNCTION+16", "%s is no offset", digits)
		}
		wanted.function = newGlob(name)
	}
	same := pr.merging()
	defer same.each(yield)
	n, chooses := 0, false
	var names []string
	for i := 0; i < len(funcs); {
		next := i + 1
		for next < len(funcs) && funcs[next].Start == funcs[i].Start {
			next++
		}
		f, fits := wanted.nameOf(funcs[i:next])
		names = append(names, funcs[i].Name)
		i = next
		if fits && f.Indirect {
			if f, err = pr.chosenAnywhere(w, c, f); errors.Is(err, symbol.ErrUnavailable) {
				return unread(w, err)
			}
		}
		if !fits || !c.Executable(f.Start) || f.Indirect {
			chooses = chooses || fits && f.Indirect
			continue
		}
		at := spot{code: c}
		at.offset, fits = c.Offset(f.Start)
		if !fits {
			continue
		}
		for _, found := range pr.atFunction(w, provider, at, f, offset) {
			n++
			same.add(found)
		}
	}
	if n > 0 {
		return nil
	}
	if chooses {
		return userFault(
			w, "", "name the function that it chooses, as __"+w.function.text+"_avx2, or start a "+
				"program that uses it first",
			"%s of %s chooses a function when a program starts, and no running program shows which",
			w.function.text, c.Path,
		)
	}
	f := userFault(w, "", "", "%s has no function %s", c.Path, w.function.text)
	if near := measure.Nearest(w.function.text, names); near != "" {
		f.Hint = "did you mean " + near + "?"
	}
	return f
}

// atFunction returns the probes of a function of a file that w matches.
func (pr *processProbes) atFunction(
	w *want, provider string, at spot, f symbol.Function, offset uint64,
) []*found {
	probe := func(name string, site check.Site, spots []spot) *found {
		return &found{
			Listed: Listed{
				ID: pr.probeID(provider+name, at.code.Path, identity(f),
					strconv.FormatUint(offset, 16)),
				Provider: provider, Module: w.module.literal, Function: f.Name, Name: name,
			},
			site: site, alias: w.function.plain,
			foundUser: foundUser{spots: spots, entry: name == "entry" || provider == "uprobe" && offset == 0},
		}
	}
	entry, back := "", ""
	if provider == "file" {
		entry, back = "entry", "return"
	}
	var out []*found
	if provider != "uretprobe" && w.name.match(entry) {
		into := at
		into.offset += offset
		into.operands = operandsAt(at.code, f, offset)
		out = append(out, probe(entry, check.SiteUprobe, []spot{into}))
	}
	if provider != "uprobe" && w.name.match(back) {
		if site, spots, err := returnSpots(at, f, at.offset); err == nil {
			out = append(out, probe(back, site, spots))
		}
	}
	return out
}

// nameFault returns why the last part of a description names no probe of a function; nil: it may.
func nameFault(w *want, provider string) error {
	switch {
	case w.name.any() || provider == "usdt":
		return nil
	case provider == "file":
		if w.name.match("entry") || w.name.match("return") {
			return nil
		}
		return userFault(w, "", "", "functions of a file have the probes entry and return, not %s",
			w.name.text)
	}
	own := provider
	switch w.name.literal {
	case "entry":
		own = "uprobe"
	case "return":
		own = "uretprobe"
	}
	hint := "leave the last part empty: " + own + ":" + w.module.text + ":" + w.function.text + ":"
	return userFault(w, "", hint, "probes of provider %s have no names", provider)
}

// fileUSDT calls yield with the probes that a file defines and that w matches: the function of the
// description is their provider.
func (pr *processProbes) fileUSDT(w *want, c *symbol.Code, yield func(*found)) error {
	defined, err := pr.usdtOf(c)
	if err != nil {
		return userFault(w, "", "", "the probes of %s can't be read: %v", c.Path, err)
	}
	n := 0
	var names []string
	for _, u := range defined {
		raw := strings.ReplaceAll(u.name, "-", "__")
		names = append(names, u.provider+":"+raw)
		if !w.function.match(u.provider) || !w.name.match(u.name) && !w.name.match(raw) {
			continue
		}
		f := &found{
			Listed: Listed{
				ID:       pr.probeID("usdt", c.Path, u.provider, u.function, u.name),
				Provider: "usdt", Module: w.module.literal, Function: u.provider, Name: u.name,
			},
			site: check.SiteUprobe, foundUser: foundUser{types: u.types},
		}
		if w.name.match(raw) {
			f.Name = raw
		}
		for _, p := range u.places {
			f.spots = append(f.spots, spot{
				code: c, offset: p.offset, semaphore: p.semaphore, operands: p.operands,
			})
		}
		for _, p := range u.asked {
			f.asked = append(f.asked, spot{code: c, offset: p.offset, operands: p.operands})
		}
		if len(f.spots) > 0 {
			n++
			yield(f)
		}
	}
	if n > 0 {
		return nil
	}
	f := userFault(w, "", "", "%s defines no probe %s", c.Path, w.name.text)
	if len(names) > 0 {
		f.Hint = "it has " + strings.Join(names[:min(len(names), 12)], ", ")
	}
	return f
}
