package profile

import (
	"bufio"
	"compress/gzip"
	"encoding/base64"
	"io"
	"slices"

	"culprit/measure"
)

// writePage writes a profile, or a comparison if d is not nil, with the page of the server. The
// profile is in columns, packed by gzip, in base64. Of a large one the overview precedes the
// script, which draws it while the rest loads.
func writePage(w io.Writer, t *Tree, d *Diff, p Picture) error {
	shown, kept := t.heaviest(maxNodes)
	u := *shown
	u.Notes = boundedNotes(t.Notes)
	if left := t.Len() - u.Len(); left > 0 {
		u.Notes = append(slices.Clip(u.Notes),
			plural(left, "call", "calls")+" with the least left out")
	}
	title := p.Title
	if title == "" {
		title = "Flame graph"
		if d != nil {
			title = "Differential flame graph"
		}
	}
	title = clean(shortened(title, 200))
	if p.Note == "" && d != nil {
		p.Note = d.NormText
	}
	about, err := measure.MarshalJSON(struct {
		Title string `json:"title"`
		Note  string `json:"note"`
	}{title, clean(shortened(p.Note, 500))})
	if err != nil {
		return err
	}
	var columns, sketch []byte
	if d != nil {
		few := &Diff{Tree: &u, Norm: d.Norm, NormText: d.NormText,
			BeforeSelf: make([]float64, len(kept))}
		for n, k := range kept {
			few.BeforeSelf[n] = d.BeforeSelf[k]
		}
		columns, err = AppendDiffColumns(nil, few)
	} else if columns, err = AppendColumns(nil, &u); err == nil {
		sketch, _, err = AppendOverview(nil, &u)
	}
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 64<<10)
	write := func(parts ...string) {
		for _, s := range parts {
			out.WriteString(s) //nolint:errcheck // Flush returns it
		}
	}
	write(
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
		`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '`,
		hashed(p.Page.Script), "'; style-src '", hashed(p.Page.Style),
		"'; base-uri 'none'; form-action 'none'\">\n",
		`<meta name="viewport" content="width=device-width">`+"\n<title>",
		string(AppendXML(nil, title)), "</title>\n<style>", p.Page.Style,
		"</style>\n</head>\n<body>\n<div id=\"page\"></div>\n",
		`<script type="application/json" id="about">`, string(about), "</script>\n",
	)
	if err := embed(out, "sketch", sketch); err != nil {
		return err
	}
	write("<script>", p.Page.Script, "</script>\n")
	if err := embed(out, "columns", columns); err != nil {
		return err
	}
	write("</body>\n</html>\n")
	return out.Flush()
}

// embed writes data, packed and in base64, as an element that is no script; nothing for no data.
func embed(out *bufio.Writer, id string, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	out.WriteString( //nolint:errcheck // Flush returns it
		`<script type="text/plain" id="` + id + `">`)
	text := base64.NewEncoder(base64.StdEncoding, out)
	packed, err := gzip.NewWriterLevel(text, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := packed.Write(data); err != nil {
		return err
	}
	if err := packed.Close(); err != nil {
		return err
	}
	if err := text.Close(); err != nil {
		return err
	}
	_, err = out.WriteString("</script>\n")
	return err
}
