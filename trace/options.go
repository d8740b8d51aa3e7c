package trace

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"culprit/lang/check"
	"culprit/lang/format"
)

// HasOption reports whether an option was set.
func (s *Session) HasOption(name string) bool { return s.script.hasOption(name) }

func (c *Compiled) hasOption(name string) bool {
	value, ok := c.Program.Options.All[name]
	switch strings.ToLower(value) {
	case "no", "disable", "disabled", "false", "off", "unset":
		return false
	}
	return ok
}

// numberOption returns the number of an option, or otherwise when it has none.
func (c *Compiled) numberOption(name string, otherwise int) int {
	if n, err := strconv.Atoi(c.Program.Options.All[name]); err == nil {
		return n
	}
	return otherwise
}

// style returns how output is formatted, as the options of the script set it.
func (c *Compiled) style() format.Style {
	st := format.Style{
		NoColumns:  os.Getenv("_DTRACE_TESTING") != "",
		Quiet:      c.hasOption("quiet"),
		RawBytes:   c.hasOption("rawbytes"),
		RawText:    c.hasOption("raw"),
		FlowIndent: c.hasOption("flowindent"),
		SortKey:    c.hasOption("aggsortkey"),
		SortRev:    c.hasOption("aggsortrev"),
		SortKeyPos: c.numberOption("aggsortkeypos", 0),
		SortPos:    c.numberOption("aggsortpos", 0),
		Rows:       c.numberOption("aggrows", 0),
		PerCPU:     c.hasOption("aggpercpu"),
		Zoom:       c.hasOption("aggzoom"),
		Hist:       c.hasOption("agghist"),
		Pack:       c.hasOption("aggpack"),
		Encoding:   c.Program.Options.All["encoding"],
		Zone:       time.Local,
		Group:      format.Thousands(numericLocale()),
	}
	if c.hasOption("stackindent") {
		st.StackIndent, st.Indented = c.numberOption("stackindent", 0), true
	}
	return st
}

// numericLocale returns the locale in which numbers are written.
func numericLocale() string {
	return cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_NUMERIC"), os.Getenv("LANG"))
}

// setopt performs setopt(): it sets an option while the script runs, and prints why when it cannot
// be set.
func (p *Printer) setopt(r *Record, action check.Action, values []format.Value) error {
	value := cmp.Or(action.Value, "1")
	if len(values) > 0 {
		value = values[0].Text
	}
	c := p.session.script
	if problem := check.OptionProblem(action.Name, value); problem != "" {
		if err := p.Pause(); err != nil {
			return err
		}
		what := fmt.Sprintf("couldn't set option %q to %q: %s", action.Name, value, problem)
		p.Say(
			"%s\n",
			format.LibraryMessage(r.Clause.NumberAt(r.Probe), r.Probe.ID, r.Probe.String(), what),
		)
		return nil
	}
	c.Program.Options.All[strings.ToLower(action.Name)] = value
	p.style = c.style()
	return nil
}
