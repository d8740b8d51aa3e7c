package remote

import (
	"encoding/binary"
	"math"
	"slices"

	"culprit/measure"
	"culprit/wire"
)

// tick is a copy of what a source measured at one reading.
type tick struct {
	number  uint64 // 1 for the first tick of a run
	end     measure.Time
	batches []measure.Batch
	costs   []statCost   // that changed since the tick before
	outside measure.Span // measure.ExternalMeter's cost of the source
	size    int          // bytes of memory, about
}

// statCost is the cumulative cost of reading a statistic.
type statCost struct {
	stat int // index in the source's list
	cost measure.Span
}

// copyBatch copies b into out and reuses the memory of out. before is the batch at the same place
// of the tick before: equal shapes share their keys. It returns the size of the copy.
func copyBatch(out, before, b *measure.Batch) int {
	size := 200 + 8*len(b.Values)
	values, dists := out.Values[:0], out.Dists[:0]
	*out = measure.Batch{
		Stat: b.Stat, By: before.By, Over: b.Over, Shape: b.Shape,
		Labels: b.Labels[:len(b.Labels):len(b.Labels)],
		Frames: b.Frames[:len(b.Frames):len(b.Frames)],
		Keys:   before.Keys, Values: append(values, b.Values...),
		Loss: slices.Clone(b.Loss), Notes: slices.Clone(b.Notes),
	}
	if !slices.Equal(out.By, b.By) {
		out.By = slices.Clone(b.By)
	}
	same := b.Shape != 0 && b.Shape == before.Shape && b.Stat == before.Stat &&
		len(b.Keys) == len(before.Keys)
	if !same {
		out.Keys = slices.Clone(b.Keys)
		size += 4 * len(b.Keys)
	}
	for _, d := range b.Dists {
		d.Counts = slices.Clone(d.Counts)
		size += 48 + 8*len(d.Counts)
		dists = append(dists, d)
	}
	if len(b.Dists) > 0 {
		out.Dists = dists
	}
	return size
}

// Limits of the tables of a run.
const (
	maxTables = 16        // tables of words; as many of frames
	maxSlots  = 1 << 14   // batches of one tick
	maxTable  = 1<<31 - 1 // entries
)

// encoder writes the ticks of one run for one connection. Batches share tables of words and of
// frames: a table is append-only, and each entry is sent once. Keys of an unchanged shape are sent
// once too.
type encoder struct {
	stats  map[measure.StatID]int
	words  tables[string]
	frames tables[measure.Frame]
	slots  []slot
}

// slot is what was sent last at one place of a tick's list of batches.
type slot struct {
	stat  int
	by    []string
	shape measure.Shape
	keys  int
	table int // of words
	known int // length of the words
}

// tables are append-only tables by their number.
type tables[T comparable] struct {
	all  [][]T // as far as they were sent
	next int   // number of the table that the next new one replaces
}

// extends reports whether long begins with the elements of short. Equal addresses suffice.
func extends[T comparable](short, long []T) bool {
	n := len(short)
	return n == 0 || len(long) >= n && (&long[0] == &short[0] || slices.Equal(long[:n], short))
}

// find returns the number of the table of list, the number of its entries that were sent before,
// and whether it is a new table.
func (t *tables[T]) find(list []T) (number, sent int, fresh bool) {
	for i, have := range t.all {
		switch {
		case len(list) >= len(have) && extends(have, list):
			t.all[i] = list
			return i, len(have), false
		case len(list) < len(have) && extends(list, have):
			return i, len(list), false
		}
	}
	if len(t.all) < maxTables {
		t.all = append(t.all, list)
		return len(t.all) - 1, 0, true
	}
	number = t.next
	t.next = (t.next + 1) % maxTables
	t.all[number] = list
	return number, 0, true
}

func newEncoder(stats []measure.Stat) *encoder {
	e := &encoder{stats: map[measure.StatID]int{}}
	for i := range stats {
		e.stats[stats[i].ID] = i
	}
	return e
}

