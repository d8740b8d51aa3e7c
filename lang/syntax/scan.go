package syntax

import (
	"strings"
)

// The scanner reads the text on demand: p.tok is the current token, p.off is where the next one
// begins. Between clauses nothing is read ahead, because probe descriptions are not tokens.

const (
	cLetter = 1 << iota // of a name
	cDigit
	cSpace
	cProbe // of a probe description
)

// classes are the lexical classes of each byte.
//
// table: the lexical classes of each byte
var classes = func() (t [256]uint8) {
	for c := range t {
		switch c := byte(c); {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_':
			t[c] = cLetter | cProbe
		case c >= '0' && c <= '9':
			t[c] = cDigit | cProbe
		case c == ' ', c == '\t', c == '\n', c == '\r', c == '\f', c == '\v':
			t[c] = cSpace
		case strings.IndexByte("-$:.?*\\[]!`@+~%^", c) >= 0 || c >= 0x80:
			t[c] = cProbe
		}
	}
	return t
}()

// at returns the byte at an offset, 0 beyond the end. A zero byte in the text is no token, so it
// can't be mistaken for the end.
func (p *parser) at(off int) byte {
	if off < len(p.text) {
		return p.text[off]
	}
	return 0
}

// byteOrderMark is U+FEFF in UTF-8. Some editors write it at the start of a file.
const byteOrderMark = "\xef\xbb\xbf"

// space skips white space, comments and directives from off on. It returns where it stopped.
func (p *parser) space(off int) int {
	for off < len(p.text) {
		c := p.text[off]
		switch {
		case classes[c]&cSpace != 0:
			off++
		case off == 0 && strings.HasPrefix(p.text, byteOrderMark):
			off = len(byteOrderMark)
		case c == '/' && p.at(off+1) == '*':
			i := strings.Index(p.text[off+2:], "*/")
			if i < 0 {
				p.report(UnclosedComment, off, off+2, "unclosed comment", "end it with */")
				return len(p.text)
			}
			off += 2 + i + 2
		case c == '/' && p.at(off+1) == '/' && !(p.predicate && p.nest == 0 && p.at(off+2) == '*'):
			off = p.lineEnd(off)
		case c == '#' && p.lineStart(off):
			end := p.lineEnd(off)
			if off >= p.directed {
				p.directed = end + 1
				p.directive(off, end)
			}
			off = end
		default:
			return off
		}
	}
	return off
}

// lineEnd returns the end of the line that contains off: its '\n' or the end of the text.
func (p *parser) lineEnd(off int) int {
	if i := strings.IndexByte(p.text[off:], '\n'); i >= 0 {
		return off + i
	}
	return len(p.text)
}

// lineStart reports whether only white space precedes off on its line. It looks back at most 1,000
// bytes, which bounds its time on a line of many #.
func (p *parser) lineStart(off int) bool {
	if off == len(byteOrderMark) && strings.HasPrefix(p.text, byteOrderMark) {
		return true
	}
	for i := off - 1; i >= 0; i-- {
		c := p.text[i]
		if c == '\n' {
			return true
		}
		if classes[c]&cSpace == 0 || off-i > 1000 {
			return false
		}
	}
	return true
}

// next reads the next token into p.tok.
func (p *parser) next() {
	p.last = int(p.tok.to)
	if p.failed {
		return
	}
	p.scan()
}

func (p *parser) scan() {
	off := p.space(p.off)
	p.tok.from = int32(off)
	k, end := p.token(off)
	p.tok.kind, p.tok.to, p.off = k, int32(end), end
}

