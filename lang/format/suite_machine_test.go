package format

import (
	"fmt"
	"slices"
	"time"

	"culprit/lang/syntax"
)

// A machine is the interpreter: numbers are Values of Kind Int, strings of Kind Chars.
type machine struct {
	out    []byte
	style  Style
	vars   map[string]Value
	types  map[string]Value // declared: a 0 of the type
	aggs   map[string]*Aggregation
	order  []*Aggregation
	clause map[string]Value // this->
	done   bool
}

type unable string

func interpret(text string) (out, why string) {
	defer func() {
		if r := recover(); r != nil {
			u, ok := r.(unable)
			if !ok {
				panic(r)
			}
			why = string(u)
		}
	}()
	macros := func(name string) (string, bool) { return "1234", name == "target" || name == "pid" }
	prog, diags := syntax.Parse(text, syntax.Mode{Macros: macros})
	if len(diags) > 0 {
		return "", "syntax"
	}
	m := &machine{
		vars:  map[string]Value{},
		types: map[string]Value{},
		aggs:  map[string]*Aggregation{},
		style: Style{NoColumns: true, Zone: time.UTC},
	}
	var begin, end, other []*syntax.Clause
	name := ""
	for _, item := range prog.Items {
		switch x := item.(type) {
		case *syntax.Pragma:
			m.option(x)
		case *syntax.Declaration:
			for _, v := range x.Vars {
				m.types[v.Name.Text] = zeroOf(v.Type)
			}
		case *syntax.Clause:
			p := x.Probes[0]
			switch p.Name.Text {
			case "BEGIN":
				begin = append(begin, x)
			case "END":
				end = append(end, x)
			case "ERROR":
			default:
				id := p.Provider.Text + p.Module.Text + p.Function.Text + p.Name.Text
				if name != "" && id != name {
					panic(unable("several probes"))
				}
				name = id
				other = append(other, x)
			}
		default:
			panic(unable("declaration"))
		}
	}
	m.out = m.style.Header(m.out)
	m.prepare(prog)
	m.fire(begin, "BEGIN")
	for i := 0; len(other) > 0 && !m.done; i++ {
		if i > 5000 {
			panic(unable("endless"))
		}
		m.fire(other, "tick")
	}
	if !m.done {
		panic(unable("does not end"))
	}
	m.fire(end, "END")
	m.out = append(m.out, '\n')
	m.out = m.style.Aggregations(m.out, m.order)
	return string(m.out), ""
}

// prepare finds the function of each aggregation, also when the statement never runs.
func (m *machine) prepare(prog *syntax.Program) {
	syntax.Walk(prog, func(n syntax.Node) bool {
		if x, ok := n.(*syntax.Assign); ok {
			if to, ok := x.X.(*syntax.Aggregation); ok {
				if call, ok := x.Y.(*syntax.Call); ok {
					m.shape(to, call)
				}
			}
		}
		return true
	})
}

func (m *machine) option(p *syntax.Pragma) {
	if p.Kind.Text != "option" {
		panic(unable("pragma"))
	}
	n := 0
	_, _ = fmt.Sscan(p.Value.Text, &n)
	switch p.Name.Text {
	case "quiet":
		m.style.Quiet = true
	case "aggsortkey":
		m.style.SortKey = true
	case "aggsortrev":
		m.style.SortRev = true
	case "aggsortkeypos":
		m.style.SortKeyPos = n
	case "aggsortpos":
		m.style.SortPos = n
	case "rawbytes":
		m.style.RawBytes = true
	case "aggrate",
		"switchrate",
		"bufsize",
		"aggsize",
		"strsize",
		"dynvarsize",
		"destructive",
		"statusrate",
		"maxframes":
	default:
		panic(unable("option " + p.Name.Text))
	}
}

