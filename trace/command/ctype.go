package command

import (
	"fmt"

	"github.com/cilium/ebpf/btf"
)

// cType returns a type in the syntax of C.
func cType(t btf.Type) string {
	switch t := t.(type) {
	case *btf.Pointer:
		if f, ok := t.Target.(*btf.FuncProto); ok {
			return cType(f.Return) + " (*)()"
		}
		s := cType(t.Target)
		if s[len(s)-1] == '*' {
			return s + "*"
		}
		return s + " *"
	case *btf.Struct:
		return "struct " + name(t.Name)
	case *btf.Union:
		return "union " + name(t.Name)
	case *btf.Enum:
		return "enum " + name(t.Name)
	case *btf.Fwd:
		return fmt.Sprintf("%v %s", t.Kind, name(t.Name))
	case *btf.Const:
		return "const " + cType(t.Type)
	case *btf.Volatile:
		return cType(t.Type)
	case *btf.Restrict:
		return cType(t.Type)
	case *btf.TypeTag:
		return cType(t.Type)
	case *btf.Array:
		return fmt.Sprintf("%s [%d]", cType(t.Type), t.Nelems)
	case *btf.FuncProto:
		return cType(t.Return) + " ()"
	case *btf.Void:
		return "void"
	}
	return name(t.TypeName())
}

func name(s string) string {
	if s == "" {
		return "(anonymous)"
	}
	return s
}
