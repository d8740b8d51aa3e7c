package check

import (
	"cmp"
	"strings"

	"culprit/lang/format"
	"culprit/lang/syntax"
)

// aggFuncs are the aggregating functions, with their lowest and highest number of arguments.
//
// table: name to signature
var aggFuncs = map[string]struct {
	which       AggFunc
	least, most int
	proto       string
}{
	"count": {Count, 0, 0, "count()"}, "sum": {Sum, 1, 1, "sum(number)"},
	"min": {Min, 1, 1, "min(number)"}, "max": {Max, 1, 1, "max(number)"},
	"avg": {Avg, 1, 1, "avg(number)"}, "stddev": {Stddev, 1, 1, "stddev(number)"},
	"quantize":   {Quantize, 1, 2, "quantize(number, [weight])"},
	"lquantize":  {Lquantize, 3, 5, "lquantize(number, base, limit, [step], [weight])"},
	"llquantize": {Llquantize, 5, 6, "llquantize(number, factor, low, high, steps, [weight])"},
}

func aggName(name string) string { return "@" + name }

// aggregate checks @a[keys] = func(...).
func (c *checker) aggregate(a *syntax.Aggregation, e *syntax.Assign) {
	defer func() { c.spoilt[a.Name] = c.spoilt[a.Name] || c.aggs[a.Name] == nil }()
	call, ok := e.Y.(*syntax.Call)
	if !ok {
		d := c.fail(e.Y.At(), AggFuncWanted, "D_AGG_FUNC",
			"only an aggregating function can be assigned to an aggregation")
		d.Hint = "@" + a.Name + " = count(); a value that is read again is kept in a variable, " +
			"of the thread: self->" + cmp.Or(a.Name, "x") + " = ..."
		return
	}
	fn, ok := aggFuncs[call.Func.Text]
	if !ok {
		tag := "D_AGG_FUNC"
		if _, sub := subroutines[call.Func.Text]; !sub && actions[call.Func.Text] == nil {
			tag = "D_FUNC_UNDEF"
		}
		d := c.fail(
			call.At(), AggFuncWanted, tag, "unknown aggregating function %s()", call.Func.Text,
		)
		if !c.foreignWord(d, call.Func.Text) {
			near(d, call.Func.Text, names(aggFuncs))
		}
		return
	}
	if len(call.Args) < fn.least || len(call.Args) > fn.most {
		c.wrongCount(call, fn.least, fn.most, fn.proto)
		return
	}
	keys, ok := c.aggKeys(a)
	out := &Aggregate{place: place{e.At()}}
	if len(call.Args) > 0 {
		v := c.expr(call.Args[0])
		if v.ok() {
			i, isInt := v.int()
			if !isInt {
				c.fail(
					call.Args[0].At(), AggScalar, "D_AGG_SCALAR", "%s() requires a number, not %s",
					call.Func.Text, v.t,
				)
				return
			}
			out.Value = convert(v.settle(), wide(i))
		}
		ok = ok && v.ok()
	}
	var steps [4]int64
	rest := 1
	switch fn.which {
	case Lquantize:
		var good bool
		steps, good = c.lquantize(call)
		ok, rest = ok && good, 4
	case Llquantize:
		var good bool
		steps, good = c.llquantize(call)
		ok, rest = ok && good, 5
	}
	if len(call.Args) > rest && fn.which >= Quantize {
		w := c.expr(call.Args[rest])
		ok = ok && w.ok()
		if w.ok() {
			i, isInt := w.int()
			if !isInt {
				c.fail(
					call.Args[rest].At(), AggScalar, "D_PROTO_ARG",
					"a weight must be a number, not %s", w.t,
				)
				return
			}
			out.Weight = w.computed(i)
		}
	}
	if !ok {
		return
	}
	agg := c.aggs[a.Name]
	if agg == nil {
		agg = &Aggregation{
			ID:     len(c.prog.Aggs),
			Name:   a.Name,
			Func:   fn.which,
			Signed: true,
			Steps:  steps,
			At:     a.At(),
		}
		for _, k := range keys {
			agg.Keys = append(agg.Keys, c.aggKeyType(k))
		}
		c.aggs[a.Name] = agg
		c.prog.Aggs = append(c.prog.Aggs, agg)
	} else if agg.Func != fn.which {
		c.fail(e.At(), AggRedefined, "D_AGG_REDEF",
			"%s is used with another aggregating function before", aggName(a.Name))
		return
	} else if !c.sameSteps(call, agg, steps) {
		return
	}
	if len(keys) != len(agg.Keys) {
		c.fail(
			a.At(), KeyMismatch, "D_PROTO_LEN", "%s has %s, not %d", aggName(a.Name),
			count(len(agg.Keys), "key"), len(keys),
		)
		return
	}
	for i, k := range keys {
		x := c.fitKey(agg.Keys[i], k)
		if x == nil {
			c.fail(
				a.Keys[i].At(), KeyMismatch, "D_PROTO_ARG", "key %d of %s is %s, not %s", i+1,
				aggName(a.Name), agg.Keys[i], k.t,
			)
			return
		}
		out.Keys = append(out.Keys, x)
	}
	if c.spec.speculated || c.spec.committed {
		tag, word := "D_AGG_SPEC", "speculate()"
		if c.spec.committed {
			tag, word = "D_AGG_COMM", "commit()"
		}
		c.fail(e.At(), ActionOrder, tag, "an aggregation can't follow %s", word)
	}
	out.Agg = agg
	c.add(out)
}

