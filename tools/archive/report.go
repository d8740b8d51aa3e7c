package main

import (
	"fmt"
	"io"
)

// report prints the results as Markdown: a row an engine and feed, then the questions.
func report(w io.Writer, all []result) {
	per := func(s space) float64 { return float64(s.Bytes) / float64(s.Samples) }
	fmt.Fprintln(w, "| feed | engine | samples | of them recorded | B a sample | with log and all | CPU ns a sample | resident MB | peak MB | reopened after a kill s |")
	fmt.Fprintln(w, "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, r := range all {
		fmt.Fprintf(w, "| %s | %s | %.1f M | %.1f M | %.3f | %.3f | %.0f | %.0f | %.0f | %.2f |\n", r.Feed, r.Engine, float64(r.Samples)/1e6, float64(r.Recorded)/1e6,
			per(r.Tables), per(r.Whole), r.CPU*1e9/float64(r.Samples), float64(r.Resident)/1e6, float64(r.Peak)/1e6, r.Reopen)
	}
	fmt.Fprintln(w, "\n| question | engine | ms | CPU ms | cells |")
	fmt.Fprintln(w, "|---|---|--:|--:|--:|")
	for _, r := range all {
		for _, q := range r.Questions {
			fmt.Fprintf(w, "| %s | %s | %.1f | %.1f | %d |\n", q.Name, r.Engine, q.Seconds*1e3, q.CPU*1e3, q.Cells)
		}
	}
}
