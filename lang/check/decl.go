package check

import (
	"math"

	"culprit/lang/syntax"
)

// maxArray is the length of the largest array that can be declared.
const maxArray = math.MaxInt32

// typeOf returns a type of the text; nil, with a diagnostic, when it is invalid.
func (c *checker) typeOf(t syntax.Type) Type { return c.types.written(t) }

// written returns a type of the text.
func (ts *types) written(t syntax.Type) Type {
	c := ts.c
	switch t := t.(type) {
	case *syntax.Basic:
		return basics[t.Kind]
	case *syntax.Named:
		return ts.namedType(t)
	case *syntax.Pointer:
		elem := ts.written(t.Elem)
		if elem == nil {
			return nil
		}
		return &Pointer{Elem: elem}
	case *syntax.Array:
		return ts.array(t)
	case *syntax.Struct:
		return ts.structType(t)
	case *syntax.Enum:
		return ts.enumType(t)
	case *syntax.Func:
		return ts.function(t)
	case *syntax.Assoc:
		c.fail(t.At(), AssocPlace, "D_DECL_PROTO_TYPE",
			"an associative array can't be part of another type")
	}
	return nil
}

func (ts *types) array(t *syntax.Array) Type {
	c := ts.c
	elem := ts.written(t.Elem)
	if elem == nil {
		return nil
	}
	switch e := elem.(type) {
	case VoidType:
		c.fail(t.At(), BadArray, "D_DECL_VOIDOBJ", "array of void")
		return nil
	case *Func:
		c.fail(t.At(), BadArray, "D_DECL_FUNCTYPE", "array of functions")
		return nil
	case *Array:
		if e.Len < 0 {
			c.fail(t.At(), BadArray, "D_DECL_ARRSUB",
				"the inner length of an array of arrays is missing")
			return nil
		}
	}
	if t.Len == nil {
		return &Array{Elem: elem, Len: -1}
	}
	n, k, ok := c.constant(t.Len)
	switch {
	case !ok:
		if k != nil {
			c.fail(
				t.Len.At(), BadArray, "D_DECL_ARRSUB",
				"the length of an array must be a constant number",
			)
		}
		return nil
	case n < 0:
		c.fail(t.Len.At(), BadArray, "D_DECL_ARRSUB", "the length of an array can't be %d", n)
		return nil
	case elem.Size() > 0 && n > maxArray/elem.Size():
		c.fail(t.Len.At(), BadArray, "D_DECL_ARRBIG", "an array of %d of %s is too large", n, elem)
		return nil
	}
	return &Array{Elem: elem, Len: n}
}

func (ts *types) function(t *syntax.Func) Type {
	c := ts.c
	f := &Func{Result: ts.written(t.Result), More: t.More}
	ok := f.Result != nil
	if _, array := f.Result.(*Array); array {
		c.fail(t.At(), BadFunction, "D_DECL_FUNCRET", "a function can't return an array")
		return nil
	}
	for i, p := range t.Params {
		k := ts.written(p.Type)
		if _, void := k.(VoidType); void {
			if p.Name.Text != "" {
				c.fail(
					p.At(), BadFunction, "D_DECL_PROTO_NAME",
					"a parameter of type void has no name",
				)
				ok = false
			} else if len(t.Params) > 1 || t.More {
				c.fail(p.At(), BadFunction, "D_DECL_PROTO_VOID", "void must be the only parameter")
				ok = false
			}
			if i == 0 && len(t.Params) == 1 {
				continue
			}
		}
		ok = ok && k != nil
		f.Params = append(f.Params, k)
	}
	if !ok {
		return nil
	}
	return f
}

// namedType returns the type of a typedef's name: from the text, from D, or from the kernel, in
// this order.
func (ts *types) namedType(t *syntax.Named) Type {
	if t.Module == "" || t.Module == "D" || t.Module == "C" {
		if k, ok := ts.named[t.Name]; ok {
			return k
		}
		if k, ok := typedefs[t.Name]; ok {
			return k
		}
		if c := ts.c; c.libraryType(t.Name) {
			return ts.named[t.Name]
		}
	}
	if k := ts.kernelTypedef(t.Name); k != nil {
		return k
	}
	if ts.noSpec(t.At()) {
		return nil
	}
	d := ts.c.fail(t.At(), UnknownType, "D_SYNTAX", "unknown type %s", t.Name)
	list := append(names(ts.named), names(typedefs)...)
	near(d, t.Name, list)
	if ts.kernelStruct(t.Name, false) != nil {
		d.Near = "struct " + t.Name
	} else if d.Near == "" {
		d.Near = ts.nearType(t.Name)
	}
	return nil
}

