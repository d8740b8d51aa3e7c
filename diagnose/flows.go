package diagnose

import (
	"sort"
	"strconv"

	"culprit/measure"
)

// flow is one TCP connection of this machine, with what is known of it over the masked cells.
type flow struct {
	netns, local, localport, peer, peerport, process, side string
	pid                                                    int
	rate                                                   float64 // B/s of payload in the direction asked for
	row                                                    *Row
}

// pair gives "10.0.0.1 -> 10.0.0.2" as the payload goes.
func (f *flow) pair() (local, peer string) { return plainAddress(f.local), plainAddress(f.peer) }

// flowsOf gives the flows of tcp.flow.bytes in one direction that keep accepts, the greatest first.
func flowsOf(t *Table, direction string, mask []bool, keep func(*flow) bool) []*flow {
	var at [9]int
	for i, field := range [...]string{"netns", "local", "localport", "peer", "peerport", "pid", "process", "side", "direction"} {
		at[i] = t.column(field)
	}
	var out []*flow
	var room []flow // of so many at once: there may be tens of thousands
	for _, r := range t.Rows {
		if r.word(at[8]) != direction {
			continue
		}
		rate := r.Part(mask)
		if !(rate > 0) {
			continue
		}
		if len(room) == cap(room) {
			room = make([]flow, 0, 256)
		}
		pid, _ := strconv.Atoi(r.word(at[5]))
		room = append(room, flow{netns: r.word(at[0]), local: r.word(at[1]), localport: r.word(at[2]), peer: r.word(at[3]), peerport: r.word(at[4]),
			process: r.word(at[6]), side: r.word(at[7]), pid: pid, rate: rate, row: r})
		if f := &room[len(room)-1]; keep(f) {
			out = append(out, f)
		} else {
			room = room[:len(room)-1]
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].rate > out[j].rate })
	return out
}

// same gives the row of another tcp.flow table for the same connection; more are the words of the fields which that table
// has after those of a connection.
func (f *flow) same(t *Table, more ...string) *Row {
	r := f.row
	words := []string{r.Word("netns"), r.Word("local"), r.Word("localport"), r.Word("peer"), r.Word("peerport"), r.Word("pid"), r.Word("process"), r.Word("side")}
	return t.row(append(words, more...))
}

// group adds up flows that have something in common.
type group struct {
	rate  float64
	flows []*flow
}

// groups gives the flows by their keys, the greatest group first.
func groups[K comparable](flows []*flow, key func(*flow) K) []group {
	at := map[K]int{}
	var out []group
	for _, f := range flows {
		k := key(f)
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, group{})
		}
		out[i].rate += f.rate
		out[i].flows = append(out[i].flows, f)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].rate > out[j].rate })
	return out
}

// What TCP payload costs on an Ethernet, a segment: preamble 8, header 14, FCS 4, gap 12, IPv4 20, TCP 20 and time
// stamps 12. IPv6 adds 20.
const segmentCost, segmentCost6 = 90, 110

// usualMSS is the payload of a full segment on an MTU of 1,500 with time stamps.
const usualMSS = 1448

// onWire estimates what a flow's payload takes on the wire, from its segment size. B/s. Small segments take more than
// this says: it is a lower bound.
func (f *flow) onWire(mss *Table) float64 {
	m := f.same(mss).Max()
	if !(m >= 48) {
		m = usualMSS
	}
	cost := float64(segmentCost)
	for _, c := range plainAddress(f.peer) {
		if c == ':' {
			cost = segmentCost6
			break
		}
	}
	return f.rate * (m + cost) / m
}

// sumRows adds rows of connections up, NaN where nothing is known.
func sumRows(t *Table, rows []*Row, mask []bool) float64 {
	if len(rows) == 0 {
		return measure.NaN
	}
	return t.part(t.Sum(rows), mask)
}
