package cpp

import (
	"cmp"
	"sort"
	"strings"

	"culprit/lang/syntax"
)

// A Output is the text that came out, and where each byte of it comes from.
type Output struct {
	Text     string
	Included []Inclusion // in their order
	Warnings syntax.Diagnostics
	marks    []mark
}

// A mark says where the text from an offset on, up to the next mark, comes from.
type mark struct {
	out   int
	at    place
	macro string // whose expansion it is; "": it stands there itself, byte for byte
	cut   bool   // it goes over a line's end that was left out: only its whole is known
}

// A writer puts tokens together.
type writer struct {
	b     strings.Builder
	marks []mark
	last  token
	fresh bool // nothing stands on the line yet
}

// write adds a token. A space stands where one stood, and where two tokens would become another.
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
		verbatim := t.macro == nil && w.last.macro == nil && t.at.file == w.last.at.file && t.at.from == w.last.at.to
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

// continues says whether what a mark says of the text goes on as it is.
func (m mark) continues(next mark) bool {
	return m.macro == "" && next.macro == "" && !m.cut && !next.cut && m.at.file == next.at.file && next.at.from-m.at.from == next.out-m.out && next.at.from >= m.at.to
}

func (w *writer) end(at place) { w.marks = append(w.marks, mark{out: w.b.Len(), at: at}) }

// mark gives the mark that a byte of the text is under.
func (s *Output) mark(pos int) mark {
	i := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].out > pos })
	return s.marks[max(i-1, 0)]
}

// place gives the piece of a file that a piece of the text comes from, and the macro that made its beginning; "": none.
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

// Place gives file, line and column, from 1, of where a byte of the text comes from.
func (s *Output) Place(pos int) (name string, line, column int) {
	at, _ := s.place(pos, pos)
	d := syntax.Diagnose(at.file.name, at.file.raw, at.span(), "", "", "")
	return d.File, d.Line, d.Column
}

// Diagnose gives a diagnostic about the text at the place that somebody wrote.
func (s *Output) Diagnose(d *syntax.Diagnostic) *syntax.Diagnostic {
	at, macro := s.place(d.Pos, d.Pos+d.Len)
	out := syntax.Diagnose(at.file.name, at.file.raw, at.span(), d.Code, d.Message, d.Hint)
	out.Tag, out.Near = d.Tag, d.Near
	if macro != "" {
		piece := d.Source[min(d.Column-1, len(d.Source)):]
		if len(piece) > 40 {
			piece = strings.ToValidUTF8(piece[:40], "") + " ..."
		}
		out.Hint = strings.TrimPrefix(d.Hint+"; the macro "+macro+" has become "+cmp.Or(strings.TrimSpace(piece), "nothing")+" there", "; ")
	}
	route(out, at.file)
	return out
}
