package store

import (
	"crypto/sha256"
	"slices"

	"culprit/measure"
)

// builder makes segments from blocks: from a part of a window, or from segments to be joined. It
// reuses its slices.
type builder struct {
	codec      *codec
	packer     packer
	rollPacker packer // of the columns of rollups
	dense      []float64
	all        []float64
	row        rolled
	part       rolled
	rolls      [keptColumns][]float64 // of the rows of a group of a rollup
	keySorter  keySorter

	keysOf     []*block // the blocks that keyTable belongs to; nil: none
	keyTable   *keyTable
	rowSources [][]source
	keysID     uint64 // ID under which that table is stored; 0: not stored yet

	nextID    func() uint64 // returns the next ID, of segments and of values that they share
	sharedIDs map[[sha256.Size]byte]uint64
	hour      int64 // number of the hour that sharedIDs belongs to
	plain     []byte
}

// share returns the ID of ticks or keys. Equal values of one hour have one ID; a new value is
// written with this segment. When a built segment is not written, or may not have been, the caller
// must call forget.
func (w *builder) share(s *segment, kind byte, head, plain []byte) uint64 {
	h := sha256.New()
	h.Write([]byte{kind})
	h.Write(head)
	h.Write(plain)
	sum := [sha256.Size]byte(h.Sum(nil))
	id, ok := w.sharedIDs[sum]
	if !ok {
		id = w.nextID()
		w.sharedIDs[sum] = id
		value := w.codec.compress(head, plain)
		s.shared = append(s.shared, pair{ownKey(kind, id), value})
		s.bytes += uint64(len(value))
		if kind == kindClock {
			s.shared = append(s.shared, pair{ownKey(kindClockAgain, id), value})
			s.bytes += uint64(len(value))
		}
	}
	return id
}

// beginHour starts the sharing of values in an hour. A corrupt shared value therefore affects an
// hour at most.
func (w *builder) beginHour(at measure.Time) {
	if slot := slotOf(at, hour); w.sharedIDs == nil || slot != w.hour {
		w.forget()
		w.hour = slot
	}
}

// forget makes later segments share nothing with earlier ones.
func (w *builder) forget() { w.sharedIDs = map[[sha256.Size]byte]uint64{} }

// forgetShared removes deleted ticks and keys.
func (w *builder) forgetShared(ids map[uint64]bool) {
	for sum, id := range w.sharedIDs {
		if ids[id] {
			delete(w.sharedIDs, sum)
		}
	}
}

// keys returns the key table of blocks and the sources of its rows. The result is cached for the
// same slice of blocks, because blocks become segments of several resolutions. done clears it.
func (w *builder) keys(stack []bool, blocks []*block) (*keyTable, [][]source) {
	if len(w.keysOf) == 0 || len(w.keysOf) != len(blocks) || &w.keysOf[0] != &blocks[0] {
		if len(blocks) == 1 && !slices.Contains(stack, true) {
			w.keyTable, w.rowSources = w.keySorter.sortKeys(len(stack), blocks[0])
		} else {
			w.keyTable, w.rowSources = mergeKeys(stack, blocks)
		}
		w.keysOf, w.keysID = blocks, 0
	}
	return w.keyTable, w.rowSources
}

func (w *builder) done() {
	w.keysOf, w.keyTable, w.rowSources = nil, nil, nil
	w.keySorter.forget()
	if cap(w.plain) > 1<<18 { // few datasets need it
		w.plain = nil
	}
}

// A group of a rollup is closed at this many cells of its rows, or this many rows.
const (
	rollValues = 4096
	rollRows   = 1024
)

// build makes one segment of a resolution from blocks of the same or a finer resolution; nil when
// they have no ticks. The blocks must not change until done is called. The segment has its ID.
func (w *builder) build(d *set, resolution uint8, blocks []*block) (*segment, error) {
	m := w.start(d, resolution, blocks)
	if m == nil {
		return nil, nil
	}
	var err error
	switch {
	case d.desc.Stat.Kind == measure.Dists:
		err = w.distributions(m, blocks, resolution == inTicks)
	case resolution == inTicks:
		err = w.columns(m, blocks)
	default:
		err = w.rollups(m, d, blocks)
	}
	if err != nil {
		return nil, err
	}
	return w.finish(m), nil
}

// segmentInProgress is a segment that is being built.
type segmentInProgress struct {
	s    *segment
	out  *block // its ticks or cells
	unit measure.Span
	into [][]int32 // per block, per tick or cell: its index in out
	rows []int     // of its groups

	kind  rollKind // of a rollup
	plans []rollPlan
	n     int // rows of the current group
}

