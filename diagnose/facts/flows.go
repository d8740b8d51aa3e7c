package facts

import (
	"sort"
	"strconv"

	"culprit/diagnose"
	"culprit/measure"
)

// Flow is one TCP connection of this machine, with what is known of it over the masked cells.
type Flow struct {
	NetNS, Local, Localport, Peer, Peerport, Process, Side string
	PID                                                    int
	Rate                                                   float64 // B/s of payload in the direction asked for
	Row                                                    *diagnose.Row
}

// Pair gives "10.0.0.1 -> 10.0.0.2" as the payload goes.
func (f *Flow) Pair() (local, peer string) { return PlainAddress(f.Local), PlainAddress(f.Peer) }

// FlowsOf gives the flows of tcp.flow.bytes in one direction that keep accepts, the greatest first.
func FlowsOf(t *diagnose.Table, direction string, mask []bool, keep func(*Flow) bool) []*Flow {
	var at [9]int
	for i, field := range [...]string{"netns", "local", "localport", "peer", "peerport", "pid", "process", "side", "direction"} {
		at[i] = t.Column(field)
	}
	var out []*Flow
	var room []Flow // of so many at once: there may be tens of thousands
	for _, r := range t.Rows {
		if r.WordAt(at[8]) != direction {
			continue
		}
		rate := r.Part(mask)
		if !(rate > 0) {
			continue
		}
		if len(room) == cap(room) {
			room = make([]Flow, 0, 256)
		}
		pid, _ := strconv.Atoi(r.WordAt(at[5]))
		room = append(room, Flow{NetNS: r.WordAt(at[0]), Local: r.WordAt(at[1]), Localport: r.WordAt(at[2]), Peer: r.WordAt(at[3]), Peerport: r.WordAt(at[4]),
			Process: r.WordAt(at[6]), Side: r.WordAt(at[7]), PID: pid, Rate: rate, Row: r})
		if f := &room[len(room)-1]; keep(f) {
			out = append(out, f)
		} else {
			room = room[:len(room)-1]
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Rate > out[j].Rate })
	return out
}

// RowIn gives the row of another tcp.flow table for the same connection; more are the words of the fields which that table
// has after those of a connection.
func (f *Flow) RowIn(t *diagnose.Table, more ...string) *diagnose.Row {
	r := f.Row
	words := []string{r.Word("netns"), r.Word("local"), r.Word("localport"), r.Word("peer"), r.Word("peerport"), r.Word("pid"), r.Word("process"), r.Word("side")}
	return t.Exact(append(words, more...))
}

// FlowGroup adds up flows that have something in common.
type FlowGroup struct {
	Rate  float64
	Flows []*Flow
}

// GroupFlows gives the flows by their keys, the greatest group first.
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

// What TCP payload costs on an Ethernet, a segment: preamble 8, header 14, FCS 4, gap 12, IPv4 20, TCP 20 and time
// stamps 12. IPv6 adds 20.
const segmentCost, segmentCost6 = 90, 110

// usualMSS is the payload of a full segment on an MTU of 1,500 with time stamps.
const usualMSS = 1448

// WireRate estimates what a flow's payload takes on the wire, from its segment size. B/s. Small segments take more than
// this says: it is a lower bound.
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

// SumRows adds rows of connections up, NaN where nothing is known.
func SumRows(t *diagnose.Table, rows []*diagnose.Row, mask []bool) float64 {
	if len(rows) == 0 {
		return measure.NaN
	}
	return t.Part(t.Sum(rows), mask)
}
