package diagnose

import (
	"fmt"
	"strings"

	"culprit/measure"
)

// When interrupt work counts as having taken a CPU.
const (
	// softirqHalf: at least half of the CPU's time goes to interrupts, so that they and not the tasks are what fills it.
	softirqHalf = 0.5
	// softirqNoIdle: and the CPU has next to nothing left, so that packets begin to wait.
	softirqNoIdle = 0.10
	// softirqOthersIdle: while the other CPUs could take their part.
	softirqOthersIdle = 0.30
	// softirqPart: a device whose packets take less of the CPU is not worth a line, and softirqDevices is how many lines there are at most.
	softirqPart    = 0.05
	softirqDevices = 3
)

// cpuSoftirq finds one CPU taken by interrupt work while others idle.
func cpuSoftirq() Rule {
	return Rule{
		ID: "cpu-softirq", Checks: "interrupt work of single cpus", Resource: "cpu",
		Needs:  []string{cpuTime},
		Uses:   []string{softirqs, interrupts, softnetPackets, softnetDrops, softnetSqueezes, devicePackets},
		Traced: []string{softirqTime, softirqTimeCost}, Sampled: []string{stackSamples, stackRate},
		Check: func(l *Look) {
			m := machineOf(l.Table(cpuTime))
			h := handledOf(l)
			work := workOf(m, h)
			most, name := -1.0, ""
			for _, cpu := range m.names {
				if v := m.table.mean(work[cpu], nil); v > most {
					most, name = v, cpu
				}
			}
			if name == "" {
				l.Unchecked("how much interrupt work the CPUs do is not known")
				return
			}
			if len(m.names) < 2 {
				l.Fine("interrupt work %s", percent(most))
				return // there is no other CPU that could take a part
			}
			found := false
			all := make([]float64, len(m.table.Seconds)) // the work of all CPUs
			for _, cpu := range m.names {
				for c, v := range work[cpu] {
					all[c] += v
				}
			}
			for _, cpu := range m.names {
				s, ok := lasting(m.table, m.known, func(c int) bool {
					own := h.own(c) // the CPU is not to be full of our looking
					irq, idle := work[cpu][c]-own, m.of(cpu, c, "idle", "iowait")
					othersIdle := (m.each(c, "idle", "iowait")*m.cpus - idle) / (m.cpus - 1)
					return irq >= softirqHalf && idle+own <= softirqNoIdle && othersIdle >= softirqOthersIdle && irq >= 2*(all[c]-work[cpu][c])/(m.cpus-1)
				})
				if ok {
					found = true
					accuseSoftirq(l, m, cpu, m.table.mean(work[cpu], s.mask), s)
				}
			}
			if !found {
				l.Fine("most interrupt work on CPU %s, %s of it", clean(name), percent(most))
			}
		},
	}
}

// workOf gives of each CPU the share that interrupts and softirqs take, by cell. Softirqs as they were measured where they were: the kernel looks what runs once
// a tick, and packets that come with the ticks, or just not, are many times too much or too little then.
func workOf(m machine, h handled) map[string][]float64 {
	work := map[string][]float64{}
	for _, cpu := range m.names {
		v := make([]float64, len(m.table.Seconds))
		measured := h.cells(cpu)
		for c := range v {
			if v[c] = m.of(cpu, c, "soft", "irq"); measured != nil && measured[c] == measured[c] {
				// By the clock of the wall, which goes on while the host runs somebody else in the middle of a softirq.
				v[c] = min(measured[c]+m.of(cpu, c, "irq"), 1-m.of(cpu, c, "steal"))
			}
		}
		work[cpu] = v
	}
	return work
}

