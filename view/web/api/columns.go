package api

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"culprit/measure"
)

// ColumnsType is the media type of an answer in columns. With "; width=8" in an Accept header the
// columns are exact: float64, and times in nanoseconds. docs/FORMATS.md draws the format.
const ColumnsType = "application/vnd.culprit.columns"

// The fixed start of an answer in columns.
const (
	ColumnsMagic   = "CLPT"
	ColumnsVersion = 1
	ColumnsHead    = 12 // bytes before the JSON header

	// ExactTimes is a flag: the first column is the measured time of each cell, int64 nanoseconds.
	ExactTimes = 1 << 0
)

// Columns is a decoded answer. Its rows are sorted by weight, largest first.
type Columns struct {
	Answer *measure.Answer // its query has no time range and no step
	Rows   int             // all rows of the answer, also those that were not sent
	Rest   []float64       // per cell, the sum of the rows not sent; nil: all sent, or no sum
	Left   int             // the number of rows not sent
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
	Series    []row           `json:"series"`
	Rest      *struct {
		Rows int `json:"rows"`
	} `json:"rest"`
}

// row is a row of the header.
type row struct {
	Key    []any           `json:"key"`    // a text, or the number of a frame
	MinMax bool            `json:"minmax"` // columns of minima and maxima follow its values
	Dists  []*measure.Dist `json:"dists"`  // per cell; nil: an empty distribution
}

// decoder reads one answer.
type decoder struct {
	head
	answer *measure.Answer
	exact  bool
	width  int    // bytes of a value
	rest   []byte // what follows the header and was not read yet
	labels map[string]measure.Label
}

// DecodeColumns decodes an answer in columns. The result shares no memory with data. The error
// says what is malformed.
func DecodeColumns(data []byte) (*Columns, error) {
	d := decoder{labels: map[string]measure.Label{}}
	out, err := d.decode(data)
	if err != nil {
		return nil, fmt.Errorf("read columns: %w", err)
	}
	return out, nil
}

func (d *decoder) decode(data []byte) (*Columns, error) {
	if err := d.readHead(data); err != nil {
		return nil, err
	}
	if err := d.readAnswer(); err != nil {
		return nil, err
	}
	if err := d.readTimes(); err != nil {
		return nil, err
	}
	if err := d.checkLength(); err != nil {
		return nil, err
	}
	for i := range d.Series {
		series, err := d.readRow(i)
		if err != nil {
			return nil, err
		}
		d.answer.Series = append(d.answer.Series, series)
	}
	out := &Columns{Answer: d.answer, Rows: d.Rows}
	if d.Rest != nil {
		out.Rest, out.Left = d.readColumn(), d.Rest.Rows
	}
	return out, nil
}

// readHead reads the fixed start and the JSON header.
func (d *decoder) readHead(data []byte) error {
	if len(data) < ColumnsHead || string(data[:4]) != ColumnsMagic {
		return errors.New("no columns")
	}
	version, flags := data[4], binary.LittleEndian.Uint16(data[6:])
	d.width, d.exact = int(data[5]), flags&ExactTimes != 0
	if version != ColumnsVersion || d.width != 4 && d.width != 8 || flags&^ExactTimes != 0 {
		return fmt.Errorf("version %d, width %d, flags %#x: made by a newer culprit",
			version, d.width, flags)
	}
	length := uint64(binary.LittleEndian.Uint32(data[8:]))
	if length > uint64(len(data)-ColumnsHead) {
		return errors.New("the header is cut off")
	}
	text := string(data[ColumnsHead : ColumnsHead+length])
	j := json.NewDecoder(strings.NewReader(text))
	j.UseNumber()
	if err := j.Decode(&d.head); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	d.rest = data[min(uint64(len(data)), (ColumnsHead+length+7)&^7):] // columns start at 8 bytes
	return nil
}

// readAnswer makes the answer, without its times and rows.
func (d *decoder) readAnswer() error {
	a := &measure.Answer{
		Unit: d.Unit, Sparse: d.Sparse, Frames: d.Frames, Loss: d.Loss, Notes: d.Notes,
	}
	for k := measure.Delta; k <= measure.Dists; k++ {
		if k.String() == d.Kind {
			a.Kind = k
		}
	}
	if a.Kind == 0 {
		return fmt.Errorf("unknown kind %q", d.Kind)
	}
	q, err := measure.ParseQuery(d.Query)
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	if len(q.By) != len(d.By) {
		return fmt.Errorf("the query is by %d fields, the rows by %d", len(q.By), len(d.By))
	}
	a.Query = q
	d.answer = a
	return nil
}

