package cpp

import (
	"strconv"
	"strings"
)

// A value is a 64-bit operand of an #if, signed or unsigned, as C's intmax_t and uintmax_t.
type value struct {
	n        uint64
	unsigned bool
}

func truth(b bool) value {
	if b {
		return value{n: 1}
	}
	return value{}
}

// An evaluator computes one expression. While off > 0 the operands have no effect: the left side
// has decided.
type evaluator struct {
	p      *run
	line   []token
	i      int
	off    int
	depth  int
	failed bool
	end    token // the directive, for messages about a missing end
}

// evaluate reports whether the expression of a directive is not 0. Mistakes in it are reported, and
// count as 0.
func (p *run) evaluate(in *input, t token) bool {
	line := p.rest(in)
	if len(line) == 0 {
		p.report(
			t.at, BadCondition, "missing expression after #"+t.text,
			"#"+t.text+" defined(NAME), #"+t.text+" NAME > 2",
		)
		return false
	}
	e := &evaluator{p: p, end: t}
	e.line = e.defined(line)
	if e.failed {
		return false
	}
	p.asking = true
	e.line = p.alone(e.line, t.at)
	p.asking = false
	v := e.choice()
	if !e.failed && e.i < len(e.line) {
		e.fail(e.line[e.i], "unexpected text after the expression")
	}
	return !e.failed && v.n != 0
}

// fail reports the first mistake.
func (e *evaluator) fail(t token, message string) {
	if !e.failed && !e.p.stopped {
		e.p.report(t.at, BadCondition, message, "")
	}
	e.failed = true
}

// defined replaces each defined NAME and defined(NAME) by 1 or 0, before anything is expanded.
func (e *evaluator) defined(line []token) []token {
	var out []token
	for i := 0; i < len(line); i++ {
		t := line[i]
		if t.kind != tName || t.text != "defined" {
			out = append(out, t)
			continue
		}
		rest := line[i+1:]
		bracket := len(rest) > 0 && rest[0].text == "("
		if bracket {
			rest = rest[1:]
			i++
		}
		if len(rest) == 0 || rest[0].kind != tName {
			e.fail(t, "missing macro name after defined")
			return nil
		}
		i++
		n := 0
		if e.p.macros[rest[0].text] != nil {
			n = 1
		}
		if bracket {
			if len(rest) < 2 || rest[1].text != ")" {
				e.fail(t, "missing ) after defined(")
				return nil
			}
			i++
		}
		out = append(out, number(n, t))
	}
	return out
}

func (e *evaluator) peek() string {
	if e.failed || e.i >= len(e.line) || e.line[e.i].kind == tString || e.line[e.i].kind == tChar {
		return ""
	}
	return e.line[e.i].text
}

func (e *evaluator) take(text string) bool {
	if e.peek() == text {
		e.i++
		return true
	}
	return false
}

// choice evaluates a ? b : c.
func (e *evaluator) choice() value {
	if e.depth++; e.depth > 200 {
		e.fail(e.end, "expression nested too deeply")
	}
	defer func() { e.depth-- }()
	v := e.binary(0)
	if e.failed || !e.take("?") {
		return v
	}
	skip := func(yes bool) value {
		if yes {
			e.off++
			defer func() { e.off-- }()
		}
		return e.choice()
	}
	a := skip(v.n == 0)
	if !e.take(":") {
		e.missing("missing : after ?")
		return value{}
	}
	b := skip(v.n != 0)
	out := a
	if v.n == 0 {
		out = b
	}
	out.unsigned = a.unsigned || b.unsigned
	return out
}

func (e *evaluator) missing(message string) {
	t := e.end
	if e.i < len(e.line) {
		t = e.line[e.i]
	}
	e.fail(t, message)
}

// levels are C's binary operators, the loosest first.
//
// table: C's precedence
var levels = [...][]string{
	{"||"},
	{"&&"},
	{"|"},
	{"^"},
	{"&"},
	{"==", "!="},
	{"<", ">", "<=", ">="},
	{"<<", ">>"},
	{"+", "-"},
	{"*", "/", "%"},
}

func (e *evaluator) binary(level int) value {
	if level == len(levels) {
		return e.unary()
	}
	v := e.binary(level + 1)
	for !e.failed {
		op := ""
		for _, o := range levels[level] {
			if e.peek() == o {
				op = o
			}
		}
		if op == "" {
			return v
		}
		at := e.line[e.i]
		e.i++
		decided := op == "||" && v.n != 0 || op == "&&" && v.n == 0
		if decided {
			e.off++
		}
		w := e.binary(level + 1)
		if decided {
			e.off--
		}
		v = e.apply(at, op, v, w)
	}
	return v
}

