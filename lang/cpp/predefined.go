package cpp

import (
	"fmt"
	"strconv"
	"strings"

	"culprit/lang/syntax"
)

// DVersion is the version of D in __SUNW_D_VERSION: 2.0, as major<<24 | minor<<12 | micro.
const DVersion = 2 << 24

// predefine defines the built-in macros and those of the command line.
//
// The macros of D are those of its guide and of DTrace on Linux. The others are those of a C
// compiler for the machine, because headers test for them. __GNUC__ is not defined: with it headers
// would use GNU extensions.
func (p *run) predefine() {
	var b strings.Builder
	set := func(names ...string) {
		for _, n := range names {
			b.WriteString("#define " + n + "\n")
		}
	}
	set(
		"__linux 1", "__unix 1", "__SVR4 1", "__Linux 1", "__SUNW_D 1", "__SUNW_D_64 1",
		fmt.Sprintf("__SUNW_D_VERSION 0x%08x", DVersion), "__CULPRIT 1",
	)
	set(
		"__linux__ 1", "__gnu_linux__ 1", "__unix__ 1", "__ELF__ 1", "__STDC_HOSTED__ 1", "_LP64 1",
		"__LP64__ 1", "__CHAR_BIT__ 8", "__ORDER_LITTLE_ENDIAN__ 1234", "__ORDER_BIG_ENDIAN__ 4321",
		"__ORDER_PDP_ENDIAN__ 3412", "__BYTE_ORDER__ __ORDER_LITTLE_ENDIAN__",
		"__FLOAT_WORD_ORDER__ __ORDER_LITTLE_ENDIAN__", "__SIZEOF_SHORT__ 2", "__SIZEOF_INT__ 4",
		"__SIZEOF_LONG__ 8", "__SIZEOF_LONG_LONG__ 8", "__SIZEOF_POINTER__ 8",
		"__SIZEOF_SIZE_T__ 8", "__SIZEOF_WCHAR_T__ 4", "__SCHAR_MAX__ 0x7f", "__SHRT_MAX__ 0x7fff",
		"__INT_MAX__ 0x7fffffff", "__LONG_MAX__ 0x7fffffffffffffffL",
		"__LONG_LONG_MAX__ 0x7fffffffffffffffLL", "__SIZE_TYPE__ long unsigned int",
		"__PTRDIFF_TYPE__ long int", "__WCHAR_TYPE__ int", "__WINT_TYPE__ unsigned int",
		"__INTMAX_TYPE__ long int", "__UINTMAX_TYPE__ long unsigned int",
	)
	// GNU's spellings of C's keywords
	set(
		"__signed__ signed", "__signed signed", "__const const", "__const__ const",
		"__volatile__ volatile", "__volatile volatile", "__inline inline", "__inline__ inline",
		"__extension__",
	)
	switch p.c.Arch {
	case "amd64":
		set("__amd64 1", "__amd64__ 1", "__x86_64 1", "__x86_64__ 1")
	case "arm64":
		set("__aarch64__ 1", "__AARCH64EL__ 1", "__CHAR_UNSIGNED__ 1")
	}
	if p.c.Standard != 's' {
		set("__STDC__ 1", "__STDC_VERSION__ 199901L")
	}
	if p.c.Standard == 't' || p.c.Standard == 's' {
		set("linux 1", "unix 1")
	} else {
		set("__STRICT_ANSI__ 1")
	}
	p.read(&file{name: "the predefined macros", quiet: true}, b.String())
	builtin := func(name string, make func(at token) token) {
		p.macros[name] = &macro{name: name, builtin: func(t token) token {
			from := t.macro
			t = make(t)
			t.done, t.macro = true, from
			if from == nil {
				t.macro = p.macros[name]
			}
			return t
		}}
	}
	where := func(t token) *syntax.Diagnostic {
		return syntax.Diagnose(t.at.file.name, t.at.file.raw, t.at.span(), "", "", "")
	}
	text := func(s string, t token) token {
		t.kind, t.text = tString, quote([]token{{kind: tString, text: s}})
		return t
	}
	builtin("__LINE__", func(t token) token { return number(where(t).Line, t) })
	builtin("__FILE__", func(t token) token { return text(where(t).File, t) })
	builtin("__INCLUDE_LEVEL__", func(t token) token { return number(t.at.file.depth, t) })
	builtin("__DATE__", func(t token) token { return text(p.c.Now.Format("Jan _2 2006"), t) })
	builtin("__TIME__", func(t token) token { return text(p.c.Now.Format("15:04:05"), t) })
	for _, m := range p.c.Macros {
		name, value, set := strings.Cut(m.Text, "=")
		flag, line := "-D", "#define "+name+" "+value+"\n"
		switch {
		case m.Undef:
			flag, line = "-U", "#undef "+m.Text+"\n"
		case !set:
			line = "#define " + name + " 1\n"
		}
		if strings.ContainsAny(m.Text, "\n\r") {
			line = "#define\n"
		}
		p.read(&file{name: flag + " " + strconv.Quote(m.Text), quiet: true}, line)
	}
	p.warnings = nil // the command line may redefine a predefined macro
}

// read reads definitions.
func (p *run) read(f *file, text string) {
	made := newFile(f.name, text)
	made.quiet = true
	p.inputs = []*input{{file: made, first: true}}
	for p.next().kind != tEOF {
	}
}
