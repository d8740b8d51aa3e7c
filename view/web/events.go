package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"culprit/measure"
)

// Limits of the events that are read from recorded statistics.
const (
	maxEvents      = 200  // marks that are not of processes: the newest
	maxProcesses   = 60   // marks of processes: those of the processes that were there longest
	maxNamed       = 3    // processes that started or ended at once and are named
	eventRows      = 1000 // rows of a statistic: the largest
	fineEventCells = 1500 // cells of a statistic with few rows
	eventCells     = 150  // and of one with many
	leastLife      = 2    // cells: a process that is there for less is no event
	maxEventGap    = 5    // cells that could not be read, and in which an event may have been
)

// eventSource is a statistic whose answers show events: nothing is measured for them.
type eventSource struct {
	query measure.Query
	cells int
	marks func(*measure.Answer) []timeMark
}

// table: never changed
var eventSources = []eventSource{
	{
		measure.Query{Stat: "process.rss", By: []string{"process", "pid"}, Top: eventRows},
		eventCells, processMarks,
	},
	{
		measure.Query{
			Stat: "net.device.info", By: []string{"netns", "device", "state"}, Top: eventRows,
		},
		fineEventCells, interfaceMarks,
	},
	{
		measure.Query{
			Stat: "net.device.carrier", By: []string{"netns", "device"}, Top: eventRows,
		},
		fineEventCells, carrierMarks,
	},
	{measure.Query{Stat: "memory.oom"}, fineEventCells, killMarks},
	{
		measure.Query{
			Stat: "kernel.messages", By: []string{"level", "event", "text"}, Top: eventRows,
		},
		fineEventCells, messageMarks,
	},
}

// EventQueries returns the queries of events that nothing else records.
func EventQueries() []string { return []string{"kernel.messages by level,event,text"} }

// events returns what happened on the machine in a time range, in the order of time, and the
// statistics that could not be read.
func (s *notes) events(
	ctx context.Context, over measure.Interval,
) (all []timeMark, lacks []string, err error) {
	for _, source := range eventSources {
		q := source.query
		q.Step = stepFor(over, source.cells, measure.Second)
		q.Over = grid(over, q.Step)
		a, err := s.Machine.Ask(ctx, q)
		var unknown *measure.Diagnostic
		switch {
		case ctx.Err() != nil:
			return nil, nil, context.Cause(ctx)
		case errors.Is(err, measure.ErrUnclear), errors.Is(err, measure.ErrUnsupported),
			errors.Is(err, measure.ErrDenied), errors.Is(err, measure.ErrTooLarge),
			errors.As(err, &unknown):
			lacks = append(lacks, string(q.Stat))
			continue
		case err != nil:
			return nil, nil, err
		}
		if why := unread(a); why != "" {
			lacks = append(lacks, string(q.Stat)+": "+why)
			continue
		}
		all = append(all, source.marks(a)...)
	}
	slices.SortStableFunc(all, func(a, b timeMark) int { return cmp.Compare(a.at, b.at) })
	return all, lacks, nil
}

// fewerEvents returns the events that are sent, in the order of time, and the number of the others:
// the newest, and of processes, which may come and go many times in a second, those that were there
// longest.
func fewerEvents(all []timeMark) (out []timeMark, left int) {
	var processes []timeMark
	for _, m := range all {
		if m.kind == "process" {
			processes = append(processes, m)
		} else {
			out = append(out, m)
		}
	}
	out = out[max(0, len(out)-maxEvents):]
	slices.SortStableFunc(processes, func(a, b timeMark) int {
		return cmp.Or(cmp.Compare(b.life, a.life), cmp.Compare(b.at, a.at))
	})
	out = append(out, processes[:min(maxProcesses, len(processes))]...)
	slices.SortStableFunc(out, func(a, b timeMark) int { return cmp.Compare(a.at, b.at) })
	return out, len(all) - len(out)
}

// unread returns why nothing was read in the whole time; "": something was, or it is not known why.
func unread(a *measure.Answer) string {
	if len(a.Notes) == 0 || slices.ContainsFunc(a.Elapsed, func(s measure.Span) bool {
		return s > 0
	}) {
		return ""
	}
	return a.Notes[0]
}

// seen reports for each cell whether the rows were read in it: something was measured, and a row is
// known.
func seen(a *measure.Answer) []bool {
	out := make([]bool, len(a.Elapsed))
	for i := range a.Series {
		for c, v := range a.Series[i].Values {
			out[c] = out[c] || v == v && a.Elapsed[c] > 0
		}
	}
	return out
}

// boundary returns the time at which cell c begins, and how exact a mark there is, in words. wide
// is the number of cells since the last one that was read.
func boundary(a *measure.Answer, c, wide int) (at measure.Time, exact string) {
	if span := measure.Span(wide) * a.Step; span > measure.Second {
		exact = " (± " + cellLength(span) + ")"
	}
	return a.Start.Add(measure.Span(c) * a.Step), exact
}

// cellLength formats a step in whole hours, minutes or seconds.
func cellLength(step measure.Span) string {
	switch {
	case step%(60*measure.Minute) == 0:
		return fmt.Sprintf("%d h", step/(60*measure.Minute))
	case step%measure.Minute == 0:
		return fmt.Sprintf("%d min", step/measure.Minute)
	}
	return fmt.Sprintf("%d s", step/measure.Second)
}

