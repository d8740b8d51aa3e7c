package check

import (
	"slices"

	"culprit/lang/syntax"
	"culprit/measure"

	"github.com/cilium/ebpf/btf"
)

// types are the types that a program can name.
type types struct {
	c        *checker
	named    map[string]Type    // typedefs of the text
	tags     map[string]*Struct // structs of the text, by "struct name" or "union name"
	enums    map[string]*Int
	written1 map[syntax.Type]Type // types that define something, so that they do it once
	aligns   map[*Struct]int64

	asked bool
	spec  *btf.Spec // nil: none, or not read yet
	why   error
	made  map[btf.Type]Type

	enumerators map[string]enumerator // nil: not read yet
	// names of the kernel's types, with their keyword; nil: not read yet
	words map[string]string
}

func newTypes(c *checker) *types {
	return &types{
		c:        c,
		named:    map[string]Type{},
		tags:     map[string]*Struct{},
		enums:    map[string]*Int{},
		written1: map[syntax.Type]Type{},
		aligns:   map[*Struct]int64{},
		made:     map[btf.Type]Type{},
	}
}

// kernel returns the kernel's types, nil when they are not available.
func (ts *types) kernel() *btf.Spec {
	if !ts.asked && !ts.c.o.NoTypes && ts.c.env != nil {
		ts.asked = true
		ts.spec, ts.why = ts.c.env.BTF()
	}
	return ts.spec
}

// noSpec reports a missing type when the kernel's types are not available.
func (ts *types) noSpec(at syntax.Span) bool {
	if ts.why == nil {
		return false
	}
	ts.c.fail(at, NoTypes, "D_UNKNOWN", "the kernel's types are not available: %v", ts.why)
	return true
}

func (ts *types) byName(name string, fits func(btf.Type) bool) btf.Type {
	spec := ts.kernel()
	if spec == nil || name == "" {
		return nil
	}
	list, err := spec.AnyTypesByName(name)
	if err != nil {
		return nil
	}
	for _, t := range list {
		if fits(t) {
			return t
		}
	}
	return nil
}

func (ts *types) kernelTypedef(name string) Type {
	t := ts.byName(name, func(t btf.Type) bool { _, ok := t.(*btf.Typedef); return ok })
	if t == nil {
		return nil
	}
	return ts.from(t)
}

func (ts *types) kernelStruct(name string, union bool) *Struct {
	t := ts.byName(name, func(t btf.Type) bool {
		switch t.(type) {
		case *btf.Struct:
			return !union
		case *btf.Union:
			return union
		}
		return false
	})
	if t == nil {
		return nil
	}
	k, _ := ts.from(t).(*Struct)
	return k
}

func (ts *types) kernelEnum(name string) *Int {
	t := ts.byName(name, func(t btf.Type) bool { _, ok := t.(*btf.Enum); return ok })
	if t == nil {
		return nil
	}
	k, _ := ts.from(t).(*Int)
	return k
}

// nearType returns the kernel's struct, union or typedef with the most similar name; "" when none
// is similar. It reads all names, so it is only for diagnostics.
func (ts *types) nearType(name string) string {
	spec := ts.kernel()
	if spec == nil {
		return ""
	}
	if ts.words == nil {
		ts.words = map[string]string{}
		for t, err := range spec.All() {
			if err != nil {
				break
			}
			word := ""
			switch t.(type) {
			case *btf.Struct:
				word = "struct "
			case *btf.Union:
				word = "union "
			case *btf.Typedef:
			default:
				continue
			}
			if _, twice := ts.words[t.TypeName()]; !twice && t.TypeName() != "" {
				ts.words[t.TypeName()] = word
			}
		}
	}
	list := names(ts.words)
	slices.Sort(list)
	found := measure.Nearest(name, list)
	if found == "" {
		return ""
	}
	return ts.words[found] + found
}

// An enumerator is a name of an enumeration of the kernel.
type enumerator struct {
	of    *btf.Enum
	value int64
}

// kernelEnumerator returns the kernel's enumeration that contains a name. The first call reads all
// of them, which takes tens of milliseconds.
func (ts *types) kernelEnumerator(name string) (*Int, int64, bool) {
	spec := ts.kernel()
	if spec == nil {
		return nil, 0, false
	}
	if ts.enumerators == nil {
		ts.enumerators = map[string]enumerator{}
		for t, err := range spec.All() {
			if err != nil {
				break
			}
			e, ok := t.(*btf.Enum)
			if !ok {
				continue
			}
			for _, v := range e.Values {
				if _, twice := ts.enumerators[v.Name]; !twice {
					ts.enumerators[v.Name] = enumerator{e, int64(v.Value)}
				}
			}
		}
	}
	v, ok := ts.enumerators[name]
	if !ok {
		return nil, 0, false
	}
	k, ok := ts.from(v.of).(*Int)
	return k, v.value, ok
}