// aggKeys returns the keys of an aggregation.
func (c *checker) aggKeys(a *syntax.Aggregation) ([]value, bool) {
	var out []value
	ok := true
	for _, k := range a.Keys {
		if g := c.aggregationArg(k); g != nil {
			c.fail(k.At(), KeyType, "D_KEY_TYPE", "an aggregation can't be a key")
			ok = false
			continue
		}
		v := c.exprAny(k)
		if !v.ok() {
			ok = false
			continue
		}
		if c.aggKeyType(v) == nil {
			c.fail(k.At(), KeyType, "D_KEY_TYPE", "%s can't be a key", v.t)
			ok = false
			continue
		}
		out = append(out, v)
	}
	return out, ok
}

// aggKeyType returns the type of a value as a key of an aggregation; nil: it can't be one.
func (c *checker) aggKeyType(v value) Type {
	switch t := v.t.(type) {
	case *Int, *Pointer:
		return c.whole(ownType(v.t))
	case StringType, StackType, SymbolType:
		return v.t
	case *Array:
		if isChar(t.Elem) {
			return tString
		}
		if n := t.Size(); n > 0 {
			return c.wholeKey(t)
		}
	case *Struct:
		if t.Bytes > 0 {
			return c.wholeKey(t)
		}
	case *Bytes:
		if c.o.Bpftrace {
			return t
		}
	}
	return nil
}

// wholeKey returns the type of a struct or array as a key: bpftrace prints it by its type.
func (c *checker) wholeKey(t Type) Type {
	if c.o.Bpftrace {
		return t
	}
	return &Bytes{t.Size()}
}

func (c *checker) fitKey(t Type, v value) Expr {
	if _, isBytes := v.t.(*Bytes); isBytes {
		return c.fit(t, v)
	}
	if isWholeType(t) {
		if Same(t, v.t) {
			return &Copy{typed{v.x.Place(), t}, v.x, t.Size()}
		}
		return nil
	}
	if b, ok := t.(*Bytes); ok {
		if v.t.Size() == b.Len {
			return &Copy{typed{v.x.Place(), b}, v.x, b.Len}
		}
		return nil
	}
	return c.fit(t, v)
}

func (c *checker) stepConstant(e syntax.Expr, tag, what string) (int64, bool) {
	n, t, ok := c.constant(e)
	if !ok && t != nil {
		c.fail(e.At(), QuantizeConstant, tag, "%s must be a constant number", what)
	}
	return n, ok
}

