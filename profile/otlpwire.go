package profile

import (
	"encoding/binary"
	"math"
	"strconv"
	"unsafe"
)

// readOTLP reads a profile of OpenTelemetry as protocol buffers.
func readOTLP(in []byte, o Options) (*Tree, error) {
	d := &otlpDecoder{all: in, m: o.meter}
	f := &otlpFile{}
	d.fields(in, func(field int, v uint64, b []byte) {
		switch field {
		case 1:
			f.Resources = appendCharged(d, f.Resources, d.resource(b))
		case 2:
			d.tables(b, &f.Tables)
		}
	})
	if d.failed {
		return nil, &ParseError{Byte: d.at, What: "OpenTelemetry: " + errWire.Error()}
	}
	d.arrange()
	return f.tree(o)
}

// An otlpDecoder decodes the messages. After an error it decodes nothing.
type otlpDecoder struct {
	all    []byte
	m      *meter
	failed bool
	at     int64 // of the error
	raw    []rawSample
}

// A rawSample has the fields of a sample whose meaning depends on the version.
type rawSample struct {
	of               *otlpSample
	two, three, four []int64
	old, new         bool // which version it is certainly of
}

// appendCharged appends an element, and charges it.
func appendCharged[T any](d *otlpDecoder, list []T, e T) []T {
	d.m.add(2 * int(unsafe.Sizeof(e)))
	return append(list, e)
}

// fields calls each with the fields of a message: a number, or the bytes.
func (d *otlpDecoder) fields(b []byte, each func(field int, v uint64, inner []byte)) {
	w := &wire{b: b, all: len(b)}
	for len(w.b) > 0 && !d.failed {
		before := w.b
		field, kind, inner, err := w.next()
		if err != nil {
			d.failed, d.at = true, d.position(before)
			return
		}
		v := uint64(0)
		_, size := binary.Uvarint(before)
		switch kind {
		case 0:
			v, _ = binary.Uvarint(before[size:])
		case 1:
			v = binary.LittleEndian.Uint64(before[size:])
		case 5:
			v = uint64(binary.LittleEndian.Uint32(before[size:]))
		}
		each(field, v, inner)
	}
}

// position returns the position of a part of the input in it.
func (d *otlpDecoder) position(part []byte) int64 {
	return int64(cap(d.all) - cap(part))
}

// numbers appends a repeated number, packed or not.
func (d *otlpDecoder) numbers(list []int64, v uint64, packed []byte) []int64 {
	if packed == nil {
		return appendCharged(d, list, int64(v))
	}
	for len(packed) > 0 {
		v, size := binary.Uvarint(packed)
		if size <= 0 {
			d.failed, d.at = true, d.position(packed)
			return list
		}
		packed = packed[size:]
		list = appendCharged(d, list, int64(v))
	}
	return list
}

func (d *otlpDecoder) indexes(list []int, v uint64, packed []byte) []int {
	for _, n := range d.numbers(nil, v, packed) {
		list = appendCharged(d, list, int(n))
	}
	return list
}

func (d *otlpDecoder) resource(b []byte) (r otlpResource) {
	d.fields(b, func(field int, _ uint64, b []byte) {
		if field != 2 {
			return
		}
		var scope struct {
			Profiles []otlpProfile `json:"profiles"`
		}
		d.fields(b, func(field int, _ uint64, b []byte) {
			if field == 2 {
				scope.Profiles = appendCharged(d, scope.Profiles, d.profile(b))
			}
		})
		r.Scopes = appendCharged(d, r.Scopes, scope)
	})
	return r
}

func (d *otlpDecoder) profile(b []byte) (p otlpProfile) {
	first := len(d.raw)
	d.fields(b, func(field int, v uint64, b []byte) {
		switch field {
		case 1:
			p.Type = d.valueType(b)
		case 2:
			p.Samples = appendCharged(d, p.Samples, d.sample(b))
		case 3:
			p.Time = jsonNumber(min(v, math.MaxInt64))
		case 4:
			p.Length = jsonNumber(min(v, math.MaxInt64))
		case 5:
			p.PerType = d.valueType(b)
		case 6:
			p.Period = jsonNumber(int64(v))
		}
	})
	for i := range p.Samples {
		d.raw[first+i].of = &p.Samples[i]
	}
	return p
}

func (d *otlpDecoder) valueType(b []byte) (t otlpType) {
	d.fields(b, func(field int, v uint64, _ []byte) {
		switch field {
		case 1:
			t.Type = index32(v)
		case 2:
			t.Unit = index32(v)
		}
	})
	return t
}

// index32 returns an index of 32 bits; -1 for a negative one.
func index32(v uint64) int {
	if v > math.MaxInt32 {
		return -1
	}
	return int(v)
}

