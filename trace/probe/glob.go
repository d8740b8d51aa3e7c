package probe

import (
	"strconv"
	"strings"

	"culprit/lang/syntax"
)

// A glob is a pattern for one part of a probe description: *, ?, [a-z], [!a-z], and \ before a
// character without a special meaning. "" matches anything.
type glob struct {
	text    string // as it was written
	literal string // without \, if isLit
	isLit   bool
	// plain is the text without \. It also matches, as in main.(*conn).Read or main.f[...].
	plain  string
	prefix string // every match begins with it
}

// newGlob returns the glob of a part of a description. The parser of D has checked that each [ is
// closed.
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

// any reports whether everything matches.
func (g *glob) any() bool { return g.text == "" || g.text == "*" }

// match reports whether the glob matches a name.
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

// matchGlob reports whether pattern matches s. After a mismatch it continues at the last *. It
// usually takes linear time, and at worst the product of the lengths.
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

// matchOne reports whether the first element of the pattern, which isn't *, matches c. It also
// returns the length of the element.
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

// matchClass is matchOne for [a-z], [!a-z] and []], in which the first ] is a member. A [ without
// an end matches itself.
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

// A want is a parsed probe description.
type want struct {
	provider, module, function, name glob
	id                               uint32 // of a probe that is named by its number; else 0
	text                             string // as it was written
}

func newWant(d *syntax.Probe) *want {
	if d.Parts == 0 {
		return &want{id: d.ID, text: strconv.Itoa(int(d.ID))}
	}
	parts := []string{d.Provider.Text, d.Module.Text, d.Function.Text, d.Name.Text}
	return &want{
		provider: newGlob(parts[0]),
		module:   newGlob(parts[1]),
		function: newGlob(parts[2]),
		name:     newGlob(parts[3]),
		text:     strings.Join(parts[4-min(d.Parts, 4):], ":"),
	}
}

// match reports whether the description matches a probe.
func (w *want) match(f *found) bool {
	if w.id != 0 {
		return w.id == f.ID
	}
	return w.name.match(f.Name) &&
		(w.function.match(f.Function) || f.alias != "" && w.function.match(f.alias)) &&
		w.module.match(f.Module) &&
		w.provider.match(f.Provider)
}
