package bpftrace

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

type kind uint8

const (
	tEOF  kind = iota
	tWord      // a name or keyword
	tInt
	tString
	tVar  // $name
	tArg  // $1, $#
	tMap  // @name
	tSign // an operator or a bracket
)

// A token is a word or sign. text is the sign, or the name without its $ or @, or the string with
// its escapes resolved.
type token struct {
	kind     kind
	text     string
	value    uint64
	from, to int
}

// signs are the operators and brackets; longer ones precede their prefixes.
//
// table: the grammar's signs
var signs = []string{
	"<<=", ">>=", "...",
	"<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "++", "--", "->", "..", "+=", "-=", "*=", "/=",
	"%=", "&=", "|=", "^=",
	"+", "-", "*", "/", "%", "&", "|", "^", "!", "~", "<", ">", "=", "?", ":", ";", ",", ".", "(",
	")", "{", "}", "[", "]",
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// byteAt returns a byte of the text, 0 behind its end.
func (p *parser) byteAt(off int) byte {
	if off < len(p.text) {
		return p.text[off]
	}
	return 0
}

// space returns the offset of the first byte from off that is in no blank, comment or preprocessor
// line.
func (p *parser) space(off int) int {
	for off < len(p.text) {
		rest := p.text[off:]
		switch {
		case strings.IndexByte(" \t\r\n\f\v", rest[0]) >= 0:
			off++
		case strings.HasPrefix(rest, "//"):
			off += lineLength(rest)
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				p.report(BadSyntax, off, off+2, "unclosed comment", "close it with */")
				return len(p.text)
			}
			off += 2 + end + 2
		case rest[0] == '#' && p.lineStart(off):
			off = p.directive(off)
		default:
			return off
		}
	}
	return off
}

func lineLength(s string) int {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return i
	}
	return len(s)
}

// lineStart reports whether only blanks precede off on its line.
func (p *parser) lineStart(off int) bool {
	from := strings.LastIndexByte(p.text[:off], '\n') + 1
	return strings.TrimLeft(p.text[from:off], " \t\r") == ""
}

// next reads the next token into p.tok.
func (p *parser) next() {
	p.last = p.tok.to
	p.tok = p.scan(p.space(p.tok.to))
}

// peek returns the token behind p.tok.
func (p *parser) peek() token { return p.scan(p.space(p.tok.to)) }

// scan returns the token at off. An unknown character is reported and skipped.
func (p *parser) scan(off int) token {
	for {
		if off >= len(p.text) {
			return token{kind: tEOF, from: len(p.text), to: len(p.text)}
		}
		c := p.text[off]
		switch {
		case digit(c):
			return p.number(off)
		case wordByte(c):
			end := p.wordEnd(off)
			return token{kind: tWord, text: p.text[off:end], from: off, to: end}
		case c == '"':
			return p.quoted(off)
		case c == '@':
			end := p.wordEnd(off + 1)
			return token{kind: tMap, text: p.text[off+1 : end], from: off, to: end}
		case c == '$':
			if p.byteAt(off+1) == '#' {
				return token{kind: tArg, text: "#", from: off, to: off + 2}
			}
			end := p.wordEnd(off + 1)
			t := token{kind: tVar, text: p.text[off+1 : end], from: off, to: end}
			if t.text != "" && digit(t.text[0]) {
				t.kind = tArg
			}
			if t.text != "" {
				return t
			}
		}
		for _, s := range signs {
			if strings.HasPrefix(p.text[off:], s) {
				return token{kind: tSign, text: s, from: off, to: off + len(s)}
			}
		}
		end := off + 1
		for end < len(p.text) && p.text[end]&0xc0 == 0x80 {
			end++
		}
		if line := p.text[end:min(len(p.text), end+lineLength(p.text[end:]))]; c == '\'' {
			if n := strings.IndexByte(line, '\''); n >= 0 { // the string is skipped
				p.report(BadSyntax, off, end+n+1, "unknown character '",
					"a string has double quotes: "+strconv.Quote(line[:n]))
				return token{kind: tString, text: line[:n], from: off, to: end + n + 1}
			}
		}
		p.report(BadSyntax, off, end, "unknown character "+shown(p.text[off:end]), "")
		off = p.space(end)
	}
}

// shown returns a piece of the text for a message.
func shown(s string) string {
	if q := strconv.Quote(s); q[1:len(q)-1] != s {
		return q
	}
	return s
}

func (p *parser) wordEnd(off int) int {
	for off < len(p.text) && wordByte(p.text[off]) {
		off++
	}
	return off
}

// number scans 10, 0x1f, 017, 1e6, 1_000_000, each with the suffixes u, l and ll, and durations.
func (p *parser) number(off int) token {
	end := p.wordEnd(off)
	t := token{kind: tInt, from: off, to: end}
	var err error
	switch t.value, err = integer(p.text[off:end]); {
	case errors.Is(err, errExponent):
		p.report(BadSyntax, off, end, "the exponent of "+p.text[off:end]+" is not valid",
			"write a number from 0 to 19 after the e")
	case err != nil:
		p.report(BadSyntax, off, end, p.text[off:end]+" is not a number of 64 bits",
			"write 10, 0x1f, 1e6, 1_000_000 or 5ms")
	}
	return t
}

// errExponent is an exponent that is no number up to 19.
var errExponent = errors.New("the exponent is not valid")

// integer returns the value of a number as number scans it.
func integer(text string) (uint64, error) {
	text = strings.ToLower(strings.ReplaceAll(text, "_", ""))
	if n, ok, err := duration(text); ok {
		return n, err
	}
	text = strings.TrimRight(text, "ul")
	if !strings.HasPrefix(text, "0x") {
		if digits, power, ok := strings.Cut(text, "e"); ok {
			n, err := strconv.ParseUint(power, 10, 8)
			if err != nil || n > 19 {
				return 0, errExponent
			}
			text = digits + strings.Repeat("0", int(n))
		}
	}
	return strconv.ParseUint(text, 0, 64)
}

