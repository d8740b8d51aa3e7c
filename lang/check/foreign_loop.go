package check

import "culprit/lang/syntax"

// aggregationName is the name under which learn keeps the types of an aggregation.
func aggregationName(name string) string { return "(@" + name + ")" }

// valueOf returns the type of the values of an aggregation that has one number for each key.
func valueOf(a *Aggregation) Type {
	if a.Func == Count {
		return tUint64
	}
	return tInt64
}

// loopVariables checks keysof(MAP, VARIABLES ...) and valueof(MAP, VARIABLE). They declare the
// variables of a loop over an associative array or an aggregation: arrays with the key 0, whose
// values have the types of the keys and of the value of MAP.
func (c *checker) loopVariables(e *syntax.Call) {
	types, value := c.mapTypes(e.Args[0])
	if e.Func.Text == "valueof" {
		types = []Type{value}
	}
	if value == nil && c.learning {
		return
	}
	for i, a := range e.Args[1:] {
		name, ok := a.(*syntax.Ident)
		if !ok {
			c.fail(e.At(), NotUnderstood, "", "the loop can't be compiled")
			return
		}
		var t Type = tInt64 // of a map with a mistake
		if i < len(types) && types[i] != nil {
			t = c.keptKey(types[i])
		}
		switch t.(type) {
		case *Int, *Pointer, StringType, StackType, SymbolType:
		default:
			c.fail(e.At(), KeyType, "", "a loop can't read keys or values of the type %s", t)
			return
		}
		if c.globals[name.Name] == nil {
			c.globals[name.Name] = &ident{
				kind: identVar, name: name.Name, home: Global, at: e.At(), t: t,
				keys: []Type{tInt64}, set: true,
			}
		}
	}
}

// mapTypes returns the types of the keys and of the value of an associative array or an
// aggregation; the value is nil while they are unknown.
func (c *checker) mapTypes(e syntax.Expr) (keys []Type, value Type) {
	switch e := e.(type) {
	case *syntax.Ident:
		if id := c.globals[e.Name]; id != nil && !id.bad && id.t != nil {
			return id.keys, id.t
		}
	case *syntax.Aggregation:
		if a := c.aggs[e.Name]; a != nil {
			return a.Keys, valueOf(a)
		}
		if id := c.globals[aggregationName(e.Name)]; id != nil {
			return id.keys, id.t
		}
	}
	return nil, nil
}