// lquantize returns base, limit and step.
func (c *checker) lquantize(e *syntax.Call) (out [4]int64, ok bool) {
	ok = true
	out[2] = 1
	for i, w := range []struct{ what, typ, val string }{
		{"the base of lquantize()", "D_LQUANT_BASETYPE", "D_LQUANT_BASEVAL"},
		{"the limit of lquantize()", "D_LQUANT_LIMTYPE", "D_LQUANT_LIMVAL"},
		{"the step of lquantize()", "D_LQUANT_STEPTYPE", "D_LQUANT_STEPVAL"},
	} {
		if i+1 >= len(e.Args) {
			break
		}
		n, good := c.stepConstant(e.Args[i+1], w.typ, w.what)
		if good && i < 2 && n != int64(int32(n)) {
			c.fail(e.Args[i+1].At(), QuantizeRange, w.val, "%s can't be %d", w.what, n)
			good = false
		}
		out[i] = n
		ok = ok && good
	}
	if !ok {
		return out, false
	}
	switch {
	case out[0] >= out[1]:
		c.fail(
			e.Args[1].At(), QuantizeRange, "D_LQUANT_MISMATCH",
			"the base of lquantize(), %d, must be below its limit, %d", out[0], out[1],
		)
		return out, false
	case out[2] <= 0:
		c.fail(
			e.Args[3].At(), QuantizeRange, "D_LQUANT_STEPTYPE",
			"the step of lquantize() must be above 0, not %d", out[2],
		)
		return out, false
	case out[2] > 1<<16-1:
		c.fail(
			e.Args[3].At(), QuantizeRange, "D_LQUANT_STEPVAL",
			"the step of lquantize() must be at most 65535, not %d", out[2],
		)
		return out, false
	}
	levels := (out[1] - out[0]) / out[2]
	switch {
	case levels == 0:
		c.fail(
			e.Args[3].At(), QuantizeRange, "D_LQUANT_STEPLARGE",
			"a step of %d is larger than the range %d to %d", out[2], out[0], out[1],
		)
		return out, false
	case levels > 1<<16-1:
		c.fail(
			e.At(), QuantizeRange, "D_LQUANT_STEPSMALL",
			"a step of %d makes %d buckets; at most 65535 are allowed", out[2], levels,
		)
		return out, false
	}
	return out, true
}

// llquantize returns factor, low, high and steps.
func (c *checker) llquantize(e *syntax.Call) (out [4]int64, ok bool) {
	ok = true
	for i, w := range []struct{ what, typ, val string }{
		{"the factor of llquantize()", "D_LLQUANT_FACTORTYPE", "D_LLQUANT_FACTORVAL"},
		{"the low magnitude of llquantize()", "D_LLQUANT_LMAGTYPE", "D_LLQUANT_LMAGVAL"},
		{"the high magnitude of llquantize()", "D_LLQUANT_HMAGTYPE", "D_LLQUANT_HMAGVAL"},
		{"the steps of llquantize()", "D_LLQUANT_STEPTYPE", "D_LLQUANT_STEPVAL"},
	} {
		n, good := c.stepConstant(e.Args[i+1], w.typ, w.what)
		if good && (n < 0 || n > 1<<16-1 || i == 0 && n < 2 || i == 3 && n < 1) {
			tag := w.val
			if i == 3 && n < 1 {
				tag = w.typ
			}
			c.fail(e.Args[i+1].At(), QuantizeRange, tag, "%s can't be %d", w.what, n)
			good = false
		}
		out[i] = n
		ok = ok && good
	}
	if !ok {
		return out, false
	}
	factor, low, high, steps := out[0], out[1], out[2], out[3]
	switch {
	case low > high:
		c.fail(
			e.Args[2].At(), QuantizeRange, "D_LLQUANT_HMAGVAL",
			"the high magnitude of llquantize(), %d, must not be below the low one, %d", high, low,
		)
	case !fits(factor, high+1):
		c.fail(
			e.Args[3].At(), QuantizeRange, "D_LLQUANT_HMAGVAL",
			"%d to the power of %d does not fit in 64 bits", factor, high,
		)
	case steps < factor && factor%steps != 0,
		steps > factor && (steps%factor != 0 || !divides(steps, factor)):
		c.fail(
			e.Args[4].At(), QuantizeRange, "D_LLQUANT_STEPVAL",
			"the steps of llquantize(), %d, must divide the factor, %d, or be a multiple of it",
			steps, factor,
		)
	default:
		return out, true
	}
	return out, false
}

