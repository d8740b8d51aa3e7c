package cpp

import (
	"sort"
	"strings"

	"culprit/lang/syntax"
)

// A file is one text: the program, a header, or the definitions of the command line.
type file struct {
	name  string
	raw   string
	text  string // raw without the backslashes that join lines
	cuts  []cut
	from  *file // the including file; nil: none
	at    int   // the raw offset of the #include in from
	depth int   // of inclusion; 0: the program
	dir   int   // index of the directory that contains it; -1: none
	quiet bool  // of the command line: diagnostics have no position
}

// A cut is the position of a removed backslash with its line's end.
type cut struct{ at, removed int } // offset in text; bytes removed up to there

func newFile(name, raw string) *file {
	f := &file{name: name, raw: raw, text: raw, dir: -1}
	if !strings.Contains(raw, "\\") {
		return f
	}
	var b strings.Builder
	last, removed := 0, 0
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		end := i + 1
		for end < len(raw) && (raw[end] == ' ' || raw[end] == '\t' || raw[end] == '\r') {
			end++
		}
		if end < len(raw) && raw[end] == '\n' {
			b.WriteString(raw[last:i])
			last = end + 1
			removed += last - i
			f.cuts = append(f.cuts, cut{b.Len(), removed})
			i = end
		}
	}
	b.WriteString(raw[last:])
	f.text = b.String()
	return f
}

// rawAt converts an offset in the text to the offset in the file.
func (f *file) rawAt(off int) int {
	i := sort.Search(len(f.cuts), func(i int) bool { return f.cuts[i].at > off })
	if i == 0 {
		return off
	}
	return off + f.cuts[i-1].removed
}

// rawEnd is rawAt for an end offset: a cut right after it is excluded.
func (f *file) rawEnd(off int) int {
	if off == 0 {
		return 0
	}
	return f.rawAt(off-1) + 1
}

type kind uint8

const (
	tEOF     kind = iota // of the text
	tEnd                 // of an argument that is expanded by itself
	tLine                // the end of a line
	tName                // includes $target, $1
	tNumber              // a preprocessing number of C: 10ms is one
	tString              // with its quotes
	tChar                // with its quotes
	tMark                // punctuation: one or more bytes
	tOther               // a byte, or character, that C does not have
	tPragma              // a line that is passed to the compiler
	tNothing             // an empty argument beside ##
)

// A token is a piece of a text with its origin.
type token struct {
	kind  kind
	space bool // preceded by white space
	first bool // of its line
	done  bool // a name that is not expanded again: it came from its own macro
	paste bool // a ## of a macro's body
	text  string
	at    place
	macro *macro // the outermost macro that it comes from; nil: none
}

// A place is a piece of a file, in raw offsets.
type place struct {
	file     *file
	from, to int
}

func (p place) span() syntax.Span { return syntax.Span{From: int32(p.from), To: int32(p.to)} }

func letter(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '$' || c >= 0x80
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// marks are the punctuators of more than one byte, longer ones first.
//
// table: C's punctuation
var marks = [...]string{
	"...",
	"<<=",
	">>=",
	"->",
	"++",
	"--",
	"<<",
	">>",
	"<=",
	">=",
	"==",
	"!=",
	"&&",
	"||",
	"*=",
	"/=",
	"%=",
	"+=",
	"-=",
	"&=",
	"^=",
	"|=",
	"##",
}

// scan returns kind and end of the token at the start of a text, which begins with no white space
// and is not empty.
func scan(s string) (kind, int) {
	c := s[0]
	end := 1
	switch {
	case c == '\n':
		return tLine, 1
	case letter(c):
		for end < len(s) && (letter(s[end]) || digit(s[end])) {
			end++
		}
		// a wide character
		if end == 1 && (c == 'L' || c == 'u' || c == 'U') && len(s) > 1 && s[1] == '\'' {
			if k, n := scan(s[1:]); k == tChar {
				return tChar, n + 1
			}
		}
		return tName, end
	case digit(c), c == '.' && len(s) > 1 && digit(s[1]):
		for end < len(s) {
			switch c := s[end]; {
			case letter(c) && c != '$', digit(c), c == '.' && !strings.HasPrefix(s[end:], ".."):
			case (c == '+' || c == '-') && (s[end-1]|0x20 == 'e' || s[end-1]|0x20 == 'p') &&
				!strings.HasPrefix(s, "0x"):
			default:
				return tNumber, end
			}
			end++
		}
		return tNumber, end
	case c == '"', c == '\'':
		for end < len(s) && s[end] != '\n' {
			switch {
			case s[end] == c:
				if c == '"' {
					return tString, end + 1
				}
				return tChar, end + 1
			case s[end] == '\\' && end+1 < len(s) && s[end+1] != '\n':
				end++
			}
			end++
		}
		return tOther, 1 // no end on this line: the compiler reports it
	}
	for _, m := range marks {
		if strings.HasPrefix(s, m) {
			return tMark, len(m)
		}
	}
	if strings.IndexByte("()[]{}<>,;:?~!%^&*-+=|/.#", c) >= 0 {
		return tMark, 1
	}
	return tOther, 1
}

// glued reports whether two tokens without a space between them would be read differently.
func glued(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	if a[len(a)-1] == '/' && (b[0] == '/' || b[0] == '*') {
		return true
	}
	_, end := scan(a + b)
	return end != len(a)
}

// An input is a file that is being read.
type input struct {
	*file
	pos   int
	first bool // nothing of the line has been read
	conds []cond
}

// A cond is an open #if.
type cond struct {
	at    place
	taken bool // one of its branches has been read
	other bool // #else has been read
}

// blank skips white space and comments, and reports whether there were any.
func (p *run) blank(in *input) bool {
	start := in.pos
	for in.pos < len(in.text) {
		switch c := in.text[in.pos]; {
		case c == ' ', c == '\t', c == '\r', c == '\f', c == '\v':
			in.pos++
		case c == '/' && strings.HasPrefix(in.text[in.pos:], "/*"):
			i := strings.Index(in.text[in.pos+2:], "*/")
			if i < 0 {
				p.report(
					place{in.file, in.rawAt(in.pos), in.rawAt(in.pos) + 2}, syntax.UnclosedComment,
					"unclosed comment", "end it with */",
				)
				in.pos = len(in.text)
				return true
			}
			in.pos += i + 4
		case c == '/' && strings.HasPrefix(in.text[in.pos:], "//"):
			if i := strings.IndexByte(in.text[in.pos:], '\n'); i >= 0 {
				in.pos += i
			} else {
				in.pos = len(in.text)
			}
		default:
			return in.pos > start
		}
	}
	return in.pos > start
}

// scan returns the next token of a file, which may be the end of a line; tEOF at its end.
func (p *run) scan(in *input) token {
	t := token{space: p.blank(in), first: in.first}
	from := in.pos
	if from >= len(in.text) {
		t.at = place{in.file, len(in.raw), len(in.raw)}
		return t
	}
	k, n := scan(in.text[from:])
	if in.text[from] == 0 {
		k = tOther
	}
	in.pos += n
	t.kind, t.text = k, in.text[from:in.pos]
	t.at = place{in.file, in.rawAt(from), in.rawEnd(in.pos)}
	in.first = k == tLine
	p.step(t.at)
	return t
}

// rest returns the tokens up to the end of the line; the line's end remains.
func (p *run) rest(in *input) []token {
	var out []token
	for {
		before := *in
		t := p.scan(in)
		if t.kind == tLine {
			*in = before
			p.blank(in)
			return out
		}
		if t.kind == tEOF {
			return out
		}
		t.first = false
		out = append(out, t)
	}
}
