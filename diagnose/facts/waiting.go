package facts

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// The functions of this file answer whether anybody waits for a resource, and how much. A rule that
// finds a busy resource asks before it calls that high: what is used and wanted by nobody else is a
// fact. They return nil when it is unknown: unknown is never "nobody".

// WaitsForDisk returns whether tasks stall on I/O while a disk is busy. Stalls are by PSI; without
// it, who waits is unknown.
func WaitsForDisk(d *Disk) *diagnose.Waits {
	v := d.Stall.Mean(d.Period.Mask)
	if v != v {
		return nil
	}
	w := &diagnose.Waits{Share: diagnose.Number(series.Clamp(v, 0, 1))}
	if v >= threshold.WaitsLeast {
		w.Text = fmt.Sprintf("some task is stalled on I/O %s of the time", phrase.Percent(v))
	}
	return w
}

// WaitsForCPU returns whether tasks wait for a CPU in a period. queued reports that more tasks are
// runnable than there are CPUs.
func WaitsForCPU(l *diagnose.Look, s diagnose.Period, queued bool) *diagnose.Waits {
	v := l.Table(Pressure).One("resource", "cpu", "scope", "some").Mean(s.Mask)
	switch {
	case v == v && (v >= threshold.WaitsLeast || queued):
		return &diagnose.Waits{Share: diagnose.Number(series.Clamp(v, 0, 1)),
			Text: fmt.Sprintf("some task waits for a CPU %s of the time", phrase.Percent(v))}
	case queued:
		return &diagnose.Waits{Share: diagnose.Number(measure.NaN),
			Text: "more tasks are runnable than there are CPUs"}
	case v == v:
		return &diagnose.Waits{Share: diagnose.Number(series.Clamp(v, 0, 1))}
	}
	return nil
}

// WaitsForLink returns whether a connection waits for a full link, other than the one transfer that
// fills it: connections of one process with one peer. flows are those through the link in its full
// direction, and share returns the part of the traffic that one carries. A connection waits if data
// are queued in its socket, if its segments are sent again, or if its round trip is several times
// its least.
func WaitsForLink(l *diagnose.Look, flows []*Flow, share func(*Flow) float64,
	mask []bool) *diagnose.Waits {
	if len(flows) == 0 || !l.Table(FlowRTT).Have() || !l.Table(FlowMinRTT).Have() ||
		!l.Table(FlowUnsent).Have() {
		return nil
	}
	type transfer struct{ process, peer string }
	of := func(x *Flow) transfer {
		_, peer := x.Pair()
		return transfer{PIDWord(x.PID) + " " + x.Process, peer}
	}
	groups := GroupFlows(flows, of)
	all, bulk := 0.0, 0.0
	for i, g := range groups {
		for _, x := range g.Flows {
			all += share(x)
			if i == 0 {
				bulk += share(x)
			}
		}
	}
	if all < 1-threshold.LinkResidual {
		return nil // the rest may be anybody
	}
	waiting := 0
	var first string
	for _, g := range groups[1:] {
		for _, x := range g.Flows {
			if why := x.waits(l, mask); why != "" {
				if waiting++; first == "" {
					first = phrase.ProcessName(x.Process, x.PID) + ": " + why
				}
			}
		}
	}
	switch {
	case waiting > 0:
		if waiting > 1 {
			first += fmt.Sprintf(", and %s", phrase.Plural(waiting-1, "other connection",
				"other connections"))
		}
		return &diagnose.Waits{Share: 1, Text: first}
	case bulk < 1-threshold.LinkResidual:
		return nil // many transfers limit each other
	}
	return &diagnose.Waits{Share: 0}
}

// waits returns why a connection waits for its link; "" when it does not. An unknown round trip
// waits: the connection shares a full queue.
func (f *Flow) waits(l *diagnose.Look, mask []bool) string {
	if v := f.RowIn(l.Table(FlowUnsent)).Mean(mask); v >= threshold.LinkUnsent {
		return phrase.Bytes(v) + " are not sent yet"
	}
	if v := f.RowIn(l.Table(FlowRetransmits)).Mean(mask); v > 0 {
		return "segments are sent again"
	}
	rtt, least := f.RowIn(l.Table(FlowRTT)).Mean(mask), f.RowIn(l.Table(FlowMinRTT)).Mean(mask)
	switch {
	case rtt != rtt || least != least:
		return "its round trip is unknown"
	case rtt >= threshold.LinkRTTFactor*least && rtt-least >= threshold.LinkRTTMore:
		return fmt.Sprintf("its round trip is %s, its least %s", phrase.Duration(rtt),
			phrase.Duration(least))
	}
	return ""
}