func tagKey(union bool, name string) string {
	if union {
		return "union " + name
	}
	return "struct " + name
}

// structType returns a struct or union that is defined, or only named, in the text.
func (ts *types) structType(t *syntax.Struct) Type {
	c := ts.c
	if done, ok := ts.written1[t]; ok {
		return done
	}
	key := tagKey(t.Union, t.Tag.Text)
	if t.Fields == nil {
		if t.Module == "" || t.Module == "D" || t.Module == "C" {
			if k, ok := ts.tags[key]; ok {
				return k
			}
		}
		if k := ts.kernelStruct(t.Tag.Text, t.Union); k != nil {
			return k
		}
		k := &Struct{
			Name:   t.Tag.Text,
			Union:  t.Union,
			Only:   true,
			Fields: func() []StructMember { return nil },
		}
		ts.tags[key] = k
		return k
	}
	k := ts.tags[key]
	if t.Tag.Text == "" || k == nil {
		k = &Struct{
			Name:   t.Tag.Text,
			Union:  t.Union,
			Only:   true,
			Fields: func() []StructMember { return nil },
		}
	} else if !k.Only {
		c.fail(t.Tag.At(), Redeclared, "D_DECL_TYPERED", "%s is declared twice", key)
	}
	if t.Tag.Text != "" {
		ts.tags[key] = k
	}
	ts.written1[t] = k
	ts.layOut(t, k)
	return k
}

// layOut computes the offsets of a struct's members by the ABI of C on Linux.
func (ts *types) layOut(t *syntax.Struct, k *Struct) {
	c := ts.c
	var fields []StructMember
	seen := map[string]bool{}
	var bits, most, align int64 = 0, 0, 1 // bits used so far
	for _, f := range t.Fields {
		ft := ts.written(f.Type)
		if ft == nil {
			continue
		}
		if _, isFunc := ft.(*Func); isFunc {
			c.fail(
				f.At(), Incomplete, "D_DECL_VOIDOBJ", "the member %s can't be a function",
				f.Name.Text,
			)
			continue
		}
		if !c.complete(f.At(), ft, f.Name.Text) {
			continue
		}
		if f.Name.Text != "" {
			if seen[f.Name.Text] {
				c.fail(
					f.Name.At(), Redeclared, "D_UNKNOWN", "%s has duplicate member %s", k,
					f.Name.Text,
				)
			}
			seen[f.Name.Text] = true
		}
		a := ts.alignOf(ft)
		if k.Union {
			bits = 0
		}
		if f.Bits != nil {
			i, ok := isInt(ft)
			if !ok {
				c.fail(
					f.At(), BadBitField, "D_DECL_BFTYPE", "a bit field must be an integer, not %s",
					ft,
				)
				continue
			}
			n, nt, ok := c.constant(f.Bits)
			if !ok {
				if nt != nil {
					c.fail(
						f.Bits.At(), BadBitField, "D_DECL_BFCONST",
						"the bits of a bit field must be a constant number",
					)
				}
				continue
			}
			size := int64(i.Bytes) * 8
			if n < 0 || n > size || n == 0 && f.Name.Text != "" {
				tag := "D_DECL_BFSIZE"
				if n <= 0 {
					tag = "D_DECL_BFCONST"
				}
				c.fail(
					f.Bits.At(), BadBitField, tag, "a bit field of %s has 1 to %d bits, not %d", ft,
					size, n,
				)
				continue
			}
			if n == 0 {
				bits = (bits + size - 1) / size * size
				continue
			}
			if bits/size != (bits+n-1)/size {
				bits = (bits + size - 1) / size * size
			}
			if f.Name.Text != "" {
				held := *i
				held.Bits, held.Shift = int8(n), int8(bits%size)
				fields = append(
					fields,
					StructMember{Name: f.Name.Text, Offset: bits / size * size / 8, Type: &held},
				)
				align = max(align, a)
			}
			bits += n
		} else {
			bits = (bits + a*8 - 1) / (a * 8) * (a * 8)
			if inner, ok := ft.(*Struct); ok && f.Name.Text == "" {
				for _, in := range inner.Fields() {
					in.Offset += bits / 8
					if seen[in.Name] {
						c.fail(f.At(), Redeclared, "D_UNKNOWN", "%s has duplicate member %s", k,
							in.Name)
					}
					seen[in.Name] = true
					fields = append(fields, in)
				}
			} else {
				fields = append(fields, StructMember{Name: f.Name.Text, Offset: bits / 8, Type: ft})
			}
			if ft.Size() > maxArray*8-bits/8 {
				c.fail(f.At(), BadArray, "D_DECL_ARRBIG", "%s is too large", k)
				continue
			}
			bits += ft.Size() * 8
			align = max(align, a)
		}
		most = max(most, bits)
	}
	k.Fields = func() []StructMember { return fields }
	k.Bytes = ((most+7)/8 + align - 1) / align * align
	k.Only = false
	ts.aligns[k] = align
}

