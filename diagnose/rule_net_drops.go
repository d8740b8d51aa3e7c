package diagnose

import (
	"fmt"
	"strings"

	"culprit/measure"
)

// When packets lost by this machine count.
const (
	// dropsRate and dropsShare: packets a second, and of all that the device handled in that direction. Frames of unknown
	// protocols (spanning tree, discovery) come once or twice a second and are dropped on every healthy machine.
	dropsRate, dropsShare = 5.0, 0.001
	// dropsPlainRate and dropsPlainShare: the same for drops on the way in whose reason is not told. A port that carries
	// VLANs or protocols of others drops all of them.
	dropsPlainRate, dropsPlainShare = 50.0, 0.01
	// dropsHigh: a twentieth lost leaves TCP a crawl and makes holes in any stream of datagrams.
	dropsHigh = 0.05
	// errorsRate: frames damaged on the line, a second: a good line has none in hours.
	errorsRate = 1.0
	// queueShare: a queue that is full drops: that is how TCP learns the speed. From a hundredth on it is more than that.
	queueShare = 0.01
	// squeezeRate: times a second that receiving stopped with packets left, its budget used up. A remark.
	squeezeRate = 20.0
	// udpShare: share of the datagrams that found no room in their socket.
	udpShare = 0.01
)

// netDrops finds packets that this machine loses: devices, queues, backlogs, sockets.
func netDrops() Rule {
	return Rule{
		ID: "net-drops", Checks: "lost packets", Resource: "network",
		Needs: []string{devicePackets, deviceDrops, deviceErrors},
		Uses:  []string{deviceDetail, deviceFifo, deviceNoHandler, qdiscDrops, qdiscPackets, qdiscBacklog, softnetDrops, softnetSqueezes, softnetPackets, protocolEvents, deviceInfo}, Sampled: []string{stackSamples, stackRate},
		Check: func(l *Look) {
			n := networkOf(l.Table(deviceInfo))
			packets := l.Table(devicePackets)
			for _, r := range packets.Rows {
				d := n.get(place{r.Word("netns"), r.Word("device")})
				if dir := r.Word("direction"); d.name == "" || dir != "rx" && dir != "tx" {
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
			drops := l.Table(deviceDrops)
			if len(l.findings) == 0 {
				l.Fine("%s of %s packets/s dropped by interfaces", count(or(sumRows(drops, drops.Rows, nil), 0)),
					count(or(sumRows(packets, packets.Rows, nil), 0)))
			}
		},
	}
}

// lossy finds whether losses last: at least rate a second and share of what was handled, lost ones included when the
// counter of the handled ones leaves them out.
func lossy(t *Table, lost, handled func(c int) float64, rate, share float64) (spell, bool) {
	return lasting(t, func(c int) bool { return lost(c) == lost(c) && handled(c) == handled(c) }, func(c int) bool {
		return lost(c) >= rate && lost(c) >= share*(handled(c)+lost(c))
	})
}

func severityOfLoss(share float64) Severity {
	if share >= dropsHigh {
		return High
	}
	return Medium
}

// deviceLoses tells two kinds apart. What the card had no room for (missed, fifo, over) and what it did not send is lost
// for sure. What is merely "dropped" on the way in may be frames of protocols that nobody listens to, as on any trunk port.
func deviceLoses(l *Look, d *device, packets *Row) {
	direction := packets.Word("direction")
	if direction == "rx" {
		t := l.Table(deviceDetail)
		var rows []*Row
		for _, reason := range []string{"missed", "fifo", "over"} {
			if r := t.One("netns", d.netns, "device", d.name, "direction", "rx", "reason", reason); r != nil {
				rows = append(rows, r)
			}
		}
		if len(rows) > 0 {
			lost := t.Sum(rows)
			if s, ok := lossy(t, func(c int) float64 { return at0(lost, c) }, packets.At, dropsRate, dropsShare); ok {
				v := t.part(lost, s.mask)
				ringLoses(l, d, packets, s, v, t.Asking([]string{"reason"}, "netns", d.netns, "device", d.name, "direction", "rx"), t)
				return
			}
		}
	}
	t := l.Table(deviceDrops)
	row := t.One("netns", d.netns, "device", d.name, "direction", direction)
	if direction == "tx" {
		if s, ok := lossy(t, row.At, packets.At, dropsRate, dropsShare); ok {
			ringLoses(l, d, packets, s, row.Mean(s.mask), row.Sentence(), t)
		}
		return
	}
	harmless := l.Table(deviceNoHandler).One("netns", d.netns, "device", d.name)
	s, ok := lossy(t, func(c int) float64 { return row.At(c) - or(harmless.At(c), 0) }, packets.At, dropsPlainRate, dropsPlainShare)
	if !ok {
		return
	}
	v := row.Mean(s.mask)
	share := v / max(packets.Mean(s.mask), v) // received packets count the dropped ones in
	severity, confidence := Low, 0.6
	if share >= dropsHigh {
		severity = Medium
	}
	f := l.Found(slot(d.netns, d.name), severity, confidence, Culprit{Kind: "interface", Name: d.name, NetNS: d.netns, Interface: d.name},
		fmt.Sprintf("%s drops %s received packets/s, %s of them, for %s.", at(d.netns, d.name), count(v), percent(share), s))
	f.proof(t, s, row.Sentence(), v, t.Unit, fmt.Sprintf("%s packets/s dropped", count(v)))
	f.proof(packets.table, s, packets.Sentence(), packets.Mean(s.mask), packets.table.Unit, fmt.Sprintf("of %s packets/s received", count(packets.Mean(s.mask))))
	details(l, f, d, direction, s)
	f.but(0, "The counter does not tell why: no memory, a full queue, or protocols and VLANs that nobody here listens to.")
	f.Verify = within(d.netns, "ip -s -s link show dev "+shell(d.name)) + "; " + within(d.netns, "ethtool -S "+shell(d.name))
}

func ringLoses(l *Look, d *device, packets *Row, s spell, v float64, sentence string, t *Table) {
	direction := packets.Word("direction")
	share := v / (packets.Mean(s.mask) + v)
	words := "receives more than it can take: it loses"
	if direction == "tx" {
		words = "is given more than it can send: it loses"
	}
	f := l.Found(slot(d.netns, d.name), severityOfLoss(share), 0.9, Culprit{Kind: "interface", Name: d.name, NetNS: d.netns, Interface: d.name},
		fmt.Sprintf("%s %s %s packets/s, %s of all %s, for %s, because its ring is full.", at(d.netns, d.name), words, count(v), percent(share), direction, s))
	f.proof(t, s, sentence, v, t.Unit, fmt.Sprintf("%s loses %s packets/s", direction, count(v)))
	f.proof(packets.table, s, packets.Sentence(), packets.Mean(s.mask), packets.table.Unit, fmt.Sprintf("beside %s packets/s %s", count(packets.Mean(s.mask)), direction))
	details(l, f, d, direction, s)
	if direction == "tx" {
		senders(l, f, d.netns, s, v)
		f.coveringAgain(d.netns, v)
	}
	f.Verify = within(d.netns, "ip -s -s link show dev "+shell(d.name)) + "; " + within(d.netns, "ethtool -S "+shell(d.name))
	if d.kind == "ethernet" {
		f.Verify += "; " + within(d.netns, "ethtool -g "+shell(d.name))
	}
}

// details adds the kinds of errors that the device counts.
func details(l *Look, f *Finding, d *device, direction string, s spell) {
	t := l.Table(deviceDetail)
	for _, r := range t.Where("netns", d.netns, "device", d.name, "direction", direction) {
		if v := r.Part(s.mask); v >= 0.5 && r.Word("reason") != "otherhost" && r.Word("reason") != "dropped" {
			f.proof(t, s, r.Sentence(), v, t.Unit, fmt.Sprintf("%s: %s packets/s", clean(r.Word("reason")), count(v)))
		}
	}
	if r := l.Table(deviceFifo).One("netns", d.netns, "device", d.name, "direction", direction); r.Mean(s.mask) >= 0.5 {
		f.proof(r.table, s, r.Sentence(), r.Mean(s.mask), r.table.Unit, fmt.Sprintf("its fifo overflows %s times a second", count(r.Mean(s.mask))))
	}
}

func deviceDamages(l *Look, d *device, packets *Row) {
	direction := packets.Word("direction")
	t := l.Table(deviceErrors)
	row := t.One("netns", d.netns, "device", d.name, "direction", direction)
	s, ok := lossy(t, row.At, packets.At, errorsRate, 0)
	if !ok {
		return
	}
	v := row.Mean(s.mask)
	share := v / (packets.Mean(s.mask) + v)
	severity := Low
	if share >= dropsShare {
		severity = severityOfLoss(share)
	}
	f := l.Found(slot(d.netns, d.name)+"/errors", severity, 0.85, Culprit{Kind: "interface", Name: d.name, NetNS: d.netns, Interface: d.name},
		fmt.Sprintf("%s has %s %s errors/s, %s of its packets, for %s.", at(d.netns, d.name), count(v), direction, percent(share), s))
	f.proof(t, s, row.Sentence(), v, t.Unit, fmt.Sprintf("%s %s errors/s", count(v), direction))
	f.proof(packets.table, s, packets.Sentence(), packets.Mean(s.mask), packets.table.Unit, fmt.Sprintf("beside %s packets/s", count(packets.Mean(s.mask))))
	details(l, f, d, direction, s)
	f.Verify = within(d.netns, "ip -s -s link show dev "+shell(d.name)) + "; " + within(d.netns, "ethtool -S "+shell(d.name))
}

// queueLoses looks at the queues before the device. A classful one counts what its children drop too, so the largest counter
// of the device is all of it.
func queueLoses(l *Look, d *device, packets *Row) {
	t := l.Table(qdiscDrops)
	var worst *Row
	for _, r := range t.Where("netns", d.netns, "device", d.name) {
		if r.Word("kind") != "ingress" && r.Word("kind") != "clsact" && r.Mean(nil) > or(worst.Mean(nil), 0) {
			worst = r
		}
	}
	if worst == nil {
		return
	}
	// A queue counts segments; the device counts a super-frame once. Compare with the queue's own count where there is one.
	handled := l.Table(qdiscPackets).One("netns", d.netns, "device", d.name, "kind", worst.Word("kind"), "handle", worst.Word("handle"), "parent", worst.Word("parent"))
	if handled == nil {
		handled = packets
	}
	s, ok := lossy(t, worst.At, handled.At, dropsRate, queueShare)
	if !ok {
		return
	}
	v := worst.Mean(s.mask)
	share := v / (handled.Mean(s.mask) + v)
	f := l.Found(slot(d.netns, d.name)+"/queue", severityOfLoss(share), 0.9, Culprit{Kind: "interface", Name: d.name, NetNS: d.netns, Interface: d.name},
		fmt.Sprintf("The queue before %s (%s) throws away %s packets/s, %s of what is to be sent, for %s: more comes than may go.", at(d.netns, d.name), clean(worst.Word("kind")), count(v), percent(share), s))
	f.proof(t, s, worst.Sentence(), v, t.Unit, fmt.Sprintf("%s drops %s packets/s", clean(worst.Word("kind")), count(v)))
	f.proof(handled.table, s, handled.Sentence(), handled.Mean(s.mask), handled.table.Unit, fmt.Sprintf("and passes %s packets/s", count(handled.Mean(s.mask))))
	b := l.Table(qdiscBacklog)
	if r := b.One("netns", d.netns, "device", d.name, "kind", worst.Word("kind"), "handle", worst.Word("handle")); r.Mean(s.mask) > 0 {
		f.proof(b, s, r.Sentence(), r.Mean(s.mask), b.Unit, bytes(r.Mean(s.mask))+" wait in it")
	}
	senders(l, f, d.netns, s, v)
	f.coveringAgain(d.netns, v)
	f.Verify = within(d.netns, "tc -s qdisc show dev "+shell(d.name))
}

// againShare: packets lost here that explain at least so much of what TCP sends again are where it is lost.
const againShare = 0.5

// coveringAgain adds what TCP of the namespace sends again: most of that was lost on the way out of it.
func (f *Finding) coveringAgain(netns string, lost float64) {
	f.covering("tcp-retransmits", func(o *Finding) bool {
		return o.Culprit.NetNS == netns && len(o.Evidence) > 0 && lost >= againShare*float64(o.Evidence[0].Value)
	})
}

// senders says whether datagrams, which nobody slows down, are what the queue loses.
func senders(l *Look, f *Finding, netns string, s spell, lost float64) {
	t := l.Table(protocolEvents)
	for _, p := range []string{"Udp", "Udp6"} {
		if r := t.One("netns", netns, "protocol", p, "counter", "OutDatagrams"); r.Mean(s.mask) >= lost {
			f.proof(t, s, r.Sentence(), r.Mean(s.mask), t.Unit, fmt.Sprintf("%s datagrams/s are sent over UDP, which does not slow down when they are lost", count(r.Mean(s.mask))))
			datagramSender(l, f, s)
		}
	}
}

// Who is seen to send datagrams: less than seldom of a CPU says nothing, and whoever takes less than mostly of what all take is
// one of several.
const senderSeldom, senderMostly = 0.01, 0.8

// datagramSender adds who sends datagrams, where CPUs were sampled: the kernel counts those of processes nowhere. In which namespace a
// process does is not in the samples, so it accuses nobody by itself.
func datagramSender(l *Look, f *Finding, s spell) {
	k := stacksOf(l)
	if !k.enough(s.mask) {
		return
	}
	var rows []*Row
	by, all := map[string]float64{}, 0.0
	for _, r := range k.rows {
		for _, name := range r.path {
			if name == "udp_sendmsg" || name == "udpv6_sendmsg" {
				v := k.share(r, s.mask)
				rows = append(rows, r.Row)
				by[r.process] += v
				all += v
				break
			}
		}
	}
	who := actors(k.table, rows, s.mask)
	if len(who) == 0 || by[who[0].name] < max(senderSeldom, senderMostly*all) {
		return
	}
	v := by[who[0].name]
	f.proof(k.table, s, who[0].sentence(k.table, "kernel"), v, "CPU", fmt.Sprintf("%s sends datagrams, which takes it %s of a CPU in the kernel, %s of what all who do take (sampled)", who[0], percent(v), percent(v/all)))
}

func backlogLoses(l *Look) {
	drops, squeezes := l.Table(softnetDrops), l.Table(softnetSqueezes)
	for _, r := range drops.Rows {
		cpu := r.Word("cpu")
		if cpu == "" {
			continue
		}
		s, ok := lasting(drops, known(r), func(c int) bool { return r.At(c) >= errorsRate })
		if !ok {
			continue
		}
		handled := l.Table(softnetPackets).One("cpu", cpu)
		v := r.Mean(s.mask)
		share := v / (or(handled.Mean(s.mask), 0) + v)
		f := l.Found("softnet-cpu"+clean(cpu), severityOfLoss(share), 0.9, Culprit{Kind: "cpu", Name: cpu},
			fmt.Sprintf("CPU %s loses %s received packets/s, %s, for %s: its backlog is full.", clean(cpu), count(v), percent(share), s))
		f.proof(drops, s, r.Sentence(), v, drops.Unit, fmt.Sprintf("%s packets/s dropped at the backlog of CPU %s", count(v), clean(cpu)))
		if q := squeezes.One("cpu", cpu); q.Mean(s.mask) >= 0.5 {
			f.proof(squeezes, s, q.Sentence(), q.Mean(s.mask), squeezes.Unit, fmt.Sprintf("%s times a second receiving stopped with packets left", count(q.Mean(s.mask))))
		}
		f.Verify = "cat /proc/net/softnet_stat; sysctl net.core.netdev_max_backlog"
		f.Fix = &Fix{"sysctl net.core.netdev_max_backlog=10000", "sysctl net.core.netdev_max_backlog=1000", "low: a longer queue; 1000 is the kernel's own value, restore yours"}
	}
	var worst *Row
	var when spell
	for _, r := range squeezes.Rows {
		if s, ok := lasting(squeezes, known(r), func(c int) bool { return r.At(c) >= squeezeRate }); ok && r.Word("cpu") != "" && r.Mean(s.mask) > or(worst.Mean(when.mask), 0) {
			worst, when = r, s
		}
	}
	if worst != nil {
		v := worst.Mean(when.mask)
		f := l.Found("softnet-squeezed", Low, 0.8, Culprit{Kind: "cpu", Name: worst.Word("cpu")},
			fmt.Sprintf("CPU %s stops receiving %s times a second with packets left, for %s: a round's budget is too small.", clean(worst.Word("cpu")), count(v), when))
		f.proof(squeezes, when, worst.Sentence(), v, squeezes.Unit, fmt.Sprintf("%s squeezes a second on CPU %s", count(v), clean(worst.Word("cpu"))))
		f.but(0, "Nothing is lost by it: the packets are taken in the next round.")
		f.Verify = "cat /proc/net/softnet_stat; sysctl net.core.netdev_budget net.core.netdev_budget_usecs"
		f.Fix = &Fix{"sysctl net.core.netdev_budget=600", "sysctl net.core.netdev_budget=300", "low: longer rounds; 300 is the kernel's own value, restore yours"}
	}
}

// socketsLose finds datagrams that came and found no room in the socket of their reader.
func socketsLose(l *Look) {
	t := l.Table(protocolEvents)
	for _, netns := range t.Keys("netns") {
		for _, p := range []string{"Udp", "Udp6"} {
			in := t.One("netns", netns, "protocol", p, "counter", "InDatagrams")
			lost := t.One("netns", netns, "protocol", p, "counter", "RcvbufErrors")
			if in == nil || lost == nil {
				continue
			}
			s, ok := lossy(t, lost.At, in.At, dropsRate, udpShare)
			if !ok {
				continue
			}
			v := lost.Mean(s.mask)
			share := v / (in.Mean(s.mask) + v)
			name := strings.ToLower(p)
			f := l.Found(slot(netns, name), severityOfLoss(share), 0.9, Culprit{Kind: "host", Name: name, NetNS: netns},
				fmt.Sprintf("%s datagrams/s, %s, are lost%s for %s because their programs read them too slowly: their socket buffers are full.", count(v), percent(share), inside(netns), s))
			f.proof(t, s, lost.Sentence(), v, t.Unit, fmt.Sprintf("%s datagrams/s found no room in their socket", count(v)))
			f.proof(t, s, in.Sentence(), in.Mean(s.mask), t.Unit, fmt.Sprintf("%s datagrams/s were delivered", count(in.Mean(s.mask))))
			f.Verify = within(netns, "ss -uampn") + "; " + within(netns, "nstat -az UdpRcvbufErrors")
		}
	}
}

// inside gives " in namespace box", or nothing for the tool's own.
func inside(netns string) string {
	if netns == "" {
		return ""
	}
	return " in namespace " + clean(netns)
}

// lossOf gives the mean of lost over handled plus lost.
func lossOf(lost, handled *Row, mask []bool) float64 {
	a, b := lost.Mean(mask), handled.Mean(mask)
	if !(a+b > 0) {
		return measure.NaN
	}
	return a / (a + b)
}
