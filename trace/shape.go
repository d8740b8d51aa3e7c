package trace

import (
	"culprit/lang/check"
	"culprit/lang/format"
)

// shape returns a type as print() needs it.
func shape(t check.Type) *format.Shape {
	s := &format.Shape{Name: t.String(), Size: int(t.Size()), Form: format.FormOther}
	switch t := t.(type) {
	case *check.Int:
		s.Form, s.Signed = format.FormInt, t.Signed
		s.Char = t.Name == "char"
		if t.Enum != nil {
			s.Form = format.FormEnum
			for _, v := range t.Enum {
				s.Values = append(s.Values, format.Named{Name: v.Name, Value: v.Value})
			}
		}
	case *check.Pointer:
		s.Form = format.FormPointer
	case *check.Array:
		s.Form, s.Elem, s.Len = format.FormArray, shape(t.Elem), int(max(0, t.Len))
	case *check.Struct:
		s.Form = format.FormStruct
		if t.Union {
			s.Form = format.FormUnion
		}
		if t.Name == "" {
			s.Name = map[bool]string{false: "struct", true: "union"}[t.Union]
		}
		if t.Fields == nil {
			break
		}
		s.Members = func() []format.Piece {
			var out []format.Piece
			for _, f := range t.Fields() {
				p := format.Piece{Name: f.Name, Offset: 8 * int(f.Offset), Shape: shape(f.Type)}
				if i, ok := f.Type.(*check.Int); ok && i.Bits > 0 {
					p.Offset += int(i.Shift)
					p.Bits = int(i.Bits)
				}
				out = append(out, p)
			}
			return out
		}
	}
	return s
}
