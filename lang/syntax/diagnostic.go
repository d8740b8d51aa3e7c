package syntax

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"culprit/measure"
)

// A Diagnostic is one thing that is wrong with the text of a D program. All of lang speaks in it.
type Diagnostic struct {
	File    string // "" for text of a command line
	Pos     int    // byte offset of the fault in the text
	Len     int    // bytes at fault, within the line; 0 is a place between two bytes
	Line    int    // from 1
	Column  int    // from 1, in bytes
	Source  string // that line of the text
	Code    Code
	Tag     string // what dtrace calls it: D_SYNTAX; shown with -x errtags
	Message string // one clause, no full stop
	Hint    string // what to write instead; "" when there is nothing useful to say
	Near    string // the name that was most likely meant; "" when none is near. Hint need not tell it again
}

// Code is the stable word for one kind of mistake.
type Code string

// Error gives place, message, the near name and the hint in one line: "script.d:3:14: message (hint)".
func (d *Diagnostic) Error() string {
	s := fmt.Sprintf("%d:%d: %s", d.Line, d.Column, d.Message)
	if d.File != "" {
		s = d.File + ":" + s
	}
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

// Marked gives the place and the message, the line with carets below the fault, and the hint: several lines, no final
// newline. Long lines are cut around the fault.
func (d *Diagnostic) Marked() string {
	const before, after = 70, 50 // bytes shown to either side of the fault's start
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
	place := fmt.Sprintf("%d:%d: ", d.Line, d.Column)
	if d.File != "" {
		place = d.File + ":" + place
	}
	out := place + d.Message + "\n" + line.String() + right + "\n" + caret.String()
	if h := d.help(); h != "" {
		out += "\nhint: " + h
	}
	return out
}

// Measure gives the diagnostic in the form that the other rooms show: its text is the one line.
func (d *Diagnostic) Measure() *measure.Diagnostic {
	return &measure.Diagnostic{Text: d.Source, Pos: min(max(d.Column-1, 0), len(d.Source)), Len: d.Len, Code: string(d.Code), Message: d.Message, Hint: d.help()}
}

// Diagnostics are what is wrong with a text, in the order of the text. As an error it is never empty.
type Diagnostics []*Diagnostic

// Error gives one line a diagnostic.
func (ds Diagnostics) Error() string {
	var lines []string
	for _, d := range ds {
		lines = append(lines, d.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives each, so that errors.As finds a *Diagnostic.
func (ds Diagnostics) Unwrap() []error {
	out := make([]error, len(ds))
	for i, d := range ds {
		out[i] = d
	}
	return out
}

// Marked gives Marked of each, with empty lines between.
func (ds Diagnostics) Marked() string {
	var parts []string
	for _, d := range ds {
		parts = append(parts, d.Marked())
	}
	return strings.Join(parts, "\n\n")
}

// Diagnose makes a diagnostic at a span of a text; what comes after the line's end is not marked. File and line are those
// of the text, or what the last mark of a preprocessor before it says: # 12 "file.h".
func Diagnose(file, text string, at Span, code Code, message, hint string) *Diagnostic {
	pos := min(max(int(at.From), 0), len(text))
	end := min(max(int(at.To), pos), len(text))
	start := strings.LastIndexByte(text[:pos], '\n') + 1
	stop := len(text)
	if i := strings.IndexByte(text[pos:], '\n'); i >= 0 {
		stop = pos + i
	}
	line := 1 + strings.Count(text[:start], "\n")
	for from := start; from > 0; { // from line to line back, as far as there are any that begin with #
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
		File: file, Pos: pos, Len: min(end, stop) - pos, Line: line, Column: pos - start + 1, Source: strings.TrimSuffix(text[start:stop], "\r"),
		Code: code, Message: message, Hint: hint,
	}
}

// lineMark reads what a preprocessor tells of the line behind it: # 12 "file.h" or #line 12 "file.h".
func lineMark(s string) (line int, file string, ok bool) {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "#"), "line")
	number, rest, _ := strings.Cut(strings.TrimLeft(s, " \t"), " ")
	line, err := strconv.Atoi(number)
	rest, quoted := strings.CutPrefix(rest, `"`)
	file, _, closed := strings.Cut(rest, `"`)
	return line, file, err == nil && line > 0 && quoted && closed
}
