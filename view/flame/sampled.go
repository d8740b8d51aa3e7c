package flame

import (
	"slices"
	"strings"
)

// A Sampled is a stack as a sampler of this machine tells it: frames as DTrace prints them - module`name+0x1f -, the innermost first.
type Sampled struct {
	Process      string
	User, Kernel []string
	Amount       float64
}

// OfSampled makes a profile of stacks: below each process its own functions, then the kernel's. A function without a name is told by its
// file, as one.
func OfSampled(stacks []Sampled) *Tree {
	b := NewBuilder()
	var path []uint32
	for _, s := range stacks {
		path = append(path[:0], b.Function([]byte(s.Process), nil, Process))
		for _, frames := range [2]struct {
			lines []string
			kind  Kind
		}{{s.User, Code}, {s.Kernel, Kernel}} {
			for _, line := range slices.Backward(frames.lines) {
				module, name, found := strings.Cut(line, "`")
				if !found {
					module, name = "", line
				}
				if i := strings.LastIndex(name, "+0x"); i > 0 {
					name = name[:i]
				}
				kind, nameless := frames.kind, strings.HasPrefix(name, "0x")
				switch {
				case nameless && module != "":
					name = "[" + module + "]"
				case nameless:
					name = "[unknown]"
				case kind == Code && module == "":
					kind = JIT
				}
				path = append(path, b.Function([]byte(name), []byte(module), kind))
			}
		}
		b.Stack(path, s.Amount)
	}
	t := b.Tree()
	t.Samples = t.Sum()
	return t
}
