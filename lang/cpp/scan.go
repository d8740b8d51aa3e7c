package cpp

import (
	"sort"
	"strings"

	"culprit/lang/syntax"
)

// A file is one text that is read: the program, a header, or the definitions of the command line.
type file struct {
	name  string
	raw   string
	text  string // raw less the backslashes that join lines
	cuts  []cut
	from  *file // the one that includes it; nil: none
	at    int   // where in from, a raw offset
	depth int   // of inclusion; the program has 0
	dir   int   // which of the directories it was found in; -1: none of them
	quiet bool  // of the command line: what is wrong with it is told without a place
}

// A cut is where a backslash and a line's end were left out.
type cut struct{ at, removed int } // offset in text; bytes left out up to there

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

// rawAt gives the offset in the file of an offset in the text.
func (f *file) rawAt(off int) int {
	i := sort.Search(len(f.cuts), func(i int) bool { return f.cuts[i].at > off })
	if i == 0 {
		return off
	}
	return off + f.cuts[i-1].removed
}

// rawEnd is rawAt of what ends there: a cut right behind it is not part of it.
func (f *file) rawEnd(off int) int {
	if off == 0 {
		return 0
	}
	return f.rawAt(off-1) + 1
}

type kind uint8

const (
	tEOF     kind = iota // of all
	tEnd                 // of an argument that is expanded by itself
	tLine                // the end of a line
	tName                // also $target, $1
	tNumber              // as C's preprocessor has them: 10ms is one
	tString              // with its quotes
	tChar                // with its quotes
	tMark                // punctuation: one or more bytes
	tOther               // a byte, or character, that C does not know
	tPragma              // a line that goes on to the compiler as it is
	tNothing             // the place of an empty argument beside ##
)

// A token is a piece of a text, and where it comes from.
type token struct {
	kind  kind
	space bool // white space stands before it
	first bool // of its line
	done  bool // a name that is not looked up any more: it came from its own macro
	paste bool // ## of a macro's body
	text  string
	at    place
	macro *macro // whose expansion it comes from, the outermost; nil: it stands there itself
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

// marks are those of more than one byte, the longer first.
//
// table: C's punctuation
var marks = [...]string{"...", "<<=", ">>=", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "*=", "/=", "%=", "+=", "-=", "&=", "^=", "|=", "##"}

// scan gives kind and end of the token at the start of a text, which begins with no white space and is not empty.
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
		if end == 1 && (c == 'L' || c == 'u' || c == 'U') && len(s) > 1 && s[1] == '\'' { // a wide character
			if k, n := scan(s[1:]); k == tChar {
				return tChar, n + 1
			}
		}
		return tName, end
	case digit(c), c == '.' && len(s) > 1 && digit(s[1]):
		for end < len(s) {
			switch c := s[end]; {
			case letter(c) && c != '$', digit(c), c == '.' && !strings.HasPrefix(s[end:], ".."):
			case (c == '+' || c == '-') && (s[end-1]|0x20 == 'e' || s[end-1]|0x20 == 'p') && !strings.HasPrefix(s, "0x"):
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
		return tOther, 1 // it has no end on this line: whoever compiles it says so
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

// glued says whether two tokens without a space between would be read as something else than the two.
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
	first bool // nothing of the line was read yet
	conds []cond
}

// A cond is an #if that is open.
type cond struct {
	at    place
	taken bool // one of its branches was read
	other bool // #else was there
}

// blank skips white space and comments, and says whether there were any.
func (p *run) blank(in *input) bool {
	start := in.pos
	for in.pos < len(in.text) {
		switch c := in.text[in.pos]; {
		case c == ' ', c == '\t', c == '\r', c == '\f', c == '\v':
			in.pos++
		case c == '/' && strings.HasPrefix(in.text[in.pos:], "/*"):
			i := strings.Index(in.text[in.pos+2:], "*/")
			if i < 0 {
				p.report(place{in.file, in.rawAt(in.pos), in.rawAt(in.pos) + 2}, syntax.UnclosedComment, "this comment has no end", "write */ where it ends")
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

// scan gives the next token of a file, which may be the end of a line; tEOF at its end.
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

// rest gives the tokens up to the end of the line, which stays.
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