func zeroOf(t syntax.Type) Value {
	sizes := map[syntax.BasicKind]struct {
		size   int
		signed bool
	}{
		syntax.KindBool: {1, false}, syntax.KindChar: {1, true}, syntax.KindSChar: {1, true},
		syntax.KindUChar: {1, false},
		syntax.KindShort: {2, true}, syntax.KindUShort: {2, false}, syntax.KindInt: {4, true},
		syntax.KindUInt: {4, false},
		syntax.KindLong: {8, true}, syntax.KindULong: {8, false}, syntax.KindLongLong: {8, true},
		syntax.KindULongLong: {8, false},
	}
	named := map[string]syntax.BasicKind{
		"int8_t": syntax.KindChar, "uint8_t": syntax.KindUChar, "int16_t": syntax.KindShort,
		"uint16_t": syntax.KindUShort, "ushort_t": syntax.KindUShort,
		"int32_t": syntax.KindInt, "uint32_t": syntax.KindUInt, "uint_t": syntax.KindUInt,
		"int64_t": syntax.KindLong, "uint64_t": syntax.KindULong,
		"ulong_t": syntax.KindULong, "longlong_t": syntax.KindLongLong,
		"u_longlong_t": syntax.KindULongLong, "uchar_t": syntax.KindUChar, "uint": syntax.KindUInt,
	}
	kind, ok := syntax.BasicKind(0), false
	switch x := t.(type) {
	case *syntax.Basic:
		kind, ok = x.Kind, true
	case *syntax.Named:
		kind, ok = named[x.Name]
	case *syntax.Pointer:
		if b, is := x.Elem.(*syntax.Basic); is && b.Kind == syntax.KindVoid {
			kind, ok = syntax.KindULong, true
		}
	}
	s := sizes[kind]
	switch {
	case ok && kind == syntax.KindString:
		return TextOf("", 256)
	case !ok || s.size == 0:
		panic(unable("type"))
	}
	return IntOf(0, s.size, s.signed)
}

func (m *machine) fire(clauses []*syntax.Clause, name string) {
	m.clause = map[string]Value{}
	ended := m.done
	for _, c := range clauses {
		if m.done && !ended {
			return
		}
		if c.Predicate != nil && m.eval(c.Predicate).Num == 0 {
			continue
		}
		if c.Body == nil {
			m.out = m.style.Probe(m.out, 0, 1, "", name)
			m.out = m.style.EndProbe(m.out)
			continue
		}
		head := m.out
		m.out = nil
		traces := false
		for _, s := range c.Body.List {
			do, ok := s.(*syntax.Do)
			if !ok {
				panic(unable("if"))
			}
			if call, ok := do.X.(*syntax.Call); ok &&
				slices.Contains(
					[]string{
						"trace",
						"printf",
						"printa",
						"exit",
						"tracemem",
						"stack",
						"clear",
						"trunc",
						"normalize",
						"denormalize",
					},
					call.Func.Text,
				) {
				traces = true
				m.action(call)
			} else {
				m.eval(do.X)
			}
		}
		body := m.out
		m.out = head
		if traces || len(c.Body.List) == 0 {
			m.out = m.style.Probe(m.out, 0, 1, "", name)
			m.out = append(m.out, body...)
			m.out = m.style.EndProbe(m.out)
		}
	}
}

func (m *machine) action(c *syntax.Call) {
	number := func(i int) int64 { return m.eval(c.Args[i]).signed() }
	agg := func(i int) *Aggregation {
		a, ok := c.Args[i].(*syntax.Aggregation)
		if !ok {
			panic(unable("no aggregation"))
		}
		return m.agg(a.Name)
	}
	switch c.Func.Text {
	case "exit":
		m.done = true
	case "trace":
		m.out = m.style.Trace(m.out, m.eval(c.Args[0]))
	case "clear":
		agg(0).Clear()
	case "trunc":
		n := int64(0)
		if len(c.Args) > 1 {
			n = number(1)
		}
		agg(0).Truncate(n)
	case "normalize":
		agg(0).Normal = uint64(number(1))
	case "denormalize":
		agg(0).Normal = 1
	case "printf":
		f, err := Parse(m.eval(c.Args[0]).Text)
		if err != nil {
			panic(err.Message)
		}
		var args []Value
		for _, a := range c.Args[1:] {
			args = append(args, m.eval(a))
		}
		var wrong error
		if m.out, wrong = m.style.Printf(m.out, f, args); wrong != nil {
			panic(wrong)
		}
	case "printa":
		var f *Format
		from := 0
		if s, ok := c.Args[0].(*syntax.String); ok {
			from = 1
			var err *Error
			if f, err = Parse(s.Value); err != nil {
				panic(err.Message)
			}
		}
		var all []*Aggregation
		for i := from; i < len(c.Args); i++ {
			all = append(all, agg(i))
		}
		if f == nil {
			m.out = m.style.Table(m.out, all...)
			return
		}
		var wrong error
		if m.out, wrong = m.style.Printa(m.out, f, all...); wrong != nil {
			panic(wrong)
		}
	default:
		panic(unable(c.Func.Text))
	}
}