func (w *builder) start(d *set, resolution uint8, blocks []*block) *segmentInProgress {
	w.packer.codec, w.rollPacker.codec = w.codec, w.codec
	m := &segmentInProgress{
		s:    &segment{entry: entry{set: d.desc.ID, resolution: resolution}},
		out:  &block{},
		unit: d.step(),
	}
	w.keys(d.stack, blocks)
	if resolution == inTicks {
		m.into = joinTicks(m.out, blocks)
	} else {
		m.unit = spanOf(resolution)
		m.into = joinCells(m.out, blocks, m.unit)
		m.kind = d.rollKind()
		for i, b := range blocks {
			m.plans = append(m.plans, planRoll(d, b, m.into[i]))
		}
		for k := range w.rolls {
			w.rolls[k] = w.rolls[k][:0]
		}
	}
	if len(m.out.ticks)+len(m.out.cells) == 0 {
		return nil
	}
	for i, b := range blocks {
		m.out.takeNotes(b, m.into[i], resolution != inTicks)
	}
	return m
}

func (w *builder) finish(m *segmentInProgress) *segment {
	s := m.s
	s.rows, s.groups, s.ticks = uint32(
		w.keyTable.rows,
	), uint32(
		len(s.packed),
	), uint32(
		len(m.out.ticks)+len(m.out.cells),
	)
	s.over = m.out.over(m.unit)
	if s.version = segmentVersion; !s.headerless() {
		s.head = s.header(m.rows)
	}
	s.bytes = uint64(len(s.head))
	w.plain = appendClock(w.plain[:0], m.unit, m.out)
	clock := w.share(s, kindClock, clockHead(s.resolution), w.plain)
	if w.keysID == 0 {
		w.plain = w.keyTable.append(w.plain[:0])
		w.keysID = w.share(s, kindKeys, keysHead(), w.plain)
	}
	s.id = w.nextID()
	s.clock, s.keys = uint32(s.id-clock), uint32(s.id-w.keysID)
	for _, g := range s.packed {
		s.bytes += uint64(len(g))
	}
	return s
}

// window makes the segments of a part of a window: of its ticks and of their minutes.
func (w *builder) window(d *set, blocks []*block) (both []*segment, err error) {
	_, from := w.keys(d.stack, blocks)
	single := func(sources []source) bool { return len(sources) == 1 }
	if d.desc.Stat.Kind == measure.Dists || len(blocks) != 1 ||
		slices.ContainsFunc(from, func(s []source) bool { return !single(s) }) {
		for _, resolution := range []uint8{inTicks, inMinutes} {
			s, err := w.build(d, resolution, blocks)
			if err != nil {
				return nil, err
			}
			if s != nil {
				both = append(both, s)
			}
		}
		return both, nil
	}
	// Each row is expanded to ticks once, for both segments.
	ticks, minutes, b := w.start(d, inTicks, blocks), w.start(d, inMinutes, blocks), blocks[0]
	if ticks == nil {
		return nil, nil
	}
	w.all = slices.Grow(w.all[:0], len(b.ticks))[:len(b.ticks)]
	for _, sources := range from {
		if err := b.column(int(sources[0].row), 0, len(b.ticks), w.all); err != nil {
			return nil, err
		}
		present, packed := 0, false
		if b.runsOf != nil {
			present, packed = w.packer.packRuns(b.runsOf(int(sources[0].row)), len(b.ticks))
		}
		if !packed {
			present = w.packer.packRow(w.all)
		}
		w.packed(ticks, present)
		if minutes != nil {
			w.row.reset(len(minutes.out.cells))
			w.row.ticks(w.all, b.ticks, &minutes.plans[0], minutes.out.cells)
			w.roll(minutes)
		}
	}
	w.endColumns(ticks)
	both = append(both, w.finish(ticks))
	if minutes != nil {
		w.endRolls(minutes)
		both = append(both, w.finish(minutes))
	}
	return both, nil
}

// over returns the time from the start of the first to the end of the last tick or cell.
func (b *block) over(unit measure.Span) (over measure.Interval) {
	take := func(at measure.Time) {
		if over.End == 0 && over.Start == 0 {
			over = measure.Interval{Start: at.Add(-unit), End: at}
		}
		over.Start, over.End = min(over.Start, at.Add(-unit)), max(over.End, at)
	}
	for _, t := range b.ticks {
		take(t.at)
	}
	for _, c := range b.cells {
		take(c.at)
	}
	return over
}

