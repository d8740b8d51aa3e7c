package cpp

import (
	"cmp"
	"sort"
	"strings"

	"culprit/lang/syntax"
)

// An Output is the preprocessed text with the origin of each of its bytes.
type Output struct {
	Text     string
	Included []Inclusion // in their order
	Warnings syntax.Diagnostics
	marks    []mark
}

// A mark is the origin of the text from an offset on, up to the next mark.
type mark struct {
	out   int
	at    place
	macro string // the macro whose expansion it is; "": copied byte for byte
	cut   bool   // it spans a removed line's end: only the whole origin is known
}

// A writer joins tokens to text.
type writer struct {
	b     strings.Builder
	marks []mark
	last  token
	fresh bool // the line is empty
}

// write adds a token. It writes a space where the source had one, and where two tokens would become
// another one.
func (w *writer) write(t token) {
	at := t.at
	switch t.kind {
	case tNothing:
		return
	case tPragma:
		if w.b.Len() > 0 && !w.fresh {
			w.b.WriteByte('\n')
		}
	case tLine:
		w.fresh = true
	default:
		verbatim := t.macro == nil && w.last.macro == nil && t.at.file == w.last.at.file &&
			t.at.from == w.last.at.to
		if !w.fresh && (t.space || !verbatim && glued(w.last.text, t.text)) || w.fresh && t.space {
			w.b.WriteByte(' ')
		}
		w.fresh = false
	}
	m := mark{out: w.b.Len(), at: at, cut: at.to-at.from != len(t.text)}
	if t.macro != nil {
		m.macro = t.macro.name
	}
	if n := len(w.marks); n == 0 || !w.marks[n-1].continues(m) {
		w.marks = append(w.marks, m)
	} else {
		w.marks[n-1].at.to = m.at.to
	}
	w.b.WriteString(t.text)
	if t.kind == tPragma {
		w.b.WriteByte('\n')
		w.fresh = true
	}
	w.last = t
}

// continues reports whether the origin of a mark continues that of the mark before it.
func (m mark) continues(next mark) bool {
	return m.macro == "" && next.macro == "" && !m.cut && !next.cut && m.at.file == next.at.file &&
		next.at.from-m.at.from == next.out-m.out &&
		next.at.from >= m.at.to
}

func (w *writer) end(at place) { w.marks = append(w.marks, mark{out: w.b.Len(), at: at}) }

// mark returns the mark that covers a byte of the text.
func (s *Output) mark(pos int) mark {
	i := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].out > pos })
	return s.marks[max(i-1, 0)]
}

// place returns the origin of a piece of the text, and the macro that produced its beginning; "":
// none.
func (s *Output) place(from, to int) (place, string) {
	m := s.mark(from)
	at := m.at
	if m.macro != "" {
		return at, m.macro
	}
	end := at.to
	if !m.cut {
		at.from = min(m.at.from+from-m.out, m.at.to)
	}
	switch last := s.mark(max(to-1, from)); {
	case last.at.file != at.file || last.at.to < at.from:
	case last.macro != "" || last.cut:
		end = last.at.to
	default:
		end = min(last.at.from+to-last.out, last.at.to)
	}
	at.to = max(end, at.from)
	return at, ""
}

// Place returns the file, line and column, from 1, of the origin of a byte of the text.
func (s *Output) Place(pos int) (name string, line, column int) {
	at, _ := s.place(pos, pos)
	d := syntax.Diagnose(at.file.name, at.file.raw, at.span(), "", "", "")
	return d.File, d.Line, d.Column
}

// Diagnose moves a diagnostic about the preprocessed text to its origin in the source.
func (s *Output) Diagnose(d *syntax.Diagnostic) *syntax.Diagnostic {
	at, macro := s.place(d.Pos, d.Pos+d.Len)
	out := syntax.Diagnose(at.file.name, at.file.raw, at.span(), d.Code, d.Message, d.Hint)
	out.Tag, out.Near = d.Tag, d.Near
	if macro != "" {
		piece := d.Source[min(d.Column-1, len(d.Source)):]
		if len(piece) > 40 {
			piece = strings.ToValidUTF8(piece[:40], "") + " ..."
		}
		out.Hint = strings.TrimPrefix(
			d.Hint+"; the macro "+macro+" expands to "+cmp.Or(strings.TrimSpace(piece), "nothing"),
			"; ",
		)
	}
	route(out, at.file)
	return out
}
