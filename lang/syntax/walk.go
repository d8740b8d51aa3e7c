package syntax

// Walk calls visit for a node and all nodes below it, in the order of the text, parents first. When
// visit returns false, the nodes below are skipped. A nil interface is not visited. A base shared
// by several variables or members is visited once, before the first of them. visit may change a
// node's parts: the changed parts are walked.
func Walk(n Node, visit func(Node) bool) {
	if n != nil && visit(n) {
		walkBelow(n, visit)
	}
}

func walkBelow(n Node, visit func(Node) bool) {
	switch n := n.(type) {
	case *Program:
		walkAll(n.Items, visit)
	case *Clause:
		walkAll(n.Probes, visit)
		Walk(n.Predicate, visit)
		walkBlock(n.Body, visit)
	case *Declaration:
		Walk(n.Base, visit)
		for _, v := range n.Vars {
			if visit(v) {
				walkMarks(v.Type, n.Base, visit)
			}
		}
	case *Var:
		Walk(n.Type, visit)
	case *Inline:
		Walk(n.Var, visit)
		Walk(n.Value, visit)
	case *Translator:
		Walk(n.Output, visit)
		Walk(n.Input, visit)
		walkAll(n.Members, visit)
	case *TranslatorMember:
		Walk(n.Value, visit)
	case *Block:
		walkAll(n.List, visit)
	case *Do:
		Walk(n.X, visit)
	case *If:
		Walk(n.Cond, visit)
		walkBlock(n.Then, visit)
		walkBlock(n.Else, visit)
	case *Aggregation:
		walkAll(n.Keys, visit)
	case *Index:
		Walk(n.X, visit)
		walkAll(n.Keys, visit)
	case *Member:
		Walk(n.X, visit)
	case *Call:
		walkAll(n.Args, visit)
	case *Unary:
		Walk(n.X, visit)
	case *Step:
		Walk(n.X, visit)
	case *Binary:
		Walk(n.X, visit)
		Walk(n.Y, visit)
	case *Assign:
		Walk(n.X, visit)
		Walk(n.Y, visit)
	case *Cond:
		Walk(n.If, visit)
		Walk(n.Then, visit)
		Walk(n.Else, visit)
	case *Cast:
		Walk(n.Type, visit)
		Walk(n.X, visit)
	case *SizeOf:
		Walk(n.Type, visit)
		Walk(n.X, visit)
	case *StringOf:
		Walk(n.X, visit)
	case *OffsetOf:
		Walk(n.Type, visit)
	case *Xlate:
		Walk(n.Type, visit)
		Walk(n.X, visit)
	case *Struct:
		var base Type
		for _, f := range n.Fields {
			if f.Base != base || base == nil {
				base = f.Base
				Walk(base, visit)
			}
			if visit(f) {
				walkMarks(f.Type, base, visit)
				Walk(f.Bits, visit)
			}
		}
	case *StructMember:
		Walk(n.Type, visit)
		Walk(n.Bits, visit)
	case *Enum:
		walkAll(n.Values, visit)
	case *EnumValue:
		Walk(n.Value, visit)
	case *Pointer:
		Walk(n.Elem, visit)
	case *Array:
		Walk(n.Elem, visit)
		Walk(n.Len, visit)
	case *Assoc:
		Walk(n.Elem, visit)
		walkAll(n.Keys, visit)
	case *Func:
		Walk(n.Result, visit)
		walkAll(n.Params, visit)
	case *Param:
		Walk(n.Type, visit)
	}
}

// walkMarks walks a type down to a base, excluding it.
func walkMarks(t, base Type, visit func(Node) bool) {
	if t == base || !visit(t) {
		return
	}
	switch t := t.(type) {
	case *Pointer:
		walkMarks(t.Elem, base, visit)
	case *Array:
		walkMarks(t.Elem, base, visit)
		Walk(t.Len, visit)
	case *Assoc:
		walkMarks(t.Elem, base, visit)
		walkAll(t.Keys, visit)
	case *Func:
		walkMarks(t.Result, base, visit)
		walkAll(t.Params, visit)
	default:
		walkBelow(t, visit)
	}
}

func walkBlock(b *Block, visit func(Node) bool) {
	if b != nil {
		Walk(b, visit)
	}
}

func walkAll[N Node](list []N, visit func(Node) bool) {
	for _, n := range list {
		Walk(n, visit)
	}
}
