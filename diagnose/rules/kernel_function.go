package rules

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

// kernelFunction finds single kernel functions that take a large share of the busy time.
func kernelFunction() diagnose.Rule {
	return diagnose.Rule{
		ID: "kernel-function", Checks: "functions of the kernel",
		Needs: []string{facts.StackSamples, facts.StackRate},
		Check: func(l *diagnose.Look) {
			k, ok := facts.EnoughSamples(l)
			if !ok {
				return
			}
			var cpus []string
			for cpu := range k.Hz {
				cpus = append(cpus, cpu)
			}
			sort.Slice(cpus, func(i, j int) bool {
				return len(cpus[i]) < len(cpus[j]) || len(cpus[i]) == len(cpus[j]) &&
					cpus[i] < cpus[j]
			})
			reported := map[string]bool{}
			for _, cpu := range append([]string{""}, cpus...) { // the whole machine first
				want := facts.AnyCPU
				if cpu != "" {
					want = facts.OnCPU(cpu)
				}
				for _, t := range suspectFunctions(k, want) {
					if !reported[t.Name] && len(reported) < threshold.FunctionMost &&
						accuseFunction(l, k, t, cpu, want) {
						reported[t.Name] = true
					}
				}
			}
		},
	}
}

// suspectFunctions returns the functions that take much time in the wanted rows. Functions that
// spin on locks count as one, with the name of the most frequent one.
func suspectFunctions(k *facts.Samples, want func(*facts.Sample) bool) (out []*facts.FunctionTime) {
	busy := k.Sum(nil, want)
	if busy < threshold.FunctionBusy {
		return nil
	}
	var locks *facts.FunctionTime
	for _, t := range k.Functions(nil, want) {
		switch facts.KindOf(t.Name) {
		case facts.Everyday:
			continue
		case facts.Contention:
			if locks == nil {
				locks = t
				out = append(out, t)
				continue
			}
			locks.Self += t.Self
			for in, v := range t.Entries {
				locks.Entries[in] += v
			}
			continue
		}
		out = append(out, t)
	}
	var much []*facts.FunctionTime
	for _, t := range out {
		if t.Self >= functionThreshold(t.Name)*busy && t.Self >= threshold.FunctionLeast {
			much = append(much, t)
		}
	}
	return much
}

// functionThreshold returns the share from which a function is reported.
func functionThreshold(name string) float64 {
	if facts.TableWalkers()[name] != "" || facts.KindOf(name) == facts.Contention {
		return threshold.FunctionShare
	}
	return threshold.FunctionMuch
}

