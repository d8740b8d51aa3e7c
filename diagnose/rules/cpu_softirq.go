package rules

import (
	"fmt"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// cpuSoftirq finds one CPU saturated by interrupt work while others idle.
func cpuSoftirq() diagnose.Rule {
	return diagnose.Rule{
		ID: "cpu-softirq", Checks: "interrupt work of single cpus", Resource: "cpu",
		Needs: []string{facts.CPUTime},
		Uses: []string{facts.Softirqs, facts.Interrupts, facts.SoftnetPackets,
			facts.SoftnetDrops, facts.SoftnetSqueezes, facts.DevicePackets},
		Traced:  []string{facts.SoftirqTimes, facts.SoftirqTimeCost},
		Sampled: []string{facts.StackSamples, facts.StackRate},
		Check: func(l *diagnose.Look) {
			m := facts.MachineOf(l.Table(facts.CPUTime))
			h := facts.SoftirqTimeOf(l)
			work := facts.InterruptWork(m, h)
			most, name := -1.0, ""
			for _, cpu := range m.Names {
				if v := m.Table.Mean(work[cpu], nil); v > most {
					most, name = v, cpu
				}
			}
			if name == "" {
				l.Unchecked("the interrupt work of the CPUs is unknown")
				return
			}
			if len(m.Names) < 2 {
				l.Fine("interrupt work %s", phrase.Percent(most))
				return // no other CPU could take a part
			}
			found := false
			all := make([]float64, len(m.Table.Seconds)) // the work of all CPUs
			for _, cpu := range m.Names {
				for c, v := range work[cpu] {
					all[c] += v
				}
			}
			for _, cpu := range m.Names {
				s, ok := diagnose.Lasting(m.Table, m.Known, func(c int) bool {
					own := h.OwnCost(c) // the cost of measuring must not make the CPU full
					irq, idle := work[cpu][c]-own, m.Of(cpu, c, "idle", "iowait")
					othersIdle := (m.Each(c, "idle", "iowait")*m.CPUs - idle) / (m.CPUs - 1)
					return irq >= threshold.SoftirqHalf && idle+own <= threshold.SoftirqNoIdle &&
						othersIdle >= threshold.SoftirqOthersIdle &&
						irq >= 2*(all[c]-work[cpu][c])/(m.CPUs-1)
				})
				if ok {
					found = true
					accuseSoftirq(l, m, cpu, m.Table.Mean(work[cpu], s.Mask), s)
				}
			}
			if !found {
				l.Fine("most interrupt work on CPU %s, %s of it", phrase.Clean(name),
					phrase.Percent(most))
			}
		},
	}
}

func accuseSoftirq(l *diagnose.Look, m facts.Machine, cpu string, irq float64, s diagnose.Period) {
	hard := m.One(cpu, s.Mask, "irq")
	rest := (m.Share(s.Mask, "idle", "iowait")*m.CPUs - m.One(cpu, s.Mask, "idle",
		"iowait")) / (m.CPUs - 1)
	vectors := l.Table(facts.Softirqs)
	var vector *diagnose.Row
	for _, r := range vectors.Where("cpu", cpu) {
		if w := r.Word("vector"); w == "TIMER" || w == "SCHED" || w == "RCU" || w == "HRTIMER" {
			continue // frequent and cheap
		}
		if vector == nil || r.Mean(s.Mask) > vector.Mean(s.Mask) {
			vector = r
		}
	}
	h := facts.SoftirqTimeOf(l)
	kind := vector.Word("vector")
	if most, share := h.Busiest(s.Mask, cpu); share > 0 { // counts do not show what takes the time
		kind, vector = most, vectors.One("cpu", cpu, "vector", most)
	}
	devices := l.Table(facts.Interrupts)
	var device *diagnose.Row
	for _, r := range devices.Where("cpu", cpu) {
		if r.Word("device") != "" && r.Mean(s.Mask) > 0 &&
			(device == nil || r.Mean(s.Mask) > device.Mean(s.Mask)) {
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
	cause := ""
	if device != nil {
		cause = ", served for " + phrase.Clean(device.Word("device"))
	}
	ofDevices := h.Devices(s.Mask, cpu, threshold.SoftirqDevices)
	switch {
	case len(ofDevices) > 0 && h.Device(s.Mask, cpu, ofDevices[0]) >= irq/2:
		cause = ", most of it for packets of " + phrase.DeviceName(ofDevices[0].NetNS,
			ofDevices[0].Name)
	case h.Vector(s.Mask, cpu, kind) >= irq/2:
		cause = ", most of it softirq " + phrase.Clean(kind)
	}
	f := l.Found("cpu"+phrase.Clean(cpu), diagnose.High, 0.93,
		diagnose.Culprit{Kind: "cpu", Name: cpu},
		fmt.Sprintf("CPU %s is taken by %s, %s of its time for %s, while the other CPUs are %s "+
			"idle%s.", phrase.Clean(cpu), what, phrase.Percent(irq), s, phrase.Percent(rest),
			cause))
	f.AddEvidence(m.Table, s, fmt.Sprintf(`cpu.time where cpu = %q and mode in ("soft", "irq")`,
		cpu), m.One(cpu, s.Mask, "soft", "irq"), m.Table.Unit,
		fmt.Sprintf("CPU %s in the kernel's accounting: soft %s, irq %s, idle %s",
			phrase.Clean(cpu), phrase.Percent(m.One(cpu, s.Mask, "soft")), phrase.Percent(hard),
			phrase.Percent(m.One(cpu, s.Mask, "idle", "iowait"))))
	f.AddEvidence(m.Table, s, fmt.Sprintf(`cpu.time where cpu != %q and mode in ("idle", "iowait")`,
		cpu), rest*(m.CPUs-1), m.Table.Unit, fmt.Sprintf("the other CPUs are idle %s of the time",
		phrase.Percent(rest)))
	if v := vector.Mean(s.Mask); v > 0 {
		f.AddEvidence(vectors, s, vector.Query(), v, vectors.Unit,
			fmt.Sprintf("%s %s softirqs per second on it", phrase.Count(v),
				phrase.Clean(vector.Word("vector"))))
	}
	handledProof(f, h, kind, ofDevices, cpu, s)
	if device != nil {
		f.AddEvidence(devices, s, device.Query(), device.Mean(s.Mask), devices.Unit,
			fmt.Sprintf("%s interrupts per second of %s (irq %s)",
				phrase.Count(device.Mean(s.Mask)), phrase.Clean(device.Word("device")),
				phrase.Clean(device.Word("irq"))))
	}
	packetsProof(l, f, m, cpu, s)
	k := facts.SamplesOf(l)
	named := k.AddFunctions(f, s, func(r *facts.Sample) bool {
		return r.CPU == cpu &&
			(r.Entry.Kind == facts.InSoftirq || r.Entry.Kind == facts.InInterrupt)
	}, 1, "CPU "+phrase.Clean(cpu)+"'s time",
		l.Table(facts.StackSamples).QueryOf([]string{"kernel"}, "cpu", cpu))
	f.SetExplains(irq)
	f.SetEffect(irq)
	f.Verify = "mpstat -P ALL 1 3; culprit irq -w 5 1; cat /proc/net/softnet_stat"
	if len(named) > 0 {
		f.Verify += "; " + facts.ProfileCommand(cpu)
	}
	dev := facts.DeviceID{Name: receiver(l, s)}
	if len(ofDevices) > 0 {
		dev = ofDevices[0]
	}
	// /sys contains the devices of one namespace.
	if dev.Name != "" && dev.Name != "lo" && dev.NetNS == "" &&
		(kind == "" || strings.HasPrefix(kind, "NET")) {
		q := "/sys/class/net/" + phrase.Shell(dev.Name) + "/queues/rx-0/rps_cpus"
		f.Fix = &diagnose.Fix{Command: "echo " + cpuMask(len(m.Names)) + " > " + q,
			Undo: "echo 0 > " + q, Risk: "low: receive work above the driver is spread over the " +
				"CPUs; each packet costs slightly more"}
	}
	f.Cover("net-drops", func(o *diagnose.Finding) bool {
		return strings.HasPrefix(o.ID, "net-drops/softnet")
	})
	f.Cover("kernel-function", func(o *diagnose.Finding) bool {
		f := facts.SubjectFunction(o)
		return f.CPU == cpu &&
			(f.Entry.Kind == facts.InSoftirq || f.Entry.Kind == facts.InInterrupt)
	})
	f.Cover("cpu-one-saturated", func(o *diagnose.Finding) bool {
		return o.Culprit.Name == cpu && o.Culprit.Kind == "cpu"
	})
}

// handledProof adds the measured time on a CPU: the kind of softirq with most time, and the devices
// whose packets take it.
func handledProof(f *diagnose.Finding, h facts.SoftirqTime, vector string, devices []facts.DeviceID,
	cpu string, s diagnose.Period) {
	v := h.Vector(s.Mask, cpu, vector)
	if vector == "" || !(v > 0) {
		return
	}
	all := h.Vector(s.Mask, cpu, "")
	f.AddEvidence(h.Table, s, h.Table.QueryOf([]string{"vector"}, "cpu", cpu), all, h.Table.Unit,
		fmt.Sprintf("softirqs take %s of its time (measured), %s alone %s", phrase.Percent(all),
			phrase.Clean(vector), phrase.Percent(v)))
	for _, d := range devices {
		if v := h.Device(s.Mask, cpu, d); v >= threshold.SoftirqPart {
			f.AddEvidence(h.Table, s, h.Table.QueryOf(nil, "cpu", cpu, "vector", "NET_RX", "device",
				d.Label()), v, h.Table.Unit,
				fmt.Sprintf("packets of %s take %s of its time (measured)",
					phrase.DeviceName(d.NetNS, d.Name), phrase.Percent(v)))
		}
	}
}

// packetsProof adds the cost of a packet on the CPU, and packets that were lost or left over there.
func packetsProof(l *diagnose.Look, f *diagnose.Finding, m facts.Machine, cpu string,
	s diagnose.Period) {
	packets := l.Table(facts.SoftnetPackets)
	if r := packets.One("cpu", cpu); r.Mean(s.Mask) >= 1 {
		share, of := m.One(cpu, s.Mask, "soft"), "softirq time each"
		if v := facts.SoftirqTimeOf(l).Vector(s.Mask, cpu, "NET_RX"); v > 0 {
			share, of = v, "NET_RX each (measured)"
		}
		f.AddEvidence(packets, s, r.Query(), r.Mean(s.Mask), packets.Unit,
			fmt.Sprintf("%s packets per second are received on it, %s of %s",
				phrase.Count(r.Mean(s.Mask)), phrase.Duration(share/r.Mean(s.Mask)*1e9), of))
	}
	for _, x := range []struct {
		query,
		text string
	}{{facts.SoftnetDrops, "%s packets per second are dropped there: its backlog " +
		"is full"}, {facts.SoftnetSqueezes, "receiving stopped %s times per second with " +
		"packets left"}} {
		t := l.Table(x.query)
		if r := t.One("cpu", cpu); r.Mean(s.Mask) > 0.5 {
			f.AddEvidence(t, s, r.Query(), r.Mean(s.Mask), t.Unit,
				fmt.Sprintf(x.text, phrase.Count(r.Mean(s.Mask))))
		}
	}
}

// receiver returns the device of the own namespace that receives most packets; "" when none is
// known.
func receiver(l *diagnose.Look, s diagnose.Period) string {
	name, most := "", measure.NaN
	for _, r := range l.Table(facts.DevicePackets).Where("netns", "", "direction", "rx") {
		if v := r.Mean(s.Mask); v > 0 && !(v <= most) {
			name, most = r.Word("device"), v
		}
	}
	return name
}

// cpuMask returns the hexadecimal mask of the first n CPUs in the format of sysfs: groups of 32
// bits.
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
