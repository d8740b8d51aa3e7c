package syntax

import (
	"strings"

	"culprit/measure"
)

// directive reads the line from its # at off up to end. A # followed by white space is a comment,
// unless a number follows: a preprocessor writes such lines to name the origin of the next line.
func (p *parser) directive(off, end int) {
	words := p.words(off+1, end)
	if len(words) == 0 || classes[p.at(off+1)]&cSpace != 0 {
		return
	}
	w := words[0]
	switch w.Text {
	case "pragma":
		p.pragma(Span{int32(off), words[len(words)-1].To}, words[1:])
	case "ident", "line":
	case "error":
		text := ""
		if len(words) > 1 {
			text = p.text[words[1].From:words[len(words)-1].To]
		}
		p.report(ErrorDirective, off, int(words[len(words)-1].To), "#error: "+shown(text), "")
	case "include",
		"define",
		"undef",
		"if",
		"ifdef",
		"ifndef",
		"else",
		"elif",
		"endif",
		"include_next",
		"import",
		"warning":
		hint := "run it with -C to use the preprocessor"
		switch w.Text {
		case "include":
			hint = "omit it: the kernel's types are known without it; or run it with -C"
		case "define":
			hint = "use inline int name = value; or run it with -C"
		}
		p.report(
			NeedsPreprocessor, off, int(w.To),
			"#"+w.Text+" is for the C preprocessor, which has not run", hint,
		)
	default:
		if strings.HasPrefix(w.Text, "!") { // a script's first line, moved below its licence
			return
		}
		d := p.report(
			BadDirective, off, int(w.To), "unknown directive #"+shown(w.Text),
			"a comment is /* ... */ or // ..., or # and a space",
		)
		if near := measure.Nearest(w.Text,
			[]string{"pragma", "include", "define", "ident", "line", "error"}); near != "" {
			d.Near = "#" + near
		}
	}
}

// words splits the text from off up to end at white space. Text in quotes stays in one piece;
// comments are omitted.
func (p *parser) words(off, end int) []Name {
	var out []Name
	for {
		for off < end && classes[p.text[off]]&cSpace != 0 {
			off++
		}
		if off >= end || strings.HasPrefix(p.text[off:end], "//") {
			return out
		}
		if strings.HasPrefix(p.text[off:end], "/*") {
			i := strings.Index(p.text[off+2:end], "*/")
			if i < 0 {
				return out
			}
			off += i + 4
			continue
		}
		from, quoted := off, false
		for off < end && (quoted || classes[p.text[off]]&cSpace == 0) &&
			!strings.HasPrefix(p.text[off:end], "/*") {
			if p.text[off] == '"' {
				quoted = !quoted
			}
			off++
		}
		out = append(out, Name{Span{int32(from), int32(off)}, p.text[from:off]})
	}
}

// pragma reads the words behind #pragma. Pragmas of other compilers are ignored.
func (p *parser) pragma(at Span, words []Name) {
	if len(words) == 0 {
		p.report(
			MalformedPragma, int(at.From), int(at.To), "empty #pragma", "#pragma D option quiet",
		)
		return
	}
	if words[0].Text != "D" {
		return
	}
	if len(words) == 1 {
		p.report(
			MalformedPragma, int(at.From), int(at.To), "empty #pragma D", "#pragma D option quiet",
		)
		return
	}
	kind, words := words[1], words[2:]
	pragma := &Pragma{Span: at, Kind: kind}
	switch kind.Text {
	case "option":
		if len(words) == 0 {
			p.report(
				MalformedPragma, int(at.From), int(at.To), "missing option",
				"#pragma D option name, or #pragma D option name=value",
			)
			return
		}
		if len(words) > 1 {
			hint := "write one pragma per option"
			if strings.HasPrefix(words[1].Text, "=") || strings.HasSuffix(words[0].Text, "=") {
				hint = "write no spaces around the ="
			}
			p.report(
				MalformedPragma, int(words[1].From), int(words[len(words)-1].To),
				"too many words in one pragma", hint,
			)
			return
		}
		w := words[0]
		name, value, set := strings.Cut(w.Text, "=")
		if name == "" {
			p.report(
				MalformedPragma, int(w.From), int(w.To), "missing name of the option",
				"#pragma D option name=value",
			)
			return
		}
		mid := w.From + int32(len(name))
		pragma.Name = Name{Span{w.From, mid}, name}
		if set {
			if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
				value = value[1 : len(value)-1]
			}
			if strings.Contains(value, `"`) {
				p.report(
					MalformedPragma, int(mid)+1, int(w.To), "unmatched quote in the value",
					"#pragma D option name=\"value\"",
				)
				return
			}
			pragma.Set, pragma.Value = true, Name{Span{mid + 1, w.To}, value}
		}
	case "error":
		text := ""
		if len(words) > 0 {
			text = p.text[words[0].From:words[len(words)-1].To]
		}
		p.report(ErrorDirective, int(at.From), int(at.To), "#pragma D error "+shown(text), "")
		return
	case "ident", "line":
		return
	case "attributes", "binding", "depends_on":
		if len(words) < 2 {
			p.report(
				MalformedPragma, int(at.From), int(at.To),
				"#pragma D "+kind.Text+" has too few words", "#pragma D "+kind.Text+" word name",
			)
			return
		}
		if kind.Text == "attributes" && strings.Count(words[0].Text, "/") != 2 {
			d := p.report(MalformedPragma, int(words[0].From), int(words[0].To),
				"attributes must be three words separated by slashes", "Stable/Stable/Common")
			d.Tag = "D_PRAGMA_INVAL"
			return
		}
		pragma.Words = words
	default:
		d := p.report(
			UnknownPragma, int(kind.From), int(kind.To), "unknown #pragma D "+shown(kind.Text),
			"#pragma D option name=value",
		)
		d.Near = measure.Nearest(
			kind.Text, []string{"option", "attributes", "binding", "depends_on"},
		)
		return
	}
	p.items = append(p.items, pragma)
}
