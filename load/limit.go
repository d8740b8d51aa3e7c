package load

import (
	"encoding/json"
	"fmt"
	"strings"

	"culprit/measure"
)

// Limit is the resource that limits the traffic.
type Limit struct {
	Kind  string `json:"kind"`           // link cpu rate window buffer loss finding none
	Where string `json:"where"`          // here or there; "" when it does not apply
	Name  string `json:"name,omitempty"` // of the interface, the CPU, the rule
	Share Number `json:"share"`          // of that resource, or of the time
	Text  string `json:"text"`           // the same for people, without a full stop
}

// A resource beyond these thresholds is the limit.
const (
	// As in the diagnosis's rule of links: TCP fills a line to 94 to 100 %. An interface that
	// carries a seventh more than its limit is not limited by it.
	linkFull, linkOver = 0.90, 1.15
	// rateKept: a pace that is reached up to a fiftieth is the limit. Bursts at the ends of a test
	// are less.
	rateKept = 0.98
	// threadFull: a thread that never waits gets all of a CPU except the time of interrupts and
	// other tasks.
	threadFull = 0.90
	// allFull and oneFull: of all CPUs together and of one, which may work for the network outside
	// of any thread.
	allFull, oneFull = 0.95, 0.97
	// halfTime: a sender without data under way for half of the time is not limited by the network.
	halfTime = 0.5
	// windowTime: of the time with data under way. A connection with a window of a fourth of the
	// path's capacity was stopped by it 46 to 50 % of that time, since a busy receiver opens its
	// window in steps.
	windowTime = 0.4
	// minWindowShare: below it a window is not mentioned.
	minWindowShare = 0.05
	// minLoss: when one of two hundred segments is lost, no algorithm that treats loss as
	// congestion fills a path longer than some milliseconds.
	minLoss = 0.005
)

// finding is the used part of a finding of `culprit diagnose --json`.
type finding struct {
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	Claim    string `json:"claim"`
	Culprit  struct {
		Name      string `json:"name"`
		Interface string `json:"interface"`
	} `json:"culprit"`
}

// findings returns the findings of an end's diagnosis with medium or high severity; nil when the
// diagnosis is missing or can't be parsed.
func (e *End) findings() []finding {
	if e == nil {
		return nil
	}
	var r struct {
		Findings []finding `json:"findings"`
	}
	if json.Unmarshal(e.Report, &r) != nil {
		return nil
	}
	var out []finding
	for _, f := range r.Findings {
		if f.Severity == "high" || f.Severity == "medium" {
			out = append(out, f)
		}
	}
	return out
}

// A namedEnd is one end with its name, here or there.
type namedEnd struct {
	*End
	where string
}

// fullest returns the wire of the end's device with the highest share, among the given directions.
// An unknown share is the lowest. nil: no wire is known.
func (a namedEnd) fullest(among func(direction string) bool) *Wire {
	var best *Wire
	for i := range a.Wire {
		if w := &a.Wire[i]; among(w.Direction) &&
			(best == nil || w.Share > best.Share || !best.Share.Known()) {
			best = w
		}
	}
	return best
}

func (r *Run) both() []namedEnd {
	var out []namedEnd
	for _, a := range []namedEnd{{r.Here, "here"}, {r.There, "there"}} {
		if a.End != nil {
			out = append(out, a)
		}
	}
	return out
}

// limits returns the limit of each direction of the test.
func (r *Run) limits(t *Test) []Limit {
	var out []Limit
	for _, w := range t.ways() {
		out = append(out, r.limit(t, w))
	}
	return out
}

// limit checks the possible limits. One hides the next: a pace that is reached leaves all other
// resources idle, a full link fills windows and queues, a full CPU fills the windows.
func (r *Run) limit(t *Test, w Way) Limit {
	for _, look := range []func(*Test, Way) (Limit, bool){
		r.byPace, r.byLink, r.byQuota, r.byCPU, r.byWindow, r.byLoss, r.byFinding,
	} {
		if l, ok := look(t, w); ok {
			return l
		}
	}
	return r.noLimit(t, w)
}

