package profile

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestUnnamed checks that the amount without a name is that of the stacks whose innermost function
// of the program, or without one of the kernel, has none. For several stacks in one tree it is the
// sum.
func TestUnnamed(t *testing.T) {
	tests := []struct {
		name    string
		of      Sampled
		unnamed bool
	}{
		{"named", Sampled{User: []string{"app`f", "app`main"}}, false},
		{"unknown", Sampled{User: []string{"0x7f12", "app`main"}}, true},
		{"module alone", Sampled{User: []string{"libx.so`0x12", "app`main"}}, true},
		{"caller unknown", Sampled{User: []string{"app`f", "0x7f12"}}, false},
		{"kernel below unknown",
			Sampled{User: []string{"0x7f12"}, Kernel: []string{"vmlinux`read", "vmlinux`entry"}},
			true},
		{"kernel below named",
			Sampled{User: []string{"app`f"}, Kernel: []string{"0xffff0", "vmlinux`entry"}}, false},
		{"kernel alone", Sampled{Kernel: []string{"vmlinux`f", "0xffff0"}}, false},
		{"kernel unknown", Sampled{Kernel: []string{"0xffff0", "vmlinux`f"}}, true},
		{"no frames", Sampled{}, false},
		{
			"wait",
			Sampled{User: []string{"app`f"}, Kernel: []string{"vmlinux`schedule"},
				State: "sleeping"},
			false,
		},
		{
			"unnamed wait",
			Sampled{User: []string{"0x12"}, State: "sleeping",
				Waker: &Waker{Process: "w", User: []string{"w`g"}}},
			true,
		},
		{"unnamed waker",
			Sampled{User: []string{"app`f"}, Waker: &Waker{Process: "w", User: []string{"0x12"}}},
			false},
		{"stopped", Sampled{User: []string{"app`f", "[unwinding stopped: stack not readable]"}},
			false},
	}
	r := rand.New(rand.NewPCG(1, 1))
	var all []Sampled
	want := 0.0
	for n, tt := range tests {
		tt.of.Process, tt.of.Count, tt.of.Amount = fmt.Sprint("p", n%3), 1, float64(1+r.IntN(100))
		amount := 0.0
		if tt.unnamed {
			amount = tt.of.Amount
		}
		want += amount
		all = append(all, tt.of)
		one := FromSamples(slices.Values([]Sampled{tt.of}), SampleTimes{})
		if got := one.Unnamed(); got != amount {
			t.Errorf("%s: %v of %v", tt.name, got, tt.of.Amount)
		}
	}
	if got := FromSamples(slices.Values(all), SampleTimes{}).Unnamed(); got != want {
		t.Errorf("all: %v, want %v", got, want)
	}
}

// TestNotesInFiles checks that the notes of a profile are in every file that can be passed on,
// escaped and bounded.
func TestNotesInFiles(t *testing.T) {
	tree := FromSamples(
		slices.Values([]Sampled{{Process: "app", User: []string{"app`f"}, Count: 1, Amount: 1}}),
		SampleTimes{},
	)
	lost := `lost: stacks that did not <b>"fit"</b> (17)`
	tree.Notes = append(tree.Notes, lost, strings.Repeat("word ", 60)+"end")
	for n := range 100 {
		tree.Notes = append(tree.Notes, fmt.Sprint("note number ", n))
	}
	escaped := string(AppendXML(nil, lost))
	var html, svg, js bytes.Buffer
	if err := WriteHTML(&html, tree, Picture{}); err != nil {
		t.Fatal(err)
	}
	if err := WriteSVG(&svg, tree, Picture{}); err != nil {
		t.Fatal(err)
	}
	if err := WriteSpeedscope(&js, tree, "x"); err != nil {
		t.Fatal(err)
	}
	var file struct{ Notes []string }
	if err := json.Unmarshal(js.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"html": html.String(),
		"svg":  svg.String(),
		"json": strings.Join(file.Notes, "\n"),
	} {
		want := escaped
		if name == "json" {
			want = lost
		}
		if !strings.Contains(text, want) || !strings.Contains(text, "end") {
			t.Errorf("%s does not have %s", name, want)
		}
		if strings.Contains(text, "note number 50") || !strings.Contains(text, "70 other notes") {
			t.Errorf("%s: the number of notes is not bounded", name)
		}
	}
	for d := xml.NewDecoder(&svg); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range noteLines(tree.Notes, 600) {
		if len(line) > 600/noteWidth {
			t.Errorf("a line of %d characters is wider than the picture: %s", len(line), line)
		}
	}
	tree.Notes = nil
	html.Reset()
	if err := WriteHTML(&html, tree, Picture{}); err != nil ||
		strings.Contains(html.String(), "<details") {
		t.Errorf("a page without notes: %v", err)
	}
}