// durations are the suffixes of numbers that are durations, in ns.
//
// table: suffix to ns
var durations = map[string]uint64{
	"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9, "d": 86400e9,
}

// duration returns the ns of a duration such as 5ms. It returns false for other numbers.
func duration(text string) (ns uint64, ok bool, err error) {
	digits := strings.TrimRight(text, "nusmhd")
	unit, ok := durations[text[len(digits):]]
	if !ok || strings.TrimLeft(digits, "0123456789") != "" {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err == nil && n > math.MaxUint64/unit {
		err = strconv.ErrRange
	}
	return n * unit, true, err
}

// quoted scans a string.
func (p *parser) quoted(off int) token {
	var b strings.Builder
	i := off + 1
	for ; i < len(p.text) && p.text[i] != '"'; i++ {
		c := p.text[i]
		if c == '\n' {
			break
		}
		if c != '\\' {
			b.WriteByte(c)
			continue
		}
		i = p.escape(&b, i+1) - 1
	}
	t := token{kind: tString, text: b.String(), from: off, to: i + 1}
	if p.byteAt(i) != '"' {
		t.to = i
		p.report(BadSyntax, off, i, "unclosed string", "close it with \" on the same line")
	}
	return t
}

// escape appends the character of an escape, whose backslash precedes off, and returns the offset
// behind it.
func (p *parser) escape(b *strings.Builder, off int) int {
	c := p.byteAt(off)
	switch c {
	case 'n':
		b.WriteByte('\n')
	case 't':
		b.WriteByte('\t')
	case 'r':
		b.WriteByte('\r')
	case '"', '\\':
		b.WriteByte(c)
	case 'x':
		end := off + 1
		for end < off+3 && strings.IndexByte("0123456789abcdefABCDEF", p.byteAt(end)) >= 0 &&
			end < len(p.text) {
			end++
		}
		if n, err := strconv.ParseUint(p.text[off+1:end], 16, 8); err == nil {
			b.WriteByte(byte(n))
			return end
		}
		p.report(BadSyntax, off-1, end, `\x without digits`, `write two digits: \x1b`)
		return end
	case '0', '1', '2', '3', '4', '5', '6', '7':
		end := off
		for end < off+3 && p.byteAt(end) >= '0' && p.byteAt(end) <= '7' {
			end++
		}
		n, _ := strconv.ParseUint(p.text[off:end], 8, 16)
		b.WriteByte(byte(n))
		return end
	case 0, '\n':
		return off
	default:
		p.report(BadSyntax, off-1, off+1, "unknown escape \\"+shown(string(c)),
			`bpftrace has \n, \t, \r, \", \\, \x1b and \033`)
	}
	return off + 1
}

// directive skips a preprocessor line: #include and #if ... are not needed, because the kernel's
// types come from BTF. #define NAME TEXT defines a macro. Of #ifdef BPFTRACE_HAVE_BTF and its like
// the branch that bpftrace takes with BTF is compiled.
func (p *parser) directive(off int) int {
	end := off + lineLength(p.text[off:])
	for end < len(p.text) && end > 0 && p.text[end-1] == '\\' { // continued
		end += 1 + lineLength(p.text[end+1:])
	}
	line := p.text[off+1 : end]
	words := strings.Fields(line)
	if strings.HasPrefix(p.text[off:], "#!") || len(words) == 0 {
		return end
	}
	switch words[0] {
	case "define":
		p.define(off, end, line)
	case "ifdef", "ifndef":
		have := len(words) > 1 && (words[1] == "BPFTRACE_HAVE_BTF" || p.defines(words[1]))
		if have != (words[0] == "ifdef") {
			return p.skipBranch(end)
		}
	case "if":
		if len(words) != 2 || words[1] != "1" {
			return p.skipBranch(end)
		}
	case "else", "elif": // the branch before was compiled
		return p.skipTo(end, false)
	}
	return end
}

func (p *parser) defines(name string) bool { _, ok := p.macros[name]; return ok }

// define adds a macro without parameters.
func (p *parser) define(off, end int, line string) {
	line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "define"))
	n := 0
	for n < len(line) && wordByte(line[n]) {
		n++
	}
	if n == 0 || n < len(line) && line[n] == '(' {
		p.report(Unsupported, off, end, "a #define with parameters is not supported",
			"write its text where it is used")
		return
	}
	if len(p.macros) < mostMacros {
		p.macros[line[:n]] = strings.TrimSpace(line[n:])
	}
}

// skipBranch skips the branch of a condition that is false, up to its #else, #elif or #endif.
func (p *parser) skipBranch(off int) int { return p.skipTo(off, true) }

// skipTo returns the offset behind the line that ends a branch: #endif, or with alternative #else.
func (p *parser) skipTo(off int, alternative bool) int {
	depth := 0
	for off < len(p.text) {
		off++ // the line's end
		end := off + lineLength(p.text[min(off, len(p.text)):])
		if off > len(p.text) {
			break
		}
		line := strings.TrimLeft(p.text[off:end], " \t")
		word := strings.TrimLeft(strings.TrimPrefix(line, "#"), " \t")
		switch {
		case !strings.HasPrefix(line, "#"):
		case strings.HasPrefix(word, "if"):
			depth++
		case strings.HasPrefix(word, "endif"):
			if depth == 0 {
				return end
			}
			depth--
		case strings.HasPrefix(word, "else") && depth == 0 && alternative:
			return end
		}
		off = end
	}
	return len(p.text)
}