func (r *Run) byPace(t *Test, w Way) (Limit, bool) {
	share, text := r.Throughput(w)/Number(t.Rate), "--rate"
	if t.Kind == Exchange {
		share = unknown()
		if r.Here != nil {
			share = r.Here.Total.Exchanges() / Number(t.Pace)
		}
	}
	if t.Rate == 0 && t.Pace == 0 || !(share >= rateKept) {
		return Limit{}, false
	}
	return Limit{Kind: "rate", Share: share,
		Text: fmt.Sprintf("%s: %s of it was kept", text, percent(share))}, true
}

// byLink returns a link that is full in the direction of the traffic, at either end.
func (r *Run) byLink(t *Test, w Way) (Limit, bool) {
	var best Limit
	for _, a := range r.both() {
		sends := (a.where == "here") == (w == Up)
		for _, wire := range a.Wire {
			if (wire.Direction == "tx") != sends && t.Kind == Stream || !(wire.Share >= linkFull) ||
				wire.Share > linkOver {
				continue
			}
			if best.Kind == "" || wire.Share > best.Share {
				text := fmt.Sprintf(
					"the link %s %s: %s carries %s of %s%s", printable(a.Device), a.where,
					wire.Direction, percent(wire.Share), Bits(wire.Capacity),
					capacityFrom(wire.From),
				)
				best = Limit{"link", a.where, a.Device, wire.Share, text}
			}
		}
	}
	if best.Kind != "" {
		return best, true
	}
	// An interface below the device of the route, such as a bridge's port.
	for _, a := range r.both() {
		for _, f := range a.findings() {
			if f.Rule == "link-saturated" {
				return Limit{"link", a.where, printable(f.Culprit.Interface), unknown(),
					fmt.Sprintf("a link %s: %s", a.where, claim(f))}, true
			}
		}
	}
	return Limit{}, false
}

func capacityFrom(from string) string {
	switch from {
	case "ethtool":
		return ", the speed it has negotiated"
	case "qdisc":
		return ", which its shaper lets through"
	case "":
		return ""
	}
	return " (" + printable(from) + ")"
}

func claim(f finding) string { return strings.TrimSuffix(printable(f.Claim), ".") }

// byQuota returns a throttled control group. Its CPUs idle and its threads don't look busy.
func (r *Run) byQuota(*Test, Way) (Limit, bool) {
	for _, a := range r.both() {
		for _, f := range a.findings() {
			if f.Rule == "cgroup-throttled" {
				return Limit{"finding", a.where, f.Rule, unknown(),
					fmt.Sprintf("by the diagnosis %s: %s", a.where, claim(f))}, true
			}
		}
	}
	return Limit{}, false
}

func (r *Run) byCPU(t *Test, w Way) (Limit, bool) {
	var best Limit
	consider := func(l Limit) {
		if best.Kind == "" || l.Share > best.Share {
			best = l
		}
	}
	for _, a := range r.both() {
		u := &a.Total.CPU
		if u.Thread < threadFull || !u.Thread.Known() {
			continue
		}
		what := "that receives"
		switch {
		case t.Kind == Exchange && a.where == "here":
			what = "that sends requests"
		case t.Kind == Exchange:
			what = "that responds"
		case (a.where == "here") == (w == Up):
			what = "that sends"
		}
		text := fmt.Sprintf("one CPU %s: the thread %s uses %s of it",
			a.where, what, percent(min(u.Thread, 1)))
		consider(Limit{"cpu", a.where, "thread", u.Thread, text})
	}
	if best.Kind != "" {
		return best, true
	}
	for _, a := range r.both() {
		u := &a.Total.CPU
		if share := (u.Machine + u.Modes["steal"]) / u.Of; share >= allFull {
			text := fmt.Sprintf("the CPUs %s: %s of %.0f are busy, %.2f of them with this test",
				a.where, percent(min(share, 1)), float64(u.Of), float64(u.Process))
			consider(Limit{"cpu", a.where, "all", share, text})
		} else if u.Share >= oneFull {
			text := fmt.Sprintf("CPU %s %s is busy %s of the time",
				printable(u.Busiest), a.where, percent(u.Share))
			consider(Limit{"cpu", a.where, u.Busiest, u.Share, text})
		}
	}
	return best, best.Kind != ""
}

