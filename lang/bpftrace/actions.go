package bpftrace

import (
	"cmp"
	"strings"

	"culprit/lang/syntax"
)

// actions are the functions that are statements.
//
// table: name to true
var actions = map[string]bool{
	"printf": true, "cat": true, "system": true, "print": true, "clear": true, "zero": true,
	"delete": true, "exit": true, "time": true, "join": true, "signal": true,
}

// action translates a function used as a statement. It returns false for one that has a value.
func (t *translator) action(at syntax.Span, e *syntax.Call) ([]syntax.Stmt, bool) {
	name := e.Func.Text
	if !actions[name] {
		return nil, false
	}
	if !t.counted(e) {
		return nil, true
	}
	switch name {
	case "exit":
		return []syntax.Stmt{t.dStatement(at, "exit", t.status(e))}, true
	case "delete":
		return t.deleteElement(at, e), true
	case "print":
		return t.print(at, e), true
	case "clear", "zero":
		kind := ClearMap
		if name == "zero" {
			kind = ZeroMap
		}
		m := t.wholeMap(e)
		if m == nil {
			return nil, true
		}
		return t.emit(at, &Output{Kind: kind, Map: m}, nil, ""), true
	case "time":
		text := "%H:%M:%S\n"
		if len(e.Args) == 1 {
			s, ok := e.Args[0].(*syntax.String)
			if !ok {
				t.fail(e.Args[0].At(), BadCall, "write "+forms[name].form,
					"the format must be a string")
				return nil, true
			}
			text = s.Value
		}
		return t.emit(at, &Output{Kind: PrintTime, Text: text}, nil, ""), true
	case "join":
		return t.join(at, e), true
	case "signal":
		return t.signal(at, e), true
	}
	return t.printf(at, e), true
}

func (t *translator) dStatement(at syntax.Span, name string, args ...syntax.Expr) syntax.Stmt {
	return &syntax.Do{Span: at, X: dCall(at, name, args...)}
}

// status returns the status of exit().
func (t *translator) status(e *syntax.Call) syntax.Expr {
	if len(e.Args) == 0 {
		return number(e.Span, 0)
	}
	x, _ := t.expr(e.Args[0])
	return x
}

// emit adds an action and returns the statement that writes its record. wants has a letter for each
// value; see lang/check.
func (t *translator) emit(
	at syntax.Span, o *Output, values []syntax.Expr, wants string,
) []syntax.Stmt {
	if len(t.out.Outputs) >= mostOutputs {
		t.fail(at, TooLarge, "unroll fewer times", "the program has more than %d actions",
			mostOutputs)
		return nil
	}
	t.out.Outputs = append(t.out.Outputs, o)
	args := []syntax.Expr{
		number(at, int64(len(t.out.Outputs)-1)), &syntax.String{Span: at, Value: wants},
	}
	return []syntax.Stmt{t.dStatement(at, "output", append(args, values...)...)}
}

// wholeMap returns the map that is the first argument of a function.
func (t *translator) wholeMap(e *syntax.Call) *Map {
	m, ok := e.Args[0].(*syntax.Aggregation)
	if !ok || m.Keys != nil {
		t.fail(e.Args[0].At(), BadCall, "write "+forms[e.Func.Text].form, "%s() requires a map",
			e.Func.Text)
		return nil
	}
	known := t.maps[m.Name]
	if known == nil {
		t.fail(m.Span, BadMap, "assign to it: @"+m.Name+" = count()", "@%s is never assigned",
			m.Name)
	}
	return known
}

// deleteElement translates delete(@map[KEY]), delete(@map, KEY) and delete(@x, @y[KEY], ...).
func (t *translator) deleteElement(at syntax.Span, e *syntax.Call) []syntax.Stmt {
	m, ok := e.Args[0].(*syntax.Aggregation)
	if !ok {
		t.fail(e.Args[0].At(), BadCall, "write delete(@map[KEY])", "delete() requires a map")
		return nil
	}
	known := t.maps[m.Name]
	several := m.Keys != nil || known != nil && known.keyed && len(known.Keys) == 0
	if len(e.Args) == 2 && !several {
		keys, isTup := isTuple(e.Args[1])
		if !isTup {
			keys = e.Args[1:]
		}
		return t.deleteOne(at, &syntax.Aggregation{Span: m.Span, Name: m.Name, Keys: keys})
	}
	out := t.deleteOne(at, m)
	for _, a := range e.Args[1:] {
		m, ok := a.(*syntax.Aggregation)
		if !ok {
			t.fail(a.At(), BadCall, "write delete(@map[KEY])", "delete() requires a map")
			return nil
		}
		out = append(out, t.deleteOne(at, m)...)
	}
	return out
}

// deleteOne translates the deletion of an element. User space deletes those of maps with
// aggregating functions, whose values it has.
func (t *translator) deleteOne(at syntax.Span, m *syntax.Aggregation) []syntax.Stmt {
	known := t.maps[m.Name]
	switch {
	case known == nil:
		t.fail(m.Span, BadMap, "assign to it: @"+m.Name+" = 1", "@%s is never assigned", m.Name)
		return nil
	case known.Func != "":
		keys := t.mapKeys(m)
		return t.emit(at, &Output{Kind: DeleteKey, Map: known}, keys,
			strings.Repeat(".", len(keys)))
	}
	n := known.Value.Values()
	var out []syntax.Stmt
	for i := range n {
		out = append(out, t.dStatement(at, "forget", t.element(m, i, n)))
	}
	return out
}