// processMarks returns when processes started and ended. The row of a process begins in the cell
// after its start, and ends in the one before its end.
func processMarks(a *measure.Answer) (all []timeMark) {
	type event struct {
		cell, wide int
		started    bool
	}
	type named struct {
		name string
		life int // cells
	}
	names := map[event][]named{}
	// add adds an event between two cells that were read. It may be anywhere between them.
	add := func(before, after int, started bool, one named) {
		if before >= 0 && after < len(a.Elapsed) && after-before <= maxEventGap {
			at := event{after, after - before, started}
			names[at] = append(names[at], one)
		}
	}
	read := seen(a)
	for i := range a.Series {
		values := a.Series[i].Values
		known := func(v float64) bool { return v == v }
		first := slices.IndexFunc(values, known)
		if first < 0 {
			continue
		}
		last := len(values) - 1
		for !known(values[last]) {
			last--
		}
		if first > 0 && last-first+1 < leastLife {
			continue
		}
		one := named{
			fmt.Sprintf("%s (pid %s)", cmp.Or(a.Label(i, 0), "?"), a.Label(i, 1)), last - first + 1,
		}
		before, after := first-1, last+1
		for before >= 0 && !read[before] {
			before--
		}
		for after < len(read) && !read[after] {
			after++
		}
		add(before, first, true, one)
		add(last, after, false, one)
	}
	for e, list := range names {
		at, exact := boundary(a, e.cell, e.wide)
		did := "ended"
		if e.started {
			did = "started"
		}
		slices.SortFunc(list, func(a, b named) int {
			return cmp.Or(cmp.Compare(b.life, a.life), strings.Compare(a.name, b.name))
		})
		life, more := list[0].life, ""
		if n := len(list) - maxNamed; n > 1 { // one more is named as well
			list, more = list[:maxNamed], fmt.Sprintf(" and %d other processes", n)
		}
		text := list[0].name
		for _, one := range list[1:] {
			text += ", " + one.name
		}
		text += more + " " + did + exact
		all = append(all, timeMark{at: at, kind: "process", text: text, life: life})
	}
	slices.SortFunc(all, func(a, b timeMark) int {
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.text, b.text))
	})
	return all
}

// interfaceName returns the name of an interface with its namespace, which are the first two labels
// of a row.
func interfaceName(a *measure.Answer, i int) string {
	if ns := a.Label(i, 0); ns != "" {
		return ns + "/" + a.Label(i, 1)
	}
	return a.Label(i, 1)
}

// interfaceMarks returns when interfaces appeared, disappeared and changed their state. A cell in
// which an interface had two states is skipped.
func interfaceMarks(a *measure.Answer) (all []timeMark) {
	const several = "\x00"
	states := map[string][]string{} // of each interface per cell; "": it was not there
	var names []string
	for i := range a.Series {
		name := interfaceName(a, i)
		if states[name] == nil {
			states[name] = make([]string, len(a.Elapsed))
			names = append(names, name)
		}
		of := states[name]
		for c, v := range a.Series[i].Values {
			switch {
			case !(v > 0):
			case of[c] == "":
				of[c] = cmp.Or(a.Label(i, 2), "in an unknown state")
			default:
				of[c] = several
			}
		}
	}
	read := seen(a)
	for _, name := range names {
		before, last := "", -maxEventGap-1 // the state in the last cell that was read
		for c, state := range states[name] {
			if !read[c] || state == several {
				continue
			}
			if wide := c - last; wide <= maxEventGap && state != before {
				at, exact := boundary(a, c, wide)
				text := name + " is " + state + ", was " + before
				switch {
				case before == "":
					text = name + " appeared: " + state
				case state == "":
					text = name + " disappeared"
				}
				all = append(all, timeMark{at: at, kind: "interface", text: text + exact})
			}
			before, last = state, c
		}
	}
	return all
}

// counted calls each for the cells of a row in which events were counted, with their number, the
// end of the cell, and its length in words if it is no second.
func counted(
	a *measure.Answer, i int, each func(n float64, at measure.Time, within string),
) {
	for c, v := range a.Series[i].Values {
		n := math.Round(v * a.Elapsed[c].Seconds())
		if !(n >= 1) {
			continue
		}
		at, within := boundary(a, c+1, 1)
		if within != "" {
			within = " (in the " + cellLength(a.Step) + " before)"
		}
		each(n, at, within)
	}
}

// carrierMarks returns when interfaces got and lost their carrier.
func carrierMarks(a *measure.Answer) (all []timeMark) {
	for i := range a.Series {
		counted(a, i, func(n float64, at measure.Time, within string) {
			times := "once"
			if n > 1 {
				times = fmt.Sprintf("%.0f times", n)
			}
			text := "the carrier of " + interfaceName(a, i) + " changed " + times + within
			all = append(all, timeMark{at: at, kind: "interface", text: text})
		})
	}
	return all
}

// killMarks returns when the kernel killed processes because memory was short.
func killMarks(a *measure.Answer) (all []timeMark) {
	for i := range a.Series {
		counted(a, i, func(n float64, at measure.Time, within string) {
			text := "the kernel killed a process: out of memory"
			if n > 1 {
				text = fmt.Sprintf("the kernel killed %.0f processes: out of memory", n)
			}
			all = append(all, timeMark{at: at, kind: "memory", text: text + within})
		})
	}
	return all
}