func (e *evaluator) apply(at token, op string, a, b value) value {
	unsigned := a.unsigned || b.unsigned
	out := value{unsigned: unsigned}
	less := int64(a.n) < int64(b.n)
	if unsigned {
		less = a.n < b.n
	}
	switch op {
	case "||":
		return truth(a.n != 0 || b.n != 0)
	case "&&":
		return truth(a.n != 0 && b.n != 0)
	case "|":
		out.n = a.n | b.n
	case "^":
		out.n = a.n ^ b.n
	case "&":
		out.n = a.n & b.n
	case "==":
		return truth(a.n == b.n)
	case "!=":
		return truth(a.n != b.n)
	case "<":
		return truth(less)
	case ">":
		return truth(!less && a.n != b.n)
	case "<=":
		return truth(less || a.n == b.n)
	case ">=":
		return truth(!less)
	case "<<", ">>":
		return shift(a, b, op == "<<")
	case "+":
		out.n = a.n + b.n
	case "-":
		out.n = a.n - b.n
	case "*":
		out.n = a.n * b.n
	default: // / %
		if b.n == 0 {
			if e.off == 0 && !e.failed {
				e.p.report(at.at, ConditionZero, "division by zero", "")
				e.failed = true
			}
			return out
		}
		return divided(a, b, op == "%", unsigned)
	}
	return out
}

// shift shifts a by b, in the other direction when b is negative.
func shift(a, b value, left bool) value {
	n := b.n
	if !b.unsigned && int64(n) < 0 {
		n, left = -n, !left
	}
	switch {
	case left && n < 64:
		a.n <<= n
	case left:
		a.n = 0
	case !a.unsigned:
		a.n = uint64(int64(a.n) >> min(n, 63))
	case n < 64:
		a.n >>= n
	default:
		a.n = 0
	}
	return a
}

func divided(a, b value, rest, unsigned bool) value {
	out := value{unsigned: unsigned}
	switch {
	case unsigned && rest:
		out.n = a.n % b.n
	case unsigned:
		out.n = a.n / b.n
	case int64(b.n) == -1: // the lowest number has no positive counterpart
		if !rest {
			out.n = -a.n
		}
	case rest:
		out.n = uint64(int64(a.n) % int64(b.n))
	default:
		out.n = uint64(int64(a.n) / int64(b.n))
	}
	return out
}

func (e *evaluator) unary() value {
	if e.depth++; e.depth > 200 {
		e.fail(e.end, "expression nested too deeply")
	}
	defer func() { e.depth-- }()
	switch {
	case e.failed:
		return value{}
	case e.take("("):
		v := e.choice()
		if !e.failed && !e.take(")") {
			e.missing("missing )")
		}
		return v
	case e.take("!"):
		return truth(e.unary().n == 0)
	case e.take("-"):
		v := e.unary()
		v.n = -v.n
		return v
	case e.take("+"):
		return e.unary()
	case e.take("~"):
		v := e.unary()
		v.n = ^v.n
		return v
	case e.i >= len(e.line):
		e.missing("incomplete expression")
		return value{}
	}
	t := e.line[e.i]
	e.i++
	switch t.kind {
	case tName:
		if t.text == "defined" { // produced by a macro
			out := e.defined(e.line[e.i-1:])
			if e.failed {
				return value{}
			}
			e.i = len(e.line) - len(out) + 1
			return truth(out[0].text == "1")
		}
		return value{} // an undefined name is 0
	case tNumber:
		return e.number(t)
	case tChar:
		return e.char(t)
	}
	e.fail(t, shown(t.text)+" is not allowed here in a preprocessor expression")
	return value{}
}

func (e *evaluator) number(t token) value {
	text := strings.ToLower(t.text)
	digits := strings.TrimRight(text, "ul")
	suffix := text[len(digits):]
	n, err := strconv.ParseUint(digits, 0, 64)
	switch {
	case strings.ContainsAny(digits, ".") ||
		err != nil && !strings.HasPrefix(digits, "0x") && strings.ContainsAny(digits, "ep"):
		e.fail(t, "floating-point number in a preprocessor expression")
	case err != nil || strings.ContainsAny(digits, "_o") || strings.Count(suffix, "u") > 1 ||
		strings.Count(suffix, "l") > 2 || strings.Contains(suffix, "lul"):
		e.fail(t, shown(t.text)+" is not a valid 64-bit number")
	}
	return value{n, strings.Contains(suffix, "u") || n > 1<<63-1}
}

// char returns the value of a character constant: its bytes, the last one lowest, as an int.
func (e *evaluator) char(t token) value {
	t.text = strings.TrimLeft(t.text, "LuU")
	text := t.text[1 : len(t.text)-1]
	var n uint32
	for text != "" {
		c, _, rest, err := strconv.UnquoteChar(text, '\'')
		switch {
		case text[0] != '\\':
			n, text = n<<8|uint32(text[0]), text[1:]
			continue
		// C takes one to three digits, Go three
		case len(text) > 1 && text[1] >= '0' && text[1] <= '7':
			k, v := 1, uint32(0)
			for ; k < len(text) && k < 4 && text[k] >= '0' && text[k] <= '7'; k++ {
				v = v*8 + uint32(text[k]-'0')
			}
			n, text = n<<8|v&0xff, text[k:]
			continue
		case err != nil:
			c, rest = rune(text[len(text)-1]), ""
			if len(text) > 1 {
				c, rest = rune(text[1]), text[2:]
			}
		}
		n, text = n<<8|uint32(c)&0xff, rest
	}
	if len(t.text) == 2 {
		e.fail(t, "empty character constant")
	}
	if len(t.text) <= 6 && n < 0x100 { // one character: a char, which is signed
		return value{n: uint64(int64(int8(n)))}
	}
	return value{n: uint64(int64(int32(n)))}
}