// token reads the token at off and returns its kind and its end.
func (p *parser) token(off int) (kind, int) {
	if off >= len(p.text) {
		return tEOF, off
	}
	c := p.text[off]
	switch class := classes[c]; {
	case class&cLetter != 0 || c == '`':
		return p.word(off)
	case class&cDigit != 0:
		return p.number(off)
	}
	c1, c2 := p.at(off+1), p.at(off+2)
	// pick returns one of three kinds: the character alone, doubled, or before =.
	pick := func(one, two, set kind) (kind, int) {
		switch {
		case c1 == c && two != tBad:
			return two, off + 2
		case c1 == '=' && set != tBad:
			return set, off + 2
		}
		return one, off + 1
	}
	switch c {
	case '(':
		return tLParen, off + 1
	case ')':
		return tRParen, off + 1
	case '[':
		return tLBrack, off + 1
	case ']':
		return tRBrack, off + 1
	case '{':
		return tLBrace, off + 1
	case '}':
		return tRBrace, off + 1
	case ';':
		return tSemi, off + 1
	case ':':
		return tColon, off + 1
	case '?':
		return tQuest, off + 1
	case '~':
		return tTilde, off + 1
	case ',':
		return tComma, off + 1
	case '.':
		if c1 == '.' && c2 == '.' {
			return tEllipsis, off + 3
		}
		if classes[c1]&cDigit != 0 {
			return p.number(off)
		}
		return tDot, off + 1
	case '-':
		if c1 == '>' {
			return tArrow, off + 2
		}
		return pick(tMinus, tDec, tSetSub)
	case '+':
		return pick(tPlus, tInc, tSetAdd)
	case '*':
		return pick(tStar, tBad, tSetMul)
	case '/':
		return pick(tSlash, tBad, tSetDiv)
	case '%':
		return pick(tPercent, tBad, tSetMod)
	case '=':
		return pick(tAssign, tEq, tBad)
	case '!':
		return pick(tNot, tBad, tNe)
	case '&':
		return pick(tAnd, tAndAnd, tSetAnd)
	case '|':
		return pick(tOr, tOrOr, tSetOr)
	case '^':
		return pick(tXor, tXorXor, tSetXor)
	case '<', '>':
		if c1 == c && c2 == '=' {
			if c == '<' {
				return tSetShl, off + 3
			}
			return tSetShr, off + 3
		}
		if c == '<' {
			return pick(tLt, tShl, tLe)
		}
		return pick(tGt, tShr, tGe)
	case '"':
		end, _, _ := p.quoted(off, false)
		if end < 0 {
			return tBad, p.lineEnd(off)
		}
		return tString, end
	case '\'':
		end, _, _ := p.quoted(off, false)
		if end < 0 {
			return tBad, p.lineEnd(off)
		}
		return tChar, end
	case '@':
		end := off + 1
		if classes[c1]&cDigit != 0 {
			for classes[p.at(end)]&(cLetter|cDigit) != 0 {
				end++
			}
			p.report(
				BadAggregation, off, end,
				"the name of an aggregation must begin with a letter or _",
				"write @n"+p.text[off+1:min(end, off+20)],
			)
			return tBad, end
		}
		for classes[p.at(end)]&(cLetter|cDigit) != 0 {
			end++
		}
		return tAgg, end
	case '$':
		end := off + 1
		if c1 == '$' {
			end++
		}
		name := end
		only := uint8(cLetter | cDigit)
		if classes[p.at(end)]&cDigit != 0 {
			only = cDigit
		}
		for classes[p.at(end)]&only != 0 {
			end++
		}
		if end == name {
			p.report(
				BadMacro, off, end, "missing macro name after $",
				"$target, $pid, or $1 for the first argument",
			)
			return tBad, end
		}
		return tMacro, end
	}
	end := off + 1
	for end < len(p.text) && p.text[end]&0xc0 == 0x80 { // the rest of a character of several bytes
		end++
	}
	switch {
	case c == 0:
		p.report(BadCharacter, off, end, "zero byte in the text", "")
	case c == '#':
		p.report(BadCharacter, off, end, "unexpected #", "comments are /* ... */ or // ...")
	case c == '\\':
		p.report(
			BadCharacter, off, end, "unexpected \\",
			"a statement may continue on the next line without a mark",
		)
	default:
		p.report(
			BadCharacter, off, end, "unexpected character "+shown(p.text[off:end]),
			straight(p.text[off:end]),
		)
	}
	return tBad, end
}

// straight returns a hint for a character that a word processor put in place of the ASCII one.
func straight(s string) string {
	switch s {
	case "\u201c", "\u201d":
		return "write \" for " + s
	case "\u2018", "\u2019":
		return "write ' for " + s
	case "\u2013", "\u2014", "\u2212":
		return "write - for " + s
	case "\u00a0":
		return "write a plain space for it"
	}
	return ""
}

// word reads a name, which may contain a backtick: module`name.
func (p *parser) word(off int) (kind, int) {
	end, tick := off, -1
	for {
		c := p.at(end)
		if c == '`' {
			tick = end
		} else if classes[c]&(cLetter|cDigit) == 0 {
			break
		}
		end++
	}
	if tick >= 0 && classes[p.at(tick+1)]&cLetter == 0 {
		p.report(
			BadKernelName, off, end, "missing name after `",
			"`jiffies is the kernel's variable jiffies",
		)
		return tBad, end
	}
	return tWord, end
}

// number reads the spelling of a number; integer converts it.
func (p *parser) number(off int) (kind, int) {
	end := off
	run := func() {
		for classes[p.at(end)]&(cLetter|cDigit) != 0 {
			end++
		}
	}
	hex := p.text[off] == '0' && p.at(off+1)|0x20 == 'x'
	for classes[p.at(end)]&cDigit != 0 {
		end++
	}
	float := false
	if !hex {
		if p.at(end) == '.' && p.at(end+1) != '.' && classes[p.at(end+1)]&cLetter == 0 {
			float = true
			end++
			for classes[p.at(end)]&cDigit != 0 {
				end++
			}
		}
		if p.at(end)|0x20 == 'e' {
			exp := end + 1
			if c := p.at(exp); c == '+' || c == '-' {
				exp++
			}
			if classes[p.at(exp)]&cDigit != 0 {
				float = true
				end = exp
			}
		}
	}
	run()
	if float {
		p.report(
			FloatConstant, off, end, "D has no floating-point numbers",
			"use a smaller unit: nanoseconds, thousandths",
		)
		return tBad, end
	}
	return tInt, end
}

