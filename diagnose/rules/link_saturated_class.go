package rules

import (
	"fmt"
	"math"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// fullClasses finds classes of HTB shapers at their ceiling: their traffic gets no more, even on an
// idle link. full are the full links.
func fullClasses(l *diagnose.Look, n facts.Network, full []*fullLink) {
	rates, through := l.Table(facts.QdiscRate), l.Table(facts.QdiscBytes)
	if classes := rates.Where("kind", "htb"); len(classes) > 0 && !through.Have() {
		l.Unchecked("the traffic of shaper classes is missing: %s", through.Why)
		return
	}
	type class struct {
		f              *fullLink
		handle, parent string
	}
	var found []class
	for _, r := range rates.Rows {
		_, minor, ok := strings.Cut(r.Word("handle"), ":")
		d, ceil := n.Get(facts.DeviceID{NetNS: r.Word("netns"), Name: r.Word("device")}), r.Last()
		if r.Word("kind") != "htb" || !ok || minor == "" || !(ceil > 0) || d.Loopback() {
			continue
		}
		if lim := facts.LimitOf(l, d, "tx"); lim.Bits > 0 &&
			ceil >= threshold.ClassOfLink*lim.Bits {
			continue
		}
		b := through.Exact(r.Words())
		if b == nil {
			continue
		}
		s, ok := diagnose.Lasting(through, diagnose.HasValue(b), func(c int) bool {
			return b.At(c)*8 >= threshold.LinkFull*ceil
		})
		if !ok || b.Mean(s.Mask)*8 > threshold.LinkBeyond*ceil {
			continue
		}
		found = append(found,
			class{&fullLink{d: d, direction: "tx", wire: b,
				lim: facts.Capacity{Bits: ceil, From: facts.FromShaper}, s: s}, r.Word("handle"),
				r.Word("parent")})
	}
	for _, c := range found {
		inner := false // a class below it is full: it is nearer to the traffic
		for _, o := range found {
			inner = inner || o.f.d == c.f.d && o.parent == c.handle
		}
		if !inner {
			c.f.accuseClass(l, n, c.handle, full)
		}
	}
}

func (f *fullLink) accuseClass(l *diagnose.Look, n facts.Network, handle string, full []*fullLink) {
	d, s, t := f.d, f.s, f.wire.Table
	rate := f.wire.Mean(s.Mask)
	waits := l.Table(facts.QdiscBacklog).Exact(f.wire.Words()).Mean(s.Mask)
	severity := diagnose.Medium // the limit is intended
	if waits >= 1 {
		severity = diagnose.High
	}
	culprit, cause := diagnose.Culprit{Kind: "interface", Name: d.Name, NetNS: d.NetNS,
		Interface: d.Name}, ""
	x, payload, links := f.inClass(l, n)
	if x != nil {
		local, peer := x.Pair()
		culprit = diagnose.Culprit{Kind: "process", Name: x.Process, PID: x.PID, NetNS: d.NetNS,
			Interface: d.Name, Local: local, Peer: peer}
		cause = fmt.Sprintf("; %s sends at that rate to %s", phrase.ProcessName(x.Process, x.PID),
			phrase.Clean(peer))
	}
	fd := l.Found(phrase.Identity(d.NetNS, d.Name)+"/class-"+phrase.Clean(handle), severity, 0.85,
		culprit,
		fmt.Sprintf("Class %s of the shaper on %s is full: %s for %s%s.", phrase.Clean(handle),
			phrase.DeviceName(d.NetNS, d.Name), phrase.OutOf(rate*8, f.lim.Bits), s, cause))
	fd.AddEvidence(t, s, f.wire.Query(), rate*8, measure.BitsPerSec,
		fmt.Sprintf("%s pass it, %s of its ceiling of %s", phrase.BitRate(rate*8),
			phrase.Percent(rate*8/f.lim.Bits), phrase.LinkRate(f.lim.Bits))).
		CompareTo(f.lim.Bits, "ceiling")
	if waits >= 1 {
		q := l.Table(facts.QdiscBacklog)
		fd.AddEvidence(q, s, q.QueryOf(nil, "netns", d.NetNS, "device", d.Name, "handle", handle),
			waits, measure.Bytes, phrase.Bytes(waits)+" queued in it")
	}
	if x != nil {
		flows := l.Table(facts.FlowBytes)
		fd.AddEvidence(flows, s, flows.QueryOf(nil, "netns", d.NetNS, "pid", facts.PIDWord(x.PID),
			"direction", "tx"), payload*8, measure.BitsPerSec,
			fmt.Sprintf("%s: %s of payload, %s", phrase.ProcessName(x.Process, x.PID),
				phrase.BitRate(payload*8), phrase.Plural(links, "connection", "connections")))
		fd.AddCaveat(0,
			"The counters do not list the connections of a class: these match its rate.")
	} else {
		fd.AddCaveat(0, "The counters do not list the connections of a class: see the filters of "+
			"the shaper.")
	}
	whole := false
	for _, o := range full {
		whole = whole || o.d == d
	}
	if w := facts.OnLine(l, d, "tx"); !whole && w.Mean(s.Mask) > rate {
		fd.AddEvidence(w.Table, s, w.Query(), w.Mean(s.Mask)*8, measure.BitsPerSec,
			fmt.Sprintf("%s in total on %s, which is not full", phrase.BitRate(w.Mean(s.Mask)*8),
				phrase.Clean(d.Name)))
	}
	dev := phrase.Shell(d.Name)
	fd.Verify = phrase.InNamespace(d.NetNS, "tc -s class show dev "+dev) + "; " +
		phrase.InNamespace(d.NetNS, "tc filter show dev "+dev)
	if x != nil {
		fd.Verify += "; " + phrase.InNamespace(d.NetNS, "ss -tinp dst "+phrase.Shell(culprit.Peer))
		fd.Cover("tcp-retransmits", func(o *diagnose.Finding) bool {
			return o.Culprit.NetNS == d.NetNS && o.Culprit.Peer == culprit.Peer
		})
		fd.Cover("peer-slow", func(o *diagnose.Finding) bool {
			return o.Culprit.NetNS == d.NetNS && o.Culprit.Name == culprit.Peer
		})
	}
	fd.Cover("net-drops", func(o *diagnose.Finding) bool {
		return o.Culprit.NetNS == d.NetNS && o.Culprit.Name == d.Name && o.Severity != diagnose.High
	})
}

// inClass returns the largest connection of the only program whose connections to one peer carry as
// much as the class, with their payload and their number; nil when there is no such program, or
// several.
func (f *fullLink) inClass(l *diagnose.Look, n facts.Network) (sender *facts.Flow, payload float64,
	links int) {
	_, flows := f.carried(l, n)
	type end struct {
		name, peer string
		pid        int
	}
	mss, rate := l.Table(facts.FlowMSS), f.wire.Mean(f.s.Mask)
	for _, g := range facts.GroupFlows(flows,
		func(x *facts.Flow) end { _, peer := x.Pair(); return end{x.Process, peer, x.PID} }) {
		sum := 0.0
		for _, x := range g.Flows {
			sum += x.WireRate(mss)
		}
		if math.Abs(sum-rate) > threshold.ClassLike*rate {
			continue
		}
		if sender != nil {
			return nil, 0, 0
		}
		sender, payload, links = g.Flows[0], g.Rate, len(g.Flows)
	}
	return sender, payload, links
}
