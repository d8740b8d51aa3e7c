package syntax

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"culprit/measure"
)

// A Diagnostic is one mistake in the text of a D program. All packages of lang report it.
type Diagnostic struct {
	File string // "" for text of a command line
	Pos  int    // byte offset of the mistake in the text
	// length of the mistake in bytes, within the line; 0: a position between two bytes
	Len     int
	Line    int    // from 1
	Column  int    // from 1, in bytes
	Source  string // that line of the text
	Code    Code
	Tag     string // dtrace's name for it: D_SYNTAX; printed with -x errtags
	Message string // one clause, no full stop
	Hint    string // what to write instead; "" when there is no useful hint
	Near    string // the most similar known name; "" when none is similar. Hint need not repeat it
}

// Code identifies one kind of mistake. It does not change between releases.
type Code string

// position returns "script.d:3:14", or "line 3, column 14" for text of a command line.
func (d *Diagnostic) position() string {
	if d.File != "" {
		return fmt.Sprintf("%s:%d:%d", d.File, d.Line, d.Column)
	}
	return fmt.Sprintf("line %d, column %d", d.Line, d.Column)
}

// Error returns position, message, the similar name and the hint on one line: "script.d:3:14:
// message (hint)".
func (d *Diagnostic) Error() string {
	s := d.position() + ": " + d.Message
	if h := d.help(); h != "" {
		s += " (" + h + ")"
	}
	return s
}

func (d *Diagnostic) help() string {
	switch {
	case d.Near == "":
		return d.Hint
	case d.Hint == "":
		return "did you mean " + d.Near + "?"
	}
	return "did you mean " + d.Near + "? " + d.Hint
}

// Marked returns the position and the message, the line with carets below the mistake, and the
// hint: several lines, no final newline. It cuts long lines around the mistake.
func (d *Diagnostic) Marked() string {
	const before, after = 70, 50 // bytes shown before and after the start of the mistake
	col := min(max(d.Column-1, 0), len(d.Source))
	from, to := 0, len(d.Source)
	left, right := "", ""
	if col > before {
		from = col - before
		for from < col && !utf8.RuneStart(d.Source[from]) {
			from++
		}
		left = "..."
	}
	if end := col + max(d.Len, after); end < to {
		to = min(end, col+2*after)
		for to < len(d.Source) && !utf8.RuneStart(d.Source[to]) {
			to++
		}
		right = "..."
	}
	var line, caret strings.Builder
	line.WriteString("  " + left)
	caret.WriteString("  " + strings.Repeat(" ", len(left)))
	carets := 0
	for i, r := range d.Source[from:to] {
		at := from + i
		if r < ' ' && r != '\t' || r == 0x7f || r == utf8.RuneError {
			r = '?'
		}
		line.WriteRune(r)
		switch {
		case at >= col && (carets == 0 || at < col+d.Len):
			caret.WriteByte('^')
			carets++
		case at < col && r == '\t':
			caret.WriteByte('\t')
		case at < col:
			caret.WriteByte(' ')
		}
	}
	if carets == 0 {
		caret.WriteByte('^')
	}
	out := d.position() + ": " + d.Message + "\n" + line.String() + right + "\n" + caret.String()
	if h := d.help(); h != "" {
		out += "\nhint: " + h
	}
	return out
}

// Measure returns the diagnostic in the form that other packages show. Its text is the one line.
func (d *Diagnostic) Measure() *measure.Diagnostic {
	return &measure.Diagnostic{
		Text:    d.Source,
		Pos:     min(max(d.Column-1, 0), len(d.Source)),
		Len:     d.Len,
		Code:    string(d.Code),
		Message: d.Message,
		Hint:    d.help(),
	}
}

// Diagnostics are the mistakes of a text, in the order of the text. As an error it is never empty.
type Diagnostics []*Diagnostic

// Error returns one line per diagnostic.
func (ds Diagnostics) Error() string {
	var lines []string
	for _, d := range ds {
		lines = append(lines, d.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns each one, so that errors.As finds a *Diagnostic.
func (ds Diagnostics) Unwrap() []error {
	out := make([]error, len(ds))
	for i, d := range ds {
		out[i] = d
	}
	return out
}

// Marked returns Marked of each, separated by empty lines.
func (ds Diagnostics) Marked() string {
	var parts []string
	for _, d := range ds {
		parts = append(parts, d.Marked())
	}
	return strings.Join(parts, "\n\n")
}

// Diagnose makes a diagnostic at a span of a text; nothing after the line's end is marked. File and
// line are those of the text, or those of the last line mark before it: # 12 "file.h".
func Diagnose(file, text string, at Span, code Code, message, hint string) *Diagnostic {
	pos := min(max(int(at.From), 0), len(text))
	end := min(max(int(at.To), pos), len(text))
	start := strings.LastIndexByte(text[:pos], '\n') + 1
	stop := len(text)
	if i := strings.IndexByte(text[pos:], '\n'); i >= 0 {
		stop = pos + i
	}
	line := 1 + strings.Count(text[:start], "\n")
	for from := start; from > 0; { // look back from # line to # line
		hash := strings.LastIndex(text[:from], "\n#") + 1
		if !strings.HasPrefix(text[hash:from], "#") {
			break
		}
		mark, _, _ := strings.Cut(text[hash:from], "\n")
		if n, name, ok := lineMark(mark); ok {
			file, line = name, n+strings.Count(text[hash:start], "\n")-1
			break
		}
		from = hash
	}
	return &Diagnostic{
		File: file, Pos: pos, Len: min(end, stop) - pos, Line: line, Column: pos - start + 1,
		Source: strings.TrimSuffix(text[start:stop], "\r"),
		Code:   code, Message: message, Hint: hint,
	}
}

// lineMark parses a preprocessor's line mark, which describes the line after it: # 12 "file.h" or
// #line 12 "file.h".
func lineMark(s string) (line int, file string, ok bool) {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "#"), "line")
	number, rest, _ := strings.Cut(strings.TrimLeft(s, " \t"), " ")
	line, err := strconv.Atoi(number)
	rest, quoted := strings.CutPrefix(rest, `"`)
	file, _, closed := strings.Cut(rest, `"`)
	return line, file, err == nil && line > 0 && quoted && closed
}
