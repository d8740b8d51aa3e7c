package report

import (
	"fmt"

	"culprit/load"
	"culprit/measure"
	"culprit/view"
)

// datagramColumns returns the columns of datagrams.
func datagramColumns() []view.Column {
	return []view.Column{
		{Name: "datagrams", Head: "Datagr", Width: 8, Help: "datagrams that arrived"},
		{Name: "lost", Head: "Lost", Width: 7, Help: "datagrams that did not arrive"},
		{
			Name: "lost_share", Head: "Lost%", Show: view.Percent, Decimals: 2, Width: 6,
			Help: "share of the datagrams that did not arrive",
		},
		{
			Name: "reordered", Head: "Reord", Width: 6,
			Help: "datagrams that arrived after a later one",
		},
		{
			Name: "jitter_ns", Head: "Jitter", Show: view.Brief, Width: 7,
			Help: "smoothed change of the transit time (RFC 3550), mean of the connections",
		},
	}
}

// datagramCells returns the cells of datagramColumns; t is nil when the receiver is unknown.
func datagramCells(t *load.Traffic) []view.Cell {
	if t == nil || t.UDP == nil {
		none := view.N(measure.NaN)
		return []view.Cell{none, none, none, none, none}
	}
	d := t.UDP
	return []view.Cell{
		view.N(float64(d.Count)), view.N(float64(d.Lost)), view.N(float64(d.LostShare())),
		view.N(float64(d.Reordered)), view.N(float64(d.Jitter)),
	}
}

// lossLine describes what was lost over UDP, or of connections; "": the test has none.
func lossLine(t *load.Test, d *load.Datagrams) string {
	switch {
	case d == nil || !d.Lost.Known():
		return ""
	case t.Kind == load.Stream:
		return fmt.Sprintf("%.0f of %.0f datagrams lost (%.3g %%), %.0f reordered, jitter %s",
			float64(d.Lost), float64(d.Count)+float64(d.Lost), float64(d.LostShare())*100,
			float64(d.Reordered), span(d.Jitter))
	case t.Connect:
		return fmt.Sprintf("%.0f of %.0f connections failed", float64(d.Lost),
			float64(d.Count)+float64(d.Lost))
	}
	return fmt.Sprintf("%.0f of %.0f transactions without a response", float64(d.Lost),
		float64(d.Count)+float64(d.Lost))
}