// divides reports whether steps divides the smallest power of the factor that is not below it.
func divides(steps, factor int64) bool {
	n := factor
	for n < steps {
		n *= factor
	}
	return n%steps == 0
}

// fits reports whether base to the power of n fits in 63 bits.
func fits(base, n int64) bool {
	v := int64(1)
	for range n {
		if v > (1<<63-1)/base {
			return false
		}
		v *= base
	}
	return true
}

// sameSteps reports whether a distribution has the same parameters as at its first use.
func (c *checker) sameSteps(e *syntax.Call, agg *Aggregation, steps [4]int64) bool {
	if agg.Steps == steps {
		return true
	}
	tags := []string{"D_LQUANT_MATCHBASE", "D_LQUANT_MATCHLIM", "D_LQUANT_MATCHSTEP", ""}
	if agg.Func == Llquantize {
		tags = []string{
			"D_LLQUANT_MATCHFACTOR",
			"D_LLQUANT_MATCHLMAG",
			"D_LLQUANT_MATCHHMAG",
			"D_LLQUANT_MATCHSTEPS",
		}
	}
	for i := range steps {
		if steps[i] != agg.Steps[i] {
			c.fail(
				e.Args[min(i+1, len(e.Args)-1)].At(), AggRedefined, tags[i],
				"%s is used with %d here before, not %d", aggName(agg.Name), agg.Steps[i], steps[i],
			)
			return false
		}
	}
	return true
}

// aggregation returns the aggregation that an action takes.
func (c *checker) aggregation(e syntax.Expr, name, tag string) *Aggregation {
	if agg, done := c.array(e, name); done {
		return agg
	}
	a := c.aggregationArg(e)
	if a == nil {
		c.fail(e.At(), AggWanted, tag, "%s() requires an aggregation", name).Hint = name + "(@...)"
		return nil
	}
	agg := c.aggs[a.Name]
	if agg == nil && c.spoilt[a.Name] {
		return nil
	}
	if agg == nil {
		near(
			c.fail(
				e.At(), UnknownAggregation, strings.TrimSuffix(tag, "ARG")+"BAD",
				"unknown aggregation %s", aggName(a.Name),
			),
			a.Name,
			names(c.aggs),
		)
		return nil
	}
	if len(a.Keys) > 0 {
		c.fail(e.At(), AggKeys, "D_PRINTA_AGGKEY", "%s() takes an aggregation without keys", name)
		return nil
	}
	return agg
}

