package diagnose

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// When one function of the kernel counts as taking too much.
const (
	// functionShare: of the time in which CPUs had something to do, for those of which it is known what makes them slow: searches through tables, and waiting for locks.
	functionShare = 0.15
	// functionMuch: for any other. On machines that are well the work is spread over many functions: of streams of TCP and small datagrams at full speed, pipes, messages, compilers,
	// searches through files and system calls that do nothing, none but those of everyday had more than a tenth.
	functionMuch = 0.30
	// functionNearly: and from here on the CPUs do little else.
	functionNearly = 0.5
	// functionBusy: of a CPU, or of all of them together, that have something to do: less holds nobody up.
	functionBusy = 0.5
	// functionLeast: of a CPU. Ten samples a second.
	functionLeast = 0.1
	// functionMost: findings; more are the same trouble seen twice.
	functionMost = 2
)

// kernelFunction finds single functions of the kernel that take a large part of the busy time.
func kernelFunction() Rule {
	return Rule{
		ID: "kernel-function", Checks: "functions of the kernel",
		Needs: []string{stackSamples, stackRate},
		Check: func(l *Look) {
			k := stacksOf(l)
			if !k.enough(nil) {
				l.Unchecked("CPUs were sampled for too short a time, or it is not known how often")
				return
			}
			var cpus []string
			for cpu := range k.hz {
				cpus = append(cpus, cpu)
			}
			sort.Slice(cpus, func(i, j int) bool {
				return len(cpus[i]) < len(cpus[j]) || len(cpus[i]) == len(cpus[j]) && cpus[i] < cpus[j]
			})
			told := map[string]bool{}
			for _, cpu := range append([]string{""}, cpus...) { // the machine first
				want := everywhere
				if cpu != "" {
					want = on(cpu)
				}
				for _, t := range suspects(k, want) {
					if !told[t.name] && len(told) < functionMost && accuseFunction(l, k, t, cpu, want) {
						told[t.name] = true
					}
				}
			}
		},
	}
}

// suspects gives the functions that take much of what the wanted rows do: those for which one turns round for locks as one, by the name of the one most met.
func suspects(k *stacks, want func(*stackRow) bool) (out []*taken) {
	busy := k.sum(nil, want)
	if busy < functionBusy {
		return nil
	}
	var locks *taken
	for _, t := range k.functions(nil, want) {
		switch kindOf(t.name) {
		case everyday:
			continue
		case contention:
			if locks == nil {
				locks = t
				out = append(out, t)
				continue
			}
			locks.self += t.self
			for in, v := range t.in {
				locks.in[in] += v
			}
			continue
		}
		out = append(out, t)
	}
	var much []*taken
	for _, t := range out {
		if t.self >= threshold(t.name)*busy && t.self >= functionLeast {
			much = append(much, t)
		}
	}
	return much
}

// threshold gives the share from where on a function is told.
func threshold(name string) float64 {
	if walkers()[name] != "" || kindOf(name) == contention {
		return functionShare
	}
	return functionMuch
}

// onFunction is where the function of a finding runs, for findings that tell of it themselves.
type onFunction struct {
	name, cpu, process string // cpu "": on several; process "": of softirqs, interrupts, or of many
	in                 way
}

