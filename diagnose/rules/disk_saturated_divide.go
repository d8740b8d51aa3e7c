package rules

import (
	"culprit/diagnose"
	"culprit/diagnose/attribute"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// leastIO is the least share of the traffic of a disk for which a program is named.
const leastIO = 0.3

// divideDisk divides the busy time of a disk among programs by their bytes. moved is what the disk
// moved.
func divideDisk(l *diagnose.Look, d *facts.Disk, all []facts.Program,
	moved float64) *attribute.Result {
	s, total := d.Period, min(d.Busy.Mean(d.Period.Mask), 1)
	parts := make([]float64, len(all))
	for i, a := range all {
		parts[i] = total * a.Rate / moved
	}
	wants, known := facts.DiskWants(l, all, parts, total, series.Or(d.Queue.Mean(s.Mask), 1),
		s.Mask)
	title := facts.DiskTitle(l, d.Name)
	basis := "estimated: busy time by bytes, and by how long programs wait for the disk"
	if !known {
		basis = "estimated: busy time by bytes; unknown: who waits for the disk and would use " +
			"what is left"
	}
	return attribute.Divide(&attribute.Resource{Name: "busy time of " + phrase.Clean(d.Name),
		Unit: string(measure.Ratio), Total: total, Limit: threshold.DiskBusyShare,
		Least: leastIO,
		Users: facts.Users(l.Table(facts.ProcessIO), all,
			func(i int) float64 { return parts[i] }, func(i int) float64 { return wants[i] }),
		State: func(use float64) string {
			return title + " would be busy " + phrase.Percent(use) + " of the time"
		},
		Amount: phrase.Percent, Basis: basis,
		RestIs: "metadata, or data that the kernel wrote for programs that wrote it before"})
}