// alignOf returns the alignment of a type in bytes.
func (ts *types) alignOf(t Type) int64 {
	switch t := t.(type) {
	case *Array:
		return ts.alignOf(t.Elem)
	case *Struct:
		if a, ok := ts.aligns[t]; ok {
			return a
		}
		var a int64 = 1
		for _, f := range t.Fields() {
			a = max(a, ts.alignOf(f.Type))
		}
		return a
	case StringType, VoidType, *Func:
		return 1
	}
	return max(1, t.Size())
}

// complete reports whether a variable or member of a type can be declared.
func (c *checker) complete(at syntax.Span, t Type, name string) bool {
	switch t := t.(type) {
	case VoidType:
		c.fail(at, Incomplete, "D_DECL_VOIDOBJ", "%s can't be of type void", name)
		return false
	case *Struct:
		if t.Only {
			c.fail(at, Incomplete, "D_DECL_INCOMPLETE",
				"%s is not defined, so %s can't be of that type", t, name)
			return false
		}
	case *Func:
		c.fail(at, Incomplete, "D_DECL_FUNCTYPE", "%s can't be a function", name)
		return false
	case *Array:
		return c.complete(at, t.Elem, name)
	}
	return true
}

// enumType returns an enumeration, and declares its names.
func (ts *types) enumType(t *syntax.Enum) Type {
	c := ts.c
	if done, ok := ts.written1[t]; ok {
		return done
	}
	key := "enum " + t.Tag.Text
	if t.Values == nil {
		if k, ok := ts.enums[key]; ok {
			return k
		}
		if k := ts.kernelEnum(t.Tag.Text); k != nil {
			return k
		}
		if !ts.noSpec(t.At()) {
			c.fail(t.At(), UnknownType, "D_DECL_INCOMPLETE", "unknown type %s", key)
		}
		return nil
	}
	k := &Int{Bytes: 4, Signed: true, Name: key}
	if t.Tag.Text == "" {
		k.Name = "enum (anonymous)"
	} else {
		if _, twice := ts.enums[key]; twice {
			c.fail(t.Tag.At(), Redeclared, "D_DECL_TYPERED", "%s is declared twice", key)
		}
		ts.enums[key] = k
	}
	ts.written1[t] = k
	var next int64
	for _, v := range t.Values {
		if v.Value != nil {
			n, nt, ok := c.constant(v.Value)
			if !ok {
				if nt != nil {
					c.fail(
						v.Value.At(), EnumValueRange, "D_DECL_ENCONST",
						"the value of an enumerator must be a constant number",
					)
				}
				continue
			}
			next = n
		}
		if next < math.MinInt32 || next > math.MaxInt32 {
			c.fail(
				v.At(), EnumValueRange, "D_DECL_ENOFLOW", "the value of %s does not fit in an int",
				v.Name.Text,
			)
			next = 0
		}
		k.Enum = append(k.Enum, EnumValue{v.Name.Text, next})
		if old := c.funcs[v.Name.Text]; old != nil {
			c.fail(v.Name.At(), Redeclared, "D_DECL_IDRED", "%s is declared twice", v.Name.Text)
		}
		c.funcs[v.Name.Text] = &ident{
			kind:  identEnum,
			name:  v.Name.Text,
			t:     k,
			value: next,
			at:    v.Name.At(),
		}
		next++
	}
	return k
}

