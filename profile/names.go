package profile

import (
	"bytes"
)

// The name of a function, as different tools wrote it down, is brought to one form: without argument lists, without the offset, without
// what Rust's compiler adds, so that one function has one name.

// cutOffset takes +0x1f off the end of a name.
func cutOffset(name []byte) []byte {
	i := bytes.LastIndexByte(name, '+')
	if i < 0 || i+3 >= len(name) || name[i+1] != '0' || name[i+2] != 'x' || !isHex(name[i+3:]) {
		return name
	}
	return name[:i]
}

func isHex(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return len(b) > 0
}

func isDigits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}

// operators are C++'s that have brackets or arrows in them, the longest first.
//
// table: the C++ standard, over.oper
var operators = []string{"<=>", "->*", "<<=", ">>=", "()", "[]", "<<", ">>", "->", "<=", ">=", "<", ">"}

// operatorAt returns how long the C++ operator at i is, behind the word operator; 0: there is none.
func operatorAt(name []byte, i int) int {
	if !bytes.HasSuffix(name[:i], []byte("operator")) {
		return 0
	}
	for _, op := range operators {
		if bytes.HasPrefix(name[i:], []byte(op)) {
			return len(op)
		}
	}
	return 0
}

// outsideBrackets calls each with each byte of a name that is within no brackets, until it returns
// false. The brackets of operator() and operator<, and the arrow of a function's type, are none.
func outsideBrackets(name []byte, each func(i int) bool) {
	depth := 0
	for i := 0; i < len(name); i++ {
		if n := operatorAt(name, i); n > 0 {
			i += n - 1
			continue
		}
		if depth <= 0 && !each(i) {
			return
		}
		switch name[i] {
		case '<', '{', '[', '(':
			depth++
		case '>', '}', ']', ')':
			if name[i] != '>' || i == 0 || name[i-1] != '-' {
				depth--
			}
		}
	}
}

// withoutArguments cuts the list of arguments off a name. What is within brackets, Go's "(*T)" behind a point, and C++'s "(anonymous
// namespace)" are no such list.
func withoutArguments(name []byte) []byte {
	if bytes.IndexByte(name, '(') < 0 {
		return name
	}
	end := len(name)
	outsideBrackets(name, func(i int) bool {
		if name[i] == '(' && (i == 0 || name[i-1] != '.') && !bytes.HasPrefix(name[i:], []byte("(anonymous namespace)")) {
			end = i
			return false
		}
		return true
	})
	return name[:end]
}

// cutInlined parts a name of a Java map, a->b->c, behind its first function. The arrows of C++'s
// operator-> and of Rust's fn() -> T are part of names.
func cutInlined(name []byte) (one, rest []byte, more bool) {
	if !bytes.Contains(name, []byte("->")) {
		return name, nil, false
	}
	at := -1
	outsideBrackets(name, func(i int) bool {
		if name[i] == '-' && i > 0 && name[i-1] != ' ' && bytes.HasPrefix(name[i:], []byte("->")) && i+2 < len(name) {
			at = i
			return false
		}
		return true
	})
	if at < 0 {
		return name, nil, false
	}
	return name[:at], name[at+2:], true
}

// rustSigns are what Rust's compiler writes for characters that linkers don't take.
//
// table: rustc's legacy mangling, library/rustc-demangle
var rustSigns = []struct{ sign, text string }{
	{"$SP$", "@"}, {"$BP$", "*"}, {"$RF$", "&"}, {"$LT$", "<"}, {"$GT$", ">"}, {"$LP$", "("}, {"$RP$", ")"}, {"$C$", ","},
	{"$u7e$", "~"}, {"$u20$", " "}, {"$u27$", "'"}, {"$u3d$", "="}, {"$u5b$", "["}, {"$u5d$", "]"}, {"$u7b$", "{"}, {"$u7d$", "}"},
	{"$u3b$", ";"}, {"$u2b$", "+"}, {"$u21$", "!"}, {"$u22$", "\""},
}

const rustHash = 17 // bytes: h, and sixteen hexadecimal digits

// withoutRust undoes what a demangler that knows no Rust leaves behind: the hash at the end and the signs. Other names stay.
func withoutRust(name []byte) []byte {
	if n := len(name) - rustHash; n < 2 || name[n] != 'h' || !isHex(name[n+1:]) {
		return name
	}
	rest := bytes.TrimSuffix(name[:len(name)-rustHash], []byte("::"))
	if bytes.HasPrefix(rest, []byte("_$")) {
		rest = rest[1:]
	}
	if bytes.IndexByte(rest, '$') < 0 && !bytes.Contains(rest, []byte("..")) {
		return rest
	}
	out := make([]byte, 0, len(rest))
next:
	for len(rest) > 0 {
		switch {
		case bytes.HasPrefix(rest, []byte("..")):
			out, rest = append(out, "::"...), rest[2:]
			continue
		case rest[0] == '$':
			for _, s := range rustSigns {
				if bytes.HasPrefix(rest, []byte(s.sign)) {
					out, rest = append(out, s.text...), rest[len(s.sign):]
					continue next
				}
			}
			return append(out, rest...)
		}
		out, rest = append(out, rest[0]), rest[1:]
	}
	return out
}

// baseName gives what is behind the last slash of a path.
func baseName(path []byte) []byte { return path[bytes.LastIndexByte(path, '/')+1:] }

// replaced gives a text with each byte from changed to another, in place.
func replaced(b []byte, from, to byte) []byte {
	for i := range b {
		if b[i] == from {
			b[i] = to
		}
	}
	return b
}

// kindByFile says by the file that a function is in where its code lives.
func kindByFile(path []byte) Kind {
	base := baseName(path)
	switch {
	case len(path) == 0 || string(path) == "[unknown]" || string(path) == "[vdso]" || string(path) == "[vsyscall]" || string(path) == "[stack]" || string(path) == "[heap]":
		return Code
	case path[0] == '[' || string(base) == "vmlinux" || bytes.HasPrefix(base, []byte("vmlinux-")) || bytes.HasPrefix(base, []byte("vmlinux_")):
		return Kernel
	case bytes.HasSuffix(base, []byte(".ko")) || bytes.Contains(base, []byte(".ko.")) || bytes.HasPrefix(base, []byte("bpf_prog_")):
		return Kernel
	case bytes.HasPrefix(base, []byte("perf-")) && bytes.HasSuffix(base, []byte(".map")) || bytes.HasPrefix(base, []byte("jitted-")) && bytes.HasSuffix(base, []byte(".so")):
		return JIT
	case string(path) == "inlined":
		return Inlined
	}
	return Code
}
