package probe

import (
	"slices"
	"strconv"
	"strings"

	"culprit/measure"
	"culprit/symbol"
)

// This file lists the probes that programs define (USDT), of all processes, without -p and -c:
// python*:::function-entry. A probe is that of a file, so it fires in processes that start later,
// too. Programs that are installed somewhere else than in the usual directories are found only if
// they run when a script starts.

// mostFiles bounds how many files with probes are kept open.
const mostFiles = 4096

// anywhere reports whether a description wants probes of all processes: its provider is a pattern,
// that of no other provider, and no process was chosen.
func (e *Env) anywhere(w *want) bool {
	return w.id == 0 && !w.provider.isLit && !w.provider.any() && len(e.Processes) == 0 &&
		!strings.HasPrefix(w.provider.text, "pid") && e.root.Real() &&
		!slices.ContainsFunc(e.providers, func(p *provider) bool {
			return w.provider.match(p.name)
		})
}

// searchAnywhere calls yield with each probe of any process that w matches.
func (pr *processProbes) searchAnywhere(w *want, yield func(*found)) error {
	if err := pr.readAll(); err != nil {
		return unread(w, err)
	}
	for i, c := range pr.all {
		defined, err := pr.usdtOf(c)
		if err != nil {
			continue // malformed: see readAll
		}
		for _, u := range defined {
			if !w.provider.match(u.provider) && !w.provider.match(u.provider+"1") {
				continue
			}
			if f := pr.usdtProbe(w, c, u, u.provider, 0, strconv.Itoa(i)); f != nil {
				yield(f)
			}
		}
	}
	return nil
}

// readAll opens the files with probes that any process executes, and those of installed programs,
// once.
func (pr *processProbes) readAll() error {
	if pr.read {
		return nil
	}
	if _, err := pr.env.PIDNamespace(); err != nil || pr.env.space.proc != nil {
		return pr.env.space.proc
	}
	pr.start()
	pids, err := pr.of.PIDs()
	if err != nil {
		return err
	}
	seen := map[symbol.MappedFile]bool{}
	for _, pid := range pids {
		codes, err := pr.of.OtherCode(pid, seen)
		if err != nil {
			continue // it has ended, or may not be read
		}
		for _, c := range codes {
			pr.keep(c)
		}
	}
	installed(seen, func(path string) {
		if c, err := pr.of.OpenCode(path); err == nil {
			pr.keep(c)
		}
	})
	pr.read = true
	return nil
}

// keep adds a file with probes to all, and closes another.
func (pr *processProbes) keep(c *symbol.Code) {
	list, err := pr.usdtOf(c)
	if err != nil || len(list) == 0 || c.Class == symbol.Foreign || len(pr.all) >= mostFiles {
		c.Close() //nolint:errcheck // it was read from
		delete(pr.kinds, c)
		return
	}
	pr.all = append(pr.all, c)
}

// explainAnywhere returns the reason why no program has a probe that w matches.
func (pr *processProbes) explainAnywhere(w *want) *NoProbe {
	var providers, names []string
	for _, c := range pr.all {
		for _, u := range pr.kinds[c] {
			if !slices.Contains(providers, u.provider) {
				providers = append(providers, u.provider)
			}
			if w.provider.match(u.provider) && !slices.Contains(names, u.name) {
				names = append(names, u.name)
			}
		}
	}
	slices.Sort(providers)
	if len(names) == 0 {
		f := userFault(w, "D_PDESC_ZERO", "",
			"no program that runs or is installed here has a provider %s", w.provider.text)
		if len(providers) > 0 {
			f.Hint = "they have " + strings.Join(providers[:min(12, len(providers))], ", ")
		}
		return f
	}
	f := userFault(w, "D_PDESC_ZERO", "", "no probe matches %s", w.text)
	if near := measure.Nearest(w.name.text, names); near != "" {
		f.Hint = "did you mean " + near + "?"
	} else {
		f.Hint = "probes are " + strings.Join(names[:min(8, len(names))], ", ")
	}
	return f
}
