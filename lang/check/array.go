package check

import "culprit/lang/syntax"

// arrayNamed returns the associative array that an expression names as a whole; nil: it names none.
func (c *checker) arrayNamed(e syntax.Expr) *ident {
	name, ok := e.(*syntax.Ident)
	if !ok || name.Scope == syntax.ScopeKernel {
		return nil
	}
	if id := c.lookup(name); id != nil && !id.bad && id.keys != nil && id.t != nil {
		return id
	}
	return nil
}

// array returns an associative array as an aggregation, for actions that take both: printa(),
// clear() and trunc() without a number. done is false when e is no array.
func (c *checker) array(e syntax.Expr, action string) (agg *Aggregation, done bool) {
	id := c.arrayNamed(e)
	if id == nil {
		return nil, false
	}
	switch action {
	case "printa", "clear", "trunc":
	default:
		d := c.fail(e.At(), AggWanted, "",
			"%s() requires an aggregation, not an associative array", action)
		d.Hint = "keep the numbers in an aggregation: @" + id.name + "[KEY] = sum(VALUE)"
		return nil, true
	}
	if id.home != Global {
		d := c.fail(e.At(), AggWanted, "",
			"%s has elements of each thread: only global arrays can be printed or cleared",
			scopeName(id.home, id.name))
		d.Hint = "use a global array with tid as a key: " + id.name + "[tid, KEY]"
		return nil, true
	}
	switch id.t.(type) {
	case *Int, *Pointer:
	default:
		if action == "printa" {
			d := c.fail(e.At(), AggWanted, "",
				"printa() prints numbers, and the values of %s are of the type %s", id.name, id.t)
			d.Hint = "make the value a key: " + id.name + "[KEY, VALUE] = 1"
			return nil, true
		}
	}
	v := c.variableOf(id)
	return &Aggregation{ID: -1, Name: id.name, Func: Sum, Keys: v.Keys, Array: v, At: e.At()}, true
}
