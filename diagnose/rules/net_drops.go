package rules

import (
	"fmt"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// netDrops finds packets that this machine loses: in devices, queues, backlogs, sockets.
func netDrops() diagnose.Rule {
	return diagnose.Rule{
		ID: "net-drops", Checks: "lost packets", Resource: "network",
		Needs: []string{facts.DevicePackets, facts.DeviceDrops, facts.DeviceErrors},
		Uses: []string{facts.DeviceDetail, facts.DeviceFifo, facts.DeviceNoHandler,
			facts.QdiscDrops, facts.QdiscPackets, facts.QdiscBacklog, facts.SoftnetDrops,
			facts.SoftnetSqueezes, facts.SoftnetPackets, facts.ProtocolEvents,
			facts.DeviceInfo, facts.UDPDrops},
		Sampled: []string{facts.StackSamples, facts.StackRate},
		Check: func(l *diagnose.Look) {
			n := facts.NetworkOf(l.Table(facts.DeviceInfo))
			packets := l.Table(facts.DevicePackets)
			for _, r := range packets.Rows {
				d := n.Get(facts.DeviceID{NetNS: r.Word("netns"), Name: r.Word("device")})
				if dir := r.Word("direction"); d.Name == "" || dir != "rx" && dir != "tx" {
					continue
				}
				deviceLoses(l, d, r)
				deviceDamages(l, d, r)
				if r.Word("direction") == "tx" {
					queueLoses(l, d, r)
				}
			}
			backlogLoses(l)
			socketsLose(l)
			drops := l.Table(facts.DeviceDrops)
			if len(l.Findings) == 0 {
				l.Fine("%s of %s packets/s dropped by interfaces",
					phrase.Count(series.Or(facts.SumRows(drops, drops.Rows, nil), 0)),
					phrase.Count(series.Or(facts.SumRows(packets, packets.Rows, nil), 0)))
			}
		},
	}
}

// lossy returns the period in which losses are at least rate per second and the given share of all
// packets. handled does not include the lost ones.
func lossy(t *diagnose.Table, lost, handled func(c int) float64, rate,
	share float64) (diagnose.Period, bool) {
	return diagnose.Lasting(t,
		func(c int) bool { return lost(c) == lost(c) && handled(c) == handled(c) },
		func(c int) bool {
			return lost(c) >= rate && lost(c) >= share*(handled(c)+lost(c))
		})
}

func severityOfLoss(share float64) diagnose.Severity {
	if share >= threshold.DropsHigh {
		return diagnose.High
	}
	return diagnose.Medium
}

// deviceLoses distinguishes two kinds of loss. Packets without a buffer in the card (missed, fifo,
// over) and packets that were not sent are lost. Received packets that are only counted as dropped
// may be frames of protocols without a listener, as on any trunk port.
func deviceLoses(l *diagnose.Look, d *facts.Device, packets *diagnose.Row) {
	direction := packets.Word("direction")
	if direction == "rx" {
		t := l.Table(facts.DeviceDetail)
		var rows []*diagnose.Row
		for _, reason := range []string{"missed", "fifo", "over"} {
			if r := t.One("netns", d.NetNS, "device", d.Name, "direction", "rx", "reason",
				reason); r != nil {
				rows = append(rows, r)
			}
		}
		if len(rows) > 0 {
			lost := t.Sum(rows)
			if s, ok := lossy(t, func(c int) float64 { return series.AtOrZero(lost, c) },
				packets.At, threshold.DropsRate, threshold.DropsShare); ok {
				v := t.Part(lost, s.Mask)
				ringLoses(l, d, packets, s, v,
					t.QueryOf([]string{"reason"}, "netns", d.NetNS, "device", d.Name, "direction",
						"rx"), t)
				return
			}
		}
	}
	t := l.Table(facts.DeviceDrops)
	row := t.One("netns", d.NetNS, "device", d.Name, "direction", direction)
	if direction == "tx" {
		if s, ok := lossy(t, row.At, packets.At, threshold.DropsRate, threshold.DropsShare); ok {
			ringLoses(l, d, packets, s, row.Mean(s.Mask), row.Query(), t)
		}
		return
	}
	harmless := l.Table(facts.DeviceNoHandler).One("netns", d.NetNS, "device", d.Name)
	s, ok := lossy(t, func(c int) float64 { return row.At(c) - series.Or(harmless.At(c), 0) },
		packets.At, threshold.DropsPlainRate, threshold.DropsPlainShare)
	if !ok {
		return
	}
	v := row.Mean(s.Mask)
	share := v / max(packets.Mean(s.Mask), v) // received packets include the dropped ones
	severity, confidence := diagnose.Low, 0.6
	if share >= threshold.DropsHigh {
		severity = diagnose.Medium
	}
	f := l.Found(phrase.Identity(d.NetNS, d.Name), severity, confidence,
		diagnose.Culprit{Kind: "interface", Name: d.Name, NetNS: d.NetNS, Interface: d.Name},
		fmt.Sprintf("%s drops %s received packets/s, %s of them, for %s.",
			phrase.DeviceName(d.NetNS, d.Name), phrase.Count(v), phrase.Percent(share), s))
	f.AddEvidence(t, s, row.Query(), v, t.Unit,
		fmt.Sprintf("%s packets/s dropped", phrase.Count(v)))
	f.AddEvidence(packets.Table, s, packets.Query(), packets.Mean(s.Mask), packets.Table.Unit,
		fmt.Sprintf("of %s packets/s received", phrase.Count(packets.Mean(s.Mask))))
	details(l, f, d, direction, s)
	f.AddCaveat(0, facts.DropsWithoutReason)
	f.Subject = facts.DroppedPackets{At: facts.DropsAtInterface, NetNS: d.NetNS, Device: d.Name}
	f.Verify = phrase.InNamespace(d.NetNS, "ip -s -s link show dev "+phrase.Shell(d.Name)) + "; " +
		phrase.InNamespace(d.NetNS, "ethtool -S "+phrase.Shell(d.Name))
}

func ringLoses(l *diagnose.Look, d *facts.Device, packets *diagnose.Row, s diagnose.Period,
	v float64, query string, t *diagnose.Table) {
	direction := packets.Word("direction")
	share := v / (packets.Mean(s.Mask) + v)
	words := "receives faster than it is read: it loses"
	if direction == "tx" {
		words = "has more to send than it can: it loses"
	}
	f := l.Found(phrase.Identity(d.NetNS, d.Name), severityOfLoss(share), 0.9,
		diagnose.Culprit{Kind: "interface", Name: d.Name, NetNS: d.NetNS, Interface: d.Name},
		fmt.Sprintf("%s %s %s packets/s, %s of all %s, for %s, because its ring is full.",
			phrase.DeviceName(d.NetNS, d.Name), words, phrase.Count(v), phrase.Percent(share),
			direction, s))
	f.AddEvidence(t, s, query, v, t.Unit,
		fmt.Sprintf("%s loses %s packets/s", direction, phrase.Count(v)))
	f.AddEvidence(packets.Table, s, packets.Query(), packets.Mean(s.Mask), packets.Table.Unit,
		fmt.Sprintf("beside %s packets/s %s", phrase.Count(packets.Mean(s.Mask)), direction))
	details(l, f, d, direction, s)
	if direction == "tx" {
		f.Subject = facts.DroppedPackets{At: facts.DropsAtInterface, NetNS: d.NetNS, Device: d.Name}
		senders(l, f, d.NetNS, s, v)
		coverRetransmits(f, d.NetNS, v)
		coverFullLink(f)
	}
	f.Verify = phrase.InNamespace(d.NetNS, "ip -s -s link show dev "+phrase.Shell(d.Name)) + "; " +
		phrase.InNamespace(d.NetNS, "ethtool -S "+phrase.Shell(d.Name))
	if d.Kind == "ethernet" {
		f.Verify += "; " + phrase.InNamespace(d.NetNS, "ethtool -g "+phrase.Shell(d.Name))
	}
}

// details adds the errors of the device by reason.
func details(l *diagnose.Look, f *diagnose.Finding, d *facts.Device, direction string,
	s diagnose.Period) {
	t := l.Table(facts.DeviceDetail)
	for _, r := range t.Where("netns", d.NetNS, "device", d.Name, "direction", direction) {
		if v := r.Part(s.Mask); v >= 0.5 && r.Word("reason") != "otherhost" &&
			r.Word("reason") != "dropped" {
			f.AddEvidence(t, s, r.Query(), v, t.Unit,
				fmt.Sprintf("%s: %s packets/s", phrase.Clean(r.Word("reason")), phrase.Count(v)))
		}
	}
	if r := l.Table(facts.DeviceFifo).One("netns", d.NetNS, "device", d.Name, "direction",
		direction); r.Mean(s.Mask) >= 0.5 {
		f.AddEvidence(r.Table, s, r.Query(), r.Mean(s.Mask), r.Table.Unit,
			fmt.Sprintf("its FIFO overflows %s times per second", phrase.Count(r.Mean(s.Mask))))
	}
}

func deviceDamages(l *diagnose.Look, d *facts.Device, packets *diagnose.Row) {
	direction := packets.Word("direction")
	t := l.Table(facts.DeviceErrors)
	row := t.One("netns", d.NetNS, "device", d.Name, "direction", direction)
	s, ok := lossy(t, row.At, packets.At, threshold.ErrorsRate, 0)
	if !ok {
		return
	}
	v := row.Mean(s.Mask)
	share := v / (packets.Mean(s.Mask) + v)
	severity := diagnose.Low
	if share >= threshold.DropsShare {
		severity = severityOfLoss(share)
	}
	f := l.Found(phrase.Identity(d.NetNS, d.Name)+"/errors", severity, 0.85,
		diagnose.Culprit{Kind: "interface", Name: d.Name, NetNS: d.NetNS, Interface: d.Name},
		fmt.Sprintf("%s has %s %s errors/s, %s of its packets, for %s.",
			phrase.DeviceName(d.NetNS, d.Name), phrase.Count(v), direction, phrase.Percent(share),
			s))
	f.AddEvidence(t, s, row.Query(), v, t.Unit,
		fmt.Sprintf("%s %s errors/s", phrase.Count(v), direction))
	f.AddEvidence(packets.Table, s, packets.Query(), packets.Mean(s.Mask), packets.Table.Unit,
		fmt.Sprintf("beside %s packets/s", phrase.Count(packets.Mean(s.Mask))))
	details(l, f, d, direction, s)
	f.Verify = phrase.InNamespace(d.NetNS, "ip -s -s link show dev "+phrase.Shell(d.Name)) + "; " +
		phrase.InNamespace(d.NetNS, "ethtool -S "+phrase.Shell(d.Name))
}

// queueLoses checks the queues before the device. A classful queue includes the drops of its
// children: the largest counter is the total.
func queueLoses(l *diagnose.Look, d *facts.Device, packets *diagnose.Row) {
	t := l.Table(facts.QdiscDrops)
	var worst *diagnose.Row
	for _, r := range t.Where("netns", d.NetNS, "device", d.Name) {
		if r.Word("kind") != "ingress" && r.Word("kind") != "clsact" &&
			r.Mean(nil) > series.Or(worst.Mean(nil), 0) {
			worst = r
		}
	}
	if worst == nil {
		return
	}
	// A queue counts segments, the device counts a super-frame once. Compare with the count of the
	// queue if there is one.
	handled := l.Table(facts.QdiscPackets).One("netns", d.NetNS, "device", d.Name, "kind",
		worst.Word("kind"), "handle", worst.Word("handle"), "parent", worst.Word("parent"))
	if handled == nil {
		handled = packets
	}
	s, ok := lossy(t, worst.At, handled.At, threshold.DropsRate, threshold.QueueShare)
	if !ok {
		return
	}
	v := worst.Mean(s.Mask)
	share := v / (handled.Mean(s.Mask) + v)
	f := l.Found(phrase.Identity(d.NetNS, d.Name)+"/queue", severityOfLoss(share), 0.9,
		diagnose.Culprit{Kind: "interface", Name: d.Name, NetNS: d.NetNS, Interface: d.Name},
		fmt.Sprintf("The queue before %s (%s) drops %s packets/s, %s of its packets, for %s: more "+
			"arrives than can be sent.", phrase.DeviceName(d.NetNS, d.Name),
			phrase.Clean(worst.Word("kind")), phrase.Count(v), phrase.Percent(share), s))
	f.AddEvidence(t, s, worst.Query(), v, t.Unit,
		fmt.Sprintf("%s drops %s packets/s", phrase.Clean(worst.Word("kind")), phrase.Count(v)))
	f.AddEvidence(handled.Table, s, handled.Query(), handled.Mean(s.Mask), handled.Table.Unit,
		fmt.Sprintf("and passes %s packets/s", phrase.Count(handled.Mean(s.Mask))))
	f.Subject = facts.DroppedPackets{At: facts.DropsAtQueue, NetNS: d.NetNS, Device: d.Name}
	b := l.Table(facts.QdiscBacklog)
	if r := b.One("netns", d.NetNS, "device", d.Name, "kind", worst.Word("kind"), "handle",
		worst.Word("handle")); r.Mean(s.Mask) > 0 {
		f.AddEvidence(b, s, r.Query(), r.Mean(s.Mask), b.Unit,
			phrase.Bytes(r.Mean(s.Mask))+" queued in it")
	}
	senders(l, f, d.NetNS, s, v)
	coverRetransmits(f, d.NetNS, v)
	coverFullLink(f)
	f.Verify = phrase.InNamespace(d.NetNS, "tc -s qdisc show dev "+phrase.Shell(d.Name))
}

// coverRetransmits covers retransmits in the namespace when most of them were lost on the way out
// of it.
func coverRetransmits(f *diagnose.Finding, netns string, lost float64) {
	f.Cover("tcp-retransmits", func(o *diagnose.Finding) bool {
		return o.Culprit.NetNS == netns && len(o.Evidence) > 0 &&
			lost >= threshold.AgainShare*float64(o.Evidence[0].Value)
	})
}

// coverFullLink covers the full link that loses many of the packets to send. A link that TCP fills
// stays a finding of its own: its program is another culprit.
func coverFullLink(f *diagnose.Finding) {
	if f.Severity != diagnose.High {
		return
	}
	f.Cover("link-saturated", func(o *diagnose.Finding) bool {
		return o.Culprit.Kind == "interface" && o.Culprit.NetNS == f.Culprit.NetNS &&
			o.Culprit.Name == f.Culprit.Name && o.Subject == facts.FullDirection("tx")
	})
}

// senders adds UDP senders when datagrams are what the queue loses: they do not slow down.
func senders(l *diagnose.Look, f *diagnose.Finding, netns string, s diagnose.Period, lost float64) {
	t := l.Table(facts.ProtocolEvents)
	for _, p := range []string{"Udp", "Udp6"} {
		if r := t.One("netns", netns, "protocol", p, "counter",
			"OutDatagrams"); r.Mean(s.Mask) >= lost {
			f.AddEvidence(t, s, r.Query(), r.Mean(s.Mask), t.Unit,
				fmt.Sprintf("%s datagrams/s are sent over UDP, which does not slow down on loss",
					phrase.Count(r.Mean(s.Mask))))
			facts.AddDatagramSender(l, f, s)
		}
	}
}

func backlogLoses(l *diagnose.Look) {
	drops, squeezes := l.Table(facts.SoftnetDrops), l.Table(facts.SoftnetSqueezes)
	for _, r := range drops.Rows {
		cpu := r.Word("cpu")
		if cpu == "" {
			continue
		}
		s, ok := diagnose.Lasting(drops, diagnose.HasValue(r), func(c int) bool {
			return r.At(c) >= threshold.ErrorsRate
		})
		if !ok {
			continue
		}
		handled := l.Table(facts.SoftnetPackets).One("cpu", cpu)
		v := r.Mean(s.Mask)
		share := v / (series.Or(handled.Mean(s.Mask), 0) + v)
		f := l.Found("softnet-cpu"+phrase.Clean(cpu), severityOfLoss(share), 0.9,
			diagnose.Culprit{Kind: "cpu", Name: cpu},
			fmt.Sprintf("CPU %s loses %s received packets/s, %s, for %s: its backlog is full.",
				phrase.Clean(cpu), phrase.Count(v), phrase.Percent(share), s))
		f.AddEvidence(drops, s, r.Query(), v, drops.Unit,
			fmt.Sprintf("%s packets/s dropped at the backlog of CPU %s", phrase.Count(v),
				phrase.Clean(cpu)))
		f.Subject = facts.DroppedPackets{At: facts.DropsAtBacklog}
		if q := squeezes.One("cpu", cpu); q.Mean(s.Mask) >= 0.5 {
			f.AddEvidence(squeezes, s, q.Query(), q.Mean(s.Mask), squeezes.Unit,
				fmt.Sprintf("receiving stopped %s times per second with packets left",
					phrase.Count(q.Mean(s.Mask))))
		}
		f.Verify = "cat /proc/net/softnet_stat; sysctl net.core.netdev_max_backlog"
		f.Fix = &diagnose.Fix{Command: "sysctl net.core.netdev_max_backlog=10000",
			Undo: "sysctl net.core.netdev_max_backlog=1000",
			Risk: "low: a longer queue; 1000 is the default of the kernel, restore yours"}
	}
	var worst *diagnose.Row
	var when diagnose.Period
	for _, r := range squeezes.Rows {
		if s, ok := diagnose.Lasting(squeezes, diagnose.HasValue(r), func(c int) bool {
			return r.At(c) >= threshold.SqueezeRate
		}); ok && r.Word("cpu") != "" && r.Mean(s.Mask) > series.Or(worst.Mean(when.Mask), 0) {
			worst, when = r, s
		}
	}
	if worst != nil {
		v := worst.Mean(when.Mask)
		f := l.Found("softnet-squeezed", diagnose.Low, 0.8,
			diagnose.Culprit{Kind: "cpu", Name: worst.Word("cpu")},
			fmt.Sprintf("CPU %s stops receiving %s times per second with packets left, for %s: "+
				"the budget of a round is too small.", phrase.Clean(worst.Word("cpu")),
				phrase.Count(v), when))
		f.AddEvidence(squeezes, when, worst.Query(), v, squeezes.Unit,
			fmt.Sprintf("%s squeezes per second on CPU %s", phrase.Count(v),
				phrase.Clean(worst.Word("cpu"))))
		f.AddCaveat(0, "No packet is lost: the next round takes the rest.")
		f.Verify = "cat /proc/net/softnet_stat; sysctl net.core.netdev_budget " +
			"net.core.netdev_budget_usecs"
		f.Fix = &diagnose.Fix{Command: "sysctl net.core.netdev_budget=600",
			Undo: "sysctl net.core.netdev_budget=300",
			Risk: "low: longer rounds; 300 is the default of the kernel, restore yours"}
	}
}

// socketsLose finds datagrams that arrived at a full socket buffer.
func socketsLose(l *diagnose.Look) {
	t := l.Table(facts.ProtocolEvents)
	for _, netns := range t.Keys("netns") {
		for _, p := range []string{"Udp", "Udp6"} {
			in := t.One("netns", netns, "protocol", p, "counter", "InDatagrams")
			lost := t.One("netns", netns, "protocol", p, "counter", "RcvbufErrors")
			if in == nil || lost == nil {
				continue
			}
			s, ok := lossy(t, lost.At, in.At, threshold.DropsRate, threshold.UDPShare)
			if !ok {
				continue
			}
			v := lost.Mean(s.Mask)
			share := v / (in.Mean(s.Mask) + v)
			name := strings.ToLower(p)
			f := l.Found(phrase.Identity(netns, name), severityOfLoss(share), 0.9,
				diagnose.Culprit{Kind: "host", Name: name, NetNS: netns},
				fmt.Sprintf("%s datagrams/s, %s, are lost%s for %s: %s too slowly, and the socket "+
					"buffer is full.", phrase.Count(v), phrase.Percent(share),
					phrase.NamespaceSuffix(netns), s, facts.SlowReader(l, netns, s)))
			f.AddEvidence(t, s, lost.Query(), v, t.Unit,
				fmt.Sprintf("%s datagrams/s found a full socket buffer", phrase.Count(v)))
			f.AddEvidence(t, s, in.Query(), in.Mean(s.Mask), t.Unit,
				fmt.Sprintf("%s datagrams/s were delivered", phrase.Count(in.Mean(s.Mask))))
			f.Subject = facts.DroppedPackets{At: facts.DropsAtSocket, NetNS: netns}
			facts.AddSlowReaders(l, f, netns, s)
			f.Verify = phrase.InNamespace(netns, "ss -uampn") + "; " +
				phrase.InNamespace(netns, "nstat -az UdpRcvbufErrors")
		}
	}
}
