package term

import (
	"fmt"
	"io"
	"strings"

	"culprit/measure"
	"culprit/view"
	"culprit/view/schema"

	"github.com/spf13/cobra"
)

// schema returns the command that prints the JSON Schema of an output.
func (p Program) schema() *cobra.Command {
	var names []string
	for _, s := range schema.All() {
		names = append(names, s.Name)
	}
	return &cobra.Command{
		Use:   "schema [NAME]",
		Short: "JSON Schemas of what the commands print with --json",
		Long: reflow(
			`Prints the JSON Schema (draft 2020-12) of what a command prints with --json. Without a name it
lists the schemas and the commands. Each output has the version of its format: the member format.`,
			helpWidth,
		),
		Example: examples([]view.Example{
			{Line: "culprit schema", Means: "the names"},
			{Line: "culprit schema report", Means: "the shape of culprit --json"},
		}),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("unexpected %q after the name of a schema", args[1])
			}
			return nil
		},
		ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				for _, s := range schema.All() {
					if _, err := fmt.Fprintf(p.Terminal.Out, "%-14s %s\n", s.Name,
						s.Command); err != nil {
						return err
					}
				}
				return nil
			}
			s, ok := schema.Find(args[0])
			if !ok {
				return usagef("there is no schema %q%s (`culprit schema` lists all)", args[0],
					didYouMean(args[0], names))
			}
			_, err := p.Terminal.Out.Write(s.JSON())
			return err
		},
	}
}

// printStats prints the statistics whose ID or help has all the words, as text or as one JSON
// object.
func printStats(out io.Writer, stats []measure.Stat, words []string, asJSON bool) error {
	var some []measure.Stat
	for _, st := range stats {
		hit := true
		for _, w := range words {
			hit = hit && (strings.Contains(string(st.ID), w) || strings.Contains(st.Help, w))
		}
		if hit {
			some = append(some, st)
		}
	}
	if len(some) == 0 {
		return usagef("no statistic has %s in its name or help", strings.Join(words, " and "))
	}
	if asJSON {
		_, err := out.Write(append(view.AppendCatalogue(nil, some), '\n'))
		return err
	}
	for _, st := range some {
		var fields []string
		for _, f := range st.Fields {
			fields = append(fields, f.Name)
		}
		if _, err := fmt.Fprintf(
			out, "%-28s %-5s %-9s by %s\n    %s\n", st.ID, st.Kind, st.AnswerUnit(),
			strings.Join(fields, ","), st.Help,
		); err != nil {
			return err
		}
	}
	return nil
}