// byWindow returns what the sender waited for according to its kernel.
func (r *Run) byWindow(t *Test, w Way) (Limit, bool) {
	sender, _ := r.ends(w)
	if t.Kind == Exchange || sender == nil || sender.Total.way(w) == nil {
		return Limit{}, false
	}
	tr := sender.Total.way(w)
	there, here := "there", "here"
	if w == Down {
		there, here = here, there
	}
	switch {
	case !(tr.Busy >= halfTime):
	case tr.Rwnd/tr.Busy >= windowTime && tr.Rwnd >= tr.Sndbuf:
		text := fmt.Sprintf(
			"the receiver's window: the sender waited for it %s of the time; the receiver "+
				"%s reads too slowly, or its buffer is too small for the path%s",
			percent(tr.Rwnd),
			there,
			windowOf(t),
		)
		return Limit{"window", there, "", tr.Rwnd, text}, true
	case tr.Sndbuf/tr.Busy >= windowTime:
		text := fmt.Sprintf("the sender's buffer: %s of the time it was full of data under way%s",
			percent(tr.Sndbuf), windowOf(t))
		return Limit{"buffer", here, "", tr.Sndbuf, text}, true
	}
	return Limit{}, false
}

func windowOf(t *Test) string {
	if t.Window > 0 {
		return fmt.Sprintf(" (--window %d)", t.Window)
	}
	return ""
}

func (r *Run) byLoss(t *Test, w Way) (Limit, bool) {
	sender, _ := r.ends(w)
	if t.Kind == Exchange || sender == nil || sender.Total.way(w) == nil {
		return Limit{}, false
	}
	if l, ok := r.byLostDatagrams(t, w); ok || t.UDP {
		return l, ok
	}
	tr := sender.Total.way(w)
	if share := tr.Retransmits / tr.Segments; share >= minLoss {
		control := orWord(printable(sender.Congestion), "the congestion control")
		text := fmt.Sprintf(
			"loss on the path: %s of the segments were sent again, and %s sends less",
			percent(share), control,
		)
		return Limit{"loss", "", sender.Congestion, share, text}, true
	}
	return Limit{}, false
}

// byLostDatagrams returns the loss that the receiver of datagrams has counted.
func (r *Run) byLostDatagrams(t *Test, w Way) (Limit, bool) {
	_, receiver := r.ends(w)
	if !t.UDP || receiver == nil || receiver.Total.way(w) == nil {
		return Limit{}, false
	}
	share := receiver.Total.way(w).UDP.LostShare()
	if !(share >= minLoss) {
		return Limit{}, false
	}
	return Limit{"loss", "", "", share, fmt.Sprintf(
		"loss: %s of the datagrams did not arrive; the path, or the receiver's buffer, "+
			"takes no more (culprit diagnose there names drops)", percent(share),
	)}, true
}

