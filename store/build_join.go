package store

import (
	"slices"

	"culprit/measure"
)

// joinTicks appends the ticks of blocks and returns, per block, the index of each tick in out.
func joinTicks(out *block, blocks []*block) [][]int32 {
	into := make([][]int32, len(blocks))
	for i, b := range blocks {
		base := int32(len(out.ticks))
		for j := range b.ticks {
			into[i] = append(into[i], base+int32(j))
		}
		out.ticks = append(out.ticks, b.ticks...)
		for _, l := range b.loss {
			out.loss = append(out.loss, tickLoss{l.tick + base, l.loss})
		}
	}
	return into
}

// joinCells makes cells of the span from ticks or cells, in order of time. It returns, per block,
// the index of each tick or cell in out; -1 when it was not measured.
func joinCells(out *block, blocks []*block, span measure.Span) [][]int32 {
	cells := make([][]cellInfo, len(blocks))
	// per tick or cell of a block: its index in the block's cells
	place := make([][]int32, len(blocks))
	for i, b := range blocks {
		if b.cells == nil {
			cells[i], place[i] = rollTicks(b.ticks, span)
			continue
		}
		for j, c := range b.cells {
			c.at = measure.Time((slotOf(c.at, span) + 1) * int64(span))
			cells[i] = append(cells[i], c)
			place[i] = append(place[i], int32(j))
		}
	}
	at := map[measure.Time]int32{}
	var ends []measure.Time
	for _, cs := range cells {
		for _, c := range cs {
			if _, ok := at[c.at]; !ok {
				at[c.at] = 0
				ends = append(ends, c.at)
			}
		}
	}
	slices.Sort(ends)
	for i, e := range ends {
		at[e] = int32(i)
	}
	out.cells = make([]cellInfo, len(ends))
	into := make([][]int32, len(blocks))
	for i, b := range blocks {
		for _, c := range cells[i] {
			o := &out.cells[at[c.at]]
			o.at = c.at
			o.elapsed += c.elapsed
			o.ticks += c.ticks
			o.partial.span += c.partial.span
			o.partial.ticks += c.partial.ticks
		}
		for _, p := range place[i] {
			to := int32(-1)
			if p >= 0 {
				to = at[cells[i][p].at]
			}
			into[i] = append(into[i], to)
		}
		for _, l := range b.loss {
			to := into[i][l.tick]
			if to < 0 { // the loss of an unmeasured tick goes to the nearest cell
				to = nearest(into[i], int(l.tick))
			}
			if to >= 0 {
				out.addLoss(to, l.loss)
			}
		}
	}
	return into
}

// takeNotes adds the notes of a block whose ticks or cells were added to b. With near, a note of an
// unmeasured tick goes to the nearest cell.
func (b *block) takeNotes(from *block, into []int32, near bool) {
	at := map[int32]int{} // note -> its newest run
	for _, r := range from.noteRuns {
		note := int32(slices.Index(b.notes, from.notes[r.note]))
		if note < 0 {
			note = int32(len(b.notes))
			b.notes = append(b.notes, from.notes[r.note])
		}
		for t := r.first; t <= r.last; t++ {
			to := into[t]
			if to < 0 {
				if near {
					to = nearest(into, int(t))
				}
				if to < 0 {
					continue
				}
			}
			if k, ok := at[note]; ok && (b.noteRuns[k].last == to || b.noteRuns[k].last+1 == to) {
				b.noteRuns[k].last = to
				continue
			}
			at[note] = len(b.noteRuns)
			b.noteRuns = append(b.noteRuns, noteRun{note, to, to})
		}
	}
}

func nearest(into []int32, at int) int32 {
	for d := range into {
		if at-d >= 0 && into[at-d] >= 0 {
			return into[at-d]
		}
		if at+d < len(into) && into[at+d] >= 0 {
			return into[at+d]
		}
	}
	return -1
}

func (b *block) addLoss(tick int32, l measure.Loss) {
	for i := range b.loss {
		if b.loss[i].tick == tick && b.loss[i].loss.Reason == l.Reason {
			b.loss[i].loss.Events += l.Events
			return
		}
	}
	b.loss = append(b.loss, tickLoss{tick, l})
}
