package web

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"culprit/measure"
)

// ColumnsType is the media type of an answer in columns. With "; width=8" in an Accept header the columns are exact: float64, and times in
// nanoseconds. docs/FORMATS.md draws the format.
const ColumnsType = "application/vnd.culprit.columns"

const (
	columnsMagic   = "CLPT"
	columnsVersion = 1
	columnsHead    = 12     // bytes before the JSON header
	exactTimes     = 1 << 0 // flag: a column of int64 nanoseconds, the measured time of each cell, stands before the others
)

// appendColumns appends the answer in columns of the width, 4 or 8 bytes a value; 8 is exact.
func (s *shaped) appendColumns(b []byte, width int) []byte {
	start := len(b)
	exact := width == 8
	flags := uint16(0)
	if exact {
		flags |= exactTimes
	}
	b = append(b, columnsMagic...)
	b = append(b, columnsVersion, byte(width))
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
		b = append(b, '}')
	}
	b = append(b, ']')
	if s.left > 0 {
		b = fmt.Appendf(b, `,"rest":{"rows":%d}`, s.left)
	}
	b = append(b, '}')
	binary.LittleEndian.PutUint32(b[start+8:], uint32(len(b)-start-columnsHead))
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

// Columns is an answer as it came over HTTP.
type Columns struct {
	Answer *measure.Answer // its Query is the sentence's, without time and step; rows by their weight, heaviest first
	Rows   int             // all that there are; more than the answer has when only the largest were asked for
	Rest   []float64       // a value a cell: the sum of the rows beyond; nil when there are none or sums mean nothing
	Left   int             // how many those are
}

// head is the JSON header of columns.
type head struct {
	Query     string          `json:"query"`
	Kind      string          `json:"kind"`
	Unit      measure.Unit    `json:"unit"`
	Sparse    bool            `json:"sparse"`
	StartMS   json.Number     `json:"start_ms"`
	StepMS    json.Number     `json:"step_ms"`
	StartNS   int64           `json:"start_ns"`
	StepNS    int64           `json:"step_ns"`
	Cells     *int            `json:"cells"`
	ElapsedMS []json.Number   `json:"elapsed_ms"`
	By        []string        `json:"by"`
	Rows      int             `json:"rows"`
	Loss      []measure.Loss  `json:"loss"`
	Notes     []string        `json:"notes"`
	Frames    []measure.Frame `json:"frames"`
	Series    []struct {
		Key    []any           `json:"key"`
		MinMax bool            `json:"minmax"`
		Dists  []*measure.Dist `json:"dists"`
	} `json:"series"`
	Rest *struct {
		Rows int `json:"rows"`
	} `json:"rest"`
}

