package yamlfile

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"culprit/heapbound"
)

// keys are the keys of the tests.
func keys() []Key {
	number := func(name, text string) error {
		if strings.Trim(text, "0123456789") != "" {
			return fmt.Errorf("%s %q: give a number", name, text)
		}
		return nil
	}
	return []Key{
		{Name: "listen"},
		{Name: "size", Check: number},
		{Name: "masked", Kind: Bool},
		{Name: "mask", Kind: Texts},
		{Name: "labels", Kind: Map},
		{Name: "target", Kind: Objects, Short: "url", Fields: []Key{
			{Name: "url", Need: true}, {Name: "every", Check: number}, {Name: "headers", Kind: Map},
		}},
	}
}

const whole = `# a comment
listen: 127.0.0.1:7410
size: 07
masked: True
mask: [a, "b c"]
labels:
  site: east
  rack: "12"
target:
  - url: http://one
    headers: {X-Scope-OrgID: team}
  - http://two
`

func TestParse(t *testing.T) {
	f, err := Parse("c.yaml", []byte(whole), keys())
	if err != nil {
		t.Fatal(err)
	}
	at := func(line, column int) Position { return Position{"c.yaml", line, column} }
	text := func(name, text string, at Position) Value {
		return Value{Name: name, At: at, Texts: []string{text}}
	}
	headers := Value{Name: "headers", Kind: Map, At: at(11, 14), Map: []Pair{{"X-Scope-OrgID", "team"}}}
	want := &File{"c.yaml", []Value{
		text("listen", "127.0.0.1:7410", at(2, 9)),
		text("size", "07", at(3, 7)),
		{Name: "masked", Kind: Bool, At: at(4, 9), Texts: []string{"true"}},
		{Name: "mask", Kind: Texts, At: at(5, 7), Texts: []string{"a", "b c"}},
		{Name: "labels", Kind: Map, At: at(7, 3), Map: []Pair{{"site", "east"}, {"rack", "12"}}},
		{Name: "target", Kind: Objects, At: at(10, 3), Objects: []Object{
			{at(10, 5), []Value{text("url", "http://one", at(10, 10)), headers}},
			{at(12, 5), []Value{text("url", "http://two", at(12, 5))}},
		}},
	}}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("got  %+v\nwant %+v", f, want)
	}
	target := f.Value("target").Objects[1]
	if target.Text("url") != "http://two" || target.Text("every") != "" || f.Value("x") != nil {
		t.Errorf("values by name: %+v", target)
	}
}

