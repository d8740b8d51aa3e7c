package term

import (
	"slices"
	"strings"

	"culprit/measure"
	"culprit/view"
	"culprit/view/show"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// toolFlags holds the flags of every command that shows tables.
type toolFlags struct {
	plan      showOptions
	look      MachineOptions
	past      pastFlags
	json, csv bool
}

func (m *toolFlags) flags(f *pflag.FlagSet) {
	m.tableFlags(f)
	f.StringVar(&m.look.Netns, "netns", "", "network namespace: a name, or all")
	f.BoolVar(&m.look.SinceBoot, "since-boot", false, "the first line covers the time since boot")
	m.past.flags(f, true)
}

// tableFlags adds the flags for the format of tables.
func (m *toolFlags) tableFlags(f *pflag.FlagSet) {
	f.BoolVar(&m.json, "json", false, "one JSON object per interval, on one line")
	f.BoolVar(&m.csv, "csv", false, "comma-separated values with a header line")
	f.StringVar(&m.plan.sortBy, "sort", "", "sort rows by this column, largest first")
	f.BoolVar(&m.plan.reverse, "reverse", false, "smallest first")
	f.IntVarP(&m.plan.rows, "rows", "n", -1, "show N rows, 0 for all")
	f.BoolVarP(&m.plan.wide, "wide", "w", false, "all columns, whatever the width of the terminal")
}

// open returns the machine to measure, now or in the past, and adjusts the show options to it.
// Unless it returns an error, the caller must call done.
func (m *toolFlags) open(p Program, args []string) (machine Machine, done func(), err error) {
	if !m.past.isSet() {
		if err := m.past.checkTimeGiven("--from or --at"); err != nil {
			return nil, nil, err
		}
		m.look.Alone = true
		machine, err = p.Open(m.look)
		return machine, func() {}, err
	}
	if len(args) == 0 {
		m.plan.step = show.RecordedStep
	}
	if err := show.CheckRecordedStep(m.plan.step); err != nil {
		return nil, nil, err
	}
	r, err := p.archives().replay(&m.past, m.look, m.plan.step*measure.Span(max(1, m.plan.count)))
	if err != nil {
		return nil, nil, err
	}
	if len(args) == 0 { // one table over the whole time
		m.plan.step = r.Over.Span()
	}
	m.plan.past = true
	printNotes(p.Terminal.Err, r.Notes)
	return r, r.Close, nil
}

// times parses the arguments [interval [count]] and sets the format.
func (m *toolFlags) times(args []string) error {
	switch {
	case m.json && m.csv:
		return usagef("--json and --csv exclude each other")
	case m.json:
		m.plan.format = "json"
	case m.csv:
		m.plan.format = "csv"
	}
	return parseTimes(args, &m.plan)
}

// tool returns the command of one tool.
func (p Program) tool(t *view.Tool) *cobra.Command {
	m := &toolFlags{plan: showOptions{step: measure.Second, count: 1}}
	if t.Once {
		m.plan.step = 250 * measure.Millisecond
	}
	c := &cobra.Command{
		Use:               t.Name + operandUse(t) + " [interval [count]]",
		Short:             t.Short,
		Long:              reflow(t.Long+"\n\n"+intervals, helpWidth),
		Example:           examples(t.Examples),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := c.Flags()
	f.SortFlags = false
	bools, texts, lists := map[string]*bool{}, map[string]*string{}, map[string]*[]string{}
	for _, fl := range t.Flags {
		help := fl.Help
		if len(fl.Values) > 0 {
			help += ": " + strings.Join(fl.Values, ", ")
		}
		switch {
		case fl.Value == "":
			bools[fl.Name] = f.BoolP(fl.Name, fl.Letter, false, help)
		case fl.Many:
			lists[fl.Name] = f.StringSliceP(fl.Name, fl.Letter, nil, help)
		default:
			texts[fl.Name] = f.StringP(fl.Name, fl.Letter, "", help)
		}
		if len(fl.Values) > 0 {
			completeWith(c, fl.Name, fl.Values)
		}
	}
	m.flags(f)
	m.past.registerCompletions(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if named := lists[t.Operand]; named != nil {
			var words []string
			words, args = splitOperands(args)
			if err := oldOptions(t.Name, words); err != nil {
				return err
			}
			*named = append(*named, words...)
		}
		if err := m.times(args); err != nil {
			return err
		}
		o := view.Options{}
		for name, v := range bools {
			if *v {
				o[name] = []string{""}
			}
		}
		for name, v := range texts {
			if *v != "" {
				o[name] = []string{*v}
			}
		}
		for name, v := range lists {
			if len(*v) > 0 {
				o[name] = view.CommaList(*v)
			}
		}
		for _, fl := range t.Flags {
			for _, v := range o[fl.Name] {
				if len(fl.Values) > 0 && !slices.Contains(fl.Values, v) {
					return usagef(
						"--%s %q is none of %s%s", fl.Name, v, strings.Join(fl.Values, ", "),
						didYouMean(v, fl.Values),
					)
				}
			}
		}
		machine, done, err := m.open(p, args)
		if err != nil {
			return err
		}
		defer done()
		return showTool(c.Context(), machine, p.Terminal, t, o, m.plan)
	}
	return c
}

// operandUse returns the place of the operands in the usage of a tool: " [INTERFACE]..."; "" if it
// takes none.
func operandUse(t *view.Tool) string {
	if t.Operand == "" {
		return ""
	}
	return " [" + strings.ToUpper(t.Operand) + "]..."
}

// splitOperands divides arguments into the names before the interval, which may be comma lists, and
// the rest. An interval begins with a digit or a dot: a name that does needs its flag.
func splitOperands(args []string) (names, rest []string) {
	for i, a := range args {
		if a == "" || a[0] == '.' || a[0] >= '0' && a[0] <= '9' {
			return names, args[i:]
		}
		names = append(names, strings.Split(a, ",")...)
	}
	return names, nil
}
