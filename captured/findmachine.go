package captured

import (
	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"fmt"
	"math"
)

// machine judges the CPU time of all CPUs together.
func (s *study) machine() {
	cpuCount := s.cpuCount()
	for _, t := range append(s.of(CPUs), s.of(Paging)...) {
		if !t.Has("idle") {
			continue
		}
		rows := wholeMachine(t)
		r := typical(rows, "idle")
		if r == nil {
			continue
		}
		s.judgeCPU(t, r, s.runQueue(), cpuCount)
	}
	s.judgeLoad(cpuCount)
}

// wholeMachine returns the rows for all CPUs together: those of "all", else the mean of the CPUs
// is the row of the middle one.
func wholeMachine(t *Table) []*Row {
	var all []*Row
	for _, r := range t.measured() {
		if w := r.Word("cpu"); w == "all" || w == "" || w == "-1" {
			all = append(all, r)
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, c := range cpusOf(t) {
		all = append(all, c.row)
	}
	return all
}

// cpuCount returns the number of CPUs that the tables show, 0 when unknown.
func (s *study) cpuCount() float64 {
	n := 0
	for _, t := range s.of(CPUs) {
		n = max(n, len(cpusOf(t)))
	}
	for _, t := range s.tables {
		n = max(n, t.cpus)
	}
	return float64(n)
}

// runQueue returns a row with the number of runnable tasks, nil when no table shows it.
func (s *study) runQueue() *Row {
	for _, t := range s.of(Paging) {
		if r := typical(t.measured(), "r"); r != nil {
			return r
		}
	}
	for _, t := range s.of(Queue) {
		if r := typical(t.measured(), "runnable"); r != nil {
			return r
		}
	}
	return nil
}

// runnable returns the number of runnable tasks of a row; NaN without one.
func runnable(r *Row) float64 {
	if r == nil {
		return math.NaN()
	}
	if v := r.Num("r"); v == v {
		return v
	}
	return r.Num("runnable")
}

func (s *study) judgeCPU(t *Table, r, queue *Row, cpuCount float64) {
	idle, wait, steal := r.Num("idle")/100, zero(r.Num("iowait"))/100, zero(r.Num("steal"))/100
	s.shown["cpu"] = true
	waiting := runnable(queue)
	switch {
	case steal >= threshold.CPUSteal:
		f := s.find("cpu-steal", "machine", diagnose.High, 0.85, diagnose.Culprit{Kind: "host",
			Name: "hypervisor"}, fmt.Sprintf("The hypervisor runs other guests for %s of the "+
			"CPU time (steal).", phrase.Percent(steal)))
		evidence(f, r, steal, "1", "steal %s, idle %s", phrase.Percent(steal),
			phrase.Percent(idle))
	case wait >= threshold.IOStall && idle+wait > threshold.CPUNearlyIdle:
		f := s.find("io-stalled", "machine", diagnose.Medium, 0.7, diagnose.Culprit{Kind: "disk",
			Name: "I/O"}, fmt.Sprintf("CPUs are idle %s of the time while tasks wait for I/O.",
			phrase.Percent(wait)))
		evidence(f, r, wait, "1", "iowait %s, idle %s", phrase.Percent(wait), phrase.Percent(idle))
		f.Verify = "iostat -x 1 3"
	case idle < threshold.CPUNoIdle || idle < threshold.CPUNearlyIdle && cpuCount > 0 &&
		waiting >= threshold.CPUQueue*cpuCount:
		s.saturated(r, queue, idle, cpuCount)
	default:
		s.clear("cpu", "%s idle (%s, %s)", phrase.Percent(idle), t.Tool, r.Place())
	}
}

func (s *study) saturated(r, queue *Row, idle, cpuCount float64) {
	if s.find1("cpu-saturated/machine") != nil {
		return
	}
	severity := diagnose.Medium
	waiting := runnable(queue)
	if waiting >= threshold.CPUQueue*max(cpuCount, 1) {
		severity = diagnose.High
	}
	name, top := "machine", s.topProcess()
	claim := fmt.Sprintf("The CPUs are saturated: %s idle, %s", phrase.Percent(idle), modes(r))
	if top != nil {
		name = top.Word("command")
		claim += fmt.Sprintf("; %s uses most, %s of a CPU", phrase.Clean(name),
			percent(top.Num("cpu")))
	}
	kind := "host"
	if top != nil {
		kind = "process"
	}
	f := s.find("cpu-saturated", "machine", severity, 0.85,
		diagnose.Culprit{Kind: kind, Name: name}, claim+".")
	evidence(f, r, idle, "1", "idle %s, %s", phrase.Percent(idle), modes(r))
	if waiting == waiting && cpuCount > 0 {
		evidence(f, queue, waiting, "task", "%s runnable tasks for %s CPUs",
			phrase.Count(waiting), phrase.Count(cpuCount))
	} else if waiting == waiting {
		evidence(f, queue, waiting, "task", "%s runnable tasks", phrase.Count(waiting))
		caveat(f, "The tables do not show the number of CPUs.")
	}
	if top != nil {
		evidence(f, top, top.Num("cpu")/100, "1", "%s: %s of a CPU", top.Word("command"),
			percent(top.Num("cpu")))
	}
	f.Verify = "mpstat -P ALL 1 5; pidstat 1 5"
}

// judgeLoad compares the load average with the number of CPUs.
func (s *study) judgeLoad(cpuCount float64) {
	for _, t := range append(s.of(Load), s.of(Queue)...) {
		r := typical(t.measured(), "load1")
		if r == nil {
			continue
		}
		load := r.Num("load1")
		if f := s.find1("cpu-saturated/machine"); f != nil {
			evidence(f, r, load, "task", "load average %s", phrase.Digits(load))
			return
		}
		if cpuCount > 0 && load >= threshold.DoubtQueue*cpuCount {
			f := s.find("load-high", "machine", diagnose.Low, 0.7,
				diagnose.Culprit{Kind: "host", Name: "load"}, fmt.Sprintf(
					"The load average is %s on %s CPUs: tasks run or wait for I/O.",
					phrase.Digits(load), phrase.Count(cpuCount)))
			evidence(f, r, load, "task", "load average %s", phrase.Digits(load))
			return
		}
		switch {
		case load <= max(cpuCount, 1):
			s.clear("cpu", "load average %s (%s, %s)", phrase.Digits(load), t.Tool, r.Place())
		default:
			s.shown["cpu"] = true
		}
	}
}

// interruptTime finds CPUs that spend half of their time in interrupt handlers.
func (s *study) interruptTime() {
	for _, t := range s.of(Interrupts) {
		names, by := group(t.Rows, "cpu")
		for _, cpu := range names {
			devices, rows := group(by[cpu], "device")
			sum, most := 0.0, (*Row)(nil)
			for _, d := range devices {
				r := typical(rows[d], "share")
				if r == nil {
					continue
				}
				sum += r.Num("share") / 100
				if most == nil || r.Num("share") > most.Num("share") {
					most = r
				}
			}
			if sum < threshold.SoftirqHalf {
				s.shown["cpu"] = true
				continue
			}
			device := most.Word("device")
			if s.find1("interface-unused/"+device) != nil {
				continue
			}
			f := s.find("cpu-softirq", "cpu"+cpu, diagnose.Medium, 0.8,
				diagnose.Culprit{Kind: "interface", Name: device, Interface: device}, fmt.Sprintf(
					"Interrupts take %s of CPU %s; those of %s take most, %s.",
					phrase.Percent(sum), cpu, device, percent(most.Num("share"))))
			for _, d := range devices {
				r := typical(rows[d], "share")
				if r != nil && r.Num("share") >= 100*threshold.SoftirqPart {
					evidence(f, r, r.Num("share")/100, "1", "%s: %s of CPU %s, %s interrupts/s",
						d, percent(r.Num("share")), cpu, phrase.Count(r.Num("rate")))
				}
			}
			caveat(f, "Whether the traffic is wanted is shown by packet rates: nicstat 1.")
		}
	}
}
