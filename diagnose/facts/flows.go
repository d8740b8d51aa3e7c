package facts

import (
	"sort"
	"strconv"

	"culprit/diagnose"
	"culprit/measure"
)

// Flow is one TCP connection of this machine, with its rate over the cells in mask.
type Flow struct {
	NetNS, Local, Localport, Peer, Peerport, Process, Side string
	PID                                                    int
	// B/s of payload in the requested direction
	Rate float64
	Row  *diagnose.Row
}

// Pair returns the addresses of both ends in the plain form.
func (f *Flow) Pair() (local, peer string) { return PlainAddress(f.Local), PlainAddress(f.Peer) }

// FlowOf returns the connection of a row of a tcp.flow table. Its rate is 0.
func FlowOf(r *diagnose.Row) *Flow {
	pid, _ := strconv.Atoi(r.Word("pid")) // 0: the process is not known
	return &Flow{
		NetNS: r.Word("netns"), Local: r.Word("local"), Localport: r.Word("localport"),
		Peer: r.Word("peer"), Peerport: r.Word("peerport"), Process: r.Word("process"),
		Side: r.Word("side"), PID: pid, Row: r,
	}
}

// FlowsOf returns the flows of tcp.flow.bytes in one direction that keep accepts, the fastest
// first.
func FlowsOf(t *diagnose.Table, direction string, mask []bool, keep func(*Flow) bool) []*Flow {
	var at [9]int
	for i, field := range [...]string{"netns", "local", "localport", "peer", "peerport", "pid",
		"process", "side", "direction"} {
		at[i] = t.Column(field)
	}
	var out []*Flow
	var block []Flow // allocated in blocks: there may be tens of thousands
	for _, r := range t.Rows {
		if r.WordAt(at[8]) != direction {
			continue
		}
		rate := r.Part(mask)
		if !(rate > 0) {
			continue
		}
		if len(block) == cap(block) {
			block = make([]Flow, 0, 256)
		}
		pid, _ := strconv.Atoi(r.WordAt(at[5]))
		block = append(block, Flow{NetNS: r.WordAt(at[0]), Local: r.WordAt(at[1]),
			Localport: r.WordAt(at[2]), Peer: r.WordAt(at[3]), Peerport: r.WordAt(at[4]),
			Process: r.WordAt(at[6]), Side: r.WordAt(at[7]), PID: pid, Rate: rate, Row: r})
		if f := &block[len(block)-1]; keep(f) {
			out = append(out, f)
		} else {
			block = block[:len(block)-1]
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Rate > out[j].Rate })
	return out
}

// RowIn returns the row of the same connection in another tcp.flow table. more are the words of the
// fields that follow those of a connection.
func (f *Flow) RowIn(t *diagnose.Table, more ...string) *diagnose.Row {
	r := f.Row
	words := []string{r.Word("netns"), r.Word("local"), r.Word("localport"), r.Word("peer"),
		r.Word("peerport"), r.Word("pid"), r.Word("process"), r.Word("side")}
	return t.Exact(append(words, more...))
}

// FlowGroup is the sum of flows with a common property.
type FlowGroup struct {
	Rate  float64
	Flows []*Flow
}

// GroupFlows returns the flows grouped by key, the fastest group first.
func GroupFlows[K comparable](flows []*Flow, key func(*Flow) K) []FlowGroup {
	at := map[K]int{}
	var out []FlowGroup
	for _, f := range flows {
		k := key(f)
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, FlowGroup{})
		}
		out[i].Rate += f.Rate
		out[i].Flows = append(out[i].Flows, f)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Rate > out[j].Rate })
	return out
}

// Overhead of a segment on Ethernet in bytes: preamble 8, header 14, FCS 4, gap 12, IPv4 20, TCP 20
// and time stamps 12. IPv6 adds 20.
const segmentCost, segmentCost6 = 90, 110

// usualMSS is the payload of a full segment with an MTU of 1,500 and time stamps.
const usualMSS = 1448

// WireRate estimates the rate of a flow on the wire in B/s, from its segment size. It is a lower
// bound: small segments have more overhead.
func (f *Flow) WireRate(mss *diagnose.Table) float64 {
	m := f.RowIn(mss).Max()
	if !(m >= 48) {
		m = usualMSS
	}
	cost := float64(segmentCost)
	for _, c := range PlainAddress(f.Peer) {
		if c == ':' {
			cost = segmentCost6
			break
		}
	}
	return f.Rate * (m + cost) / m
}

// SumRows returns the sum of rows of connections, NaN when nothing is known.
func SumRows(t *diagnose.Table, rows []*diagnose.Row, mask []bool) float64 {
	if len(rows) == 0 {
		return measure.NaN
	}
	return t.Part(t.Sum(rows), mask)
}
