package diagnose

import (
	"fmt"
	"math"
	"strings"

	"culprit/measure"
)

// When a class of a shaper counts as full, beside what holds for links.
const (
	// classOfLink: a class that may use nearly all of its link is full with the link, which tells it.
	classOfLink = 0.9
	// classLike: a program's connections that take as much as the class carries are taken for those in it: headers of small
	// packets are estimated, and counts of the two are read one after the other.
	classLike = 0.05
)

// fullClasses finds classes of HTB shapers at their ceiling: those in them get no more, however much of the link is free. full is
// the links that are.
func fullClasses(l *Look, n network, full []*fullLink) {
	rates, through := l.Table(qdiscRate), l.Table(qdiscBytes)
	if classes := rates.Where("kind", "htb"); len(classes) > 0 && !through.Have() {
		l.Unchecked("what goes through the classes of shapers is missing: %s", through.why)
		return
	}
	type class struct {
		f              *fullLink
		handle, parent string
	}
	var found []class
	for _, r := range rates.Rows {
		_, minor, ok := strings.Cut(r.Word("handle"), ":")
		d, ceil := n.get(place{r.Word("netns"), r.Word("device")}), r.Last()
		if r.Word("kind") != "htb" || !ok || minor == "" || !(ceil > 0) || d.loopback() {
			continue
		}
		if lim := limitOf(l, d, "tx"); lim.bits > 0 && ceil >= classOfLink*lim.bits {
			continue
		}
		b := through.row(r.words())
		if b == nil {
			continue
		}
		s, ok := lasting(through, known(b), func(c int) bool { return b.At(c)*8 >= linkFull*ceil })
		if !ok || b.Mean(s.mask)*8 > linkBeyond*ceil {
			continue
		}
		found = append(found, class{&fullLink{d: d, direction: "tx", wire: b, lim: limit{bits: ceil, from: "its shaper lets"}, s: s}, r.Word("handle"), r.Word("parent")})
	}
	for _, c := range found {
		inner := false // one within it is full: that one is nearer to who is in it
		for _, o := range found {
			inner = inner || o.f.d == c.f.d && o.parent == c.handle
		}
		if !inner {
			c.f.accuseClass(l, n, c.handle, full)
		}
	}
}

func (f *fullLink) accuseClass(l *Look, n network, handle string, full []*fullLink) {
	d, s, t := f.d, f.s, f.wire.table
	rate := f.wire.Mean(s.mask)
	waits := l.Table(qdiscBacklog).row(f.wire.words()).Mean(s.mask)
	severity := Medium // it is somebody's wish that it gets no more
	if waits >= 1 {
		severity = High
	}
	culprit, who := Culprit{Kind: "interface", Name: d.name, NetNS: d.netns, Interface: d.name}, ""
	x, payload, links := f.inClass(l, n)
	if x != nil {
		local, peer := x.pair()
		culprit = Culprit{Kind: "process", Name: x.process, PID: x.pid, NetNS: d.netns, Interface: d.name, Local: local, Peer: peer}
		who = fmt.Sprintf("; %s sends as much, to %s", named(x.process, x.pid), clean(peer))
	}
	fd := l.Found(slot(d.netns, d.name)+"/class-"+clean(handle), severity, 0.85, culprit,
		fmt.Sprintf("Class %s of the shaper on %s is full: %s for %s%s.", clean(handle), at(d.netns, d.name), outOf(rate*8, f.lim.bits), s, who))
	fd.proof(t, s, f.wire.Sentence(), rate*8, measure.BitsPerSec, fmt.Sprintf("%s go through it, %s of the %s of its ceiling", bitRate(rate*8), percent(rate*8/f.lim.bits), linkRate(f.lim.bits))).
		than(f.lim.bits, "ceiling")
	if waits >= 1 {
		q := l.Table(qdiscBacklog)
		fd.proof(q, s, q.Asking(nil, "netns", d.netns, "device", d.name, "handle", handle), waits, measure.Bytes, bytes(waits)+" wait in it")
	}
	if x != nil {
		flows := l.Table(flowBytes)
		fd.proof(flows, s, flows.Asking(nil, "netns", d.netns, "pid", pidWord(x.pid), "direction", "tx"), payload*8, measure.BitsPerSec,
			fmt.Sprintf("%s: %s of payload, %s", named(x.process, x.pid), bitRate(payload*8), plural(links, "connection", "connections")))
		fd.but(0, "Which connections are in the class is not told by the counters: it is these by how much they carry.")
	} else {
		fd.but(0, "Which connections are in the class is not told by the counters: the shaper's filters say it.")
	}
	whole := false
	for _, o := range full {
		whole = whole || o.d == d
	}
	if w := onLine(l, d, "tx"); !whole && w.Mean(s.mask) > rate {
		fd.proof(w.table, s, w.Sentence(), w.Mean(s.mask)*8, measure.BitsPerSec, fmt.Sprintf("%s in all on the wire of %s, which is not full", bitRate(w.Mean(s.mask)*8), clean(d.name)))
	}
	dev := shell(d.name)
	fd.Verify = within(d.netns, "tc -s class show dev "+dev) + "; " + within(d.netns, "tc filter show dev "+dev)
	if x != nil {
		fd.Verify += "; " + within(d.netns, "ss -tinp dst "+shell(culprit.Peer))
		fd.covering("tcp-retransmits", func(o *Finding) bool { return o.Culprit.NetNS == d.netns && o.Culprit.Peer == culprit.Peer })
		fd.covering("peer-slow", func(o *Finding) bool { return o.Culprit.NetNS == d.netns && o.Culprit.Name == culprit.Peer })
	}
	fd.covering("net-drops", func(o *Finding) bool {
		return o.Culprit.NetNS == d.netns && o.Culprit.Name == d.name && o.Severity != High
	})
}

// inClass gives the connection with most payload of the only program whose connections to one peer carry as much as the class, with
// their payload and how many they are; nil when none does, or several do.
func (f *fullLink) inClass(l *Look, n network) (who *flow, payload float64, links int) {
	_, flows := f.carried(l, n)
	type end struct {
		name, peer string
		pid        int
	}
	mss, rate := l.Table(flowMSS), f.wire.Mean(f.s.mask)
	for _, g := range groups(flows, func(x *flow) end { _, peer := x.pair(); return end{x.process, peer, x.pid} }) {
		sum := 0.0
		for _, x := range g.flows {
			sum += x.onWire(mss)
		}
		if math.Abs(sum-rate) > classLike*rate {
			continue
		}
		if who != nil {
			return nil, 0, 0
		}
		who, payload, links = g.flows[0], g.rate, len(g.flows)
	}
	return who, payload, links
}
