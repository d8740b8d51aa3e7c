package term

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"culprit/load"
	"culprit/view"

	"github.com/spf13/cobra"

	"culprit/view/report"
)

func (l *loadCommands) compare() *cobra.Command {
	asJSON, output := false, ""
	c := &cobra.Command{
		Use:   "compare FIRST.json SECOND.json",
		Short: "the difference of two results, and whether it may be chance",
		Long: reflow(
			`Compares two results of -o: the ratio of the means with its 95 % interval, for independent runs
(Welch, of the logarithms), percentiles of latency side by side, and the CPU time per GB or per
transaction. If the interval includes "no difference", the difference is not significant, and it says
so. With -o it draws a chart of both: the throughput or transactions of each interval, and the
percentiles of latency.`,
			helpWidth,
		),
		Example: examples([]view.Example{
			{
				Line:  "culprit load compare 1g.json 10g.json",
				Means: "the second relative to the first",
			},
			{Line: "culprit load compare before.json after.json --json", Means: "as JSON"},
			{
				Line:  "culprit load compare before.json after.json -o chart.svg",
				Means: "and a chart, for any browser",
			},
		}),
		Args: cobra.ArbitraryArgs,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as one JSON object")
	c.Flags().StringVarP(&output, "output", "o", "", "draw a chart too: a file .svg or .html")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) != 2 {
			return usagef("give two results: culprit load compare FIRST.json SECOND.json")
		}
		if kind := filepath.Ext(output); output != "" && kind != ".svg" && kind != ".html" {
			return usagef("-o %s: a chart is a file .svg or .html", output)
		}
		chart, err := createChart(output)
		if err != nil {
			return err
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
		case output != "":
			if err := writeChart(chart, [2]string{args[0], args[1]}, results); err != nil {
				return err
			}
		}
		if asJSON {
			return writeJSON(l.terminal.Out, comparison)
		}
		_, err = fmt.Fprint(
			l.terminal.Out, report.LoadComparison(comparison, l.terminal.Width, l.terminal.Colour),
		)
		return err
	}
	return c
}

// createChart creates the file of a chart, before the process drops the right to do so; nil for
// no name.
func createChart(name string) (*os.File, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("write the chart: %w", err)
	}
	return f, nil
}

// writeChart writes a chart of two results to a file and closes it.
func writeChart(f *os.File, names [2]string, results [2]*load.Result) error {
	text := report.LoadChart(names, results[0], results[1])
	if filepath.Ext(f.Name()) == ".html" {
		text = report.LoadChartPage(names, text)
	}
	_, err := f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the chart: %w", err)
	}
	return nil
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
