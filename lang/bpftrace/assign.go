package bpftrace

import (
	"strconv"

	"culprit/lang/syntax"
)

// assign translates an assignment to a variable or map.
func (t *translator) assign(at syntax.Span, e *syntax.Assign) []syntax.Stmt {
	if m, ok := e.X.(*syntax.Aggregation); ok {
		if fn := t.maps[m.Name].Func; fn != "" {
			return t.aggregate(at, m, e)
		}
		return t.assignMap(at, m, e)
	}
	v, ok := e.X.(*syntax.Macro)
	if !ok {
		t.fail(e.X.At(), BadSyntax, "", "only variables and maps can be assigned to")
		return nil
	}
	if c, ok := e.Y.(*syntax.Call); ok && c.Func.Text == "delete" && t.counted(c) {
		out := t.deleteElement(at, c)
		t.vars[v.Name] = nil
		return append(out, &syntax.Do{Span: at, X: &syntax.Assign{
			Span: at, Op: e.Op, Y: number(at, 1), X: t.local(v.Span, v.Name),
		}})
	}
	values, shape := t.values(e.Y)
	if shape.kind() == Inet { // addresses of 4 and of 16 bytes are of one type as texts
		values, shape = []syntax.Expr{dCall(e.Y.At(), "inettext", values[0])}, nil
	}
	if e.Op == syntax.Set {
		t.vars[v.Name] = shape
		delete(t.loopVars, v.Name)
	} else if shape.kind() == Tuple {
		t.fail(e.Y.At(), BadMap, "", "a tuple can't be added")
		return nil
	}
	var out []syntax.Stmt
	for i, y := range values {
		name := v.Name
		if shape.Values() > 1 {
			name += "." + strconv.Itoa(i)
		}
		out = append(out, &syntax.Do{Span: at, X: &syntax.Assign{
			Span: at, Op: e.Op, Y: y, X: t.local(v.Span, name),
		}})
	}
	return out
}

// scratchName returns the name of a $variable in D. Variables of different clauses differ: they may
// have different types.
func (t *translator) scratchName(name string) string {
	return "$" + name + "#" + strconv.Itoa(t.clause)
}

// assignMap translates an assignment to a plain map.
func (t *translator) assignMap(
	at syntax.Span, m *syntax.Aggregation, e *syntax.Assign,
) []syntax.Stmt {
	values, shape := t.values(e.Y)
	known := t.maps[m.Name]
	if e.Op == syntax.Set && !known.known {
		known.Value = shape
	}
	if shape.kind() == Buffer && shape.Open {
		t.fail(e.Y.At(), Unsupported,
			"write buf(POINTER, 16), or print it with printf(\"%r\", ...)",
			"the number of bytes of a buffer in a map must be a constant")
		return nil
	}
	var out []syntax.Stmt
	for i, y := range values {
		x := t.element(m, i, len(values))
		out = append(out, &syntax.Do{Span: at, X: &syntax.Assign{
			Span: at, Op: e.Op, X: x, Y: y,
		}})
	}
	known.known = true
	return out
}

// element returns the element of a plain map: part i of a value of n parts.
func (t *translator) element(m *syntax.Aggregation, i, n int) *syntax.Index {
	return &syntax.Index{
		Span: m.Span, X: &syntax.Ident{Span: m.Span, Name: VarName(m.Name, i, n)},
		Keys: t.keys(m),
	}
}

// VarName returns the name of the variable of D that contains a plain map, or part i of its values
// of n parts.
func VarName(name string, i, n int) string {
	if n > 1 {
		return "@" + name + "." + strconv.Itoa(i)
	}
	return "@" + name
}

// keys returns the keys of an element of a plain map, 0 for a map without keys.
func (t *translator) keys(m *syntax.Aggregation) []syntax.Expr {
	keys := t.mapKeys(m)
	if len(keys) == 0 {
		return []syntax.Expr{&syntax.Int{Span: m.Span, Long: 1}}
	}
	return keys
}

// mapKeys translates the keys of a map and learns their shapes.
func (t *translator) mapKeys(m *syntax.Aggregation) []syntax.Expr {
	var out []syntax.Expr
	var shapes []*Shape
	for _, k := range m.Keys {
		values, shape := t.values(k)
		if shape.kind() == Buffer && shape.Open {
			t.fail(k.At(), Unsupported, "write buf(POINTER, 16), or use str(...) as the key",
				"the number of bytes of a buffer in a key must be a constant")
		}
		out = append(out, values...)
		shapes = append(shapes, shape)
	}
	known := t.maps[m.Name]
	if known == nil {
		return out
	}
	if len(shapes) == 1 && shapes[0].kind() == Tuple { // @x[(1, 2)] is @x[1, 2]
		shapes = shapes[0].Parts
	}
	if !known.keyed {
		known.Keys, known.keyed = shapes, true
	}
	if len(known.Keys) != len(shapes) {
		t.fail(m.Span, BadMap, "use the same keys everywhere",
			"@%s has %s elsewhere, and %s here", m.Name, keyCount(known.Keys), keyCount(shapes))
	}
	return out
}

func keyCount(list []*Shape) string {
	switch len(list) {
	case 0:
		return "no keys"
	case 1:
		return "1 key"
	}
	return strconv.Itoa(len(list)) + " keys"
}