// DecodeColumns reads an answer in columns. The result holds no part of the data. What is malformed is an error.
func DecodeColumns(data []byte) (*Columns, error) {
	broken := func(format string, args ...any) error {
		return fmt.Errorf("read columns: "+format, args...)
	}
	if len(data) < columnsHead || string(data[:4]) != columnsMagic {
		return nil, broken("no columns")
	}
	width, flags := int(data[5]), binary.LittleEndian.Uint16(data[6:])
	if data[4] != columnsVersion || width != 4 && width != 8 || flags&^exactTimes != 0 {
		return nil, broken("version %d, width %d, flags %#x: made by a newer culprit", data[4], width, flags)
	}
	length := uint64(binary.LittleEndian.Uint32(data[8:]))
	if length > uint64(len(data)-columnsHead) {
		return nil, broken("the header is cut off")
	}
	var h head
	d := json.NewDecoder(strings.NewReader(string(data[columnsHead : columnsHead+length])))
	d.UseNumber()
	if err := d.Decode(&h); err != nil {
		return nil, broken("header: %w", err)
	}
	rest := data[min(uint64(len(data)), (columnsHead+length+7)&^7):]
	a := &measure.Answer{Unit: h.Unit, Sparse: h.Sparse, Frames: h.Frames, Loss: h.Loss, Notes: h.Notes}
	for k := measure.Delta; k <= measure.Dists; k++ {
		if k.String() == h.Kind {
			a.Kind = k
		}
	}
	if a.Kind == 0 {
		return nil, broken("unknown kind %q", h.Kind)
	}
	q, err := measure.ParseQuery(h.Query)
	if err != nil {
		return nil, broken("query: %w", err)
	}
	if len(q.By) != len(h.By) {
		return nil, broken("the query is by %d fields, the rows by %d", len(q.By), len(h.By))
	}
	a.Query = q
	if err := h.times(a, flags&exactTimes != 0, &rest); err != nil {
		return nil, broken("%w", err)
	}
	cells, columns := uint64(len(a.Elapsed)), uint64(0)
	for _, s := range h.Series {
		if a.Kind != measure.Dists {
			columns++
			if s.MinMax {
				columns += 2
			}
		}
	}
	if h.Rest != nil {
		columns++
	}
	if want := cells * columns * uint64(width); uint64(len(rest)) != want {
		return nil, broken("%d bytes of values, want %d", len(rest), want)
	}
	column := func() []float64 {
		values := make([]float64, cells)
		for c := range values {
			if width == 8 {
				values[c] = math.Float64frombits(binary.LittleEndian.Uint64(rest[c*8:]))
			} else {
				values[c] = float64(math.Float32frombits(binary.LittleEndian.Uint32(rest[c*4:])))
			}
		}
		rest = rest[int(cells)*width:]
		return values
	}
	words := map[string]measure.Label{}
	for n, s := range h.Series {
		series := measure.Series{}
		if len(s.Key) != len(h.By) {
			return nil, broken("a key of %d labels, want %d", len(s.Key), len(h.By))
		}
		for at, k := range s.Key {
			if _, stack := k.(json.Number); stack && n == 0 {
				if a.Stacks == nil {
					a.Stacks = make([]bool, len(h.By))
				}
				a.Stacks[at] = true
			} else if stack != (a.Stacks != nil && a.Stacks[at]) {
				return nil, broken("%s is a stack in some rows only", h.By[at])
			}
			switch k := k.(type) {
			case string:
				l, ok := words[k]
				if !ok {
					l = measure.Label(len(a.Labels))
					words[k], a.Labels = l, append(a.Labels, k)
				}
				series.Key = append(series.Key, l)
			case json.Number:
				n, err := k.Int64()
				if err != nil || n < 0 || n >= int64(len(a.Frames)) {
					return nil, broken("a key names frame %s of %d", k, len(a.Frames))
				}
				series.Key = append(series.Key, measure.Label(n))
			default:
				return nil, broken("a key that is neither text nor number")
			}
		}
		switch {
		case a.Kind == measure.Dists:
			if uint64(len(s.Dists)) != cells {
				return nil, broken("%d distributions, want %d", len(s.Dists), cells)
			}
			dists := make([]measure.Dist, cells)
			for c, d := range s.Dists {
				if d != nil {
					dists[c] = *d
				}
			}
			series.SetDists(dists)
		default:
			series.Values = column()
			if s.MinMax {
				least := column()
				series.SetSpan(least, column())
			}
		}
		a.Series = append(a.Series, series)
	}
	out := &Columns{Answer: a, Rows: h.Rows}
	if h.Rest != nil {
		out.Rest, out.Left = column(), h.Rest.Rows
	}
	return out, nil
}

// times sets the grid of the answer, from the header or from the column of exact times, which it takes off the rest.
func (h *head) times(a *measure.Answer, exact bool, rest *[]byte) error {
	if exact {
		if h.Cells == nil || *h.Cells < 0 || *h.Cells > len(*rest)/8 {
			return fmt.Errorf("the measured times are cut off")
		}
		a.Start, a.Step = measure.Time(h.StartNS), measure.Span(h.StepNS)
		a.Elapsed = make([]measure.Span, *h.Cells)
		for c := range a.Elapsed {
			a.Elapsed[c] = measure.Span(binary.LittleEndian.Uint64((*rest)[c*8:]))
		}
		*rest = (*rest)[8**h.Cells:]
		return nil
	}
	var bad error
	ns := func(n json.Number) int64 {
		v, ok := parseMillis(string(n))
		if !ok {
			bad = fmt.Errorf("%q is no time", n)
		}
		return v
	}
	a.Start, a.Step = measure.Time(ns(h.StartMS)), measure.Span(ns(h.StepMS))
	a.Elapsed = make([]measure.Span, len(h.ElapsedMS))
	for c, e := range h.ElapsedMS {
		a.Elapsed[c] = measure.Span(ns(e))
	}
	return bad
}