// sample decodes a sample, but for the fields whose meaning depends on the version.
func (d *otlpDecoder) sample(b []byte) (s otlpSample) {
	var raw rawSample
	d.fields(b, func(field int, v uint64, b []byte) {
		switch field {
		case 1:
			s.Stack = index32(v)
		case 2:
			raw.two = d.numbers(raw.two, v, b)
		case 3:
			raw.three = d.numbers(raw.three, v, b)
			raw.old, raw.new = raw.old || b != nil, raw.new || b == nil
		case 4:
			raw.four = d.numbers(raw.four, v, b)
			raw.old, raw.new = raw.old || b == nil, raw.new || b != nil
		case 5:
			if b == nil {
				s.Times++
			} else {
				s.Times += otlpCount(len(b) / 8)
			}
		}
	})
	if !raw.old && !raw.new && len(raw.two) > 0 {
		// 1.9 has values in field 2, as many as times if there are any. Later versions have
		// attributes there, and without values a time for each observation.
		raw.new = s.Times > 0 && int(s.Times) != len(raw.two)
	}
	d.raw = appendCharged(d, d.raw, raw)
	return s
}

// arrange sets the values and attributes of all samples by the version of most of them.
func (d *otlpDecoder) arrange() {
	votes := 0
	for _, r := range d.raw {
		if r.old {
			votes--
		}
		if r.new {
			votes++
		}
	}
	for _, r := range d.raw {
		values, attributes := r.two, r.three
		if votes > 0 {
			values, attributes = r.four, r.two
		}
		d.m.add(8 * (len(values) + len(attributes)))
		for _, v := range values {
			r.of.Values = append(r.of.Values, jsonNumber(v))
		}
		for _, a := range attributes {
			r.of.Attributes = append(r.of.Attributes, index32(uint64(a)))
		}
	}
	d.raw = nil
}

func (d *otlpDecoder) tables(b []byte, t *otlpTables) {
	d.fields(b, func(field int, _ uint64, b []byte) {
		switch field {
		case 1:
			var m otlpMapping
			d.fields(b, func(field int, v uint64, _ []byte) {
				if field == 4 {
					m.File = index32(v)
				}
			})
			t.Mappings = appendCharged(d, t.Mappings, m)
		case 2:
			t.Locations = appendCharged(d, t.Locations, d.location(b))
		case 3:
			t.Functions = appendCharged(d, t.Functions, d.function(b))
		case 5:
			d.m.add(len(b))
			t.Strings = appendCharged(d, t.Strings, string(b))
		case 6:
			t.Attributes = appendCharged(d, t.Attributes, d.attribute(b))
		case 7:
			var s otlpStack
			d.fields(b, func(field int, v uint64, b []byte) {
				if field == 1 {
					s.Locations = d.indexes(s.Locations, v, b)
				}
			})
			t.Stacks = appendCharged(d, t.Stacks, s)
		}
	})
}

func (d *otlpDecoder) location(b []byte) (l otlpLocation) {
	d.fields(b, func(field int, v uint64, b []byte) {
		switch field {
		case 1:
			l.Mapping = index32(v)
		case 2:
			l.Address = otlpAddress(v)
		case 3:
			var line otlpLine
			d.fields(b, func(field int, v uint64, _ []byte) {
				switch field {
				case 1:
					line.Function = index32(v)
				case 2:
					line.Line = jsonNumber(int64(v))
				}
			})
			l.Lines = appendCharged(d, l.Lines, line)
		case 4:
			l.Attributes = d.indexes(l.Attributes, v, b)
		}
	})
	return l
}

func (d *otlpDecoder) function(b []byte) (f otlpFunction) {
	d.fields(b, func(field int, v uint64, _ []byte) {
		switch field {
		case 1:
			f.Name = index32(v)
		case 2:
			f.System = index32(v)
		case 3:
			f.File = index32(v)
		case 4:
			f.Start = jsonNumber(int64(v))
		}
	})
	return f
}

// attribute decodes an attribute. Its value is AnyValue of opentelemetry/proto/common/v1.
func (d *otlpDecoder) attribute(b []byte) (a otlpAttribute) {
	d.fields(b, func(field int, v uint64, b []byte) {
		switch field {
		case 1:
			a.Key = index32(v)
		case 2:
			d.fields(b, func(field int, v uint64, b []byte) {
				switch field {
				case 1, 7:
					a.Value = otlpValue(b)
				case 2:
					a.Value = otlpValue(strconv.FormatBool(v != 0))
				case 3:
					a.Value = otlpValue(strconv.FormatInt(int64(v), 10))
				case 4:
					number := strconv.FormatFloat(math.Float64frombits(v), 'g', -1, 64)
					a.Value = otlpValue(number)
				}
			})
			d.m.add(len(a.Value))
		case 3:
			a.Unit = index32(v)
		}
	})
	return a
}