// aggregate translates @map[keys] = count() and its like.
func (t *translator) aggregate(
	at syntax.Span, m *syntax.Aggregation, e *syntax.Assign,
) []syntax.Stmt {
	call, ok := e.Y.(*syntax.Call)
	known := t.maps[m.Name]
	if !ok || call.Func.Text != known.Func || e.Op != syntax.Set {
		if ok && e.Op != syntax.Set {
			t.fail(e.At(), BadMap, aggregatingForms[known.Func],
				"%s() adds by itself: it requires =, not another assignment", known.Func)
			return nil
		}
		t.fail(e.At(), BadMap, "use another map", "@%s is assigned %s() elsewhere", m.Name,
			known.Func)
		return nil
	}
	fn := aggregating[known.Func]
	if len(call.Args) < fn.least || len(call.Args) > fn.most {
		t.fail(call.Span, BadCall, aggregatingForms[known.Func], "%s() takes %d arguments, not %d",
			known.Func, fn.most, len(call.Args))
		return nil
	}
	d := &syntax.Call{Span: call.Span, Func: syntax.Name{Span: call.Func.Span, Text: fn.d}}
	args := call.Args
	var before []syntax.Stmt
	if known.Func == "hist" {
		t.histBits(known, call)
		args = args[:1]
	}
	for _, a := range args {
		x, shape := t.expr(a)
		if shape.kind() != Plain {
			t.fail(a.At(), BadCall, "", "%s() requires a number", known.Func)
		}
		d.Args = append(d.Args, x)
	}
	if known.Bits > 0 {
		before, d = t.fineHist(at, d, int64(known.Bits))
	}
	agg := &syntax.Aggregation{Span: m.Span, Name: m.Name, Keys: t.mapKeys(m)}
	known.known = true
	return append(before, &syntax.Do{
		Span: at, X: &syntax.Assign{Span: at, Op: syntax.Set, X: agg, Y: d},
	})
}

// aggregatingForms are how aggregating functions are written.
//
// table: name to an example
var aggregatingForms = map[string]string{
	"count": "write @ = count()", "sum": "write @ = sum(VALUE)", "avg": "write @ = avg(VALUE)",
	"min": "write @ = min(VALUE)", "max": "write @ = max(VALUE)",
	"stats": "write @ = stats(VALUE)", "hist": "write @ = hist(VALUE [, 0 to 5])",
	"lhist": "write @ = lhist(VALUE, 0, 100, 10)",
}

// mostBits is the highest second argument of hist().
const mostBits = 5

// histBits sets the second argument of hist(), K: each power of two has 2^K buckets.
func (t *translator) histBits(m *Map, call *syntax.Call) {
	bits := int64(0)
	if len(call.Args) == 2 {
		var ok bool
		if bits, ok = constant(call.Args[1]); !ok || bits < 0 || bits > mostBits {
			t.fail(call.Args[1].At(), BadCall, aggregatingForms["hist"],
				"the second argument of hist() must be a constant from 0 to %d", mostBits)
			return
		}
	}
	if m.known && m.Bits != int(bits) {
		t.fail(call.Span, BadMap, "use another map", "@%s is assigned hist(VALUE, %d) elsewhere",
			m.Name, m.Bits)
	}
	m.Bits = int(bits)
}

// highestPower is the power of two above which a hist() with bits has one bucket.
const highestPower = 62

// fineHist translates hist(X, K) to llquantize() with 2^K buckets of equal width in each power of
// two. It has one bucket for numbers below 2^K. Therefore these are counted as numbers -2^K, -2^K-1
// ..., which have buckets of width 1, and negative numbers as 0. FineBuckets reverses it.
func (t *translator) fineHist(
	at syntax.Span, d *syntax.Call, bits int64,
) (before []syntax.Stmt, fine *syntax.Call) {
	x, n := t.local(at, "(hist)"), number(at, 1<<bits)
	before = []syntax.Stmt{&syntax.Do{Span: at, X: &syntax.Assign{
		Span: at, Op: syntax.Set, X: x, Y: &syntax.Cast{
			Span: at, Type: &syntax.Named{Span: at, Name: "int64_t"}, X: d.Args[0],
		},
	}}}
	below := func(limit syntax.Expr) syntax.Expr {
		return &syntax.Binary{Span: at, Op: syntax.Lt, X: x, Y: limit}
	}
	low := &syntax.Unary{Span: at, Op: syntax.Neg,
		X: &syntax.Binary{Span: at, Op: syntax.Add, X: x, Y: n}}
	value := &syntax.Cond{
		Span: at, If: below(number(at, 0)), Then: number(at, 0),
		Else: &syntax.Cond{Span: at, If: below(n), Then: low, Else: x},
	}
	return before, dCall(d.Span, "llquantize", value, number(at, 2), number(at, bits),
		number(at, highestPower-1), number(at, 2<<bits))
}

// FineBuckets returns the buckets of hist(X, K) from those of llquantize: below 0, 0, 1, 2, ...
func FineBuckets(data []int64, bits int) []uint64 {
	zero, n := len(data)/2, 1<<bits
	out := []uint64{uint64(data[zero])}
	for i := 1; i <= n; i++ {
		out = append(out, uint64(data[zero-i]))
	}
	for _, count := range data[zero+1:] {
		out = append(out, uint64(count))
	}
	return out
}
