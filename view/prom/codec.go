package prom

import (
	"encoding/binary"
	"fmt"
	"math"

	"culprit/measure"
	"culprit/wire"
)

// Tables go from the server to a worker. They are exact: all bits of their values.
//
//	table    stretches, losses of (reason, events), notes, texts, rows
//	stretch  start, step, cells of elapsed time
//	row      a number of a text for each field; before; past distributions; for each stretch what
//	         there is: 0 nothing, 1 a value per cell, 2 a distribution per cell, 3 both
//	distribution  number of counts; unless that is 0: base, first bucket, counts, sum

// What a row has in a stretch.
const (
	hasValues byte = 1 << iota
	hasDists
)

// appendTable appends a table. The error is errTooMuch above limit bytes.
func appendTable(b []byte, t *table, fields, limit int) ([]byte, error) {
	b = wire.AppendUint(b, uint64(len(t.stretches)))
	cells := 0
	for i := range t.stretches {
		s := &t.stretches[i]
		b = wire.AppendInt(wire.AppendInt(b, int64(s.start)), int64(s.step))
		b = wire.AppendUint(b, uint64(len(s.elapsed)))
		for _, e := range s.elapsed {
			b = wire.AppendInt(b, int64(e))
		}
		cells += len(s.elapsed)
	}
	b = wire.AppendUint(b, uint64(len(t.loss)))
	for _, l := range t.loss {
		b = wire.AppendUint(wire.AppendString(b, l.Reason), l.Events)
	}
	b = wire.AppendStrings(b, t.notes)
	texts, numbers := []string(nil), map[string]uint64{}
	for _, r := range t.rows {
		for _, text := range r.key {
			if _, ok := numbers[text]; !ok {
				numbers[text] = uint64(len(texts))
				texts = append(texts, text)
			}
		}
	}
	b = wire.AppendUint(wire.AppendStrings(b, texts), uint64(fields))
	b = wire.AppendUint(b, uint64(len(t.rows)))
	if more := len(t.rows) * (8*cells + 4*fields + 32); more < limit {
		b = append(make([]byte, 0, len(b)+more), b...)
	}
	for _, r := range t.rows {
		for _, text := range r.key {
			b = wire.AppendUint(b, numbers[text])
		}
		if b = appendRow(b, r, t.stretches); len(b) > limit {
			return nil, fmt.Errorf("%w (%d rows of %d cells)", errTooMuch, len(t.rows), cells)
		}
	}
	return b, nil
}

// appendRow appends what a row has.
func appendRow(b []byte, r *row, stretches []stretch) []byte {
	b = wire.AppendFloat(b, r.before)
	b = appendDists(b, r.past)
	for n := range stretches {
		var values []float64
		var dists []measure.Dist
		if n < len(r.values) {
			values = r.values[n]
		}
		if n < len(r.dists) {
			dists = r.dists[n]
		}
		has := byte(0)
		if values != nil {
			has |= hasValues
		}
		if dists != nil {
			has |= hasDists
		}
		b = append(b, has)
		if values != nil {
			b = wire.AppendUint(b, uint64(len(values)))
			for _, v := range values {
				b = wire.AppendFloat(b, v)
			}
		}
		if dists != nil {
			b = appendDists(b, dists)
		}
	}
	return b
}

func appendDists(b []byte, list []measure.Dist) []byte {
	b = wire.AppendUint(b, uint64(len(list)))
	for i := range list {
		d := &list[i]
		b = wire.AppendUint(b, uint64(len(d.Counts)))
		if len(d.Counts) == 0 {
			continue
		}
		b = wire.AppendInt(append(b, d.Base), int64(d.First))
		for _, n := range d.Counts {
			b = wire.AppendUint(b, n)
		}
		b = wire.AppendFloat(b, d.Sum)
	}
	return b
}

// readTable reads the table of a metric, without its cell and time.
func readTable(d *wire.Decoder, m *metric) *table {
	t := &table{index: map[string]int{}}
	t.stretches = make([]stretch, d.Count(3))
	for i := range t.stretches {
		s := &t.stretches[i]
		s.start, s.step = measure.Time(d.Int()), measure.Span(d.Int())
		s.elapsed = make([]measure.Span, d.Count(1))
		for c := range s.elapsed {
			s.elapsed[c] = measure.Span(d.Int())
		}
		if s.step <= 0 {
			d.Fail("cells of %v", s.step)
		}
	}
	for range d.Count(2) {
		t.loss = append(t.loss, measure.Loss{Reason: d.String(), Events: d.Uint()})
	}
	t.notes = d.Strings()
	texts := d.Strings()
	if fields := d.Uint(); fields != uint64(len(m.by)) {
		d.Fail("%s is by %d fields, not %d", m.name, fields, len(m.by))
	}
	rows := make([]row, d.Count(9))
	t.rows = make([]*row, len(rows))
	for i := range rows {
		r := &rows[i]
		t.rows[i] = r
		r.key = make([]string, len(m.by))
		for j := range r.key {
			n := d.Uint()
			if n >= uint64(len(texts)) {
				d.Fail("text %d of %d", n, len(texts))
				return t
			}
			r.key[j] = texts[n]
		}
		if readRow(d, r, t.stretches); d.Err != nil {
			return t
		}
	}
	return t
}

// readRow reads what appendRow has written.
func readRow(d *wire.Decoder, r *row, stretches []stretch) {
	r.before, r.past = d.Float(), readDists(d)
	r.values, r.dists = make([][]float64, len(stretches)), make([][]measure.Dist, len(stretches))
	for n := range stretches {
		has := d.Byte()
		if has&hasValues != 0 {
			raw := d.Bytes(8 * d.Count(8))
			values := make([]float64, len(raw)/8)
			for c := range values {
				values[c] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*c:]))
			}
			r.values[n] = values
		}
		if has&hasDists != 0 {
			r.dists[n] = readDists(d)
		}
		if max(len(r.values[n]), len(r.dists[n])) > len(stretches[n].elapsed) {
			d.Fail("more values than cells")
		}
	}
}

// readDists reads what appendDists has written; nil: none.
func readDists(d *wire.Decoder) []measure.Dist {
	n := d.Count(1)
	if n == 0 {
		return nil
	}
	out := make([]measure.Dist, n)
	for i := range out {
		counts := d.Count(1)
		if counts == 0 {
			continue
		}
		out[i] = measure.Dist{
			Base: d.Byte(), First: int32(d.Int()), Counts: make([]uint64, counts),
		}
		for c := range out[i].Counts {
			out[i].Counts[c] = d.Uint()
		}
		out[i].Sum = d.Float()
	}
	return out
}
