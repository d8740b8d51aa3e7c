package term

import (
	"fmt"
	"os"

	"culprit/load"
	"culprit/view"

	"github.com/spf13/cobra"

	"culprit/view/report"
)

func (l *loadCommands) compare() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "compare FIRST.json SECOND.json",
		Short: "the difference of two results, and whether it may be chance",
		Long: reflow(
			`Compares two results of -o: the ratio of the means with its 95 % interval, for independent runs
(Welch, of the logarithms), percentiles of latency side by side, and the CPU time per GB or per
transaction. If the interval includes "no difference", the difference is not significant, and it says
so.`,
			helpWidth,
		),
		Example: examples([]view.Example{
			{
				Line:  "culprit load compare 1g.json 10g.json",
				Means: "the second relative to the first",
			},
			{Line: "culprit load compare before.json after.json --json", Means: "as JSON"},
		}),
		Args: cobra.ArbitraryArgs,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as one JSON object")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) != 2 {
			return usagef("give two results: culprit load compare FIRST.json SECOND.json")
		}
		if l.readsFiles != nil {
			l.readsFiles()
		}
		var results [2]*load.Result
		for i, name := range args {
			r, err := readLoadResult(name)
			if err != nil {
				return err
			}
			results[i] = r
		}
		comparison, err := load.Compare([2]string{args[0], args[1]}, results[0], results[1])
		switch {
		case err != nil:
			return fmt.Errorf("compare: %w", err)
		case asJSON:
			return writeJSON(l.terminal.Out, comparison)
		}
		_, err = fmt.Fprint(
			l.terminal.Out, report.LoadComparison(comparison, l.terminal.Width, l.terminal.Colour),
		)
		return err
	}
	return c
}

func readLoadResult(name string) (*load.Result, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read a result: %w", err)
	}
	defer f.Close()
	r, err := load.ReadResult(f)
	if err != nil {
		return nil, fmt.Errorf("read a result: %s: %w", name, err)
	}
	return r, nil
}
