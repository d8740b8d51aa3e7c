package command

import (
	"culprit/lang/bpftrace"
	"culprit/lang/check"
	"culprit/trace"
)

// printMap prints the rows of a map: the last top of them, all when top is 0. div divides values.
func (p *bpftracePrinter) printMap(m *bpftrace.Map, top int, div int64) error {
	t := &bpftrace.Table{Name: m.Name, Func: m.Func, Div: div, Bits: m.Bits}
	var err error
	if m.Func == "" {
		t.Rows, err = p.plainRows(m)
	} else {
		err = p.aggregated(m, t, top)
	}
	if err != nil {
		return err
	}
	t.Sort()
	t.Top(top)
	if p.json {
		p.write(t.AppendJSON(p.buf[:0]))
	} else {
		p.write(t.AppendText(p.buf[:0]))
	}
	return nil
}

// plainRows returns the elements of a plain map.
func (p *bpftracePrinter) plainRows(m *bpftrace.Map) ([]bpftrace.Row, error) {
	n := m.Value.Values()
	var rows []bpftrace.Row
	parts := make([]map[string]trace.Value, n)
	for i := range n {
		all, err := p.session.Elements(bpftrace.VarName(m.Name, i, n))
		if err != nil {
			return nil, err
		}
		parts[i] = map[string]trace.Value{}
		for _, e := range all {
			key := p.keyText(m, e.Key)
			parts[i][key] = e.Value
			if i == 0 {
				rows = append(rows, bpftrace.Row{Key: p.key(m, e.Key)})
			}
		}
	}
	for i := range rows {
		id := bpftrace.KeyText(rows[i].Key)
		next := 0
		rows[i].Value = p.value(m.Value, func() trace.Value {
			next++
			return parts[next-1][id]
		}, stackIndent)
	}
	return rows, nil
}

// loops returns the loops over maps of a program.
func loops(s *bpftrace.Script) []trace.Loop {
	var out []trace.Loop
	for _, l := range s.Loops {
		one := trace.Loop{
			Parent: l.Parent, Keys: l.Keys, Values: l.Values, Running: l.Running, Length: l.Length,
			Value: l.Value,
			Maps:  []string{l.Map.Name}, Aggregation: l.Map.Func != "",
		}
		if !one.Aggregation {
			one.Maps = nil
			n := l.Map.Value.Values()
			for i := range n {
				one.Maps = append(one.Maps, bpftrace.VarName(l.Map.Name, i, n))
			}
		}
		out = append(out, one)
	}
	return out
}

// key returns the key of a row as it is printed.
func (p *bpftracePrinter) key(m *bpftrace.Map, raw []trace.Value) []bpftrace.Value {
	var out []bpftrace.Value
	next := 0
	for _, s := range m.Keys {
		out = append(out, p.value(s, func() trace.Value {
			next++
			return raw[next-1]
		}, keyIndent))
	}
	return out
}

func (p *bpftracePrinter) keyText(m *bpftrace.Map, raw []trace.Value) string {
	return bpftrace.KeyText(p.key(m, raw))
}

// aggregated fills a table with the rows of an aggregation. With top it leaves out rows that are
// not among the last top: to find the names of many stacks takes long.
func (p *bpftracePrinter) aggregated(m *bpftrace.Map, t *bpftrace.Table, top int) error {
	agg := p.aggregation(m.Name)
	if agg == nil {
		return nil
	}
	all, err := p.session.Aggregates([]*check.Aggregation{agg})
	if err != nil {
		return err
	}
	t.Least, t.Step = agg.Steps[0], agg.Steps[2]
	var keys [][]trace.Value
	all[0].EachRow(func(key []trace.Value, data []int64) {
		row := aggregatedRow(m, nil, data)
		row.Index, keys = len(keys), append(keys, key)
		t.Rows = append(t.Rows, row)
	})
	t.TopByValue(top)
	for i := range t.Rows {
		t.Rows[i].Key = p.key(m, keys[t.Rows[i].Index])
	}
	if len(t.Rows) == 0 && len(m.Keys) == 0 && m.Func == "count" {
		t.Rows = append(t.Rows, bpftrace.Row{}) // it is 0 from the start
	}
	return nil
}

// aggregatedRow returns a row of an aggregation.
func aggregatedRow(m *bpftrace.Map, key []bpftrace.Value, data []int64) bpftrace.Row {
	r := bpftrace.Row{Key: key}
	switch m.Func {
	case "hist":
		if m.Bits > 0 {
			r.Buckets = bpftrace.FineBuckets(data, m.Bits)
			break
		}
		r.Buckets = histBuckets(data)
	case "lhist":
		for _, n := range data {
			r.Buckets = append(r.Buckets, uint64(n))
		}
	case "avg", "stats":
		r.Count, r.Total = data[0], data[1]
	default:
		r.Value = bpftrace.Value{Number: data[0], Unsigned: m.Func == "count"}
	}
	return r
}

// histBuckets returns the buckets of hist() of those of quantize(), which has 63 buckets of
// negative values, one of 0, and 63 of 1, 2, 4, ...
func histBuckets(data []int64) []uint64 {
	zero := len(data) / 2
	out := []uint64{0}
	for i, n := range data {
		if i < zero {
			out[0] += uint64(n)
		} else {
			out = append(out, uint64(n))
		}
	}
	return out
}

func (p *bpftracePrinter) aggregation(name string) *check.Aggregation {
	for _, a := range p.session.Program().Aggs {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// changeMap removes all elements of a map, or sets them to 0.
func (p *bpftracePrinter) changeMap(m *bpftrace.Map, remove bool) error {
	if m.Func == "" {
		n := m.Value.Values()
		for i := range n {
			change := p.session.ZeroElements
			if remove {
				change = p.session.DeleteElements
			}
			if err := change(bpftrace.VarName(m.Name, i, n)); err != nil {
				return err
			}
		}
		return nil
	}
	agg := p.aggregation(m.Name)
	if agg == nil {
		return nil
	}
	all, err := p.session.Aggregates([]*check.Aggregation{agg})
	if err != nil {
		return err
	}
	if remove {
		all[0].Truncate(0)
	} else {
		all[0].Clear()
	}
	return nil
}

// deleteKey deletes the element of a map with an aggregating function whose key is in action i of a
// record.
func (p *bpftracePrinter) deleteKey(r *trace.Record, i int, m *bpftrace.Map) error {
	agg := p.aggregation(m.Name)
	if agg == nil {
		return nil
	}
	var key []trace.Value
	for k := range r.Actions[i].Fields {
		key = append(key, r.Value(i, k))
	}
	all, err := p.session.Aggregates([]*check.Aggregation{agg})
	if err != nil {
		return err
	}
	all[0].DeleteRow(key)
	return nil
}
