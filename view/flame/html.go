package flame

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // what the page brings with it
	"encoding/base64"
	"encoding/json"
	"io"
	"slices"
	"strconv"
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

// writeData writes the profile as JSON that holds no <: nodes in the order of a walk, each with how far behind its caller it stands.
func writeData(out *bufio.Writer, t *Tree, kept []int32, d *Diff) error {
	from, list := t.children()
	order := make([]int32, 0, t.Len())
	place := make([]int32, t.Len())
	todo := []int32{0}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		place[n] = int32(len(order))
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
	head, err := json.Marshal(struct {
		Unit    string   `json:"unit"`
		Share   bool     `json:"share"` // amounts are shares
		Names   []string `json:"names"`
		Modules []string `json:"modules"`
		Kinds   string   `json:"kinds"`
		Shades  string   `json:"shades"`
	}{t.Unit, d != nil && d.Norm.Per == "sample", names, modules, string(kinds), string(shades)})
	if err != nil {
		return err
	}
	out.Write(head[:len(head)-1]) //nolint:errcheck // told when it is flushed
	column := func(name string, value func(i int, n int32) float64) {
		out.WriteString(`,"` + name + `":[`) //nolint:errcheck // the same
		var b []byte
		for i, n := range order {
			b = b[:0]
			if i > 0 {
				b = append(b, ',')
			}
			out.Write(strconv.AppendFloat(b, value(i, n), 'g', -1, 64)) //nolint:errcheck // the same
		}
		out.WriteByte(']') //nolint:errcheck // the same
	}
	column("up", func(i int, n int32) float64 {
		if n == 0 {
			return 0
		}
		return float64(i) - float64(place[t.Parent[n]])
	})
	column("fn", func(_ int, n int32) float64 { return float64(used[t.Function[n]] - 1) })
	column("total", func(_ int, n int32) float64 { return t.Total[n] })
	column("self", func(_ int, n int32) float64 { return t.Self[n] })
	if d != nil {
		column("before", func(_ int, n int32) float64 { return d.Before[kept[n]] })
	}
	return out.WriteByte('}')
}
