package profile

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	_ "embed" // what the page brings with it
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"slices"
)

//go:embed page.js
var pageScript string // table: never changed

//go:embed page.css
var pageStyle string // table: never changed

// mostNodes is how many calls a page has: with more of them, those with the least are left out, and it says so. A million are some 5 MB.
const mostNodes = 1_000_000

// WriteHTML writes a page that is one file and needs nothing else: zoom, search with the share of what matched, keys. It may run its
// own script alone, whatever names the profile has.
func WriteHTML(w io.Writer, t *Tree, p Picture) error { return writeHTML(w, t, nil, p) }

// WriteDiffHTML writes a difference as a page.
func WriteDiffHTML(w io.Writer, d *Diff, p Picture) error {
	if p.Note == "" {
		p.Note = d.Said
	}
	return writeHTML(w, d.Tree, d, p)
}

func writeHTML(w io.Writer, t *Tree, d *Diff, p Picture) error {
	shown, kept := t.heaviest(mostNodes)
	title := p.Title
	if title == "" {
		title = "Flame graph"
		if d != nil {
			title = "Differential flame graph"
		}
	}
	note := p.Note
	if left := t.Len() - shown.Len(); left > 0 {
		note += " (" + plural(left, "call", "calls") + " with the least left out)"
	}
	out := bufio.NewWriterSize(w, 64<<10)
	write := func(parts ...string) {
		for _, s := range parts {
			out.WriteString(s) //nolint:errcheck // told when it is flushed
		}
	}
	text := func(s string) string { return string(AppendXML(nil, s)) }
	write("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
		`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '`, hashed(pageScript), "'; style-src '", hashed(pageStyle), "'; base-uri 'none'; form-action 'none'\">\n",
		`<meta name="viewport" content="width=device-width">`+"\n<title>", text(shortened(title, 200)), "</title>\n<style>", pageStyle, "</style>\n</head>\n<body>\n<header><h1>",
		text(shortened(title, 200)), "</h1><span id=\"note\">", text(shortened(note, 500)), "</span>\n", notesHTML(t.Notes),
		`<span id="rest" role="status" hidden></span><span id="found" role="status"></span><input id="search" type="search" placeholder="search, or /pattern/" aria-label="search functions" spellcheck="false">`,
		`<button id="turn" title="the root at the top or at the bottom (i)">Turn</button><button id="reset" title="all, and nothing searched for (Esc)">Reset</button>`,
		`<button id="keys" title="what keys do (?)">Keys</button></header>`, "\n",
		`<main id="frame" tabindex="0" aria-label="flame graph: arrows move, Enter zooms"><canvas id="canvas"></canvas><div id="room"></div></main>`, "\n",
		`<footer aria-live="polite"><div id="what"></div><div id="more"></div></footer>`, "\n",
		`<dialog id="help"><table><tr><td>click, Enter</td><td>zoom into a call</td></tr><tr><td>Backspace</td><td>one call back out</td></tr>`,
		`<tr><td>arrows</td><td>go to what is called, to the caller, to what is beside</td></tr><tr><td>/</td><td>search; text, or /pattern/</td></tr>`,
		`<tr><td>i</td><td>turn upside down</td></tr><tr><td>Esc</td><td>reset</td></tr></table><form method="dialog"><button>Close</button></form></dialog>`, "\n",
		`<script type="application/json" id="data">`)
	var before []float64
	if d != nil {
		before = make([]float64, len(kept))
		for n, k := range kept {
			before[n] = d.Before[k]
		}
	}
	if err := writeData(out, shown, before, d != nil && d.Norm.Per == "sample", func() { write("</script>\n<script>", pageScript) }); err != nil {
		return err
	}
	write("</script>\n</body>\n</html>\n")
	return out.Flush()
}

// notesHTML returns the notes of a profile as an element of the page: what is kept or passed on says
// what was lost of it. Few notes are open at once. "": there are none.
func notesHTML(notes []string) string {
	if len(notes) == 0 {
		return ""
	}
	b := []byte(`<details id="notes"`)
	if len(notes) <= openNotes {
		b = append(b, " open"...)
	}
	b = append(b, "><summary>"...)
	b = append(b, plural(len(notes), "note", "notes")...)
	b = append(b, "</summary><ul>"...)
	for _, n := range mostNotes(notes) {
		b = append(AppendXML(append(b, "<li>"...), n), "</li>"...)
	}
	return string(append(b, "</ul></details>\n"...))
}

// openNotes is how many notes a page shows without being asked.
const openNotes = 4

// mostNotes returns the notes that a file gets: their number and length are bounded.
func mostNotes(notes []string) []string {
	const most, longest = 32, 500
	var out []string
	for _, n := range notes[:min(len(notes), most)] {
		out = append(out, clean(shortened(n, longest)))
	}
	if left := len(notes) - most; left > 0 {
		out = append(out, "and "+plural(left, "other note", "other notes"))
	}
	return out
}

