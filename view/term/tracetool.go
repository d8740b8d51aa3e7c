package term

import (
	"fmt"
	"strconv"
	"strings"

	"culprit/measure"
	"culprit/trace/tool"
	"culprit/view"

	"github.com/spf13/cobra"
)

// addTool adds the command of a ready-made tool, `culprit trace NAME`, when args call one. Other
// command lines build none of them.
func (p Program) addTool(trace *cobra.Command, args []string) {
	if len(args) < 2 || args[0] != "trace" {
		return
	}
	if t := tool.Named(args[1]); t != nil {
		trace.AddCommand(p.traceTool(t))
	}
}

// A tracedTool has the flags of a ready-made tool.
type tracedTool struct {
	Tracing
	print    bool
	duration string
	command  string
	set      map[string]*string // values of the tool's own options
}

// traceTool returns the command of a ready-made tool.
func (p Program) traceTool(t *tool.Tool) *cobra.Command {
	var v tracedTool
	c := &cobra.Command{
		Use:               strings.TrimPrefix(t.Usage(), "culprit trace "),
		Short:             t.Purpose,
		Long:              toolHelp(t),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.DisableFlagsInUseLine = true
	v.set = toolOptions(c, t)
	f := c.Flags()
	f.BoolVar(&v.print, "print", false, "print the script and trace nothing")
	add := func(name, short string, to *string, help string) {
		if f.ShorthandLookup(short) != nil {
			short = ""
		}
		f.StringVarP(to, name, short, "", help)
	}
	if f.Lookup("duration") == nil {
		add("duration", "d", &v.duration, "end after this number of seconds")
	}
	if f.Lookup("command") == nil {
		add("command", "c", &v.command, "start this command, trace only it, and end with it")
	}
	add("output", "o", &v.Output, "append the output to this file")
	f.BoolVar(&v.JSON, "json", false, "one JSON object per line")
	f.BoolVar(&v.CompileOnly, "compile", false, "compile the script and load nothing")
	c.RunE = func(c *cobra.Command, args []string) error { return p.runTool(c, t, &v, args) }
	return c
}

// toolOptions adds flags for the options of a tool. It returns the values by name.
func toolOptions(c *cobra.Command, t *tool.Tool) map[string]*string {
	set := map[string]*string{}
	f := c.Flags()
	f.SortFlags = false
	for i := range t.Options {
		o := &t.Options[i]
		value := new(string)
		set[o.Name] = value
		help := o.Means
		if o.Kind == tool.Flag {
			f.VarPF(&toolFlag{value}, o.Name, o.Short, help).NoOptDefVal = "true"
			continue
		}
		if o.Default != "none" && o.Default != `""` {
			help += strings.TrimRight(" (default "+o.Default+" "+o.Unit, " ") + ")"
		}
		f.VarP(&toolValue{toolFlag{value}, strings.ToLower(string(o.Kind))}, o.Name, o.Short, help)
	}
	return set
}

// A toolFlag is a flag without a value, as text.
type toolFlag struct{ to *string }

// String returns "", the default.
func (f *toolFlag) String() string { return "" }

// Type returns the placeholder of the value in the help.
func (f *toolFlag) Type() string { return "bool" }

// Set keeps the value. tool.Macros checks it.
func (f *toolFlag) Set(text string) error {
	*f.to = text
	return nil
}

// A toolValue is a flag with a value.
type toolValue struct {
	toolFlag
	kind string
}

// Type returns the placeholder of the value in the help.
func (v *toolValue) Type() string { return v.kind }

// toolHelp returns the description of a tool: its operands, columns, and what it needs.
func toolHelp(t *tool.Tool) string {
	var b strings.Builder
	b.WriteString(strings.ToUpper(t.Purpose[:1]) + t.Purpose[1:] + ".\n")
	list := func(title string, n int, row func(int) (string, string)) {
		if n > 0 {
			b.WriteString("\n" + title + ":\n")
		}
		for i := range n {
			name, means := row(i)
			fmt.Fprintf(&b, "  %-18s %s\n", name, means)
		}
	}
	list("Operands", len(t.Operands), func(i int) (string, string) {
		return t.Operands[i].Name, t.Operands[i].Means
	})
	list("Columns", len(t.Columns), func(i int) (string, string) {
		if unit := t.Columns[i].Unit; unit != "" {
			return t.Columns[i].Name + " (" + unit + ")", t.Columns[i].Means
		}
		return t.Columns[i].Name, t.Columns[i].Means
	})
	b.WriteString("\nNeeds root, or CAP_BPF and CAP_PERFMON; " + strings.Join(t.Needs, "; "))
	b.WriteString(".\n")
	for _, note := range t.Notes {
		b.WriteString(strings.ToUpper(note[:1]) + note[1:] + ".\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// runTool runs a ready-made tool.
func (p Program) runTool(c *cobra.Command, t *tool.Tool, v *tracedTool, args []string) error {
	given := map[string]string{}
	for name, value := range v.set {
		if c.Flags().Changed(name) {
			given[name] = *value
		}
	}
	if v.command != "" {
		if _, ok := v.set["pid"]; !ok || given["pid"] != "" {
			return usagef("--command: %s", map[bool]string{
				true:  "give a process with -p or a command, not both",
				false: t.Name + " traces the whole machine",
			}[ok])
		}
		v.Commands, given["pid"] = []string{v.command}, "$target"
	}
	macros, err := t.Macros(given, args)
	if err != nil {
		return usageError{Cause: err}
	}
	text := t.Text
	if v.duration != "" {
		n, err := strconv.ParseFloat(v.duration, 64)
		if err != nil || !(n >= 0.001 && n <= 1e8) {
			return usagef("--duration %s: write a number of seconds from 0.001 to 100000000",
				v.duration)
		}
		text += fmt.Sprintf("\ntick-%dms { exit(0); }\n", int64(n*1000))
	}
	if v.print {
		for _, m := range macros {
			name, value, _ := strings.Cut(m, "=")
			fmt.Fprintf(p.Terminal.Out, "#define %s %s\n", name, value)
		}
		fmt.Fprint(p.Terminal.Out, text)
		return nil
	}
	if p.Trace == nil {
		return fmt.Errorf("this program traces nothing: %w", measure.ErrUnsupported)
	}
	v.Parts = []TracePart{{'n', text}}
	v.Tool = t.Name
	v.Options = append(v.Options, "cpp")
	for _, m := range macros {
		v.Options = append(v.Options, "define="+m)
	}
	status, err := p.Trace(c.Context(), v.Tracing, p.Terminal)
	if err == nil && status != 0 {
		err = exitStatus(status)
	}
	return err
}

// listTools prints the ready-made tools, or the script of one.
func (p Program) listTools(args []string) error {
	for _, name := range args {
		t := tool.Named(name)
		if t == nil {
			return usagef("there is no tool %q%s (`culprit trace --tools` lists them)", name,
				didYouMean(name, tool.Names()))
		}
		fmt.Fprint(p.Terminal.Out, t.Text)
	}
	if len(args) > 0 {
		return nil
	}
	for _, t := range tool.All() {
		fmt.Fprintf(p.Terminal.Out, "%-16s %s\n", t.Name, view.Clean(t.Purpose))
	}
	return nil
}
