package complete

import (
	"regexp"
	"strings"
)

// A placeKind is what may be written at a place of a D program.
type placeKind uint8

const (
	nothing     placeKind = iota // inside a comment or a string
	description                  // a probe description
	expression                   // a variable, a function or an action
	member                       // behind -> or .
	aggregation                  // behind @
	option                       // behind #pragma D option
)

// A place describes a position in the text of a program: what may be written there.
type place struct {
	kind   placeKind
	from   int    // where the word begins that the position ends
	prefix string // that word
	probes string // the probe descriptions of the clause; "" outside of a clause
	chain  string // of a member: what its struct is: args[0]->sk
}

var (
	chainEnd  = regexp.MustCompile(`([A-Za-z_]\w*(?:\[[^\]]*\])?(?:(?:->|\.)\w+(?:\[[^\]]*\])?)*)(?:->|\.)$`)
	optionEnd = regexp.MustCompile(`^#\s*pragma\s+D\s+option\s+(\w*)$`)
)

// maxChain is the number of bytes before a member that are looked at.
const maxChain = 512

// A placeScanner reads a text up to a position, and what it is in there.
type placeScanner struct {
	text      string
	at        int
	depth     int  // of braces
	predicate bool // between slashes
	clause    int  // where the descriptions of the clause begin
	probes    int  // where they end; -1: not yet
	inside    bool // a comment or a string that does not end
}

// placeAt returns the place of a position.
func placeAt(text string, pos int) place {
	s := placeScanner{text: text[:pos], probes: -1}
	for s.at < pos && !s.inside {
		s.step()
	}
	line := s.text[strings.LastIndexByte(s.text, '\n')+1:]
	if m := optionEnd.FindStringSubmatch(line); m != nil {
		return place{kind: option, from: pos - len(m[1]), prefix: m[1]}
	}
	if s.inside || strings.HasPrefix(line, "#") {
		return place{from: pos}
	}
	if s.depth == 0 && !s.predicate {
		return s.description()
	}
	p := place{kind: expression, from: pos, probes: s.text[s.clause:s.probes]}
	for p.from > 0 && isWord(text[p.from-1]) {
		p.from--
	}
	if strings.HasSuffix(s.text[:p.from], "args[") {
		p.from -= len("args[")
	}
	p.prefix = s.text[p.from:]
	before := s.text[max(0, p.from-maxChain):p.from]
	switch m := chainEnd.FindStringSubmatch(before); {
	case strings.HasSuffix(before, "@"):
		p.kind = aggregation
	case strings.HasSuffix(before, "`"):
		return place{from: pos}
	case m != nil:
		p.kind, p.chain = member, m[1]
	}
	return p
}

// description returns the place in a probe description that ends at the position.
func (s *placeScanner) description() place {
	p := place{kind: description, from: len(s.text)}
	for p.from > s.clause && strings.IndexByte(" \t\r\n,", s.text[p.from-1]) < 0 {
		p.from--
	}
	p.prefix = s.text[p.from:]
	return p
}

// step reads the next piece of the text.
func (s *placeScanner) step() {
	rest := s.text[s.at:]
	skip := func(open, end string) bool {
		if !strings.HasPrefix(rest, open) {
			return false
		}
		n := strings.Index(rest[len(open):], end)
		if s.inside = n < 0; !s.inside {
			s.at += len(open) + n + len(end)
			comment := rest[:len(open)+n+len(end)]
			before := strings.TrimSpace(strings.TrimSuffix(s.text[s.clause:s.at], comment))
			if s.depth == 0 && !s.predicate && before == "" {
				s.clause = s.at // it comes before the descriptions
			}
		}
		return true
	}
	switch {
	case skip("/*", "*/"), !s.isPath() && skip("//", "\n"), s.quoted(rest):
		return
	case rest[0] == '#' && s.atLineStart():
		if n := strings.IndexByte(rest, '\n'); n >= 0 {
			s.at += n + 1
			s.clause = s.at
		} else {
			s.at = len(s.text)
		}
		return
	case rest[0] == '{':
		s.endDescription()
		s.predicate = false
		s.depth++
	case rest[0] == '}':
		if s.depth = max(0, s.depth-1); s.depth == 0 {
			s.clause, s.probes = s.at+1, -1
		}
	case rest[0] == ';' && s.depth == 0:
		s.clause, s.probes, s.predicate = s.at+1, -1, false
	case rest[0] == '/' && s.depth == 0:
		s.slash(rest)
	}
	s.at++
}

// atLineStart reports whether only blanks are before the position in its line.
func (s *placeScanner) atLineStart() bool {
	line := s.text[strings.LastIndexByte(s.text[:s.at], '\n')+1 : s.at]
	return strings.TrimSpace(line) == ""
}

// slash begins or ends a predicate. A slash in a description is of a path, one in a predicate may
// divide.
func (s *placeScanner) slash(rest string) {
	if s.predicate {
		after := strings.TrimLeft(rest[1:], " \t\r")
		s.predicate = after != "" && after[0] != '{' && after[0] != '\n' && after[0] != ';'
	} else if !s.isPath() && s.probes < 0 {
		s.endDescription()
		s.predicate = true
	}
}

// isPath reports whether the position is in the path of a file in a description:
// uprobe:/usr/bin/sh.
func (s *placeScanner) isPath() bool {
	if s.depth > 0 || s.predicate {
		return false
	}
	word := s.text[s.clause:s.at]
	return strings.ContainsRune(word[strings.LastIndexAny(word, " \t\n,")+1:], ':')
}

func (s *placeScanner) endDescription() {
	if s.depth == 0 && s.probes < 0 {
		s.probes = s.at
	}
}

// quoted skips a string or a character.
func (s *placeScanner) quoted(rest string) bool {
	q := rest[0]
	if q != '"' && q != '\'' || s.depth == 0 && !s.predicate {
		return false
	}
	for i := 1; i < len(rest) && rest[i] != '\n'; i++ {
		switch rest[i] {
		case '\\':
			i++
		case q:
			s.at += i + 1
			return true
		}
	}
	n := strings.IndexByte(rest, '\n')
	if s.inside = n < 0; !s.inside { // a mistake that ends with its line
		s.at += n
	}
	return true
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
