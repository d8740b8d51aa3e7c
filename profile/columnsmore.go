package profile

import (
	"encoding/binary"
	"fmt"
	"math"
)

// columnsTimes is the part of the header of columns about the timeline.
type columnsTimes struct {
	Threads []string `json:"threads"`
	Moments int      `json:"moments"`
	Usual   float64  `json:"usual"`
	Within  float64  `json:"within"`
	Left    int      `json:"left"`
}

func (c *columnsTimes) len() int {
	if c == nil {
		return 0
	}
	return c.Moments
}

// timesAndLines sets the header of what follows the nodes, and returns the flags. An overview has
// neither.
func (h *columnsHeader) timesAndLines(t *Tree, overview bool) (flags uint16) {
	if overview {
		h.Timed = t.Times != nil
		return 0
	}
	if l := t.Times; l != nil {
		h.Times = &columnsTimes{l.Threads, len(l.Moments), l.Usual, l.Within, l.Left}
		flags |= withTimes
	}
	if h.Lines = len(t.Lines); h.Lines > 0 {
		flags |= withLines
	}
	return flags
}

// appendMoments appends columns of moments. place has the position of each node.
func appendMoments(b []byte, all []Moment, place []int32) []byte {
	for i := range all {
		b = binary.LittleEndian.AppendUint32(b, all[i].Thread)
	}
	for i := range all {
		b = binary.LittleEndian.AppendUint32(b, uint32(place[all[i].Node]))
	}
	for i := range all {
		b = binary.LittleEndian.AppendUint32(b, uint32(all[i].Kept))
	}
	if len(all)%2 != 0 { // numbers of eight bytes follow
		b = append(b, 0, 0, 0, 0)
	}
	for _, of := range momentAmounts {
		for i := range all {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(*of(&all[i])))
		}
	}
	return b
}

// momentAmounts are the columns of moments of eight bytes.
//
// table: the order in docs/FORMATS.md
var momentAmounts = []func(*Moment) *float64{
	func(m *Moment) *float64 { return &m.At },
	func(m *Moment) *float64 { return &m.For },
	func(m *Moment) *float64 { return &m.Amount },
}

// appendLineRows appends columns of source lines. used has the index of each function in the
// output + 1; lines of others are of node 0's, which has none.
func appendLineRows(b []byte, all []LineRow, used []uint32) []byte {
	for i := range all {
		b = binary.LittleEndian.AppendUint32(b, max(used[all[i].Function], 1)-1)
	}
	for i := range all {
		b = binary.LittleEndian.AppendUint32(b, uint32(all[i].Line))
	}
	for i := range all {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(all[i].Self))
	}
	for i := range all {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(all[i].Total))
	}
	return b
}

// parseMore reads what follows the nodes.
func (h *columnsHeader) parseMore(t *Tree, rest []byte) error {
	n := h.Times.len()
	if n < 0 || h.Lines < 0 || n > len(rest)/momentBytes || h.Lines > len(rest)/lineRowBytes {
		return fmt.Errorf("%d moments and %d lines in %d bytes", n, h.Lines, len(rest))
	}
	times := (n*12+7)&^7 + n*24
	if want := times + h.Lines*lineRowBytes; len(rest) != want {
		return fmt.Errorf("%d bytes of times and lines, want %d", len(rest), want)
	}
	if h.Times != nil {
		l := &Timeline{Threads: h.Times.Threads, Moments: make([]Moment, n), Usual: h.Times.Usual,
			Within: h.Times.Within, Left: h.Times.Left}
		if err := parseMoments(l, t.Len(), rest[:times]); err != nil {
			return err
		}
		t.Times = l
	}
	rest = rest[times:]
	u32 := func(i int) uint32 { return binary.LittleEndian.Uint32(rest[4*i:]) }
	f64 := func(i int) float64 {
		return math.Float64frombits(binary.LittleEndian.Uint64(rest[8*i:]))
	}
	for i := range h.Lines {
		r := LineRow{u32(i), int32(u32(h.Lines + i)), f64(h.Lines + i), f64(2*h.Lines + i)}
		if uint64(r.Function) >= uint64(len(t.Functions)) || r.Line <= 0 ||
			!finite(r.Self) || !finite(r.Total) {
			return fmt.Errorf("line %d of %d: %+v", i, h.Lines, r)
		}
		t.Lines = append(t.Lines, r)
	}
	return nil
}

// parseMoments reads the moments of a tree with some nodes.
func parseMoments(l *Timeline, nodes int, b []byte) error {
	n := len(l.Moments)
	u32 := func(i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
	for i := range l.Moments {
		m := &l.Moments[i]
		m.Thread, m.Node, m.Kept = u32(i), int32(u32(n+i)), int32(u32(2*n+i))
		for k, of := range momentAmounts {
			at := (n*12+7)&^7 + 8*(k*n+i)
			if *of(m) = math.Float64frombits(binary.LittleEndian.Uint64(b[at:])); !finite(*of(m)) {
				return fmt.Errorf("moment %d of %d: %+v", i, n, *m)
			}
		}
		before := i == 0 || l.Moments[i-1].Thread < m.Thread ||
			l.Moments[i-1].Thread == m.Thread && l.Moments[i-1].At <= m.At
		if uint64(m.Thread) >= uint64(len(l.Threads)) || m.Node < 0 || int(m.Node) >= nodes ||
			m.Kept < -1 || !before {
			return fmt.Errorf("moment %d of %d: %+v", i, n, *m)
		}
	}
	return nil
}

// finite reports whether an amount is a number of at least 0.
func finite(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }
