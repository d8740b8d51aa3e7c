package profile

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func profileOf(t *testing.T, text string) *Tree {
	t.Helper()
	tree, err := Read(never, strings.NewReader(text), "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// The lookup takes 10% before and 55% after; the shares of the others decrease.
const (
	fast = "main;recv;lookup 100\nmain;recv;copy 500\nmain;idle 400\n"
	slow = "main;recv;lookup 1100\nmain;recv;copy 500\nmain;idle 400\n"
)

func TestDiffRanks(t *testing.T) {
	d, err := Compare(profileOf(t, fast), profileOf(t, slow), Norm{Per: "sample"})
	if err != nil {
		t.Fatal(err)
	}
	all := d.Changes()
	c := all[0]
	if c.Function.Name != "lookup" || math.Abs(c.SelfBefore-0.1) > 1e-12 ||
		math.Abs(c.SelfAfter-0.55) > 1e-12 {
		t.Fatalf("first is %+v", c)
	}
	if math.Abs(c.Explains-1) > 1e-12 || c.Noise() || c.Sigmas < 20 {
		t.Errorf("it explains %v by %v sigmas, confidence %v", c.Explains, c.Sigmas, c.Confidence)
	}
	sum := 0.0
	for _, c := range all {
		sum += c.SelfAfter - c.SelfBefore
	}
	if math.Abs(sum) > 1e-12 {
		t.Errorf("changes of shares add up to %v", sum)
	}
	var out bytes.Buffer
	if err := WriteChanges(&out, d, 0); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); !strings.Contains(s, "Normalised per sample") ||
		!strings.Contains(s, "55.00%   +100.0%") {
		t.Errorf("table:\n%s", s)
	}
}

func TestDiffByWork(t *testing.T) {
	// The same work takes twice the CPU time, and no share changes.
	d, err := Compare(profileOf(t, "a;b 300\na;c 700\n"), profileOf(t, "a;b 600\na;c 1400\n"),
		Norm{Per: "work", Before: 100, After: 100})
	if err != nil {
		t.Fatal(err)
	}
	c := d.Changes()[0]
	if c.Function.Name != "c" || c.SelfBefore != 7 || c.SelfAfter != 14 ||
		math.Abs(c.Explains-0.7) > 1e-12 ||
		c.Noise() {
		t.Errorf("first is %+v", c)
	}
}

func TestDiffKnowsNoise(t *testing.T) {
	d, err := Compare(profileOf(t, "a;b 30\na;c 70\n"), profileOf(t, "a;b 36\na;c 64\n"),
		Norm{Per: "sample"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range d.Changes() {
		if !c.Noise() {
			t.Errorf("%s changed by %v sigmas, and is taken for sure", c.Function.Name, c.Sigmas)
		}
	}
	// With a thousand times as many samples, the same shares are significant.
	d, err = Compare(profileOf(t, "a;b 30001\na;c 70002\n"), profileOf(t, "a;b 36003\na;c 64001\n"),
		Norm{Per: "sample"})
	if err != nil {
		t.Fatal(err)
	}
	if c := d.Changes()[0]; c.Noise() {
		t.Errorf("%s: %v sigmas are taken for noise", c.Function.Name, c.Sigmas)
	}
}

// TestSampled checks that amounts with a common period give the number of samples.
func TestSampled(t *testing.T) {
	for text, want := range map[string]float64{"a 20202020\nb 10101010\n": 3, "a 3\nb 4\n": 7, "a 1.5\n": math.NaN(), "a 123456789012\nb 1\n": math.NaN()} {
		if got := profileOf(t, text).sampled(); got != want && (got == got || want == want) {
			t.Errorf("%q: %v samples, want %v", text, got, want)
		}
	}
}

func TestDiffRecursion(t *testing.T) {
	d, err := Compare(profileOf(t, "f;f;f;g 10\n"), profileOf(t, "f;f;f;g 5\nf;h 5\n"),
		Norm{Per: "sample"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range d.Changes() {
		if c.Function.Name == "f" && (c.Before != 1 || c.After != 1) {
			t.Errorf("f has %v and %v of all", c.Before, c.After)
		}
	}
}

func TestDiffWrites(t *testing.T) {
	d, err := Compare(profileOf(t, fast+"gone;x 5\n"), profileOf(t, slow+`<script>"new";y 7`+"\n"),
		Norm{Per: "sample"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := WriteDiffSVG(&out, d, Picture{}); err != nil {
		t.Fatal(err)
	}
	checkXML(t, out.Bytes())
	out.Reset()
	if err := WriteDiffFolded(&out, d); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); !strings.Contains(s, "main;recv;lookup 100 1100\n") ||
		!strings.Contains(s, "gone;x 5 0\n") {
		t.Errorf("folded:\n%s", s)
	}
	out.Reset()
	if err := WriteChangesJSON(&out, d, 3); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Functions []struct{ Function string }
		More      int
	}
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || len(back.Functions) != 3 ||
		back.Functions[0].Function != "lookup" ||
		back.More == 0 {
		t.Errorf("%v: %s", err, out.String())
	}
}
