package profile

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	_ "embed" // the script and style of the page
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

// maxNodes is the number of calls in a page. Of more calls, those with the least are omitted, and
// the page says so. A million calls are about 5 MB.
const maxNodes = 1_000_000

// WriteHTML writes a page that is one file: zoom, search with the share of the matches, keys. Its
// security policy allows only its own script, whatever the names in the profile. The error is the
// writer's.
func WriteHTML(w io.Writer, t *Tree, p Picture) error { return writeHTML(w, t, nil, p) }

// WriteDiffHTML writes a comparison as a page. The error is the writer's.
func WriteDiffHTML(w io.Writer, d *Diff, p Picture) error {
	if p.Note == "" {
		p.Note = d.NormText
	}
	return writeHTML(w, d.Tree, d, p)
}

func writeHTML(w io.Writer, t *Tree, d *Diff, p Picture) error {
	if p.Page != nil {
		return writePage(w, t, d, p)
	}
	shown, kept := t.heaviest(maxNodes)
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
			out.WriteString(s) //nolint:errcheck // Flush returns it
		}
	}
	text := func(s string) string { return string(AppendXML(nil, s)) }
	write(
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
		`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '`,
		hashed(pageScript), "'; style-src '", hashed(pageStyle),
		"'; base-uri 'none'; form-action 'none'\">\n",
		`<meta name="viewport" content="width=device-width">`+"\n<title>",
		text(shortened(title, 200)), "</title>\n<style>", pageStyle,
		"</style>\n</head>\n<body>\n<header><h1>", text(shortened(title, 200)),
		"</h1><span id=\"note\">", text(shortened(note, 500)), "</span>\n", notesHTML(t.Notes),
		`<span id="rest" role="status" hidden></span><span id="found" role="status"></span><input id="search" type="search" placeholder="search, or /pattern/" aria-label="search functions" spellcheck="false">`,
		`<button id="turn" title="the root at the top or at the bottom (i)">Turn</button><button id="reset" title="all, and nothing searched for (Esc)">Reset</button>`,
		`<button id="keys" title="what keys do (?)">Keys</button></header>`, "\n",
		`<main id="frame" tabindex="0" aria-label="flame graph: arrows move, Enter zooms">`,
		`<canvas id="canvas"></canvas><div id="space"></div></main>`, "\n",
		`<footer aria-live="polite"><div id="what"></div><div id="more"></div></footer>`, "\n",
		`<dialog id="help"><table><tr><td>click, Enter</td><td>zoom into a call</td></tr><tr><td>Backspace</td><td>one call back out</td></tr>`,
		`<tr><td>arrows</td><td>go to what is called, to the caller, to what is beside</td></tr><tr><td>/</td><td>search; text, or /pattern/</td></tr>`,
		`<tr><td>i</td><td>turn upside down</td></tr><tr><td>Esc</td><td>reset</td></tr></table><form method="dialog"><button>Close</button></form></dialog>`,
		"\n", `<script type="application/json" id="data">`,
	)
	var before []float64
	if d != nil {
		before = make([]float64, len(kept))
		for n, k := range kept {
			before[n] = d.Before[k]
		}
	}
	share := d != nil && d.Norm.Per == "sample"
	script := func() { write("</script>\n<script>", pageScript) }
	if err := writeData(out, shown, before, share, script); err != nil {
		return err
	}
	write("</script>\n</body>\n</html>\n")
	return out.Flush()
}

// notesHTML returns the notes of a profile as an element of the page, "" for none. Few notes are
// open at once; more are folded.
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
	for _, n := range boundedNotes(notes) {
		b = append(AppendXML(append(b, "<li>"...), n), "</li>"...)
	}
	return string(append(b, "</ul></details>\n"...))
}

// openNotes is the highest number of notes that a page shows unfolded.
const openNotes = 4

// boundedNotes returns the notes for a file, bounded in number and length.
func boundedNotes(notes []string) []string {
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

// hashed returns the source expression of a security policy that allows a script or style with this
// text.
func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// writeData writes the data of the page. First come the functions as JSON without <, then the
// columns of the visible calls in base64. Next is the script, which draws them while the rest
// loads. When those are not all calls, the columns of all follow, packed by gzip, in base64. before
// contains the totals before of each node; nil: no comparison.
func writeData(out *bufio.Writer, t *Tree, before []float64, share bool, script func()) error {
	order, place := t.walk(false)
	used := make([]int32, len(t.Functions)) // index of each function in the page
	var names, modules []string
	var kinds, shades []byte
	for _, n := range order {
		f := t.Function[n]
		if used[f] > 0 {
			continue
		}
		used[f] = int32(len(names)) + 1
		names, modules = append(names, clean(shortened(t.Functions[f].Name, maxName))), append(
			modules, clean(shortened(t.Functions[f].Module, maxName)),
		)
		kinds, shades = append(kinds, t.Functions[f].Kind.colourClass()), append(shades,
			hue(t.Functions[f].Name))
	}
	most := 0.0
	for n, b := range before {
		if n > 0 {
			most = max(most, math.Abs(t.Total[n]-b))
		}
	}
	whole := func(v float64) bool { return v == math.Trunc(v) && v <= 1<<53 }
	part := func(v float64) bool { return !whole(v) }
	c := nodeColumns{
		used: used,
		exact: !slices.ContainsFunc(t.Total, part) && !slices.ContainsFunc(t.Self, part) &&
			!slices.ContainsFunc(before, part),
	}
	first, firstOrder, firstBefore := t, order, before
	var ids []int32
	if t.Len() > minOverviewNodes {
		var of [][]int32
		first, of = t.overview(t.overviewThreshold())
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
		// First is the number of nodes before the script. If it is less than Nodes, all nodes
		// follow.
		First int `json:"first"`
		// Whole means that amounts are integers of variable length; otherwise they have eight
		// bytes.
		Whole  bool    `json:"whole"`
		Before bool    `json:"before"`
		Most   float64 `json:"most"` // the largest change of a call
	}{
		t.Unit, share, names, modules, string(kinds), string(shades),
		t.Len(), first.Len(), c.exact, before != nil, most,
	})
	if err != nil {
		return err
	}
	out.Write(head) //nolint:errcheck // Flush returns it
	out.WriteString(
		"</script>\n<script type=\"text/plain\" id=\"first\">",
	) //nolint:errcheck // as above
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
	out.WriteString(
		"</script>\n<script type=\"text/plain\" id=\"columns\">",
	) //nolint:errcheck // as above
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

// nodeColumns writes nodes in the format of the page.
type nodeColumns struct {
	used  []int32 // index of each function in the page + 1; 1 for the root
	exact bool    // all amounts are whole numbers
}

// write writes columns of nodes in depth-first order:
//   - for each node, the number of calls that the walk leaves before it, and its function;
//   - the totals, then the own amounts;
//   - for a comparison, the totals before;
//   - for an overview, the distance of each node from the one before, in nodes of the whole.
//
// Integers are in groups of seven bits per byte, lowest first.
func (c *nodeColumns) write(w io.Writer, t *Tree, order []int32, before []float64, ids []int32,
) error {
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