func accuseFunction(l *diagnose.Look, k *facts.Samples, t *facts.FunctionTime, cpu string,
	want func(*facts.Sample) bool) bool {
	locks := facts.KindOf(t.Name) == facts.Contention
	is := func(r *facts.Sample) bool {
		if len(r.Path) == 0 || !want(r) {
			return false
		}
		name := facts.OwnFunction(r.Path)
		return name == t.Name || locks && facts.KindOf(name) == facts.Contention
	}
	self, all := make([]float64, len(k.Table.Seconds)), make([]float64, len(k.Table.Seconds))
	callers, payers, cpus := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, r := range k.Rows {
		if !want(r) {
			continue
		}
		mine := is(r)
		for c := range self {
			v := k.CellShare(r, r.At(c))
			if all[c] += v; mine {
				self[c] += v
			}
		}
		if !mine {
			continue
		}
		v := k.Share(r, nil)
		cpus[r.CPU] += v
		for i, name := range r.Path {
			if name == facts.OwnFunction(r.Path) {
				// the caller that needs the lock, and not how it is taken
				for i++; i < len(r.Path) && locks && facts.KindOf(r.Path[i]) != ""; i++ {
				}
				if i < len(r.Path) {
					callers[r.Path[i]] += v
				}
				break
			}
		}
		if r.Entry.Kind != facts.InSoftirq && r.Entry.Kind != facts.InInterrupt {
			payers[r.Process+"\x00"+r.PID] += v
		}
	}
	s, ok := diagnose.Lasting(k.Table, nil, func(c int) bool {
		return self[c] >= functionThreshold(t.Name)/2*all[c] && self[c] > 0
	})
	if !ok {
		return false
	}
	took, busy := k.Table.Mean(self, s.Mask), k.Table.Mean(all, s.Mask)
	share := took / busy
	if from := facts.Largest(callers); from == "__napi_poll" || from == "napi_poll" {
		return false // a driver that takes packets from its device, of which there may be many
	}
	if !(share >= functionThreshold(t.Name)) || took < threshold.FunctionLeast {
		return false
	}
	of := "the busy time of the CPUs"
	query := k.Table.QueryOf([]string{"kernel"})
	if cpu != "" {
		of = "CPU " + phrase.Clean(cpu) + "'s busy time"
		query = k.Table.QueryOf([]string{"kernel"}, "cpu", cpu)
	}
	walked := facts.TableWalkers()[t.Name]
	severity, confidence := diagnose.Low, 0.5
	switch {
	case walked != "" || locks:
		severity, confidence = diagnose.Medium, 0.7
	case share >= threshold.FunctionNearly:
		severity, confidence = diagnose.Medium, 0.6
	}
	claim := fmt.Sprintf("The kernel function %s takes %s of %s, for %s, %s", phrase.Clean(t.Name),
		phrase.Percent(share), of, s, t.MainEntry())
	if locks {
		claim = fmt.Sprintf("CPUs spin on kernel locks (%s) %s of %s, for %s, %s",
			phrase.Clean(t.Name), phrase.Percent(share), of, s, t.MainEntry())
	}
	if walked != "" {
		claim += ": it searches the table " + walked
	}
	f := l.Found(phrase.Clean(t.Name), severity, confidence,
		diagnose.Culprit{Kind: "function", Name: t.Name}, claim+".")
	f.AddEvidence(k.Table, s, query, took, "CPU",
		fmt.Sprintf("%s takes %s of a CPU (sampled)", phrase.Clean(t.Name),
			phrase.Percent(took))).CompareTo(busy, "busy CPUs")
	if from := facts.Largest(callers); callers[from] > 0 {
		f.AddEvidence(k.Table, s, query, callers[from], "CPU",
			fmt.Sprintf("%s of it is called by %s",
				phrase.Percent(callers[from]/facts.Total(callers)), phrase.Clean(from)))
	}
	f.Subject = &facts.FunctionSubject{Name: t.Name, Entry: t.MainEntry()}
	if one := facts.Largest(cpus); cpus[one] >= 0.9*facts.Total(cpus) {
		facts.SubjectFunction(f).CPU = one
	}
	f.SetExplains(share)
	f.SetEffect(took)
	pid := 0
	if payer := facts.Largest(payers); payers[payer] > 0 && payers[payer] >= 0.5*facts.Total(cpus) {
		process, number, _ := strings.Cut(payer, "\x00")
		facts.SubjectFunction(f).Process = process
		pid, _ = strconv.Atoi(number)
		f.AddEvidence(k.Table, s, k.Table.QueryOf([]string{"kernel"}, "pid", number), payers[payer],
			"CPU", fmt.Sprintf("%s of it is for %s",
				phrase.Percent(payers[payer]/facts.Total(cpus)),
				phrase.ProcessName(process, pid)))
	}
	if walked == "" && !locks {
		f.AddCaveat(0, "The usual cost of this function is unknown: a program may need exactly "+
			"that.")
	}
	if locks {
		f.Verify = "culprit locks 1 5; culprit profile --locks --kernel --for 10s"
	} else {
		f.Verify = facts.ProfileCommand(cpu)
		if pid > 0 {
			f.Verify = fmt.Sprintf("culprit profile --pid %d --for 10s", pid)
		}
	}
	return true
}