func (w *builder) columns(m *segmentInProgress, blocks []*block) error {
	w.all = slices.Grow(w.all[:0], len(m.out.ticks))[:len(m.out.ticks)]
	for _, sources := range w.rowSources {
		fillWith(w.all, absent())
		for _, src := range sources {
			b, to := blocks[src.block], m.into[src.block]
			if len(to) == 0 {
				continue
			}
			// The ticks of a block stay consecutive.
			out := w.all[to[0] : int(to[0])+len(to)]
			if err := b.column(int(src.row), 0, len(to), out); err != nil {
				return err
			}
		}
		w.column(m)
	}
	w.endColumns(m)
	return nil
}

// column adds the row in w.all.
func (w *builder) column(m *segmentInProgress) {
	w.packed(m, w.packer.packRow(w.all))
}

// packed counts a packed row that present ticks have, and closes a full group.
func (w *builder) packed(m *segmentInProgress, present int) {
	m.s.samples += uint64(present)
	if w.packer.rows >= groupRows || w.packer.size >= groupBytes {
		w.endColumns(m)
	}
}

func (w *builder) endColumns(m *segmentInProgress) {
	if w.packer.rows > 0 {
		m.rows = append(m.rows, w.packer.rows)
		m.s.packed = append(m.s.packed, slices.Clone(w.packer.finish()))
	}
}

func (w *builder) rollups(m *segmentInProgress, d *set, blocks []*block) error {
	cells := m.out.cells
	for _, sources := range w.rowSources {
		w.row.reset(len(cells))
		for _, src := range sources {
			b := blocks[src.block]
			if b.cells == nil {
				w.dense = slices.Grow(w.dense[:0], len(b.ticks))[:len(b.ticks)]
				if err := b.column(int(src.row), 0, len(b.ticks), w.dense); err != nil {
					return err
				}
				w.row.ticks(w.dense, b.ticks, &m.plans[src.block], cells)
				continue
			}
			w.part.reset(len(b.cells))
			if err := b.roll(int(src.row), &w.part.columns); err != nil {
				return err
			}
			w.row.cells(&w.part.columns, m.into[src.block], b.cells, cells)
		}
		w.roll(m)
	}
	w.endRolls(m)
	return nil
}

// roll adds the rolled-up row in w.row.
func (w *builder) roll(m *segmentInProgress) {
	for _, v := range w.row.columns[rollSum] {
		m.s.samples += uint64(b2i(v == v))
	}
	w.row.appendTo(&w.rolls, m.kind, m.out.cells)
	if m.n++; m.n >= rollRows || m.n*len(m.out.cells) >= rollValues {
		w.endRolls(m)
	}
}

func (w *builder) endRolls(m *segmentInProgress) {
	if m.n == 0 {
		return
	}
	for k, all := range w.rolls {
		w.rollPacker.packRow(all)
		w.rolls[k] = all[:0]
	}
	m.rows = append(m.rows, m.n)
	m.s.packed = append(m.s.packed, slices.Clone(w.rollPacker.finish()))
	m.n = 0
}

// distributions merges the distributions of a row that belong to one cell.
func (w *builder) distributions(m *segmentInProgress, blocks []*block, ticks bool) error {
	g, s := distGroup{}, m.s
	flush := func() {
		m.rows = append(m.rows, g.rows)
		s.packed = append(s.packed, w.codec.compress(nil, g.b))
		g = distGroup{}
	}
	for _, sources := range w.rowSources {
		var entries []distEntry
		cells := map[int32]*measure.Dist{}
		for _, src := range sources {
			to := m.into[src.block]
			err := blocks[src.block].dists(int(src.row), func(t int, d *reader) {
				switch {
				case to[t] < 0:
				case ticks:
					entries = append(entries, distEntry{int(to[t]), slices.Clone(d.b)})
				default:
					if cells[to[t]] == nil {
						cells[to[t]] = &measure.Dist{}
					}
					mergeBuckets(d, cells[to[t]])
				}
			})
			if err != nil {
				return err
			}
		}
		for c, d := range cells {
			entries = append(entries, distEntry{int(c), appendBuckets(nil, d)})
		}
		slices.SortFunc(entries, func(a, b distEntry) int { return a.tick - b.tick })
		s.samples += uint64(len(entries))
		if g.row(entries); g.rows >= groupRows || len(g.b) >= groupBytes {
			flush()
		}
	}
	if g.rows > 0 {
		flush()
	}
	return nil
}
