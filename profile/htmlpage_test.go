package profile

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"reflect"
	"strings"
	"testing"
)

// embeddedIn returns the data of an element of a page.
func embeddedIn(t *testing.T, html, id string) []byte {
	t.Helper()
	_, rest, found := strings.Cut(html, `<script type="text/plain" id="`+id+`">`)
	text, _, ended := strings.Cut(rest, "</script>")
	if !found || !ended {
		t.Fatalf("the page has no %s", id)
	}
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPageInOneFile checks that the page has the whole profile with its times, and that no name or
// title of it is markup.
func TestPageInOneFile(t *testing.T) {
	tree := timedProfile(t, perfTimes)
	tree.Functions[1].Name = "</script><script>alert(1)</script>"
	tree.Notes = []string{"</script><b>"}
	page := &Page{Script: "go()", Style: "b{}"}
	var out strings.Builder
	err := WriteHTML(&out, tree, Picture{Title: "</title><i>", Note: "</script><u>", Page: page})
	if err != nil {
		t.Fatal(err)
	}
	html := out.String()
	for _, markup := range []string{"alert(1)", "<i>", "<u>", "<b>"} {
		if strings.Contains(html, markup) {
			t.Errorf("%s is in the page", markup)
		}
	}
	for _, want := range []string{
		"script-src 'sha256-", "default-src 'none'", "<script>go()</script>",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	got, err := ParseColumns(embeddedIn(t, html, "columns"))
	if err != nil {
		t.Fatal(err)
	}
	checkMoments(t, got)
	if got.Sum() != tree.Sum() || !reflect.DeepEqual(got.Notes, tree.Notes) {
		t.Errorf("%v %s, notes %q", got.Sum(), got.Unit, got.Notes)
	}
	if strings.Contains(html, `id="sketch"`) {
		t.Error("a small profile has a sketch")
	}
}

func TestComparisonInOneFile(t *testing.T) {
	d, err := Compare(profileOf(t, "main;a 3\n"), profileOf(t, "main;a 1\n"), Norm{Per: "sample"})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := WriteDiffHTML(&out, d, Picture{Page: &Page{Script: "go()", Style: "b{}"}}); err != nil {
		t.Fatal(err)
	}
	want, err := AppendDiffColumns(nil, d)
	if err != nil {
		t.Fatal(err)
	}
	got := embeddedIn(t, out.String(), "columns")
	if want := strings.ReplaceAll(string(want), `"notes":null`, `"notes":[]`); string(got) != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	if !strings.Contains(out.String(), "Normalised per sample") {
		t.Error("the page does not say how amounts were normalised")
	}
}