func (m *machine) agg(name string) *Aggregation {
	a := m.aggs[name]
	if a == nil {
		a = &Aggregation{Name: name}
		m.aggs[name] = a
		m.order = append(m.order, a)
	}
	return a
}

// weightAt is the index of a distribution's weight among its arguments.
//
// table: the guide's signatures
var weightAt = map[string]int{"quantize": 1, "lquantize": 4, "llquantize": 5}

func (m *machine) shape(to *syntax.Aggregation, c *syntax.Call) {
	a := m.agg(to.Name)
	function, ok := map[string]Function{"count": Count, "sum": Sum, "min": Min, "max": Max,
		"avg": Avg, "stddev": Stddev,
		"quantize": Quantize, "lquantize": Lquantize, "llquantize": Llquantize}[c.Func.Text]
	if !ok {
		panic(unable(c.Func.Text))
	}
	a.Func = function
	var args []int64
	if function >= Lquantize {
		for _, x := range c.Args[1:min(len(c.Args), weightAt[c.Func.Text])] {
			args = append(args, m.eval(x).signed())
		}
	}
	var err *StepError
	switch function {
	case Lquantize:
		step := int64(1)
		if len(args) > 2 {
			step = args[2]
		}
		a.Buckets, err = LquantizeBuckets(args[0], args[1], step)
	case Llquantize:
		a.Buckets, err = LlquantizeBuckets(args[0], args[1], args[2], args[3])
	}
	if err != nil {
		panic(err.Message)
	}
}

func (m *machine) aggregate(to *syntax.Aggregation, c *syntax.Call) {
	a := m.agg(to.Name)
	var key []Value
	for _, k := range to.Keys {
		key = append(key, m.eval(k))
	}
	var args []int64
	for _, x := range c.Args {
		v := m.eval(x)
		if !v.Signed {
			v.Num = v.unsigned()
			v.Size = 8
		}
		args = append(args, v.signed())
	}
	weight := int64(1)
	if n := weightAt[c.Func.Text]; n > 0 && len(args) > n {
		weight = args[n]
	}
	var row *AggregationRow
	for i := range a.Rows {
		if (&Style{}).compareKeys(a.Rows[i].Key, key) == 0 {
			row = &a.Rows[i]
		}
	}
	if row == nil {
		a.Rows = append(a.Rows, AggregationRow{Key: key, Data: make([]int64, a.size())})
		row = &a.Rows[len(a.Rows)-1]
		a.clear(row.Data)
	}
	d := row.Data
	switch a.Func {
	case Count:
		d[0]++
	case Sum:
		d[0] += args[0]
	case Min:
		d[0] = min(d[0], args[0])
	case Max:
		d[0] = max(d[0], args[0])
	case Avg:
		d[0]++
		d[1] += args[0]
	case Stddev:
		d[0]++
		d[1] += args[0]
		w := weight128{uint64(d[2]), uint64(d[3])}
		w.square(args[0])
		d[2], d[3] = int64(w.lo), int64(w.hi)
	default:
		d[a.Buckets.Bucket(args[0])] += weight
	}
}

type weight128 struct{ lo, hi uint64 }

func (w *weight128) square(n int64) {
	sum := weight{hi: int64(w.hi), lo: w.lo}
	sum.add(magnitude(n), false, int64(magnitude(n)))
	w.lo, w.hi = sum.lo, uint64(sum.hi)
}

func (m *machine) slot(x syntax.Expr) (map[string]Value, string) {
	switch x := x.(type) {
	case *syntax.Ident:
		switch x.Scope {
		case syntax.ScopeThis:
			return m.clause, x.Name
		case syntax.ScopeSelf:
			return m.vars, "self->" + x.Name
		case syntax.ScopeGlobal:
			return m.vars, x.Name
		}
	case *syntax.Index:
		in, name := m.slot(x.X)
		for _, k := range x.Keys {
			v := m.eval(k)
			name += fmt.Sprint("/", v.Text, v.signed())
		}
		return in, name
	}
	panic(unable("place"))
}
