package measure

import (
	"path"
	"strconv"
	"strings"
)

// Op is a comparison in a predicate.
type Op uint8

// The comparisons. Matches (~) is a glob of * ? [..]; In is membership in a list.
const (
	Equal Op = iota + 1
	NotEqual
	Less
	LessEqual
	Greater
	GreaterEqual
	Matches
	NotMatches
	In
)

// String gives the operator as a sentence has it.
func (o Op) String() string {
	return word(int(o), "", "=", "!=", "<", "<=", ">", ">=", "~", "!~", "in")
}

// Term is one condition of a predicate: Field Op Values. Values has one element, several for In.
type Term struct {
	Field  string
	Op     Op
	Values []string
}

// Match says whether a label satisfies the term. < <= > >= compare as numbers, and are false where either side is none.
func (t Term) Match(label string) bool {
	switch t.Op {
	case Equal:
		return label == t.Values[0]
	case NotEqual:
		return label != t.Values[0]
	case Matches, NotMatches:
		ok, err := path.Match(strings.ReplaceAll(t.Values[0], "/", "\x01"), strings.ReplaceAll(label, "/", "\x01"))
		return err == nil && ok == (t.Op == Matches)
	case In:
		for _, v := range t.Values {
			if v == label {
				return true
			}
		}
		return false
	}
	a, errA := strconv.ParseFloat(label, 64)
	b, errB := strconv.ParseFloat(t.Values[0], 64)
	if errA != nil || errB != nil {
		return false
	}
	switch t.Op {
	case Less:
		return a < b
	case LessEqual:
		return a <= b
	case Greater:
		return a > b
	case GreaterEqual:
		return a >= b
	}
	return false
}

// Query asks for one statistic, broken down by the fields By, of the rows that satisfy all terms, over Over in steps of Step.
// Its text - the sentence - has no time in it: net.bytes by client,direction where process = "nginx".
type Query struct {
	Stat  StatID
	By    []string
	Where []Term
	Over  Interval // zero: from now on (a source, a watch), or all there is (a reader); a source may be told when to begin, see Source.Run
	Step  Span     // zero: the reader's own
	Top   int      // a reader may answer with so many of the largest rows where all are too many, see Answer.Rest; 0: all or an error
}

// String gives the sentence; ParseQuery gives the same query back, but for Over and Step.
func (q Query) String() string {
	var b strings.Builder
	b.WriteString(string(q.Stat))
	if len(q.By) > 0 {
		b.WriteString(" by ")
		b.WriteString(strings.Join(q.By, ","))
	}
	for i, t := range q.Where {
		b.WriteString([]string{" where ", " and "}[min(i, 1)])
		b.WriteString(t.Field + " " + t.Op.String() + " ")
		if t.Op == In {
			b.WriteString("(")
		}
		for j, v := range t.Values {
			if j > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quote(v))
		}
		if t.Op == In {
			b.WriteString(")")
		}
	}
	return b.String()
}

func quote(v string) string {
	if v == "" {
		return `""`
	}
	for _, c := range []byte(v) {
		if c < '0' || c > '9' {
			return strconv.Quote(v)
		}
	}
	return v
}

// ParseQuery reads a sentence. It knows the grammar and no statistic: the catalogue checks names. A wrong text gives a
// *Diagnostic with the position.
//
//	sentence = stat [ "by" field { "," field } ] [ "where" term { "and" term } ]
//	term     = field ( "=" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~" ) value | field "in" "(" value { "," value } ")"
//	value    = word | number | '"' text with Go's escapes '"'
func ParseQuery(text string) (Query, error) {
	p := &parser{text: text}
	p.next()
	q, err := p.query()
	if err != nil {
		return Query{}, err
	}
	return q, nil
}

type token struct {
	kind     byte // 'w' word or number, 's' quoted string, 'o' operator or punctuation, 0 end
	text     string
	pos, end int
}

type parser struct {
	text string
	at   int
	tok  token
	err  *Diagnostic
}

func wordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
		c == '_' || c == '.' || c == '-' || c == ':' || c == '/' || c == '*' || c == '?' || c == '@' || c == '+' || c == '%' || c >= 0x80
}

func (p *parser) fail(pos, n int, code, message, hint string) *Diagnostic {
	if p.err == nil {
		p.err = &Diagnostic{Text: p.text, Pos: pos, Len: n, Code: code, Message: message, Hint: hint}
	}
	return p.err
}

