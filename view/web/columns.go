package web

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"culprit/measure"
	"culprit/view/web/api"
)

// appendColumns appends the answer in columns of 4 or 8 bytes per value; 8 is exact.
func (s *shaped) appendColumns(b []byte, width int) []byte {
	start := len(b)
	exact := width == 8
	flags := uint16(0)
	if exact {
		flags |= api.ExactTimes
	}
	b = append(b, api.ColumnsMagic...)
	b = append(b, api.ColumnsVersion, byte(width))
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = binary.LittleEndian.AppendUint32(b, 0) // length of the header, below
	b = s.appendHead(b, exact)
	b = append(b, `,"series":[`...)
	for i, n := range s.order {
		if i > 0 {
			b = append(b, ',')
		}
		series := &s.Series[n]
		b = s.appendKey(append(b, `{"key":`...), series)
		switch {
		case s.Kind == measure.Dists:
			b = appendDists(append(b, `,"dists":`...), series.Dists())
		case series.Min() != nil && series.Max() != nil:
			b = append(b, `,"minmax":true`...)
		default:
			b = append(b, `,"minmax":false`...)
		}
		b = append(s.appendUnlike(b, n), '}')
	}
	b = append(b, ']')
	if s.left > 0 {
		b = fmt.Appendf(b, `,"rest":{"rows":%d}`, s.left)
	}
	b = append(b, '}')
	binary.LittleEndian.PutUint32(b[start+8:], uint32(len(b)-start-api.ColumnsHead))
	for (len(b)-start)%8 != 0 {
		b = append(b, 0)
	}
	if exact {
		for _, e := range s.Elapsed {
			b = binary.LittleEndian.AppendUint64(b, uint64(e))
		}
	}
	b = slices.Grow(b, (3*len(s.order)+2)*len(s.Elapsed)*width)
	column := func(values []float64) {
		for c := range s.Elapsed {
			v := measure.NaN
			if c < len(values) {
				v = values[c]
			}
			if exact {
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
			} else {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
			}
		}
	}
	if s.Kind != measure.Dists {
		for _, n := range s.order {
			series := &s.Series[n]
			column(series.Values)
			if series.Min() != nil && series.Max() != nil {
				column(series.Min())
				column(series.Max())
			}
		}
	}
	if s.left > 0 {
		column(s.rest)
	}
	return b
}