// declaration declares types and variables.
func (c *checker) declaration(d *syntax.Declaration) {
	if e, ok := d.Base.(*syntax.Enum); ok && d.Storage == syntax.StoreExtern && e.Values == nil &&
		c.types.enums["enum "+e.Tag.Text] == nil &&
		c.types.kernelEnum(e.Tag.Text) == nil {
		return // it may be defined elsewhere
	}
	base := c.typeOf(d.Base)
	if base == nil {
		for _, v := range d.Vars { // declare them nevertheless, so that their uses are not reported
			if d.Storage != syntax.StoreTypedef {
				c.scope(d.Storage)[v.Name.Text] = &ident{
					kind: identVar,
					name: v.Name.Text,
					bad:  true,
				}
			} else {
				c.types.named[v.Name.Text] = nil
			}
		}
		return
	}
	for _, v := range d.Vars {
		if d.Storage == syntax.StoreTypedef {
			c.typedef(v)
			continue
		}
		c.variable(d.Storage, v)
	}
}

func (c *checker) scope(s syntax.Storage) map[string]*ident {
	switch s {
	case syntax.StoreSelf:
		return c.selfs
	case syntax.StoreThis:
		return c.thiss
	}
	return c.globals
}

func (c *checker) typedef(v *syntax.Var) {
	t := c.typeOf(v.Type)
	if t == nil {
		c.types.named[v.Name.Text] = nil
		return
	}
	if old, twice := c.types.named[v.Name.Text]; twice && old != nil && !Same(old, t) {
		c.fail(v.Name.At(), Redeclared, "D_DECL_IDRED", "%s is declared twice", v.Name.Text)
		return
	}
	if i, ok := t.(*Int); ok && i.Enum == nil {
		named := *i
		named.Name = v.Name.Text
		t = &named
	}
	c.types.named[v.Name.Text] = t
}

func (c *checker) variable(s syntax.Storage, v *syntax.Var) {
	name := v.Name.Text
	id := &ident{kind: identVar, name: name, home: Global, at: v.Name.At()}
	switch s {
	case syntax.StoreSelf:
		id.home = Self
	case syntax.StoreThis:
		id.home = This
	}
	written := v.Type
	if a, ok := written.(*syntax.Assoc); ok {
		if id.home == This {
			d := c.fail(v.At(), ThisArray, "D_DECL_LOCASSC",
				"this->%s can't be an associative array", name)
			d.Hint = "use self->" + name + " or a global one"
			id.bad = true
		}
		id.keys = []Type{}
		for _, k := range a.Keys {
			kt := c.typeOf(k.Type)
			if kt == nil {
				id.bad = true
				continue
			}
			if isVoid(kt) {
				c.fail(k.At(), KeyType, "D_DECL_PROTO_TYPE", "a key can't be of type void")
				id.bad = true
				continue
			}
			if !c.keyType(k.At(), kt) {
				id.bad = true
			}
			id.keys = append(id.keys, decayed(kt))
		}
		written = a.Elem
	}
	t := c.typeOf(written)
	if _, isFunc := t.(*Func); isFunc { // defined elsewhere
		return
	}
	if a, ok := t.(*Array); ok && a.Len < 0 && s == syntax.StoreExtern {
		return
	}
	if t == nil || !c.declarable(v, t) {
		id.bad = true
	}
	id.t = ownType(t)
	scope := c.scope(s)
	if old := scope[name]; old != nil && !old.bad && !id.bad &&
		!(Same(old.t, id.t) && len(old.keys) == len(id.keys)) ||
		id.home == Global && (builtins[name].name != "" || c.funcs[name] != nil) {
		c.fail(
			v.Name.At(), Redeclared, "D_DECL_IDRED", "%s is declared twice, or is a name of D",
			name,
		)
		return
	}
	if old := scope[name]; old == nil || old.v == nil {
		scope[name] = id
	}
}

func (c *checker) declarable(v *syntax.Var, t Type) bool {
	if a, ok := t.(*Array); ok && a.Len < 0 {
		c.fail(v.At(), Incomplete, "D_DECL_ARRNULL", "the array %s has no length", v.Name.Text)
		return false
	}
	if a, ok := t.(*Array); ok && a.Len == 0 {
		c.fail(v.At(), BadArray, "D_DECL_ARRNULL", "the array %s has no elements", v.Name.Text)
		return false
	}
	return c.complete(v.At(), t, v.Name.Text)
}