// onAggregation checks clear, trunc, normalize and denormalize.
func (c *checker) onAggregation(e *syntax.Call, at syntax.Span, kind ActionKind) {
	name := e.Func.Text
	least, most, tag := 1, 1, "D_CLEAR_"
	switch kind {
	case Trunc:
		most, tag = 2, "D_TRUNC_"
	case Normalize:
		least, most, tag = 2, 2, "D_NORMALIZE_"
	case Denormalize:
		tag = "D_NORMALIZE_"
	}
	if len(e.Args) < least || len(e.Args) > most {
		c.fail(
			e.At(), ArgumentCount, "D_PROTO_LEN", "%s() requires %s, not %d", name,
			count(least, "argument"), len(e.Args),
		)
		return
	}
	agg := c.aggregation(e.Args[0], name, tag+"AGGARG")
	var args []Expr
	if len(e.Args) == 2 {
		if c.aggregationArg(e.Args[1]) != nil {
			c.fail(
				e.Args[1].At(), ArgumentType, "D_PROTO_ARG",
				"argument 2 of %s() must be a number, not an aggregation", name,
			)
			return
		}
		v := c.expr(e.Args[1])
		if !v.ok() {
			return
		}
		i, ok := v.int()
		if !ok {
			c.fail(
				e.Args[1].At(), ArgumentType, "D_PROTO_ARG",
				"argument 2 of %s() must be a number, not %s", name, v.t,
			)
			return
		}
		args = append(args, v.computed(i))
	}
	if agg != nil && agg.Array != nil && len(args) > 0 {
		d := c.fail(e.At(), AggWanted, "",
			"trunc() of an associative array removes all its elements")
		d.Hint = "write trunc(" + agg.Name + ")"
		return
	}
	if agg != nil {
		c.record(at, Action{Kind: kind, Aggs: []*Aggregation{agg}}, args...)
	}
}

// printa checks printa.
func (c *checker) printa(e *syntax.Call, at syntax.Span) {
	if len(e.Args) == 0 {
		c.fail(e.At(), ArgumentCount, "D_PROTO_LEN", "missing aggregation of printa()")
		return
	}
	var f *format.Format
	list := e.Args
	if c.aggregationArg(list[0]) == nil && c.arrayNamed(list[0]) == nil {
		if f = c.format(list[0], "printa"); f == nil {
			return
		}
		list = list[1:]
		if len(list) == 0 {
			c.fail(
				e.At(), AggWanted, "D_PRINTA_PROTO",
				"missing aggregation after the format of printa()",
			)
			return
		}
	}
	var aggs []*Aggregation
	for _, a := range list {
		agg := c.aggregation(a, "printa", "D_PRINTA_AGGARG")
		if agg == nil {
			return
		}
		if len(aggs) > 0 && !sameKeys(agg, aggs[0]) {
			tag := "D_PRINTA_AGGPROTO"
			if len(agg.Keys) != len(aggs[0].Keys) {
				tag = "D_PRINTA_AGGKEY"
			}
			c.fail(
				a.At(), AggKeys, tag, "%s and %s have different keys and can't be printed together",
				aggName(aggs[0].Name), aggName(agg.Name),
			)
			return
		}
		aggs = append(aggs, agg)
	}
	if f != nil && !c.printaFormat(e, f, aggs) {
		return
	}
	c.record(at, Action{Kind: Printa, Format: f, Aggs: aggs})
}

func sameKeys(a, b *Aggregation) bool {
	if len(a.Keys) != len(b.Keys) {
		return false
	}
	for i := range a.Keys {
		if !Same(a.Keys[i], b.Keys[i]) {
			return false
		}
	}
	return true
}

// printaFormat checks the keys of aggregations against a format.
func (c *checker) printaFormat(e *syntax.Call, f *format.Format, aggs []*Aggregation) bool {
	next := 0
	for i := range f.Conversions {
		conv := &f.Conversions[i]
		if conv.Want == format.Nothing || conv.Aggregation {
			continue
		}
		if next >= len(aggs[0].Keys) {
			c.fail(
				e.Args[0].At(), FormatArguments, "D_PRINTF_ARG_PROTO",
				"%s has no key for conversion %d, %%%s", aggName(aggs[0].Name), i+1, conv.Name,
			)
			return false
		}
		k := aggs[0].Keys[next]
		next++
		if c.converted(conv, value{x: &Const{typed{e.At(), tLong}, 0}, t: k}) == nil {
			c.fail(
				e.Args[0].At(), FormatType, "D_PRINTF_ARG_TYPE",
				"conversion %d, %%%s, requires %s, not the key %s", i+1, conv.Name, conv.Prototype,
				k,
			)
			return false
		}
	}
	return true
}