// quoted reads the string or character constant at off and returns the offset behind it, or -1 when
// it has no end. With value set it returns its bytes, too. It reports a missing end and, with value
// set, escapes that are too large.
func (p *parser) quoted(off int, value bool) (end int, s string, escaped bool) {
	quote := p.text[off]
	i := off + 1
	for {
		c := p.at(i)
		switch {
		case c == quote:
			if value && escaped {
				return i + 1, p.unescape(off+1, i), true
			}
			return i + 1, p.text[off+1 : i], escaped
		case c == '\\' && i+1 < len(p.text) && p.text[i+1] != '\n':
			escaped = true
			i += 2
		case c == '\n' || i >= len(p.text) || c == '\\':
			if quote == '"' {
				p.report(
					UnclosedString, off, i, "unclosed string",
					"write a line's end within a string as \\n",
				)
			} else {
				p.report(UnclosedChar, off, i, "unclosed character constant",
					"write text in \"...\"")
			}
			return -1, "", false
		default:
			i++
		}
	}
}

// unescape returns the bytes of the text from off up to end, its escapes resolved. An unknown
// escape represents both of its characters.
func (p *parser) unescape(off, end int) string {
	out := make([]byte, 0, end-off)
	for i := off; i < end; i++ {
		c := p.text[i]
		if c != '\\' {
			out = append(out, c)
			continue
		}
		start := i
		i++ // a \ is never the last byte: it would have escaped the quote
		switch c = p.text[i]; c {
		case 'a':
			out = append(out, '\a')
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'v':
			out = append(out, '\v')
		case '\\', '"', '\'', '?':
			out = append(out, c)
		case '0', '1', '2', '3', '4', '5', '6', '7':
			v := 0
			n := i
			for ; n < end && n < i+3 && p.text[n] >= '0' && p.text[n] <= '7'; n++ {
				v = v*8 + int(p.text[n]-'0')
			}
			if v > 255 {
				p.report(
					BadEscape, start, n, p.text[start:n]+" does not fit in a byte",
					"the largest is \\377",
				)
			}
			out = append(out, byte(v))
			i = n - 1
		case 'x':
			v, n := 0, i+1
			for ; n < end && hexDigit(p.text[n]) >= 0; n++ {
				v = min(v*16+hexDigit(p.text[n]), 256)
			}
			if n == i+1 {
				p.report(BadEscape, start, n, "missing hexadecimal digits after \\x", "\\x1b")
			} else if v > 255 {
				p.report(BadEscape, start, n, shorten(p.text[start:n])+" does not fit in a byte",
					"the largest is \\xff; all hexadecimal digits after \\x belong to it")
			}
			out = append(out, byte(v))
			i = n - 1
		default:
			out = append(out, '\\', c)
		}
	}
	return string(out)
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// integer returns the number at a span of the text, and reports mistakes in it.
func (p *parser) integer(at Span) *Int {
	text := p.text[at.From:at.To]
	n := &Int{Span: at, Text: text}
	from, to := int(at.From), int(at.To)
	base, digits := uint64(10), text
	switch {
	case len(text) > 1 && text[0] == '0' && text[1]|0x20 == 'x':
		base, digits = 16, text[2:]
	case len(text) > 1 && text[0] == '0':
		base, digits = 8, text[1:]
	}
	used, over := 0, false
	for used < len(digits) {
		d := hexDigit(digits[used])
		if d < 0 || base != 16 && d > 9 {
			break
		}
		if uint64(d) >= base {
			p.report(
				BadDigit, from, to, "digit "+digits[used:used+1]+" in an octal number",
				"a number that begins with 0 is octal; omit the 0",
			)
			return n
		}
		if n.Value > (^uint64(0)-uint64(d))/base {
			over = true
		}
		n.Value = n.Value*base + uint64(d)
		used++
	}
	suffix := digits[used:]
	switch {
	case used == 0 && base == 16:
		p.report(BadDigit, from, to, "missing hexadecimal digits after 0x", "")
	case used == 0 && base == 8 && suffix != "" && suffix[0]|0x20 == 'b':
		p.report(BadDigit, from, to, "D has no binary numbers", "use hexadecimal: 0x...")
	case over:
		p.report(
			BigInt, from, to, shorten(text)+" does not fit in 64 bits",
			"the largest is 18446744073709551615",
		)
	default:
		longs, last := 0, byte(0)
		for i := 0; i < len(suffix); i++ {
			c := suffix[i]
			switch {
			case c|0x20 == 'u' && !n.Unsigned:
				n.Unsigned = true
			case c|0x20 == 'l' && (longs == 0 || longs == 1 && last == 'l'):
				longs++
			default:
				p.report(
					BadSuffix, from, to, "unknown suffix "+shorten(suffix)+" of a number",
					"suffixes are u, l, ul, ll and ull; there are no units: "+
						"write 10 * 1000000 for 10 ms in nanoseconds",
				)
				return n
			}
			last = c | 0x20
		}
		n.Long = uint8(longs)
	}
	return n
}

// shorten cuts long text to 30 bytes.
func shorten(s string) string {
	if len(s) > 40 {
		return s[:30] + "..."
	}
	return s
}

// shown returns text with control characters replaced, for a message.
func shown(s string) string {
	out := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return '?'
		}
		return r
	}, shorten(s))
	return out
}