func (p *parser) next() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
	start := p.at
	if start == len(p.text) {
		p.tok = token{0, "", start, start}
		return
	}
	switch c := p.text[start]; {
	case wordByte(c):
		for p.at < len(p.text) && wordByte(p.text[p.at]) {
			p.at++
		}
		p.tok = token{'w', p.text[start:p.at], start, p.at}
	case c == '"':
		end, err := strconv.QuotedPrefix(p.text[start:])
		if err != nil {
			p.at = len(p.text)
			p.tok = token{'s', "", start, p.at}
			p.fail(start, 1, "syntax", "this quoted text has no end", `close it with "; a quote inside is \"`)
			return
		}
		s, _ := strconv.Unquote(end) // QuotedPrefix has checked it
		p.at += len(end)
		p.tok = token{'s', s, start, p.at}
	default:
		p.at++
		if strings.IndexByte("!<>=", c) >= 0 && p.at < len(p.text) && (p.text[p.at] == '=' || c == '!' && p.text[p.at] == '~') {
			p.at++
		}
		p.tok = token{'o', p.text[start:p.at], start, p.at}
	}
}

func (p *parser) keyword(w string) bool { return p.tok.kind == 'w' && p.tok.text == w }

func (p *parser) word(what string) (string, error) {
	if p.tok.kind != 'w' {
		return "", p.unexpected(what)
	}
	w := p.tok.text
	p.next()
	return w, nil
}

func (p *parser) unexpected(want string) error {
	if p.tok.kind == 0 {
		return p.fail(p.tok.pos, 1, "syntax", "the sentence ends where "+want+" should stand", "")
	}
	return p.fail(p.tok.pos, p.tok.end-p.tok.pos, "syntax", "expected "+want+", found "+p.text[p.tok.pos:p.tok.end], "")
}

func (p *parser) query() (Query, error) {
	var q Query
	id, err := p.word("the name of a statistic")
	if err != nil {
		return q, err
	}
	q.Stat = StatID(id)
	if p.keyword("by") {
		p.next()
		for {
			at := p.tok
			f, err := p.word("the name of a field")
			if err != nil {
				return q, err
			}
			for _, other := range q.By {
				if other == f {
					return q, p.fail(at.pos, at.end-at.pos, "syntax", "field "+f+" is named twice", "")
				}
			}
			q.By = append(q.By, f)
			if p.tok.kind != 'o' || p.tok.text != "," {
				break
			}
			p.next()
		}
	}
	if p.keyword("where") {
		for {
			p.next()
			t, err := p.term()
			if err != nil {
				return q, err
			}
			q.Where = append(q.Where, t)
			if !p.keyword("and") {
				break
			}
		}
	}
	if p.err != nil {
		return q, p.err
	}
	if p.tok.kind != 0 {
		return q, p.fail(p.tok.pos, p.tok.end-p.tok.pos, "syntax", "the sentence should end before "+p.text[p.tok.pos:p.tok.end],
			`a sentence is: statistic by field,field where field = "value" and ...`)
	}
	return q, nil
}

func (p *parser) term() (Term, error) {
	var t Term
	var err error
	if t.Field, err = p.word("the name of a field"); err != nil {
		return t, err
	}
	if p.keyword("in") {
		t.Op = In
		p.next()
		if p.tok.kind != 'o' || p.tok.text != "(" {
			return t, p.unexpected("(")
		}
		for {
			p.next()
			if err := p.value(&t); err != nil {
				return t, err
			}
			if p.tok.kind != 'o' || p.tok.text != "," {
				break
			}
		}
		if p.tok.kind != 'o' || p.tok.text != ")" {
			return t, p.unexpected(") or ,")
		}
		p.next()
		return t, nil
	}
	if p.tok.kind == 'o' {
		for o := Equal; o < In; o++ {
			if p.tok.text == o.String() {
				t.Op = o
			}
		}
		if p.tok.text == "==" {
			t.Op = Equal
		}
	}
	if t.Op == 0 {
		return t, p.unexpected("a comparison (= != < <= > >= ~ !~ in)")
	}
	p.next()
	at := p.tok
	if err := p.value(&t); err != nil {
		return t, err
	}
	if t.Op == Matches || t.Op == NotMatches {
		if _, err := path.Match(t.Values[0], ""); err != nil {
			return t, p.fail(at.pos, at.end-at.pos, "syntax", "this is no pattern: "+t.Values[0], "patterns use * ? and [a-z]")
		}
	}
	return t, nil
}

func (p *parser) value(t *Term) error {
	if p.tok.kind != 'w' && p.tok.kind != 's' {
		return p.unexpected("a value")
	}
	t.Values = append(t.Values, p.tok.text)
	p.next()
	return nil
}