func accuseSoftirq(l *Look, m machine, cpu string, irq float64, s spell) {
	hard := m.one(cpu, s.mask, "irq")
	rest := (m.share(s.mask, "idle", "iowait")*m.cpus - m.one(cpu, s.mask, "idle", "iowait")) / (m.cpus - 1)
	vectors := l.Table(softirqs)
	var vector *Row
	for _, r := range vectors.Where("cpu", cpu) {
		if w := r.Word("vector"); w == "TIMER" || w == "SCHED" || w == "RCU" || w == "HRTIMER" {
			continue // frequent and cheap
		}
		if vector == nil || r.Mean(s.mask) > vector.Mean(s.mask) {
			vector = r
		}
	}
	h := handledOf(l)
	kind := vector.Word("vector")
	if most, share := h.busiest(s.mask, cpu); share > 0 { // no count tells what takes the time
		kind, vector = most, vectors.One("cpu", cpu, "vector", most)
	}
	devices := l.Table(interrupts)
	var device *Row
	for _, r := range devices.Where("cpu", cpu) {
		if r.Word("device") != "" && r.Mean(s.mask) > 0 && (device == nil || r.Mean(s.mask) > device.Mean(s.mask)) {
			device = r
		}
	}
	what := "interrupt work"
	if hard < irq/2 {
		what = "softirq work"
		if strings.HasPrefix(kind, "NET") {
			what = "network softirq work"
		}
	}
	who := ""
	if device != nil {
		who = ", served for " + clean(device.Word("device"))
	}
	ofDevices := h.devices(s.mask, cpu, softirqDevices)
	switch {
	case len(ofDevices) > 0 && h.device(s.mask, cpu, ofDevices[0]) >= irq/2:
		who = ", most of it for packets of " + at(ofDevices[0].netns, ofDevices[0].name)
	case h.vector(s.mask, cpu, kind) >= irq/2:
		who = ", most of it softirq " + clean(kind)
	}
	f := l.Found("cpu"+clean(cpu), High, 0.93, Culprit{Kind: "cpu", Name: cpu},
		fmt.Sprintf("CPU %s is taken by %s, %s of its time for %s, while the other CPUs are %s idle%s.", clean(cpu), what, percent(irq), s, percent(rest), who))
	f.proof(m.table, s, fmt.Sprintf(`cpu.time where cpu = %q and mode in ("soft", "irq")`, cpu), m.one(cpu, s.mask, "soft", "irq"), m.table.Unit,
		fmt.Sprintf("CPU %s by the kernel's account: soft %s, irq %s, idle %s", clean(cpu), percent(m.one(cpu, s.mask, "soft")), percent(hard), percent(m.one(cpu, s.mask, "idle", "iowait"))))
	f.proof(m.table, s, fmt.Sprintf(`cpu.time where cpu != %q and mode in ("idle", "iowait")`, cpu), rest*(m.cpus-1), m.table.Unit, fmt.Sprintf("the other CPUs are idle %s of the time", percent(rest)))
	if v := vector.Mean(s.mask); v > 0 {
		f.proof(vectors, s, vector.Sentence(), v, vectors.Unit, fmt.Sprintf("%s softirqs %s a second on it", count(v), clean(vector.Word("vector"))))
	}
	handledProof(f, h, kind, ofDevices, cpu, s)
	if device != nil {
		f.proof(devices, s, device.Sentence(), device.Mean(s.mask), devices.Unit, fmt.Sprintf("%s interrupts a second of %s (irq %s)", count(device.Mean(s.mask)), clean(device.Word("device")), clean(device.Word("irq"))))
	}
	packetsProof(l, f, m, cpu, s)
	k := stacksOf(l)
	named := k.functionsProof(f, s, func(r *stackRow) bool { return r.cpu == cpu && (r.in.kind == inSoftirq || r.in.kind == inInterrupt) }, 1, "CPU "+clean(cpu)+"'s time",
		l.Table(stackSamples).Asking([]string{"kernel"}, "cpu", cpu))
	f.explains(irq)
	f.loses(irq)
	f.Verify = "mpstat -P ALL 1 3; culprit irq -w 5 1; cat /proc/net/softnet_stat"
	if len(named) > 0 {
		f.Verify += "; " + profileOf(cpu)
	}
	dev := place{name: receiver(l, s)}
	if len(ofDevices) > 0 {
		dev = ofDevices[0]
	}
	// /sys shows the devices of one namespace.
	if dev.name != "" && dev.name != "lo" && dev.netns == "" && (kind == "" || strings.HasPrefix(kind, "NET")) {
		q := "/sys/class/net/" + shell(dev.name) + "/queues/rx-0/rps_cpus"
		f.Fix = &Fix{"echo " + cpuMask(len(m.names)) + " > " + q, "echo 0 > " + q, "low: receive work above the driver spreads over the CPUs; each packet costs a little more"}
	}
	f.covering("net-drops", func(o *Finding) bool { return strings.HasPrefix(o.ID, "net-drops/softnet") })
	f.covering("kernel-function", func(o *Finding) bool {
		return o.function != nil && o.function.cpu == cpu && (o.function.in.kind == inSoftirq || o.function.in.kind == inInterrupt)
	})
	f.covering("cpu-one-saturated", func(o *Finding) bool { return o.Culprit.Name == cpu && o.Culprit.Kind == "cpu" })
}