// readTimes sets the time grid, from the header or from the column of exact times.
func (d *decoder) readTimes() error {
	a := d.answer
	if d.exact {
		if d.Cells == nil || *d.Cells < 0 || *d.Cells > len(d.rest)/8 {
			return errors.New("the measured times are cut off")
		}
		a.Start, a.Step = measure.Time(d.StartNS), measure.Span(d.StepNS)
		a.Elapsed = make([]measure.Span, *d.Cells)
		for c := range a.Elapsed {
			a.Elapsed[c] = measure.Span(binary.LittleEndian.Uint64(d.rest[c*8:]))
		}
		d.rest = d.rest[8**d.Cells:]
		return nil
	}
	var bad error
	ns := func(n json.Number) int64 {
		v, ok := ParseMillis(string(n))
		if !ok {
			bad = fmt.Errorf("%q is no time", n)
		}
		return v
	}
	a.Start, a.Step = measure.Time(ns(d.StartMS)), measure.Span(ns(d.StepMS))
	a.Elapsed = make([]measure.Span, len(d.ElapsedMS))
	for c, e := range d.ElapsedMS {
		a.Elapsed[c] = measure.Span(ns(e))
	}
	return bad
}

// checkLength compares the length of the columns with what the header announces.
func (d *decoder) checkLength() error {
	columns := uint64(0)
	for _, s := range d.Series {
		if d.answer.Kind != measure.Dists {
			columns++
			if s.MinMax {
				columns += 2
			}
		}
	}
	if d.Rest != nil {
		columns++
	}
	want := uint64(len(d.answer.Elapsed)) * columns * uint64(d.width)
	if uint64(len(d.rest)) != want {
		return fmt.Errorf("%d bytes of values, want %d", len(d.rest), want)
	}
	return nil
}

// readColumn reads the next column: a value per cell.
func (d *decoder) readColumn() []float64 {
	values := make([]float64, len(d.answer.Elapsed))
	for c := range values {
		if d.width == 8 {
			values[c] = math.Float64frombits(binary.LittleEndian.Uint64(d.rest[c*8:]))
		} else {
			values[c] = float64(math.Float32frombits(binary.LittleEndian.Uint32(d.rest[c*4:])))
		}
	}
	d.rest = d.rest[len(values)*d.width:]
	return values
}

// readRow reads row i, whose columns are the next ones.
func (d *decoder) readRow(i int) (measure.Series, error) {
	r, series := &d.Series[i], measure.Series{}
	if len(r.Key) != len(d.By) {
		return series, fmt.Errorf("a key of %d labels, want %d", len(r.Key), len(d.By))
	}
	for field := range r.Key {
		l, err := d.readLabel(i, field)
		if err != nil {
			return series, err
		}
		series.Key = append(series.Key, l)
	}
	if d.answer.Kind != measure.Dists {
		series.Values = d.readColumn()
		if r.MinMax {
			minima := d.readColumn()
			series.SetRange(minima, d.readColumn())
		}
		return series, nil
	}
	cells := len(d.answer.Elapsed)
	if len(r.Dists) != cells {
		return series, fmt.Errorf("%d distributions, want %d", len(r.Dists), cells)
	}
	dists := make([]measure.Dist, cells)
	for c, dist := range r.Dists {
		if dist != nil {
			dists[c] = *dist
		}
	}
	series.SetDists(dists)
	return series, nil
}

// readLabel returns the label of a field in row i. The first row decides which fields are stacks.
func (d *decoder) readLabel(i, field int) (measure.Label, error) {
	a, k := d.answer, d.Series[i].Key[field]
	if _, stack := k.(json.Number); stack && i == 0 {
		if a.Stacks == nil {
			a.Stacks = make([]bool, len(d.By))
		}
		a.Stacks[field] = true
	} else if stack != (a.Stacks != nil && a.Stacks[field]) {
		return 0, fmt.Errorf("%s is a stack in some rows only", d.By[field])
	}
	switch k := k.(type) {
	case string:
		l, ok := d.labels[k]
		if !ok {
			l = measure.Label(len(a.Labels))
			d.labels[k], a.Labels = l, append(a.Labels, k)
		}
		return l, nil
	case json.Number:
		n, err := k.Int64()
		if err != nil || n < 0 || n >= int64(len(a.Frames)) {
			return 0, fmt.Errorf("a key names frame %s of %d", k, len(a.Frames))
		}
		return measure.Label(n), nil
	}
	return 0, errors.New("a key that is neither text nor number")
}
