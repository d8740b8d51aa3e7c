package term

import (
	"fmt"
	"os"

	"culprit/load"
	"culprit/view"

	"github.com/spf13/cobra"
)

func (p Program) loadCompare() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "compare FIRST.json SECOND.json",
		Short: "by how much two results differ, and whether that could be chance",
		Long: reflow(`Compares two results that -o has kept: the ratio of the means with the interval in which it lies with 95 %, were runs independent (Welch, of the logarithms), percentiles of latency side by side, and the CPU
time for each GB or transaction. Where the interval has no difference in it, too, it says that the runs can't show one.`, helpWidth),
		Example: examples([]view.Example{
			{Line: "culprit load compare 1g.json 10g.json", Means: "the second one by the first"},
			{Line: "culprit load compare before.json after.json --json", Means: "for programs"},
		}),
		Args: cobra.ArbitraryArgs,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as one JSON object")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) != 2 {
			return usagef("give two results: culprit load compare FIRST.json SECOND.json")
		}
		if p.Reading != nil {
			p.Reading()
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
			return writeJSON(p.Terminal.Out, comparison)
		}
		_, err = fmt.Fprint(p.Terminal.Out, view.LoadComparison(comparison, p.Terminal.Width, p.Terminal.Colour))
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
