package trace

import (
	"bufio"
	"bytes"
	"time"

	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/lang/ir"
	"culprit/measure"
)

// A JSONPrinter writes one JSON object per line: one for each record, each printed row of an
// aggregation, each fault and each loss. It performs actions as Printer does; their output is the
// member "text".
type JSONPrinter struct {
	*Printer
	lines *bufio.Writer
	text  bytes.Buffer
	wall  int64 // ns to add to the monotonic clock for the wall clock
}

// NewJSONPrinter returns a listener that writes to out what s reports, one JSON object per line.
func NewJSONPrinter(s *Session, out *bufio.Writer, std Streams) *JSONPrinter {
	j := &JSONPrinter{lines: out, wall: time.Now().UnixNano() - int64(monotonic())}
	j.Printer = NewPrinter(s, bufio.NewWriter(&j.text), std)
	j.style.Quiet, j.headed = true, true
	return j
}

func (j *JSONPrinter) line(v any) error {
	b, err := measure.MarshalJSON(v)
	if err != nil {
		return err
	}
	j.lines.Write(append(b, '\n')) //nolint:errcheck // Flush returns the error
	return nil
}

type jsonProbe struct {
	ID   uint32 `json:"id"`
	Name string `json:"name"`
}

type jsonRecord struct {
	Type   string    `json:"type"` // record, fault
	Time   time.Time `json:"time"`
	CPU    int       `json:"cpu"`
	Thread int       `json:"tid,omitempty"`
	Probe  jsonProbe `json:"probe"`
	Clause int       `json:"clause"` // from 1
	Values []any     `json:"values,omitempty"`
	Text   string    `json:"text,omitempty"`
	Fault  string    `json:"fault,omitempty"`
	Line   int       `json:"line,omitempty"`
	Column int       `json:"column,omitempty"`
	Addr   *uint64   `json:"address,omitempty"`
}

// Record writes the values that one clause traced and the text that it printed. It fails when an
// aggregation cannot be read, an action fails, or out fails.
func (j *JSONPrinter) Record(r *Record) error {
	j.text.Reset()
	out := jsonRecord{
		Type:   "record",
		Time:   j.at(r.Time),
		CPU:    r.CPU,
		Thread: r.Thread,
		Probe:  jsonProbe{r.Probe.ID, r.Probe.String()},
		Clause: r.Clause.Index + 1,
	}
	for i, a := range r.Actions {
		switch a.Action.Action.Kind {
		case check.Printa:
			all, err := j.session.Aggregates(a.Action.Action.Aggs)
			if err != nil {
				return err
			}
			for _, g := range all {
				if err := j.rows(g); err != nil {
					return err
				}
				g.Printed = true
			}
			continue
		case check.Printf, check.Trace, check.Stack, check.UStack, check.Symbol, check.Exit:
			for k := range a.Action.Args {
				out.Values = append(out.Values, plain(j.session.value(r.Value(i, k))))
			}
		}
		if a.Action.Action.Kind == check.Tracemem {
			out.Values = append(out.Values, memory(r, i))
		}
		if err := j.action(r, i); err != nil {
			return err
		}
	}
	j.Printer.out.Flush() //nolint:errcheck // into memory
	out.Text = j.text.String()
	return j.line(out)
}

func (j *JSONPrinter) at(ns uint64) time.Time { return time.Unix(0, int64(ns)+j.wall).UTC() }

// plain returns a value as JSON encodes it.
func plain(v format.Value) any {
	switch v.Kind {
	case format.Int:
		if v.Signed {
			switch v.Size {
			case 1:
				return int8(v.Num)
			case 2:
				return int16(v.Num)
			case 4:
				return int32(v.Num)
			}
			return int64(v.Num)
		}
		return v.Num
	case format.Frames:
		if v.Frames == nil {
			return []string{}
		}
		return v.Frames
	case format.Raw:
		return []byte(v.Text)
	case format.Place:
		if v.Text == "" {
			return v.Num
		}
	}
	return v.Text
}

type jsonRow struct {
	Type     string       `json:"type"` // aggregation
	Name     string       `json:"name"`
	Function string       `json:"function"`
	Key      []any        `json:"key"`
	Value    *int64       `json:"value,omitempty"`
	Buckets  []jsonBucket `json:"buckets,omitempty"` // without empty ones
}

type jsonBucket struct {
	Least    *int64 `json:"min"` // null: no bound
	Greatest *int64 `json:"max"`
	Count    int64  `json:"count"`
}

func (j *JSONPrinter) rows(g *Aggregate) error {
	for _, row := range j.style.Sorted(&g.Aggregation) {
		out := jsonRow{Type: "aggregation", Name: g.Name, Function: g.Func.String(), Key: []any{}}
		for _, v := range row.Key {
			out.Key = append(out.Key, plain(v))
		}
		if value, ok := g.Value(row); ok {
			out.Value = &value
		} else {
			for i, n := range row.Data {
				if n == 0 {
					continue
				}
				least, greatest, _ := g.Buckets.Bounds(i)
				b := jsonBucket{&least, &greatest, n}
				if i == 0 && least < greatest && least == -1<<63 {
					b.Least = nil
				}
				if greatest == 1<<63-1 {
					b.Greatest = nil
				}
				out.Buckets = append(out.Buckets, b)
			}
		}
		if err := j.line(out); err != nil {
			return err
		}
	}
	return nil
}

// Fault writes why a clause ended early. It never fails: Pause returns errors of out.
func (j *JSONPrinter) Fault(f *FaultReport) error {
	line, column := j.session.script.place(f.From)
	return j.line(jsonRecord{
		Type:   "fault",
		Time:   j.at(f.Time),
		CPU:    f.CPU,
		Probe:  jsonProbe{f.Probe.ID, f.Probe.String()},
		Clause: f.Clause.Index + 1,
		Fault:  format.Fault(f.Fault).String(),
		Line:   line,
		Column: column,
		Addr:   &f.Address,
	})
}

// Drops writes how many events were lost. It never fails: Pause returns errors of out.
func (j *JSONPrinter) Drops(kind ir.Drop, cpu int, n uint64) error {
	return j.line(struct {
		Type   string `json:"type"`
		Reason string `json:"reason"`
		CPU    int    `json:"cpu"`
		Events uint64 `json:"events"`
	}{"loss", dropWords[kind].what, cpu, n})
}

// Pause flushes the output. It fails with ErrNoReader when out fails.
func (j *JSONPrinter) Pause() error {
	if err := j.lines.Flush(); err != nil {
		return ErrNoReader
	}
	return nil
}

// End writes the rows of the aggregations that no printa has printed. It fails when they cannot be
// read, and with ErrNoReader when out fails.
func (j *JSONPrinter) End() error {
	all, err := j.session.Aggregates(j.session.script.Program.Aggs)
	if err != nil {
		return err
	}
	for _, g := range all {
		if g.Printed {
			continue
		}
		if err := j.rows(g); err != nil {
			return err
		}
	}
	return j.Pause()
}
