package measure

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// Op is a comparison in a predicate.
type Op uint8

// The comparisons. Matches (~) is a glob of * ? [..]; In tests membership in a list.
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

// String returns the operator as it appears in a query.
func (o Op) String() string {
	return word(int(o), "", "=", "!=", "<", "<=", ">", ">=", "~", "!~", "in")
}

// Term is one condition of a predicate: Field Op Values. Values has one element; for In it may have
// several.
type Term struct {
	Field  string
	Op     Op
	Values []string
}

// Match reports whether a label satisfies the term. The operators < <= > >= compare numbers; they
// are false when either side is not a number.
func (t Term) Match(label string) bool {
	switch t.Op {
	case Equal:
		return label == t.Values[0]
	case NotEqual:
		return label != t.Values[0]
	case Matches, NotMatches:
		// path.Match treats / specially; a glob of a label does not.
		pattern := strings.ReplaceAll(t.Values[0], "/", "\x01")
		ok, err := path.Match(pattern, strings.ReplaceAll(label, "/", "\x01"))
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

// Query asks for one statistic, broken down by the fields By, for the rows that satisfy all terms
// of Where, over the time Over in steps of Step. Its text has no time: net.bytes by
// client,direction where process = "nginx".
type Query struct {
	Stat  StatID
	By    []string
	Where []Term
	// Over is the time range. Zero means from now on for a source and a watch, and everything for a
	// reader. For a source, a Start delays the first reading; see Source.Run.
	Over Interval
	Step Span // zero: the reader chooses
	// Top limits the answer to this many of the largest rows when all rows are too many; see
	// Answer.Rest. 0: all rows, or an error.
	Top int
}

// String returns the query's text. ParseQuery returns the same query for it, without Over and Step.
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

// Covers reports whether the rows of q answer o: q has the fields, and its predicate excludes no
// row that o selects. Times do not matter.
func (q Query) Covers(o Query) bool {
	if q.Stat != o.Stat {
		return false
	}
	in := func(terms []Term, t Term) bool {
		return slices.ContainsFunc(terms, func(have Term) bool {
			return have.Field == t.Field && have.Op == t.Op && slices.Equal(have.Values, t.Values)
		})
	}
	for _, f := range o.By {
		if !slices.Contains(q.By, f) {
			return false
		}
	}
	for _, t := range q.Where {
		if !in(o.Where, t) {
			return false
		}
	}
	for _, t := range o.Where {
		if !slices.Contains(q.By, t.Field) && !in(q.Where, t) {
			return false
		}
	}
	return true
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

// ParseQuery parses the text of a query. It checks the grammar, not the names of statistics and
// fields. The error is a *Diagnostic with the position.
//
//	query = stat [ "by" field { "," field } ] [ "where" term { "and" term } ]
//	term  = field ( "=" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~" ) value
//	| field "in" "(" value { "," value } ")"
//	value = word | number | '"' text with Go's escapes '"'
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
		strings.IndexByte("_.-:/*?@+%", c) >= 0 || c >= 0x80
}

func (p *parser) fail(pos, n int, code, message, hint string) *Diagnostic {
	if p.err == nil {
		p.err = &Diagnostic{p.text, pos, n, code, message, hint}
	}
	return p.err
}

// syntax reports a syntax error at tok.
func (p *parser) syntax(tok token, message, hint string) *Diagnostic {
	return p.fail(tok.pos, max(1, tok.end-tok.pos), "syntax", message, hint)
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
			p.fail(start, 1, "syntax", "this quoted text has no end",
				`close it with "; a quote inside is \"`)
			return
		}
		s, _ := strconv.Unquote(end) // QuotedPrefix has checked it
		p.at += len(end)
		p.tok = token{'s', s, start, p.at}
	default:
		p.at++
		if strings.IndexByte("!<>=", c) >= 0 && p.at < len(p.text) {
			if next := p.text[p.at]; next == '=' || c == '!' && next == '~' {
				p.at++
			}
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
		return p.syntax(p.tok, "the query ends where "+want+" is expected", "")
	}
	return p.syntax(p.tok, "expected "+want+", found "+p.text[p.tok.pos:p.tok.end], "")
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
					return q, p.syntax(at, "field "+f+" is named twice", "")
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
		found := p.text[p.tok.pos:p.tok.end]
		return q, p.syntax(p.tok, "expected the end of the query, found "+found,
			`a query is: statistic by field,field where field = "value" and ...`)
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
			return t, p.syntax(
				at, "not a valid pattern: "+t.Values[0], "patterns use * ? and [a-z]",
			)
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