func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"near key", "\n  sise: 7", "f:2:3: there is no key sise; did you mean size?"},
		{"underscore", "list_en: 7", "f:1:1: there is no key list_en; did you mean listen?"},
		{"far key", "colour: 7", "f:1:1: there is no key colour; `culprit config example` shows"},
		{"key of an object", "target:\n- url: a\n  evry: 1",
			"f:3:3: there is no key target[0].evry; did you mean every?"},
		{"far key of an object", "target:\n- {url: a, colour: 1}",
			"f:2:12: there is no key target[0].colour; there are url, every, headers"},
		{"missing field", "target:\n- every: 1", "f:2:3: target[0].url is missing"},
		{"type", "size: [1]", "f:1:7: size is a list, want a text"},
		{"type of a list", "mask: {a: b}", "f:1:7: mask is a mapping, want a list of texts"},
		{"type in a list", "mask:\n- a\n- [b]", "f:3:3: mask contains a list, want texts"},
		{"type of an object", "target: [[a]]", "f:1:10: target[0] is a list, want a mapping"},
		{"type of a name", "labels: {a: [b]}", "f:1:13: labels.a is a list, want a text"},
		{"bool", "masked: yes", `f:1:9: masked is "yes", want true or false`},
		{"number for a bool", "masked: 1", `f:1:9: masked is "1", want true or false`},
		{"range", "size: big", `f:1:7: size "big": give a number`},
		{"range in an object", "target: {url: a, every: x}",
			`f:1:25: target.every "x": give a number`},
		{"no value", "size:\nlisten: a", "f:1:6: size has no value: write a text, or remove"},
		{"empty element", "mask: [a, ~]", "f:1:11: mask contains an empty value"},
		{"twice", "size: 1\nlisten: a\nsize: 2", "f:3:1: size is set twice, first in line 1"},
		{"twice in a map", "labels: {a: b, a: c}", "f:1:16: labels.a is set twice"},
		{"anchor", "size: &a 1", "f:1:7: anchors and aliases are not supported"},
		{"alias", "listen: &a b\nmask: [*a]", "f:1:9: anchors and aliases are not supported: " +
			"write the value again\nf:2:8: anchors and aliases"},
		{"merge", "labels: {<<: {a: b}}", "f:1:14: labels.<< is a mapping, want a text"},
		{"tag", "size: !!str 1", "f:1:7: tags are not supported: remove !!str"},
		{"control", "listen: \"a\\nb\"", "f:1:9: listen contains a line break"},
		{"list", "- a", "f:1:1: the file contains a list, want keys"},
		{"word", "hello", "f:1:1: the file contains a text, want keys"},
		{"documents", "size: 1\n---\nsize: 2", "f:2:1: a second document begins here"},
		{"syntax", "size: 1\n  bad: : x", "f:2:3: this is not YAML: "},
		{"tab", "target:\n\turl: a", "f:2:1: this is not YAML: "},
		{"key that is a list", "[a]: b", "f:1:1: a key is one word"},
		{"large", strings.Repeat("#", MaxSize+1), "f:1:1: the file has 262145 bytes, at most 262144"},
		{"long list", "mask: [" + strings.Repeat("a,", 2*maxItems+1) + "a]",
			"f:1:7: mask has more than 1000 elements"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("f", []byte(tt.text), keys())
			var all Mistakes
			if !errors.As(err, &all) || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestAllMistakesAreReported(t *testing.T) {
	_, err := Parse("f", []byte("sise: 1\nsize: x\nmasked: 2\n"), keys())
	var all Mistakes
	if !errors.As(err, &all) || len(all) != 3 || all[2].At.Line != 3 {
		t.Errorf("got %v, want three mistakes", err)
	}
	_, err = Parse("f", []byte(strings.Repeat("- a\n", 3)+"{"), keys())
	if err == nil {
		t.Error("a list with a brace was read")
	}
	var many strings.Builder
	for i := range 2 * maxMistakes {
		fmt.Fprintf(&many, "unknown%d: 1\n", i)
	}
	if _, err = Parse("f", []byte(many.String()), keys()); !errors.As(err, &all) ||
		len(all) != maxMistakes {
		t.Errorf("%d mistakes, want %d", len(all), maxMistakes)
	}
}

func TestEmptyFile(t *testing.T) {
	for _, text := range []string{"", "# size: 7\n", "---\n", "~"} {
		f, err := Parse("f", []byte(text), keys())
		if err != nil || len(f.Values) != 0 {
			t.Errorf("%q: %+v, %v", text, f, err)
		}
	}
}

// texts returns the content of values without their positions.
func texts(values []Value) string {
	var b strings.Builder
	for _, v := range values {
		fmt.Fprintf(&b, "%s %d %q %q", v.Name, v.Kind, v.Texts, v.Map)
		for _, o := range v.Objects {
			b.WriteString("{" + texts(o.Values) + "}")
		}
	}
	return b.String()
}

func TestEncode(t *testing.T) {
	f, err := Parse("f", []byte(whole), keys())
	if err != nil {
		t.Fatal(err)
	}
	checkEncode(t, f)
}

// checkEncode encodes a file, reads it and compares the values by name.
func checkEncode(t *testing.T, f *File) {
	t.Helper()
	again, err := Parse("g", f.Encode(), keys())
	if err != nil {
		t.Fatalf("%s: %v", f.Encode(), err)
	}
	for i := range f.Values {
		v := &f.Values[i]
		got := again.Value(v.Name)
		if got == nil || len(got.Texts) != len(v.Texts) || len(got.Map) != len(v.Map) ||
			len(got.Objects) != len(v.Objects) {
			t.Fatalf("%+v became %+v", v, got)
		}
		if len(v.Texts) > 0 && texts([]Value{*v}) != texts([]Value{*got}) {
			t.Errorf("%+v became %+v", v, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("target: &a [*a, *a]"))
	f.Add([]byte("a: " + strings.Repeat("[", 500)))
	f.Add([]byte(strings.Repeat("- ", 500)))
	f.Add([]byte("size: !!binary aGVsbG8=\n...\n%YAML 1.2\n---\nx"))
	f.Add([]byte("\xff\xfes\x00i\x00z\x00e\x00:\x00 \x001\x00"))
	heapbound.Fuzz(f, func(t *testing.T, text []byte) {
		file, err := Parse("f", text, keys())
		if err != nil {
			var all Mistakes
			if !errors.As(err, &all) || len(all) == 0 {
				t.Fatalf("the error is %T %v", err, err)
			}
			for _, m := range all {
				if m.At.Line < 1 || m.At.Column < 1 || strings.ContainsAny(m.Text, "\n\x1b") {
					t.Fatalf("mistake %q at %+v", m.Text, m.At)
				}
			}
			return
		}
		if len(file.Encode()) < MaxSize/2 {
			checkEncode(t, file)
		}
	})
}
