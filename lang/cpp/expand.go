package cpp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A macro is a name that is replaced by tokens.
type macro struct {
	name     string
	body     []token
	params   []string
	call     bool // it has parameters, and is expanded only when a bracket follows
	variable bool // the last parameter takes all remaining arguments
	disabled bool // it is being expanded
	builtin  func(at token) token
	at       place
}

// A context is a list of tokens to read before those of the contexts below it.
type context struct {
	tokens []token
	macro  *macro // enabled again when the tokens have been read
}

func (p *run) push(tokens []token, m *macro) {
	if m != nil {
		m.disabled = true
	}
	p.contexts = append(p.contexts, &context{tokens, m})
}

// plain returns the next token unexpanded; it executes directives.
func (p *run) plain() token {
	for !p.stopped {
		if n := len(p.contexts); n > p.base {
			c := p.contexts[n-1]
			if len(c.tokens) > 0 {
				t := c.tokens[0]
				c.tokens = c.tokens[1:]
				p.step(t.at)
				return t
			}
			if c.macro != nil {
				c.macro.disabled = false
			}
			p.contexts = p.contexts[:n-1]
			continue
		}
		if p.base > 0 {
			return token{kind: tEnd}
		}
		in := p.inputs[len(p.inputs)-1]
		t := p.scan(in)
		switch {
		case t.kind == tEOF:
			for _, c := range in.conds {
				p.report(c.at, UnclosedCondition, "missing #endif", "")
			}
			in.conds = nil
			if len(p.inputs) == 1 {
				return t
			}
			p.inputs = p.inputs[:len(p.inputs)-1]
			if !in.first { // the file ends without a line's end
				return token{kind: tLine, text: "\n", at: t.at}
			}
		case t.first && t.kind == tMark && t.text == "#":
			if t, ok := p.directive(in, t); ok {
				return t
			}
		default:
			return t
		}
	}
	return token{kind: tEOF}
}

// next returns the next fully expanded token.
func (p *run) next() token {
	for {
		t := p.plain()
		if t.kind != tName || t.done {
			return t
		}
		if t.text == "_Pragma" && p.base == 0 {
			if pragma, ok := p.pragmaWord(t); ok {
				return pragma
			}
			return t
		}
		if p.asking && t.text == "defined" {
			p.push(p.asked(), nil)
			return t
		}
		m := p.macros[t.text]
		switch {
		case m == nil:
			return t
		case m.disabled:
			t.done = true
			return t
		case m.builtin != nil:
			return m.builtin(t)
		case !m.call:
			p.push(p.substitute(m, t, nil), m)
			continue
		}
		before, open := p.open()
		if !open {
			p.push(before, nil)
			return t
		}
		args, ok := p.arguments(m, t)
		if !ok {
			return t
		}
		p.push(p.substitute(m, t, args), m)
	}
}

// asked returns the operand of a defined that a macro produced: the name is not expanded.
func (p *run) asked() []token {
	t := p.plain()
	if t.kind == tMark && t.text == "(" {
		name := p.plain()
		name.done = true
		return []token{t, name}
	}
	t.done = true
	return []token{t}
}

// open consumes a bracket if it is the next token. Otherwise it returns the tokens that it has
// read, which must be read again.
func (p *run) open() (before []token, ok bool) {
	for {
		t := p.plain()
		switch {
		case t.kind == tLine:
			before = append(before, t)
			continue
		case t.kind == tMark && t.text == "(":
			return nil, true
		case t.kind != tEnd && t.kind != tEOF:
			before = append(before, t)
		}
		return before, false
	}
}

// arguments reads the arguments of a call, after its opening bracket.
func (p *run) arguments(m *macro, name token) (args [][]token, ok bool) {
	arg := []token{}
	depth := 0
	space := false
	for {
		t := p.plain()
		switch {
		case t.kind == tEnd || t.kind == tEOF:
			p.report(name.at, UnclosedCall, "missing ) in a call of "+m.name, "")
			p.push([]token{t}, nil)
			return nil, false
		case t.kind == tLine:
			space = true
			continue
		case t.kind == tPragma:
			p.report(t.at, BadDirective, "#pragma among the arguments of "+m.name, "")
			continue
		case t.kind != tMark:
		case t.text == "(", t.text == ")" && depth > 0:
			depth++
			if t.text == ")" {
				depth -= 2
			}
		case t.text == ")":
			args = append(args, arg)
			return p.fit(m, name, args)
		case t.text == "," && depth == 0 && !(m.variable && len(args) == len(m.params)-1):
			args = append(args, arg)
			arg = []token{}
			space = false
			continue
		}
		t.space = t.space || space
		space = false
		arg = append(arg, t)
	}
}

// fit adjusts the number of arguments to that of the parameters, if possible.
func (p *run) fit(m *macro, name token, args [][]token) ([][]token, bool) {
	want := len(m.params)
	switch {
	case want == 0 && len(args) == 1 && len(args[0]) == 0:
		return nil, true
	case m.variable && len(args) == want-1:
		return append(args, nil), true // nil: not even empty
	case len(args) == want:
		return args, true
	}
	plural := "arguments"
	if want == 1 {
		plural = "argument"
	}
	p.report(
		name.at, MacroArguments,
		fmt.Sprintf("%s takes %d %s, got %d", m.name, want, plural, len(args)), "",
	)
	return nil, false
}

