package store

import (
	"bytes"
	"encoding/binary"

	"culprit/measure"
)

// A distribution is stored as its non-empty buckets, in a part's blob after its length:
//
//	u8 base, uvarint buckets, { varint bucket - previous, uvarint count }, value sum

func appendBuckets(b []byte, d *measure.Dist) []byte {
	n := 0
	for _, c := range d.Counts {
		n += b2i(c > 0)
	}
	b = append(b, d.Base)
	b = appendUvarint(b, uint64(n))
	before := int64(0)
	for i, c := range d.Counts {
		if c > 0 {
			at := int64(d.First) + int64(i)
			b = binary.AppendVarint(b, at-before)
			b = appendUvarint(b, c)
			before = at
		}
	}
	return appendValue(b, canonical(d.Sum))
}

// maxBucket is above every bucket of 64-bit values at base 6.
const maxBucket = 64 << 6

// mergeBuckets adds a stored distribution to d; an empty d takes its base.
func mergeBuckets(r *reader, d *measure.Dist) {
	o := measure.Dist{Base: r.byte()}
	if o.Base > 6 {
		r.fail()
	}
	var at int64
	for i := range r.count() {
		at += r.varint()
		n := r.uvarint()
		if r.err != nil || at < 0 || at > maxBucket {
			r.fail()
			return
		}
		if i == 0 {
			o.First = int32(at)
		}
		if at < int64(o.First) {
			r.fail()
			return
		}
		for int64(len(o.Counts)) <= at-int64(o.First) {
			o.Counts = append(o.Counts, 0)
		}
		o.Counts[at-int64(o.First)] += n
	}
	if o.Sum = r.value(); r.err != nil {
		return
	}
	if len(d.Counts) == 0 && d.Sum == 0 {
		d.Base = o.Base
	}
	d.Merge(o)
}

// keepDist stores a distribution in the blob and returns its position. A second one of the same row
// and tick is merged with the first.
func (p *part) keepDist(row int, fresh bool, d *measure.Dist) float64 {
	if !fresh && p.state[row].seen == int32(len(p.ticks)-1) {
		var both measure.Dist
		mergeBuckets(p.distAt(p.state[row].now), &both)
		both.Merge(*d)
		d = &both
	}
	return p.store(func(b []byte) []byte { return appendBuckets(b, d) })
}

func (p *part) store(write func([]byte) []byte) float64 {
	place := len(p.blob)
	p.blob = append(p.blob, 0, 0, 0, 0)
	p.blob = write(p.blob)
	binary.LittleEndian.PutUint32(p.blob[place:], uint32(len(p.blob)-place-4))
	return float64(place)
}

func (p *part) distBytes(place float64) []byte {
	at := int(place)
	n := int(binary.LittleEndian.Uint32(p.blob[at:]))
	return p.blob[at+4 : at+4+n]
}

func (p *part) distAt(place float64) *reader { return &reader{b: p.distBytes(place)} }

func (p *part) sameDist(a, b float64) bool {
	return a == b || bytes.Equal(p.distBytes(a), p.distBytes(b))
}

// appendDist appends the length and the bytes of the distribution at a position of the blob to a
// frame.
func (p *part) appendDist(b []byte, place float64) []byte {
	d := p.distBytes(place)
	b = appendUvarint(b, uint64(len(d)))
	return append(b, d...)
}

// readDist copies a distribution from a frame into the blob and returns its position.
func (p *part) readDist(r *reader) float64 {
	d := r.bytes(r.uvarint())
	if r.err == nil {
		check := reader{b: d}
		var into measure.Dist
		if mergeBuckets(&check, &into); check.err != nil {
			r.fail()
		}
	}
	return p.store(func(b []byte) []byte { return append(b, d...) })
}
