package complete

import (
	"regexp"
	"strconv"
	"strings"

	"culprit/lang/check"

	"github.com/cilium/ebpf/btf"
)

// A shape is the type of a part of a chain: one of the kernel, or one that a translator of D's
// libraries makes.
type shape struct {
	kernel btf.Type // nil: none
	xlate  string   // its name; "": none
}

// maxMembers is the highest number of members of a struct, with those of unnamed members.
const maxMembers = 2000

// structOf returns the struct or union that a type is, or points to; nil: it is neither.
func structOf(t btf.Type) btf.Type {
	for range 32 {
		switch v := t.(type) {
		case *btf.Struct, *btf.Union:
			return v
		case *btf.Pointer:
			t = v.Target
		case *btf.Array:
			t = v.Type
		case *btf.Typedef:
			t = v.Type
		case *btf.Const:
			t = v.Type
		case *btf.Volatile:
			t = v.Type
		case *btf.Restrict:
			t = v.Type
		case *btf.TypeTag:
			t = v.Type
		default:
			return nil
		}
	}
	return nil
}

// members returns the members of a struct, those of unnamed structs in it among them.
func members(t btf.Type) []btf.Member {
	var out []btf.Member
	var add func(t btf.Type, depth int)
	add = func(t btf.Type, depth int) {
		var list []btf.Member
		switch v := structOf(t).(type) {
		case *btf.Struct:
			list = v.Members
		case *btf.Union:
			list = v.Members
		}
		for _, m := range list {
			switch {
			case len(out) >= maxMembers || depth > 8:
				return
			case m.Name == "":
				add(m.Type, depth+1)
			default:
				out = append(out, m)
			}
		}
	}
	add(t, 0)
	return out
}

// cText returns a type in the notation of C.
func cText(t btf.Type) string { return cTextOf(t, 0) }

func cTextOf(t btf.Type, depth int) string {
	if depth > 16 {
		return "..."
	}
	inner := func(t btf.Type) string { return cTextOf(t, depth+1) }
	switch v := t.(type) {
	case *btf.Pointer:
		s := inner(v.Target)
		if _, ok := v.Target.(*btf.FuncProto); ok {
			return "function *"
		}
		if strings.HasSuffix(s, "*") {
			return s + "*"
		}
		return s + " *"
	case *btf.Array:
		return inner(v.Type) + "[" + strconv.Itoa(int(v.Nelems)) + "]"
	case *btf.Const:
		return "const " + inner(v.Type)
	case *btf.Volatile:
		return inner(v.Type)
	case *btf.Restrict:
		return inner(v.Type)
	case *btf.TypeTag:
		return inner(v.Type)
	case *btf.Struct:
		return strings.TrimSpace("struct " + v.Name)
	case *btf.Union:
		return strings.TrimSpace("union " + v.Name)
	case *btf.Enum:
		return strings.TrimSpace("enum " + v.Name)
	case *btf.Fwd:
		return "struct " + v.Name
	case *btf.Void, nil:
		return "void"
	case *btf.FuncProto:
		return "function"
	}
	return t.TypeName()
}

// argText returns the type and the name of an argument.
func argText(a *check.Arg) string {
	t := a.C
	switch {
	case a.Xlate != "":
		t = a.Xlate + " *"
	case a.Type != nil:
		t = cText(a.Type)
	}
	if a.Name == "" || strings.HasSuffix(t, "*") {
		return t + a.Name
	}
	return t + " " + a.Name
}

var (
	translator = regexp.MustCompile(`(?m)^translator\s+(\w+)\s*<[^>]*>\s*\{([^}]*)\}`)
	translated = regexp.MustCompile(`(?m)^\s*(\w+)\s*=`)
)

// translatedMembers returns the members of a type that D's libraries define.
func translatedMembers(name string) []string {
	var out []string
	seen := map[string]bool{}
	for _, text := range check.Library() {
		for _, m := range translator.FindAllStringSubmatch(text, -1) {
			if m[1] != name {
				continue
			}
			for _, f := range translated.FindAllStringSubmatch(m[2], -1) {
				if !seen[f[1]] {
					seen[f[1]] = true
					out = append(out, f[1])
				}
			}
		}
	}
	return out
}