// hashed gives what allows a page to use a text of its own.
func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// writeData writes functions as JSON that holds no <; then, of the calls that can be seen, columns in base64; then the script, which draws them while the rest
// is on its way; then, when those are not all, the columns of all, packed by gzip, in base64. before are the totals of the nodes before; nil: there is none.
func writeData(out *bufio.Writer, t *Tree, before []float64, share bool, script func()) error {
	order, place := t.walk(false)
	used := make([]int32, len(t.Functions)) // where a function stands among those of the page
	var names, modules []string
	var kinds, shades []byte
	for _, n := range order {
		f := t.Function[n]
		if used[f] > 0 {
			continue
		}
		used[f] = int32(len(names)) + 1
		names, modules = append(names, clean(shortened(t.Functions[f].Name, mostName))), append(modules, clean(shortened(t.Functions[f].Module, mostName)))
		kinds, shades = append(kinds, t.Functions[f].Kind.letter()), append(shades, hue(t.Functions[f].Name))
	}
	most := 0.0
	for n, b := range before {
		if n > 0 {
			most = max(most, math.Abs(t.Total[n]-b))
		}
	}
	whole := func(v float64) bool { return v == math.Trunc(v) && v <= 1<<53 }
	part := func(v float64) bool { return !whole(v) }
	c := nodeColumns{used: used, exact: !slices.ContainsFunc(t.Total, part) && !slices.ContainsFunc(t.Self, part) && !slices.ContainsFunc(before, part)}
	first, firstOrder, firstBefore := t, order, before
	var ids []int32
	if t.Len() > worthSketching {
		var of [][]int32
		first, of = t.sketched(t.leastSketched())
		firstOrder, _ = first.walk(true)
		ids, firstBefore = make([]int32, len(of)), nil
		if before != nil {
			firstBefore = make([]float64, len(of))
		}
		for i, nodes := range of {
			ids[i] = place[nodes[0]]
			for _, n := range nodes {
				if before != nil {
					firstBefore[i] += before[n]
				}
			}
		}
	}
	head, err := json.Marshal(struct {
		Unit    string   `json:"unit"`
		Share   bool     `json:"share"` // amounts are shares
		Names   []string `json:"names"`
		Modules []string `json:"modules"`
		Kinds   string   `json:"kinds"`
		Shades  string   `json:"shades"`
		Nodes   int      `json:"nodes"`
		First   int      `json:"first"` // nodes that the script has at once; fewer than nodes: the others come behind it
		Whole   bool     `json:"whole"` // amounts are numbers of so many bytes as they need, else of eight
		Before  bool     `json:"before"`
		Most    float64  `json:"most"` // how much the amount of a call changed at most
	}{t.Unit, share, names, modules, string(kinds), string(shades), t.Len(), first.Len(), c.exact, before != nil, most})
	if err != nil {
		return err
	}
	out.Write(head)                                                         //nolint:errcheck // told when it is flushed
	out.WriteString("</script>\n<script type=\"text/plain\" id=\"first\">") //nolint:errcheck // the same
	text := base64.NewEncoder(base64.StdEncoding, out)
	if err := c.write(text, first, firstOrder, firstBefore, ids); err != nil {
		return err
	}
	if err := text.Close(); err != nil {
		return err
	}
	script()
	if first == t {
		return nil
	}
	out.WriteString("</script>\n<script type=\"text/plain\" id=\"columns\">") //nolint:errcheck // the same
	text = base64.NewEncoder(base64.StdEncoding, out)
	packed, err := gzip.NewWriterLevel(text, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := c.write(packed, t, order, before, nil); err != nil {
		return err
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return text.Close()
}

// nodeColumns writes nodes as a page reads them.
type nodeColumns struct {
	used  []int32 // by function, one more than where it stands among those of the page; of the root's 1
	exact bool    // all amounts are whole
}

// write writes nodes in the order of a walk: of each how many calls the walk goes back out before it, and its function; then all totals; then the amounts in the nodes
// themselves; then, of a difference, what the totals were before; then, of a sketch, how much farther on than the one before each stands in the whole. Numbers are of seven bits a byte, the
// lowest first.
func (c *nodeColumns) write(w io.Writer, t *Tree, order []int32, before []float64, ids []int32) error {
	var b []byte
	flush := func(least int) error {
		if len(b) <= least {
			return nil
		}
		_, err := w.Write(b)
		b = b[:0]
		return err
	}
	depth, last := t.depths(), int32(-1)
	for _, n := range order {
		b = binary.AppendUvarint(b, uint64(last+1-depth[n]))
		b = binary.AppendUvarint(b, uint64(c.used[t.Function[n]]-1))
		last = depth[n]
		if err := flush(32 << 10); err != nil {
			return err
		}
	}
	for _, values := range [][]float64{t.Total, t.Self, before} {
		if values == nil {
			continue
		}
		for _, n := range order {
			if c.exact {
				b = binary.AppendUvarint(b, uint64(values[n]))
			} else {
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(values[n]))
			}
			if err := flush(32 << 10); err != nil {
				return err
			}
		}
	}
	last = 0
	for _, id := range ids {
		b = binary.AppendUvarint(b, uint64(id-last))
		last = id
	}
	return flush(0)
}