func accuseFunction(l *Look, k *stacks, t *taken, cpu string, want func(*stackRow) bool) bool {
	locks := kindOf(t.name) == contention
	is := func(r *stackRow) bool {
		if len(r.path) == 0 || !want(r) {
			return false
		}
		name := own(r.path)
		return name == t.name || locks && kindOf(name) == contention
	}
	self, all := make([]float64, len(k.table.Seconds)), make([]float64, len(k.table.Seconds))
	callers, payers, cpus := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, r := range k.rows {
		if !want(r) {
			continue
		}
		mine := is(r)
		for c := range self {
			v := k.part(r, r.At(c))
			if all[c] += v; mine {
				self[c] += v
			}
		}
		if !mine {
			continue
		}
		v := k.share(r, nil)
		cpus[r.cpu] += v
		for i, name := range r.path {
			if name == own(r.path) {
				for i++; i < len(r.path) && locks && kindOf(r.path[i]) != ""; i++ { // who wants the lock, and not how it is taken
				}
				if i < len(r.path) {
					callers[r.path[i]] += v
				}
				break
			}
		}
		if r.in.kind != inSoftirq && r.in.kind != inInterrupt {
			payers[r.process+"\x00"+r.pid] += v
		}
	}
	s, ok := lasting(k.table, nil, func(c int) bool { return self[c] >= threshold(t.name)/2*all[c] && self[c] > 0 })
	if !ok {
		return false
	}
	took, busy := k.table.mean(self, s.mask), k.table.mean(all, s.mask)
	share := took / busy
	if from := most(callers); from == "__napi_poll" || from == "napi_poll" {
		return false // a driver that takes packets from its device, of which there may be many
	}
	if !(share >= threshold(t.name)) || took < functionLeast {
		return false
	}
	of := "the time in which CPUs have something to do"
	sentence := k.table.Asking([]string{"kernel"})
	if cpu != "" {
		of = "CPU " + clean(cpu) + "'s busy time"
		sentence = k.table.Asking([]string{"kernel"}, "cpu", cpu)
	}
	walked := walkers()[t.name]
	severity, confidence := Low, 0.5
	switch {
	case walked != "" || locks:
		severity, confidence = Medium, 0.7
	case share >= functionNearly:
		severity, confidence = Medium, 0.6
	}
	claim := fmt.Sprintf("One function of the kernel, %s, takes by itself %s of %s, for %s, %s", clean(t.name), percent(share), of, s, t.mostly())
	if locks {
		claim = fmt.Sprintf("CPUs turn round for locks of the kernel (%s) %s of %s, for %s, %s", clean(t.name), percent(share), of, s, t.mostly())
	}
	if walked != "" {
		claim += ": it looks up the table " + walked
	}
	f := l.Found(clean(t.name), severity, confidence, Culprit{Kind: "function", Name: t.name}, claim+".")
	f.proof(k.table, s, sentence, took, "CPU", fmt.Sprintf("%s takes %s of a CPU by itself (sampled)", clean(t.name), percent(took))).than(busy, "busy CPUs")
	if from := most(callers); callers[from] > 0 {
		f.proof(k.table, s, sentence, callers[from], "CPU", fmt.Sprintf("%s of it is called by %s", percent(callers[from]/total(callers)), clean(from)))
	}
	f.function = &onFunction{name: t.name, in: t.mostly()}
	if one := most(cpus); cpus[one] >= 0.9*total(cpus) {
		f.function.cpu = one
	}
	f.explains(share)
	f.loses(took)
	pid := 0
	if who := most(payers); payers[who] > 0 && payers[who] >= 0.5*total(cpus) {
		process, number, _ := strings.Cut(who, "\x00")
		f.function.process = process
		pid, _ = strconv.Atoi(number)
		f.proof(k.table, s, k.table.Asking([]string{"kernel"}, "pid", number), payers[who], "CPU", fmt.Sprintf("%s of it is done for %s", percent(payers[who]/total(cpus)), named(process, pid)))
	}
	if walked == "" && !locks {
		f.but(0, "Nothing is known of how much this function usually takes: a program may ask for just that.")
	}
	if locks {
		f.Verify = "culprit locks 1 5; culprit profile --locks --kernel --for 10s"
	} else {
		f.Verify = profileOf(cpu)
		if pid > 0 {
			f.Verify = fmt.Sprintf("culprit profile --pid %d --for 10s", pid)
		}
	}
	return true
}

// total adds up.
func total(of map[string]float64) (sum float64) {
	for _, v := range of {
		sum += v
	}
	return sum
}