// append appends the payload of a tick: see docs/FORMATS.md.
func (e *encoder) append(b []byte, id uint32, t *tick) []byte {
	b = wire.AppendUint(wire.AppendUint(b, uint64(id)), t.number)
	b = wire.AppendInt(b, int64(t.outside))
	b = wire.AppendUint(b, uint64(len(t.costs)))
	for _, c := range t.costs {
		b = wire.AppendInt(wire.AppendUint(b, uint64(c.stat)), int64(c.cost))
	}
	b = wire.AppendUint(b, uint64(len(t.batches)))
	for i := range t.batches {
		if i == len(e.slots) {
			e.slots = append(e.slots, slot{stat: -1})
		}
		b = e.appendBatch(b, &e.slots[i], &t.batches[i])
	}
	return b
}

// Flags of a batch.
const (
	flagSameHead   = 1 << iota // statistic and fields are those of this place in the tick before
	flagSameKeys               // and so are the keys and the table of words
	flagShape                  // the rows have a shape
	flagFrames                 // it has frames
	flagDists                  // it has distributions, not values
	flagNewWords               // the table of words is a new one
	flagNewFrames              // the table of frames is a new one
	flagUnmeasured             // its interval is empty; Start and End are equal
)

func (e *encoder) appendBatch(b []byte, s *slot, m *measure.Batch) []byte {
	stat := e.stats[m.Stat]
	flags := byte(0)
	if s.stat == stat && slices.Equal(s.by, m.By) {
		flags |= flagSameHead
	}
	words, wordsSent, fresh := e.words.find(m.Labels)
	if fresh {
		flags |= flagNewWords
	}
	frames, framesSent := 0, 0
	if len(m.Frames) > 0 {
		flags |= flagFrames
		frames, framesSent, fresh = e.frames.find(m.Frames)
		if fresh {
			flags |= flagNewFrames
		}
	}
	if m.Shape != 0 {
		flags |= flagShape
		if flags&(flagSameHead|flagNewWords|flagFrames) == flagSameHead && s.shape == m.Shape &&
			s.keys == len(m.Keys) && s.table == words && s.known <= len(m.Labels) {
			flags |= flagSameKeys
		}
	}
	if len(m.Dists) > 0 {
		flags |= flagDists
	}
	if m.Over.Start == m.Over.End {
		flags |= flagUnmeasured
	}
	*s = slot{stat: stat, by: m.By, shape: m.Shape, keys: len(m.Keys), table: words,
		known: len(m.Labels)}

	b = append(b, flags)
	if flags&flagSameHead == 0 {
		b = wire.AppendStrings(wire.AppendUint(b, uint64(stat)), m.By)
	}
	b = wire.AppendInt(b, int64(m.Over.End))
	if flags&flagUnmeasured == 0 {
		b = wire.AppendInt(b, int64(m.Over.Span()))
	}
	b = wire.AppendUint(b, uint64(words))
	b = wire.AppendUint(b, uint64(len(m.Labels)))
	b = wire.AppendUint(b, uint64(len(m.Labels)-wordsSent))
	for _, w := range m.Labels[wordsSent:] {
		b = wire.AppendString(b, w)
	}
	if flags&flagFrames != 0 {
		b = appendFrames(b, frames, framesSent, m.Frames)
	}
	b = wire.AppendUint(b, uint64(m.Rows()))
	if flags&flagSameKeys == 0 {
		for _, k := range m.Keys {
			b = binary.LittleEndian.AppendUint32(b, uint32(k))
		}
	}
	for i := range m.Dists {
		b = appendDist(b, &m.Dists[i])
	}
	if len(m.Dists) == 0 {
		for _, v := range m.Values {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
	}
	return wire.AppendStrings(appendLoss(b, m.Loss), m.Notes)
}

func appendFrames(b []byte, table, sent int, all []measure.Frame) []byte {
	b = wire.AppendUint(b, uint64(table))
	b = wire.AppendUint(b, uint64(len(all)))
	b = wire.AppendUint(b, uint64(len(all)-sent))
	for _, f := range all[sent:] {
		b = wire.AppendString(wire.AppendString(b, f.Symbol), f.Module)
		b = wire.AppendInt(wire.AppendUint(b, f.Offset), int64(f.Parent))
	}
	return b
}

func appendDist(b []byte, d *measure.Dist) []byte {
	b = wire.AppendInt(append(b, d.Base), int64(d.First))
	b = wire.AppendUint(b, uint64(len(d.Counts)))
	for _, n := range d.Counts {
		b = wire.AppendUint(b, n)
	}
	return wire.AppendFloat(b, d.Sum)
}

// reading is a decoded tick. Its batches are valid until the next one of the same run.
type reading struct {
	number  uint64
	outside measure.Span
	costs   []statCost
	batches []*measure.Batch
}

// tickDecoder reads the ticks that an encoder of the same run wrote. Words and frames stay valid
// after the next tick, as those of any source.
type tickDecoder struct {
	stats  []measure.Stat
	words  [][]string
	frames [][]measure.Frame
	slots  []*decodedSlot
	out    reading
}

// decodedSlot is what was read last at one place of a tick's list of batches.
type decodedSlot struct {
	batch  measure.Batch
	stat   int // -1: nothing yet
	stacks []bool
	table  int // of words
	known  int // length of the words
}

// decode reads a payload after its ID. After an error the decoder must not be used again.
func (t *tickDecoder) decode(d *decoder) (*reading, error) {
	r := &t.out
	r.number, r.outside = d.Uint(), measure.Span(d.Int())
	r.costs, r.batches = r.costs[:0], r.batches[:0]
	for range d.Count(2) {
		c := statCost{stat: int(d.ID()), cost: measure.Span(d.Int())}
		if c.stat >= len(t.stats) {
			d.Fail("statistic %d of %d", c.stat, len(t.stats))
		}
		r.costs = append(r.costs, c)
	}
	n := d.Count(7)
	if n > maxSlots {
		d.Fail("%d batches in a tick", n)
		n = 0
	}
	for i := range n {
		if i == len(t.slots) {
			t.slots = append(t.slots, &decodedSlot{stat: -1})
		}
		t.batch(d, t.slots[i])
		if d.Err != nil {
			return nil, d.Err
		}
		r.batches = append(r.batches, &t.slots[i].batch)
	}
	return r, d.End()
}

func (t *tickDecoder) batch(d *decoder, s *decodedSlot) {
	b, flags := &s.batch, d.Byte()
	if flags&flagSameHead == 0 {
		t.head(d, s)
	} else if s.stat < 0 {
		d.Fail("the first batch of a place has no head")
	}
	b.Over.End = measure.Time(d.Int())
	b.Over.Start = b.Over.End
	if flags&flagUnmeasured == 0 {
		b.Over.Start = b.Over.End.Add(-measure.Span(d.Int()))
	}
	table, known := s.table, s.known
	s.table = t.readWords(d, flags, b)
	s.known = len(b.Labels)
	b.Frames = nil
	if flags&flagFrames != 0 {
		t.readFrames(d, flags, b)
	}
	rows := t.rows(d, flags, b)
	if flags&flagSameKeys != 0 {
		if len(b.Keys) != rows*len(b.By) || table != s.table || known > s.known ||
			flags&(flagSameHead|flagNewWords|flagFrames|flagShape) != flagSameHead|flagShape {
			d.Fail("%d rows have the %d keys of other ones", rows, len(b.Keys))
		}
	} else {
		t.keys(d, flags, s, rows)
	}
	t.values(d, flags, b, rows)
	b.Loss, b.Notes = d.loss(), d.Strings()
}

// head reads the statistic and the fields of a batch.
func (t *tickDecoder) head(d *decoder, s *decodedSlot) {
	stat := int(d.ID())
	if stat >= len(t.stats) {
		d.Fail("statistic %d of %d", stat, len(t.stats))
		return
	}
	st := &t.stats[stat]
	s.stat, s.batch.Stat, s.batch.By = stat, st.ID, d.Strings()
	for _, name := range s.batch.By {
		if _, i := st.Field(name); i < 0 {
			d.Fail("%s has no field %q", st.ID, name)
		}
	}
	s.stacks = st.Stacks(s.batch.By)
	s.batch.Keys = s.batch.Keys[:0]
}

// table returns entries 0 to all of a table after it has appended fresh ones that read returns.
func table[T any](d *decoder, have *[][]T, isNew bool, size int, read func() T) (int, []T) {
	number, all := d.Uint(), d.Uint()
	fresh := d.Count(size)
	if number >= maxTables || all > maxTable {
		d.Fail("table %d of %d entries", number, all)
		return 0, nil
	}
	for len(*have) <= int(number) {
		*have = append(*have, nil)
	}
	list := (*have)[number]
	if isNew {
		list = nil // readers may keep the old one
	}
	from := int(all) - fresh
	if from < 0 || from > len(list) || fresh > 0 && from != len(list) {
		d.Fail("table %d has %d entries, not %d", number, len(list), from)
		return 0, nil
	}
	for range fresh {
		list = append(list, read())
	}
	(*have)[number] = list
	return int(number), list[:all:all]
}

func (t *tickDecoder) readWords(d *decoder, flags byte, b *measure.Batch) (number int) {
	number, b.Labels = table(d, &t.words, flags&flagNewWords != 0, 1, d.String)
	return number
}

func (t *tickDecoder) readFrames(d *decoder, flags byte, b *measure.Batch) {
	module, fresh := "", 0
	_, b.Frames = table(d, &t.frames, flags&flagNewFrames != 0, 4, func() measure.Frame {
		fresh++
		f := measure.Frame{Symbol: d.String()}
		raw := d.Bytes(d.Count(1))
		if string(raw) != module { // callers are often of the same file
			module = string(raw)
		}
		f.Module, f.Offset, f.Parent = module, d.Uint(), int32(d.Int())
		return f
	})
	for _, f := range b.Frames[len(b.Frames)-min(fresh, len(b.Frames)):] {
		if f.Parent < -1 || int(f.Parent) >= len(b.Frames) {
			d.Fail("the caller of a frame is frame %d of %d", f.Parent, len(b.Frames))
			return
		}
	}
}

// rows reads the number of rows, which the payload can contain.
func (t *tickDecoder) rows(d *decoder, flags byte, b *measure.Batch) int {
	size := 8
	if flags&flagDists != 0 {
		size = 11
	}
	if flags&flagSameKeys == 0 {
		size += 4 * len(b.By)
	}
	return d.Count(size)
}

func (t *tickDecoder) keys(d *decoder, flags byte, s *decodedSlot, rows int) {
	b := &s.batch
	raw := d.Bytes(4 * rows * len(b.By))
	b.Keys = b.Keys[:0]
	for i := 0; len(raw) > 0; i++ {
		k := binary.LittleEndian.Uint32(raw)
		raw = raw[4:]
		limit := len(b.Labels)
		if s.stacks != nil && s.stacks[i%len(b.By)] {
			limit = len(b.Frames)
		}
		if int64(k) >= int64(limit) {
			d.Fail("label %d of %d", k, limit)
			return
		}
		b.Keys = append(b.Keys, measure.Label(k))
	}
	b.Shape = 0
	if flags&flagShape != 0 {
		b.Shape = measure.NewShape() // shapes of the other process may equal some of this one
	}
}

func (t *tickDecoder) values(d *decoder, flags byte, b *measure.Batch, rows int) {
	b.Values, b.Dists = b.Values[:0], b.Dists[:0]
	if flags&flagDists != 0 {
		for range rows {
			b.Dists = append(b.Dists, d.dist())
		}
		return
	}
	raw := d.Bytes(8 * rows)
	for ; len(raw) > 0; raw = raw[8:] {
		b.Values = append(b.Values, math.Float64frombits(binary.LittleEndian.Uint64(raw)))
	}
}

// maxBucket is the last bucket number of any distribution: those of Base 6.
const maxBucket = 65 << 6

func (d *decoder) dist() measure.Dist {
	out := measure.Dist{Base: d.Byte()}
	first := d.Int()
	n := d.Count(1)
	if out.Base > 6 || first < 0 || first+int64(n) > maxBucket+1 {
		d.Fail("a distribution of base %d with buckets from %d", out.Base, first)
		return out
	}
	out.First = int32(first)
	if n > 0 {
		out.Counts = make([]uint64, n)
		for i := range out.Counts {
			out.Counts[i] = d.Uint()
		}
	}
	out.Sum = d.Float()
	return out
}