// print translates print(@map, TOP, DIVISOR) and print(VALUE).
func (t *translator) print(at syntax.Span, e *syntax.Call) []syntax.Stmt {
	m, ok := e.Args[0].(*syntax.Aggregation)
	if ok && m.Keys == nil {
		o := &Output{Kind: PrintMap, Map: t.wholeMap(e), Div: 1}
		if o.Map == nil {
			return nil
		}
		for i, a := range e.Args[1:] {
			n, ok := constant(a)
			if !ok || n < 0 {
				t.fail(a.At(), BadCall, "write "+forms["print"].form, "print() requires a constant")
				return nil
			}
			if i == 0 {
				o.Top = int(n)
			} else {
				o.Div = cmp.Or(n, 1)
			}
		}
		return t.emit(at, o, nil, "")
	}
	if len(e.Args) > 1 {
		t.fail(e.Args[1].At(), BadCall, "write print(@map, TOP)", "only maps have a number of rows")
		return nil
	}
	values, shape := t.values(e.Args[0])
	return t.emit(at, &Output{Kind: Print, Shapes: []*Shape{shape}}, values,
		strings.Repeat(".", len(values)))
}

// printf translates printf, cat and system.
func (t *translator) printf(at syntax.Span, e *syntax.Call) []syntax.Stmt {
	o := &Output{Kind: Printf}
	switch e.Func.Text {
	case "cat":
		o.Kind = Cat
	case "system":
		o.Kind = System
		if !t.o.Unsafe {
			t.fail(at, Unsafe, "allow it with --unsafe", "system() runs commands")
		}
	}
	s, ok := e.Args[0].(*syntax.String)
	if !ok {
		t.fail(e.Args[0].At(), BadFormat, "write "+forms[e.Func.Text].form,
			"the format must be a string")
		return nil
	}
	var err error
	if o.Format, err = ParseFormat(s.Value); err != nil {
		t.fail(s.Span, BadFormat, "", "%v", err)
		return nil
	}
	if want, have := len(o.Format.Conversions), len(e.Args)-1; want != have {
		t.fail(at, BadFormat, "write one value for each conversion",
			"the format has %d conversions, and %d values follow", want, have)
		return nil
	}
	var values []syntax.Expr
	var wants strings.Builder
	for i, a := range e.Args[1:] {
		v, shape := t.values(a)
		values = append(values, v...)
		o.Shapes = append(o.Shapes, shape)
		want := o.Format.Conversions[i].wants(shape)
		if want == 0 {
			t.fail(a.At(), BadFormat, o.Format.Conversions[i].hint(shape),
				"%s does not print such a value", o.Format.Conversions[i].Text)
			return nil
		}
		wants.WriteString(strings.Repeat(string(want), len(v)))
	}
	return t.emit(at, o, values, wants.String())
}

// mostJoined is the highest number of strings of join().
const mostJoined = 16

// join translates join(ARGV): the strings that an array of pointers points to.
func (t *translator) join(at syntax.Span, e *syntax.Call) []syntax.Stmt {
	o := &Output{Kind: Join, Text: " "}
	if len(e.Args) == 2 {
		s, ok := e.Args[1].(*syntax.String)
		if !ok {
			t.fail(e.Args[1].At(), BadCall, "write "+forms["join"].form,
				"the separator must be a string")
			return nil
		}
		o.Text = s.Value
	}
	x, _ := t.expr(e.Args[0])
	var values []syntax.Expr
	for i := range mostJoined {
		values = append(values, dCall(at, "joined", x, number(at, int64(i))))
	}
	t.out.Joins = true
	return t.emit(at, o, values, strings.Repeat(".", len(values)))
}

// signals are the signals that signal() knows by name.
//
// table: name to number
var signals = map[string]int64{
	"HUP": 1, "INT": 2, "QUIT": 3, "ABRT": 6, "KILL": 9, "USR1": 10, "SEGV": 11, "USR2": 12,
	"PIPE": 13, "ALRM": 14, "TERM": 15, "CHLD": 17, "CONT": 18, "STOP": 19,
}

func (t *translator) signal(at syntax.Span, e *syntax.Call) []syntax.Stmt {
	if !t.o.Unsafe {
		t.fail(at, Unsafe, "allow it with --unsafe", "signal() sends signals to processes")
		return nil
	}
	if s, ok := e.Args[0].(*syntax.String); ok {
		n, ok := signals[strings.TrimPrefix(s.Value, "SIG")]
		if !ok {
			t.fail(s.Span, BadCall, "write its number", "unknown signal %s", shown(s.Value))
			return nil
		}
		return []syntax.Stmt{t.dStatement(at, "raise", number(at, n))}
	}
	x, _ := t.expr(e.Args[0])
	return []syntax.Stmt{t.dStatement(at, "raise", x)}
}
