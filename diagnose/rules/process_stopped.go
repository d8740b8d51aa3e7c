package rules

import (
	"fmt"
	"strconv"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// processStopped finds processes that do not run since a signal or a debugger stopped them, and
// those that a tracer stops again and again.
func processStopped() diagnose.Rule {
	return diagnose.Rule{
		ID: "process-stopped", Checks: "stopped and traced processes",
		Finds: []string{facts.ProcessStopped},
		Uses: []string{facts.ProcessSwitches, facts.ListenQueue, facts.FlowQueue,
			facts.PipeWaiters},
		Check: func(l *diagnose.Look) {
			named := map[string]*diagnose.Finding{}
			for _, r := range stoppedRows(l) {
				checkStopped(l, r, named)
			}
		},
	}
}

// stoppedRows returns the rows of stopped processes, those for which others wait first.
func stoppedRows(l *diagnose.Look) []*diagnose.Row {
	var first, then []*diagnose.Row
	for _, r := range l.Table(facts.ProcessStopped).Rows {
		if pid, _ := strconv.Atoi(r.Word("pid")); waitForProcess(l, pid) != nil {
			first = append(first, r)
		} else {
			then = append(then, r)
		}
	}
	return append(first, then...)
}

// checkStopped adds a finding, or a line to the one about a process with the same name in named.
func checkStopped(l *diagnose.Look, r *diagnose.Row, named map[string]*diagnose.Finding) {
	t := r.Table
	s, _ := diagnose.Lasting(t, nil, func(c int) bool { return r.At(c) >= 1 })
	if s.Held < threshold.StoppedLeast {
		return
	}
	pid, _ := strconv.Atoi(r.Word("pid"))
	name := phrase.ProcessName(r.Word("process"), pid)
	switches := switchesOf(l, pid)
	if r.Word("by") == "tracer" && switches >= threshold.TracedSwitches {
		accuseTracer(l, r, s, name, switches)
		return
	}
	if s.Share() < threshold.StoppedShare {
		return
	}
	if f := named[r.Word("process")]; f != nil {
		f.AddEvidence(t, s, r.Query(), r.Mean(s.Mask), t.Unit,
			name+" is stopped too, for "+phrase.Percent(s.Share())+" of the time")
		return
	}
	cause := "a signal (SIGSTOP, or Ctrl-Z in its terminal)"
	if tracer, by := tracerOf(r); tracer > 0 {
		cause = by + ", which traces it"
	} else if r.Word("by") == "tracer" {
		cause = "a tracer, such as a debugger"
	}
	waits := waitForProcess(l, pid)
	severity, what := diagnose.Low, ""
	if waits != nil {
		severity, what = diagnose.High, ", and others wait for it"
	}
	f := l.Found(phrase.Clean(r.Word("process")), severity, 0.9,
		diagnose.Culprit{Kind: "process", Name: r.Word("process"), PID: pid}, fmt.Sprintf(
			"%s is stopped for %s, by %s%s.", name, s, cause, what))
	named[r.Word("process")] = f
	f.SetEffect(s.Share())
	f.AddEvidence(t, s, r.Query(), r.Mean(s.Mask), t.Unit,
		"stopped for "+phrase.Percent(s.Share())+" of the time")
	if waits != nil {
		f.AddEvidence(waits.Table, s, waits.Query(), waits.Mean(nil), waits.Table.Unit,
			waitsFor(waits))
	}
	for _, rule := range []string{"tcp-listen-overflow", "tcp-stalled", "http-slow",
		"pipe-wait"} {
		f.Cover(rule, func(o *diagnose.Finding) bool { return o.Culprit.PID == pid })
	}
	f.Verify = fmt.Sprintf("grep -E 'State|TracerPid' /proc/%d/status", pid)
	if r.Word("by") == "signal" {
		f.Fix = &diagnose.Fix{Command: fmt.Sprintf("kill -CONT %d", pid),
			Undo: fmt.Sprintf("kill -STOP %d", pid),
			Risk: "low: it continues; somebody may have stopped it on purpose"}
	}
}

// accuseTracer accuses the tracer of a process that it stops again and again.
func accuseTracer(l *diagnose.Look, r *diagnose.Row, s diagnose.Period, name string,
	switches float64) {
	t := r.Table
	pid, _ := strconv.Atoi(r.Word("pid"))
	tracer, by := tracerOf(r)
	f := l.Found(phrase.Clean(r.Word("process")), diagnose.Medium, 0.9,
		diagnose.Culprit{Kind: "process", Name: r.Word("tracername"), PID: tracer}, fmt.Sprintf(
			"%s traces %s and stops it again and again: it was stopped for %s.", by, name, s))
	f.SetEffect(s.Share())
	f.AddEvidence(t, s, r.Query(), r.Mean(s.Mask), t.Unit,
		"stopped for "+phrase.Percent(s.Share())+" of the time")
	ss := l.Table(facts.ProcessSwitches)
	f.AddEvidence(ss, s, ss.QueryOf(nil, "pid", strconv.Itoa(pid), "type", "voluntary"), switches,
		ss.Unit, name+" goes to sleep "+phrase.Count(switches)+" times per second")
	ours := func(o *diagnose.Finding) bool {
		return o.Culprit.PID == pid || tracer > 0 && o.Culprit.PID == tracer
	}
	f.Cover("switch-storm", ours)
	f.Cover("cpu-one-saturated", ours)
	f.AddCaveat(0, "Somebody may need what the tracer prints.")
	f.Verify = fmt.Sprintf("grep TracerPid /proc/%d/status; pidstat -w -p %d 1 3", pid, pid)
}

// tracerOf returns the tracer of a stopped process, 0 if it is not known, and its name.
func tracerOf(r *diagnose.Row) (pid int, name string) {
	pid, _ = strconv.Atoi(r.Word("tracer"))
	if pid == 0 {
		return 0, "A tracer"
	}
	return pid, phrase.ProcessName(r.Word("tracername"), pid)
}

// switchesOf returns the voluntary switches of a process per second.
func switchesOf(l *diagnose.Look, pid int) float64 {
	return series.Or(l.Table(facts.ProcessSwitches).One("pid", strconv.Itoa(pid), "type",
		"voluntary").Part(nil), 0)
}

// waitForProcess returns a queue of connections or bytes that a process does not take; nil: none.
func waitForProcess(l *diagnose.Look, pid int) *diagnose.Row {
	word := strconv.Itoa(pid)
	for _, r := range l.Table(facts.ListenQueue).Where("pid", word) {
		if r.Mean(nil) > 0 {
			return r
		}
	}
	for _, r := range l.Table(facts.PipeWaiters).Where("reader", word) {
		if r.Part(nil) >= threshold.PipeWaiting {
			return r
		}
	}
	for _, r := range l.Table(facts.FlowQueue).Where("pid", word, "direction", "rx") {
		if r.Mean(nil) > 0 {
			return r
		}
	}
	return nil
}

// waitsFor describes such a queue.
func waitsFor(r *diagnose.Row) string {
	if r.Word("reader") != "" {
		pid, _ := strconv.Atoi(r.Word("pid"))
		return phrase.ProcessName(r.Word("process"), pid) + " waits until it reads what that writes"
	}
	if peer := r.Word("peer"); peer != "" {
		return phrase.Bytes(r.Mean(nil)) + " from " + phrase.Clean(facts.PlainAddress(peer)) +
			" wait to be read"
	}
	return "connections that wait at port " + phrase.Clean(r.Word("localport")) + ": " +
		phrase.Count(r.Mean(nil))
}
