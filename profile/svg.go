package profile

import (
	_ "embed" // the script of the search
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Picture defines how a tree is drawn.
type Picture struct {
	Title    string // above the picture; "": Flame Graph
	Note     string // below the title
	Width    int    // pixels; 0: 1200
	Inverted bool   // the root at the top
	Page     *Page  // of HTML: the page of the server; nil: a smaller one
}

// A Page is the script and the style of the Profile view, as a page in one file.
type Page struct{ Script, Style string }

const (
	rowHeight   = 17   // px, of a frame
	fontSize    = 11   // px, of a monospaced font
	charWidth   = 6.63 // px: 0.6021 em of the usual monospaced fonts, rounded up
	sideMargin  = 10
	minBoxWidth = 0.12 // px; narrower calls are not drawn: less than 0.01 % at the usual width
)

// measures returns the width of a picture and that of its root, in px.
func (p Picture) measures() (width int, inner float64) {
	if width = p.Width; width == 0 {
		width = 1200
	}
	return width, float64(max(width, 100) - 2*sideMargin)
}

// Least returns the share of the whole below which an SVG draws nothing.
func (p Picture) Least() float64 {
	_, inner := p.measures()
	return minBoxWidth / inner
}

// maxBoxes is the number of calls in a picture. Of more calls, those with the least are omitted,
// and the picture says so.
const maxBoxes = 100_000

// hue returns one of 8 shades by a function's name, the same in each picture.
func hue(name string) byte {
	h := uint32(2166136261)
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return '0' + byte((h^h>>15)%8)
}

// colourClass returns the letter of the colours of a kind.
func (k Kind) colourClass() byte { return "ckjip"[k] }

// searchScript searches a picture that is opened in a browser.
//
//go:embed search.js
var searchScript string // table: never changed

// WriteSVG draws a tree as a picture that loads nothing. Each frame has its name and amounts as its
// title. The only script is searchScript. The error is the writer's.
func WriteSVG(w io.Writer, t *Tree, p Picture) error {
	return writeSVG(w, t, nil, p)
}

func writeSVG(w io.Writer, t *Tree, d *Diff, p Picture) error {
	width, inner := p.measures()
	whole := t.Sum()
	shown, kept := t, []int32(nil) // nil: all nodes
	if least := whole * p.Least(); slices.ContainsFunc(t.Total[1:],
		func(v float64) bool { return v < least }) {
		shown, kept = t.prune(least, math.MaxInt)
	}
	if n := shown.Len(); n > maxBoxes {
		var of []int32
		shown, of = shown.heaviest(maxBoxes)
		if kept != nil {
			for i, k := range of {
				of[i] = kept[k]
			}
		}
		kept = of
		p.Note = strings.TrimPrefix(
			p.Note+", "+plural(n-shown.Len(), "call", "calls")+" with the least left out", ", ",
		)
	}
	was := func(i int32) int32 {
		if kept != nil {
			return kept[i]
		}
		return i
	}
	way := shown.walker()
	top := 46
	notes := noteLines(t.Notes, width)
	bottom := top + (shown.Depth+1)*rowHeight
	height := bottom + 24 + len(notes)*noteHeight
	b := make([]byte, 0, 64<<10)
	num := func(v float64) { b = strconv.AppendFloat(b, v, 'f', -1, 64) }
	tenth := func(v float64) { num(float64(int64(v*10+0.5)) / 10) }
	b = append(
		b,
		`<?xml version="1.0" encoding="UTF-8"?>`+"\n"+`<svg xmlns="http://www.w3.org/2000/svg" version="1.1" width="`...)
	num(float64(width))
	b = append(b, `" height="`...)
	num(float64(height))
	b = append(b, `" viewBox="0 0 `...)
	num(float64(width))
	b = append(b, ' ')
	num(float64(height))
	b = append(
		b,
		"\">\n<style>"+svgStyle+"</style>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n"+
			"<text class=\"title\" x=\""...)
	num(float64(width) / 2)
	b = append(b, "\" y=\"22\">"...)
	title := p.Title
	if title == "" {
		title = "Flame graph"
		if d != nil {
			title = "Differential flame graph"
		}
	}
	b = AppendXML(b, shortened(title, 200))
	b = append(b, "</text>\n<text class=\"note\" x=\""...)
	num(float64(width) / 2)
	b = append(b, "\" y=\"38\">"...)
	b = AppendXML(b, shortened(p.Note, 300))
	b = append(b, "</text>\n"...)
	// Empty without scripts, as in an <img>.
	for _, line := range []struct{ attributes, y string }{
		{`class="field" role="button"`, "22"}, {`class="result" role="status"`, "38"},
	} {
		b = append(b, "<text "+line.attributes+" x=\""...)
		num(float64(width) - sideMargin)
		b = append(b, "\" y=\""+line.y+"\"/>\n"...)
	}
	scale := 0.0
	if whole > 0 {
		scale = inner / whole
	}
	for n := range shown.Len() {
		i, depth, left := way.at(n)
		if len(b) > 48<<10 {
			if _, err := w.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
		f := &shown.Functions[shown.Function[i]]
		x, wide := sideMargin+left*scale, shown.Total[i]*scale
		if i == 0 {
			wide = inner
		}
		y := top + depth*rowHeight
		if !p.Inverted {
			y = top + (shown.Depth-depth)*rowHeight
		}
		b = append(b, "<g><title>"...)
		b = AppendXML(b, shortened(f.Name, maxName))
		if f.Module != "" && i > 0 && f.Name != "["+f.Module+"]" {
			b = append(b, " ["...)
			b = AppendXML(b, shortened(f.Module, maxName))
			b = append(b, ']')
		}
		b = append(b, " ("...)
		if d != nil {
			b = AppendXML(b, d.nodeTitle(was(i)))
		} else {
			b = appendRead(b, shown.Total[i])
			b = append(b, ' ')
			b = AppendXML(b, shown.Unit)
			b = append(b, ", "...)
			b = appendShare(b, shown.Total[i], whole)
		}
		b = append(b, ")</title><rect x=\""...)
		tenth(x)
		b = append(b, "\" y=\""...)
		num(float64(y))
		b = append(b, "\" width=\""...)
		tenth(max(0.1, wide-0.3))
		b = append(b, "\" height=\"16\""...)
		if d != nil {
			b = append(b, " fill=\""...)
			b = append(b, d.colour(was(i))...)
			b = append(b, '"')
		} else {
			b = append(b, " class=\""...)
			if i == 0 {
				b = append(b, 'r')
			} else {
				b = append(b, f.Kind.colourClass(), ' ', 's', hue(f.Name))
			}
			b = append(b, '"')
		}
		b = append(b, "/>"...)
		if label := fitName(f.Name, wide-4); label != "" {
			b = append(b, "<text x=\""...)
			tenth(x + 3)
			b = append(b, "\" y=\""...)
			num(float64(y + 12))
			b = append(b, "\">"...)
			b = AppendXML(b, label)
			b = append(b, "</text>"...)
		}
		b = append(b, "</g>\n"...)
	}
	for n, line := range notes {
		b = append(b, "<text x=\"10\" y=\""...)
		num(float64(bottom + 18 + n*noteHeight))
		b = append(b, "\" class=\"note left\">"...)
		b = append(AppendXML(b, line), "</text>\n"...)
	}
	b = append(b, "<script><![CDATA["+searchScript+"]]></script>\n</svg>\n"...)
	_, err := w.Write(b)
	return err
}

const (
	noteHeight = 14 // px, of a line of notes
	noteWidth  = 6  // px, of a character of them, about
)

// noteLines returns the notes of a profile as lines at the bottom of a picture.
func noteLines(notes []string, width int) []string {
	most := max(20, (width-2*sideMargin)/noteWidth)
	var lines []string
	for _, note := range boundedNotes(notes) {
		line := "Note:"
		for _, word := range strings.Fields(note) {
			if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > most {
				lines = append(lines, line)
				line = "     "
			}
			line += " " + word
		}
		lines = append(lines, line)
	}
	return lines
}

// fit returns the part of a name that fits into a box, with ".." if it was cut; "" if three
// characters don't fit.
func fit(name string, wide float64) string {
	most := int(wide / charWidth)
	if most < 3 {
		return ""
	}
	n := 0
	for i := range name {
		if n == most-2 && utf8.RuneCountInString(name[i:min(len(name), i+12)]) > 2 {
			return name[:i] + ".."
		}
		if n == most {
			return name[:i]
		}
		n++
	}
	return name
}

// fitName returns the part of a function's name that fits into a box: of one that is too long the
// distinctive end, as shortName does.
func fitName(name string, wide float64) string {
	if label := fit(name, wide); label == name || label == "" {
		return label
	}
	return fit(shortName(name), wide)
}

// shortName returns a name without the path of its package, and without the namespace of C++ or
// Rust: ui/draw/flame.ts has the same rule.
func shortName(name string) string {
	head := name
	if cut := strings.IndexAny(name, "<([{"); cut > 0 {
		head = name[:cut]
	}
	from := strings.LastIndexByte(head, '/') + 1
	if i := strings.LastIndex(head, "::"); i >= 0 {
		from = max(from, i+2)
	}
	if from > 0 && from < len(head) {
		return name[from:]
	}
	return name
}

// svgStyle contains the colours, in eight shades each: red to yellow for programs, orange for the
// kernel, green for JIT code, blue-green for inlined functions, grey for processes.
const svgStyle = `text{font:11px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1a1a1a;pointer-events:none}` +
	`.title{font:600 16px system-ui,sans-serif;text-anchor:middle}.note{font:11px system-ui,sans-serif;text-anchor:middle;fill:#555}.left{text-anchor:start}` +
	`.bg{fill:#fff}rect{shape-rendering:crispEdges}g:hover rect{stroke:#000;stroke-width:1}` +
	`.field,.result{font:11px system-ui,sans-serif;text-anchor:end;fill:#555}.field{pointer-events:all;cursor:pointer}` +
	`.found rect{fill:#d94fd0!important}.here rect{stroke:#000!important;stroke-width:2}` +
	`.r{fill:#d9d9d9}.p{fill:#cfd3da}` +
	`.c.s0{fill:#f5b067}.c.s1{fill:#f7bc6b}.c.s2{fill:#f9c873}.c.s3{fill:#f3a561}.c.s4{fill:#f8d27e}.c.s5{fill:#f0985c}.c.s6{fill:#f6b676}.c.s7{fill:#fadb8c}` +
	`.k.s0{fill:#ef7f6b}.k.s1{fill:#f18b74}.k.s2{fill:#ec7564}.k.s3{fill:#f3977e}.k.s4{fill:#f0857a}.k.s5{fill:#f59f8a}.k.s6{fill:#ee7a70}.k.s7{fill:#f29184}` +
	`.j.s0{fill:#8fce7e}.j.s1{fill:#9bd488}.j.s2{fill:#84c776}.j.s3{fill:#a6da92}.j.s4{fill:#93d08c}.j.s5{fill:#b0df9c}.j.s6{fill:#88c982}.j.s7{fill:#9fd694}` +
	`.i.s0{fill:#76c7c0}.i.s1{fill:#82cdc6}.i.s2{fill:#6cc0ba}.i.s3{fill:#8ed3cc}.i.s4{fill:#7ac9c8}.i.s5{fill:#98d8d2}.i.s6{fill:#70c3c0}.i.s7{fill:#86cfcc}` +
	`@media(prefers-color-scheme:dark){.bg{fill:#16181d}.title{fill:#e8e8e8}.note,.field,.result{fill:#a8adb8}.here rect{stroke:#fff!important}.r{fill:#8b9099}.p{fill:#9aa1ad}g:hover rect{stroke:#fff}}`
