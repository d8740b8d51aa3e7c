package profile

import (
	"bytes"
)

// Tools write the name of one function in different ways. This file reduces it to one form: without
// arguments, offset and the additions of Rust's compiler.

// cutOffset removes +0x1f from the end of a name.
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

// operators are C++'s operators with brackets or arrows, the longest first.
//
// table: the C++ standard, over.oper
var operators = []string{
	"<=>",
	"->*",
	"<<=",
	">>=",
	"()",
	"[]",
	"<<",
	">>",
	"->",
	"<=",
	">=",
	"<",
	">",
}

// operatorAt returns the length of the C++ operator at i, after the word operator; 0 when there is
// none.
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

// outsideBrackets calls each with the position of each byte outside of brackets, until it returns
// false. The brackets of operator() and operator<, and the arrow of a function's type, don't count.
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

// withoutArguments removes the list of arguments from a name. Go's "(*T)" after a point and C++'s
// "(anonymous namespace)" are not argument lists.
func withoutArguments(name []byte) []byte {
	if bytes.IndexByte(name, '(') < 0 {
		return name
	}
	end := len(name)
	outsideBrackets(name, func(i int) bool {
		if name[i] == '(' && (i == 0 || name[i-1] != '.') &&
			!bytes.HasPrefix(name[i:], []byte("(anonymous namespace)")) {
			end = i
			return false
		}
		return true
	})
	return name[:end]
}

// cutInlined divides a name of a Java map, a->b->c, after its first function. The arrows of C++'s
// operator-> and of Rust's fn() -> T are parts of names.
func cutInlined(name []byte) (one, rest []byte, more bool) {
	if !bytes.Contains(name, []byte("->")) {
		return name, nil, false
	}
	at := -1
	outsideBrackets(name, func(i int) bool {
		if name[i] == '-' && i > 0 && name[i-1] != ' ' && bytes.HasPrefix(name[i:], []byte("->")) &&
			i+2 < len(name) {
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

// rustSigns are the escapes of Rust's compiler for characters that linkers don't accept.
//
// table: rustc's legacy mangling, library/rustc-demangle
var rustSigns = []struct{ sign, text string }{
	{"$SP$", "@"}, {"$BP$", "*"}, {"$RF$", "&"}, {"$LT$", "<"}, {"$GT$", ">"},
	{"$LP$", "("}, {"$RP$", ")"}, {"$C$", ","}, {"$u7e$", "~"}, {"$u20$", " "},
	{"$u27$", "'"}, {"$u3d$", "="}, {"$u5b$", "["}, {"$u5d$", "]"}, {"$u7b$", "{"},
	{"$u7d$", "}"}, {"$u3b$", ";"}, {"$u2b$", "+"}, {"$u21$", "!"}, {"$u22$", "\""},
}

const rustHash = 17 // bytes: h, and sixteen hexadecimal digits

// withoutRust removes the hash and the escapes that demanglers without Rust support leave. It
// returns other names unchanged.
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

// baseName returns the part of a path after the last slash.
func baseName(path []byte) []byte { return path[bytes.LastIndexByte(path, '/')+1:] }

// replaced replaces each byte from by to, in place, and returns b.
func replaced(b []byte, from, to byte) []byte {
	for i := range b {
		if b[i] == from {
			b[i] = to
		}
	}
	return b
}

// kindByFile returns the kind of a function by the path of its file.
func kindByFile(path []byte) Kind {
	base := baseName(path)
	begins := func(prefix string) bool { return bytes.HasPrefix(base, []byte(prefix)) }
	ends := func(suffix string) bool { return bytes.HasSuffix(base, []byte(suffix)) }
	switch string(path) {
	case "", "[unknown]", "[vdso]", "[vsyscall]", "[stack]", "[heap]":
		return Code
	case "inlined":
		return Inlined
	}
	switch {
	case path[0] == '[', string(base) == "vmlinux", begins("vmlinux-"), begins("vmlinux_"):
		return Kernel
	case ends(".ko"), bytes.Contains(base, []byte(".ko.")), begins("bpf_prog_"):
		return Kernel
	case begins("perf-") && ends(".map"), begins("jitted-") && ends(".so"):
		return JIT
	}
	return Code
}