// from converts a type of the kernel. It converts no more than needed: members of structs are
// converted on demand.
func (ts *types) from(t btf.Type) Type {
	if k, ok := ts.made[t]; ok {
		return k
	}
	k := ts.convert(t)
	ts.made[t] = k
	return k
}

func (ts *types) convert(t btf.Type) Type {
	switch t := t.(type) {
	case *btf.Int:
		if t.Size > 8 {
			return &Array{Elem: tUint64, Len: int64(t.Size) / 8}
		}
		name := t.Name
		if t.Encoding == btf.Bool {
			name = "_Bool"
		}
		return intType(int8(t.Size), t.Encoding == btf.Signed, name)
	case *btf.Enum:
		k := &Int{Bytes: int8(t.Size), Signed: t.Signed, Name: "enum " + t.Name}
		for _, v := range t.Values {
			k.Enum = append(k.Enum, EnumValue{v.Name, int64(v.Value)})
		}
		return k
	case *btf.Float:
		return &Float{int8(t.Size), t.Name}
	case *btf.Pointer:
		p := &Pointer{}
		ts.made[t] = p // a struct may refer to itself
		target := t.Target
		for tag, ok := target.(*btf.TypeTag); ok; tag, ok = tag.Type.(*btf.TypeTag) {
			switch tag.Value {
			case "user":
				p.Space = User
			case "rcu":
			default: // percpu, iomem
				p.raw = true
			}
		}
		p.Elem = ts.from(target)
		return p
	case *btf.Array:
		return &Array{Elem: ts.from(t.Type), Len: int64(t.Nelems)}
	case *btf.Struct:
		return ts.members(t, &Struct{Name: t.Name, Bytes: int64(t.Size)}, t.Members)
	case *btf.Union:
		return ts.members(t, &Struct{Name: t.Name, Union: true, Bytes: int64(t.Size)}, t.Members)
	case *btf.Fwd:
		if k := ts.kernelStruct(t.Name, t.Kind == btf.FwdUnion); k != nil {
			return k
		}
		return &Struct{Name: t.Name, Union: t.Kind == btf.FwdUnion, Only: true,
			Fields: func() []StructMember { return nil }}
	case *btf.Typedef:
		k := ts.from(t.Type)
		if i, ok := k.(*Int); ok && i.Enum == nil && i.Name != "_Bool" {
			named := *i
			named.Name = t.Name
			return &named
		}
		return k
	case *btf.Const:
		return ts.from(t.Type)
	case *btf.Volatile:
		return ts.from(t.Type)
	case *btf.Restrict:
		return ts.from(t.Type)
	case *btf.TypeTag:
		return ts.from(t.Type)
	case *btf.FuncProto:
		f := &Func{Result: ts.from(t.Return)}
		for _, p := range t.Params {
			f.Params = append(f.Params, ts.from(p.Type))
		}
		return f
	case *btf.Func:
		return ts.from(t.Type)
	case *btf.Var:
		return ts.from(t.Type)
	}
	return tVoid
}

func (ts *types) members(key btf.Type, k *Struct, members []btf.Member) Type {
	ts.made[key] = k
	var fields []StructMember
	done := false
	k.Fields = func() []StructMember {
		if !done {
			done = true
			fields = ts.fields(nil, 0, members, k.Union)
		}
		return fields
	}
	return k
}

// fields appends members, including those of anonymous structs.
func (ts *types) fields(
	out []StructMember, base int64, members []btf.Member, union bool,
) []StructMember {
	for _, m := range members {
		at := base*8 + int64(m.Offset)
		if m.Name == "" {
			switch in := btf.UnderlyingType(m.Type).(type) {
			case *btf.Struct:
				out = ts.fields(out, at/8, in.Members, union)
			case *btf.Union:
				out = ts.fields(out, at/8, in.Members, true)
			}
			continue
		}
		t := ts.from(m.Type)
		if i, ok := t.(*Int); ok && m.BitfieldSize > 0 {
			held, off := bitField(i, at, int64(m.BitfieldSize))
			out = append(out, StructMember{m.Name, off, held, union})
			continue
		}
		out = append(out, StructMember{m.Name, at / 8, t, union})
	}
	return out
}

// bitField returns the type of a bit field at a bit offset, and the byte offset of the integer that
// contains it: the declared one, if the field lies within one of those.
func bitField(t *Int, at, bits int64) (*Int, int64) {
	held := *t
	held.Bits = int8(bits)
	size := int64(t.Bytes) * 8
	off := at / size * size
	if at+bits > off+size { // packed
		off = at / 8 * 8
		for size = 8; at+bits > off+size && size < 64; size *= 2 {
		}
		held.Bytes = int8(size / 8)
	}
	held.Shift = int8(at - off)
	return &held, off / 8
}