// handledProof adds what was measured of a CPU: the kind of softirq that takes most of it, and the devices whose packets do.
func handledProof(f *Finding, h handled, vector string, devices []place, cpu string, s spell) {
	v := h.vector(s.mask, cpu, vector)
	if vector == "" || !(v > 0) {
		return
	}
	all := h.vector(s.mask, cpu, "")
	f.proof(h.table, s, h.table.Asking([]string{"vector"}, "cpu", cpu), all, h.table.Unit, fmt.Sprintf("softirqs take %s of its time (measured), %s alone %s", percent(all), clean(vector), percent(v)))
	for _, d := range devices {
		if v := h.device(s.mask, cpu, d); v >= softirqPart {
			f.proof(h.table, s, h.table.Asking(nil, "cpu", cpu, "vector", "NET_RX", "device", d.word()), v, h.table.Unit,
				fmt.Sprintf("packets of %s take %s of its time (measured)", at(d.netns, d.name), percent(v)))
		}
	}
}

// packetsProof adds what a packet costs on the CPU, and whether packets were lost or left over there.
func packetsProof(l *Look, f *Finding, m machine, cpu string, s spell) {
	packets := l.Table(softnetPackets)
	if r := packets.One("cpu", cpu); r.Mean(s.mask) >= 1 {
		share, of := m.one(cpu, s.mask, "soft"), "softirq time each"
		if v := handledOf(l).vector(s.mask, cpu, "NET_RX"); v > 0 {
			share, of = v, "NET_RX each (measured)"
		}
		f.proof(packets, s, r.Sentence(), r.Mean(s.mask), packets.Unit, fmt.Sprintf("%s packets a second are received on it, %s of %s", count(r.Mean(s.mask)), duration(share/r.Mean(s.mask)*1e9), of))
	}
	for _, x := range []struct{ sentence, text string }{{softnetDrops, "%s packets a second are lost there: its backlog is full"}, {softnetSqueezes, "%s times a second receiving had to stop with packets left"}} {
		t := l.Table(x.sentence)
		if r := t.One("cpu", cpu); r.Mean(s.mask) > 0.5 {
			f.proof(t, s, r.Sentence(), r.Mean(s.mask), t.Unit, fmt.Sprintf(x.text, count(r.Mean(s.mask))))
		}
	}
}

// receiver gives the device of the own namespace that receives most packets; "" when none is known.
func receiver(l *Look, s spell) string {
	name, most := "", measure.NaN
	for _, r := range l.Table(devicePackets).Where("netns", "", "direction", "rx") {
		if v := r.Mean(s.mask); v > 0 && !(v <= most) {
			name, most = r.Word("device"), v
		}
	}
	return name
}

// cpuMask gives the hexadecimal mask of the first n CPUs as sysfs wants it: groups of 32 bits.
func cpuMask(n int) string {
	if n <= 0 {
		return "0"
	}
	s := fmt.Sprintf("%x", uint64(1)<<min(n%32, 31)-1)
	if n%32 == 0 {
		s = "ffffffff"
		n--
	}
	for range n / 32 {
		s += ",ffffffff"
	}
	return s
}
