package flame

import (
	"bufio"
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

// mostNodes is how many calls a page has: with more of them, those with the least are left out, and it says so.
const mostNodes = 300_000

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
		text(shortened(title, 200)), "</h1><span id=\"note\">", text(shortened(note, 500)), "</span>\n",
		`<span id="found" role="status"></span><input id="search" type="search" placeholder="search, or /pattern/" aria-label="search functions" spellcheck="false">`,
		`<button id="turn" title="the root at the top or at the bottom (i)">Turn</button><button id="reset" title="all, and nothing searched for (Esc)">Reset</button>`,
		`<button id="keys" title="what keys do (?)">Keys</button></header>`, "\n",
		`<main id="frame" tabindex="0" aria-label="flame graph: arrows move, Enter zooms"><canvas id="canvas"></canvas><div id="room"></div></main>`, "\n",
		`<footer aria-live="polite"><div id="what"></div><div id="more"></div></footer>`, "\n",
		`<dialog id="help"><table><tr><td>click, Enter</td><td>zoom into a call</td></tr><tr><td>Backspace</td><td>one call back out</td></tr>`,
		`<tr><td>arrows</td><td>go to what is called, to the caller, to what is beside</td></tr><tr><td>/</td><td>search; text, or /pattern/</td></tr>`,
		`<tr><td>i</td><td>turn upside down</td></tr><tr><td>Esc</td><td>reset</td></tr></table><form method="dialog"><button>Close</button></form></dialog>`, "\n",
		`<script type="application/json" id="data">`)
	if err := writeData(out, shown, kept, d); err != nil {
		return err
	}
	write("</script>\n<script>", pageScript, "</script>\n</body>\n</html>\n")
	return out.Flush()
}

// hashed gives what allows a page to use a text of its own.
func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// writeData writes functions as JSON that holds no <, and behind it nodes in the order of a walk, as bytes in base64: of each node how many calls
// the walk goes back out before it, and its function; then all totals; then the amounts in the nodes themselves; then, of a difference, what the totals were before. Numbers are of seven
// bits a byte, the lowest first.
func writeData(out *bufio.Writer, t *Tree, kept []int32, d *Diff) error {
	from, list := t.children()
	order := make([]int32, 0, t.Len())
	todo := []int32{0}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		order = append(order, n)
		for _, c := range slices.Backward(list[from[n]:from[n+1]]) {
			todo = append(todo, c)
		}
	}
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
	whole := func(v float64) bool { return v == math.Trunc(v) && v <= 1<<53 }
	exact := !slices.ContainsFunc(t.Total, func(v float64) bool { return !whole(v) }) && !slices.ContainsFunc(t.Self, func(v float64) bool { return !whole(v) }) && (d == nil || !slices.ContainsFunc(kept, func(k int32) bool { return !whole(d.Before[k]) }))
	head, err := json.Marshal(struct {
		Unit    string   `json:"unit"`
		Share   bool     `json:"share"` // amounts are shares
		Names   []string `json:"names"`
		Modules []string `json:"modules"`
		Kinds   string   `json:"kinds"`
		Shades  string   `json:"shades"`
		Nodes   int      `json:"nodes"`
		Whole   bool     `json:"whole"` // amounts are numbers of so many bytes as they need, else of eight
		Before  bool     `json:"before"`
	}{t.Unit, d != nil && d.Norm.Per == "sample", names, modules, string(kinds), string(shades), len(order), exact, d != nil})
	if err != nil {
		return err
	}
	out.Write(head)                                                           //nolint:errcheck // told when it is flushed
	out.WriteString("</script>\n<script type=\"text/plain\" id=\"columns\">") //nolint:errcheck // the same
	columns := base64.NewEncoder(base64.StdEncoding, out)
	var b []byte
	put := func() error {
		_, err := columns.Write(b)
		b = b[:0]
		return err
	}
	amounts := func(of func(n int32) float64) error {
		for _, n := range order {
			if exact {
				b = binary.AppendUvarint(b, uint64(of(n)))
			} else {
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(of(n)))
			}
			if len(b) > 32<<10 {
				if err := put(); err != nil {
					return err
				}
			}
		}
		return put()
	}
	depth, before := t.depths(), int32(-1)
	for _, n := range order {
		b = binary.AppendUvarint(b, uint64(before+1-depth[n]))
		b = binary.AppendUvarint(b, uint64(used[t.Function[n]]-1))
		before = depth[n]
		if len(b) > 32<<10 {
			if err := put(); err != nil {
				return err
			}
		}
	}
	if err := amounts(func(n int32) float64 { return t.Total[n] }); err != nil {
		return err
	}
	if err := amounts(func(n int32) float64 { return t.Self[n] }); err != nil {
		return err
	}
	if d != nil {
		if err := amounts(func(n int32) float64 { return d.Before[kept[n]] }); err != nil {
			return err
		}
	}
	return columns.Close()
}