// substitute returns the body of a macro with its arguments inserted.
func (p *run) substitute(m *macro, name token, args [][]token) []token {
	outer := name.macro
	if outer == nil {
		outer = m
	}
	expanded := make([][]token, len(args))
	full := make([]bool, len(args))
	param := func(t token) int {
		if t.kind != tName || len(args) == 0 {
			return -1
		}
		return slices.Index(m.params, t.text)
	}
	var out []token
	add := func(t token) {
		p.bytes += len(t.text) + 8
		if p.bytes > maxBytes {
			p.large(name.at, "macros expand to too much text")
			return
		}
		out = append(out, t)
	}
	for i := 0; i < len(m.body) && !p.stopped; i++ {
		t := m.body[i]
		t.at, t.macro = name.at, outer
		if m.call && t.kind == tMark && t.text == "#" && !t.paste && i+1 < len(m.body) {
			if n := param(m.body[i+1]); n >= 0 {
				t.kind, t.text = tString, quote(args[n])
				add(t)
				i++
				continue
			}
		}
		n := param(t)
		if n < 0 {
			add(t)
			continue
		}
		left := i > 0 && m.body[i-1].paste
		right := i+1 < len(m.body) && m.body[i+1].paste
		if left && m.variable && n == len(args)-1 && i > 1 && m.body[i-2].kind == tMark &&
			m.body[i-2].text == "," {
			// GNU extension: a comma before ## is removed when there are no more arguments.
			// Otherwise it stays, and nothing is pasted.
			out = out[:len(out)-1]
			if len(args[n]) == 0 {
				out = out[:len(out)-1]
				if right {
					add(token{kind: tNothing, at: t.at, macro: outer})
				}
				continue
			}
			left = false
		}
		from := args[n]
		if !left && !right {
			if !full[n] {
				expanded[n], full[n] = p.alone(args[n], name.at), true
			}
			from = expanded[n]
		}
		if len(from) == 0 && (left || right) {
			add(token{kind: tNothing, space: t.space, at: t.at, macro: outer})
		}
		for k, a := range from {
			if k == 0 {
				a.space = t.space
			}
			add(a)
		}
	}
	out = p.pasted(out, name)
	if len(out) > 0 {
		out[0].space = name.space
	}
	return out
}

// alone expands an argument by itself.
func (p *run) alone(arg []token, at place) []token {
	if !slices.ContainsFunc(
		arg, func(t token) bool { return t.kind == tName && p.macros[t.text] != nil },
	) {
		return arg
	}
	if p.nested++; p.nested > maxNesting {
		p.large(at, "macro calls nested too deeply")
		return nil
	}
	base := p.base
	p.base = len(p.contexts) + 1
	p.contexts = append(p.contexts, &context{}) // ensures base > 0
	p.push(arg, nil)
	var out []token
	for {
		t := p.next()
		if t.kind == tEnd || t.kind == tEOF {
			break
		}
		out = append(out, t)
	}
	p.contexts = p.contexts[:p.base-1]
	p.base = base
	p.nested--
	return out
}

// pasted executes the ## of a body.
func (p *run) pasted(in []token, name token) []token {
	if !slices.ContainsFunc(in, func(t token) bool { return t.paste || t.kind == tNothing }) {
		return in
	}
	var out []token
	for i := 0; i < len(in) && !p.stopped; i++ {
		t := in[i]
		if !t.paste || len(out) == 0 || i+1 == len(in) {
			out = append(out, t)
			continue
		}
		i++
		left, right := out[len(out)-1], in[i]
		switch {
		case right.kind == tNothing:
			continue
		case left.kind == tNothing:
			right.space = left.space
			out[len(out)-1] = right
			continue
		}
		text := left.text + right.text
		if p.bytes += len(text); p.bytes > maxBytes {
			p.large(name.at, "macros expand to too much text")
			return nil
		}
		k, n := scan(text)
		switch {
		case left.kind == tOther && n == len(left.text): // @ ## name is one token in D
			k, n = tOther, len(text)
		case strings.HasPrefix(text, "//"), strings.HasPrefix(text, "/*"):
			n = 0
		}
		if n != len(text) {
			p.report(
				name.at,
				BadPaste,
				fmt.Sprintf(
					"## can't join %s and %s to one token", shown(left.text), shown(right.text),
				),
				"",
			)
			out = append(out, right)
			continue
		}
		out[len(out)-1] = token{
			kind:  k,
			text:  text,
			space: left.space,
			at:    name.at,
			macro: left.macro,
		}
		if left.macro == nil {
			out[len(out)-1].macro = p.macros[name.text]
		}
	}
	return slices.DeleteFunc(out, func(t token) bool { return t.kind == tNothing })
}

// quote converts an argument to a string.
func quote(arg []token) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, t := range arg {
		if t.space && i > 0 {
			b.WriteByte(' ')
		}
		if t.kind != tString && t.kind != tChar {
			// would end the string, or escape its end
			if t.text == `"` || t.text == `\` && i == len(arg)-1 {
				b.WriteByte('\\')
			}
			b.WriteString(t.text)
			continue
		}
		for _, c := range []byte(t.text) {
			if c == '"' || c == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// shown returns text with control characters replaced, for a message.
func shown(s string) string {
	if len(s) > 40 {
		s = s[:40] + "..."
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}
