package probe

import (
	"strconv"
	"strings"

	"culprit/lang/syntax"
)

// A glob is one part of a probe description: of *, ?, [a-z], [!a-z] and \ before a character that
// means itself. "" matches anything.
type glob struct {
	text    string // as it was written
	literal string // without \, where isLit
	isLit   bool
	// without \: a name that is written so is meant too, as main.(*conn).Read or main.f[...]
	plain  string
	prefix string // what every match begins with
}

// newGlob takes a part of a description, which the parser of D found whole: each [ has its ].
func newGlob(text string) glob {
	g := glob{text: text, plain: text}
	if strings.IndexByte(text, '\\') >= 0 {
		g.plain = unescaped(text)
	}
	var lit strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '*', '?', '[':
			g.prefix = lit.String()
			return g
		case '\\':
			if i++; i < len(text) {
				lit.WriteByte(text[i])
			}
		default:
			lit.WriteByte(c)
		}
	}
	g.prefix = lit.String()
	g.literal, g.isLit = g.prefix, text != ""
	return g
}

// unescaped returns a text without the backslashes before characters that mean themselves.
func unescaped(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// asLiteral returns a glob that matches the one name that is written as g is.
func (g *glob) asLiteral() glob {
	return glob{text: g.text, plain: g.plain, literal: g.plain, isLit: true, prefix: g.plain}
}

// any says that everything matches.
func (g *glob) any() bool { return g.text == "" || g.text == "*" }

// match reports whether a name is one that the glob matches.
func (g *glob) match(s string) bool {
	switch {
	case g.isLit:
		return s == g.literal
	case g.any(), s == g.plain:
		return true
	case !strings.HasPrefix(s, g.prefix):
		return false
	}
	return matchGlob(g.text, s)
}

// matchGlob goes on from the last * that it met when what follows doesn't fit: linear in practice,
// and at worst the product of the lengths.
func matchGlob(pattern, s string) bool {
	p, i := 0, 0
	star, mark := -1, 0
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, i
			p++
			continue
		}
		if p < len(pattern) {
			if ok, n := matchOne(pattern[p:], s[i]); ok {
				p += n
				i++
				continue
			}
		}
		if star < 0 {
			return false
		}
		mark++
		p, i = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne reports whether the first element of the pattern, which isn't *, matches c, and how long
// it is.
func matchOne(pattern string, c byte) (bool, int) {
	switch pattern[0] {
	case '?':
		return true, 1
	case '\\':
		if len(pattern) == 1 {
			return c == '\\', 1
		}
		return pattern[1] == c, 2
	case '[':
		return matchClass(pattern, c)
	}
	return pattern[0] == c, 1
}

// matchClass is matchOne for [a-z], [!a-z] and []]: a ] that comes first means itself. Without an
// end, [ means itself.
func matchClass(pattern string, c byte) (bool, int) {
	i := 1
	not := i < len(pattern) && pattern[i] == '!'
	if not {
		i++
	}
	found := false
	for first := i; i < len(pattern); {
		low := pattern[i]
		if low == ']' && i > first {
			return found != not, i + 1
		}
		if low == '\\' && i+1 < len(pattern) {
			i++
			low = pattern[i]
		}
		i++
		high := low
		if i+1 < len(pattern) && pattern[i] == '-' && pattern[i+1] != ']' {
			i++
			if high = pattern[i]; high == '\\' && i+1 < len(pattern) {
				i++
				high = pattern[i]
			}
			i++
		}
		found = found || low <= c && c <= high
	}
	return pattern[0] == c, 1
}

// A want is a probe description with its globs taken apart.
type want struct {
	provider, module, function, name glob
	// the probe that was named by its number; 0: by its parts
	id   uint32
	text string // as it was written
}

func newWant(d *syntax.Probe) *want {
	if d.Parts == 0 {
		return &want{id: d.ID, text: strconv.Itoa(int(d.ID))}
	}
	parts := []string{d.Provider.Text, d.Module.Text, d.Function.Text, d.Name.Text}
	return &want{
		provider: newGlob(parts[0]), module: newGlob(parts[1]), function: newGlob(parts[2]), name: newGlob(parts[3]),
		text: strings.Join(parts[4-min(d.Parts, 4):], ":"),
	}
}

// match reports whether a probe is one of those wanted.
func (w *want) match(f *found) bool {
	if w.id != 0 {
		return w.id == f.ID
	}
	return w.name.match(f.Name) &&
		(w.function.match(f.Function) || f.alias != "" && w.function.match(f.alias)) &&
		w.module.match(f.Module) &&
		w.provider.match(f.Provider)
}