func orWord(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// byFinding returns another finding of either end's diagnosis that can slow traffic down.
func (r *Run) byFinding(*Test, Way) (Limit, bool) {
	for _, a := range r.both() {
		for _, f := range a.findings() {
			switch f.Rule {
			case "cpu-saturated",
				"cpu-one-saturated",
				"cpu-softirq",
				"net-drops",
				"tcp-retransmits",
				"link-below-mode",
				"memory-pressure",
				"swapping":
				return Limit{"finding", a.where, f.Rule, unknown(),
					fmt.Sprintf("by the diagnosis %s: %s", a.where, claim(f))}, true
			}
		}
	}
	return Limit{}, false
}

// noLimit returns a Limit of kind none that lists what was checked.
func (r *Run) noLimit(t *Test, w Way) Limit {
	var looked []string
	for _, a := range r.both() {
		one := "device unknown"
		if wire := a.fullest(func(direction string) bool {
			return t.Kind == Exchange || (direction == "tx") == ((a.where == "here") == (w == Up))
		}); wire != nil {
			one = fmt.Sprintf("link %s, speed unknown", printable(a.Device))
			if wire.Share.Known() {
				one = fmt.Sprintf("link %s %s %s", printable(a.Device), wire.Direction,
					percent(wire.Share))
			}
		}
		if u := &a.Total.CPU; u.Machine.Known() {
			one += fmt.Sprintf(", CPUs %s busy", percent(u.Machine/u.Of))
		}
		if u := &a.Total.CPU; u.Thread.Known() {
			one += fmt.Sprintf(", busiest thread %s", percent(u.Thread))
		}
		looked = append(looked, a.where+": "+one)
	}
	text := "nothing found (" + strings.Join(looked, "; ") + ")"
	sender, _ := r.ends(w)
	switch {
	case t.Kind == Exchange:
		text += ": a transaction waits for the path and for threads to be woken"
	case t.UDP:
	case sender == nil || sender.Total.way(w) == nil:
	default:
		if tr := sender.Total.way(w); tr.Busy.Known() {
			if tr.Busy < halfTime {
				text += fmt.Sprintf(
					": the sender had no data under way %s of the time", percent(1-tr.Busy),
				)
				return Limit{Kind: "none", Share: unknown(), Text: text}
			}
			text += fmt.Sprintf(": the sender had data under way %s of the time", percent(tr.Busy))
			if tr.Rwnd >= minWindowShare {
				text += fmt.Sprintf(", was stopped by the receiver's window %s", percent(tr.Rwnd))
			}
			if tr.Sndbuf >= minWindowShare {
				text += fmt.Sprintf(", by its own buffer %s", percent(tr.Sndbuf))
			}
			text += fmt.Sprintf("; the rest is the path between, or %s",
				orWord(printable(sender.Congestion), "the congestion control"))
		}
	}
	return Limit{Kind: "none", Share: unknown(), Text: text}
}

// mostFrequent returns the limit of a direction, by its index, that most runs have, in the text of
// the last of them.
func mostFrequent(runs []*Run, way int) Limit {
	count := map[string]int{}
	key := func(l Limit) string { return l.Kind + " " + l.Where + " " + l.Name }
	for _, r := range runs {
		count[key(r.Limits[way])]++
	}
	best := runs[0].Limits[way]
	for _, r := range runs {
		if l := r.Limits[way]; count[key(l)] >= count[key(best)] {
			best = l
		}
	}
	if n := count[key(best)]; n < len(runs) {
		best.Text = fmt.Sprintf("%s (in %d of %d runs)", best.Text, n, len(runs))
	}
	return best
}

// percent formats a ratio for people.
func percent(n Number) string {
	v := float64(n) * 100
	switch {
	case !n.Known():
		return "- %"
	case v >= 99.95 || v == 0:
		return fmt.Sprintf("%.0f %%", v)
	case v < 0.1:
		return fmt.Sprintf("%.2g %%", v)
	}
	return fmt.Sprintf("%.1f %%", v)
}

// Bits formats a rate with four digits: 957.1 Mbit/s.
func Bits(n Number) string {
	v := float64(n)
	if !n.Known() {
		return "- bit/s"
	}
	units := []string{"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"}
	v, i := measure.Prefix(v, 1000, 999.95, len(units)-1)
	return fmt.Sprintf("%.4g %s", v, units[i])
}
