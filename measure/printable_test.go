package measure

import (
	"encoding/json"
	"testing"
)

func TestHostileText(t *testing.T) {
	for _, tt := range []struct{ name, in, clean, escaped string }{
		{"plain", `a b\c~`, `a b\c~`, `a b\c~`},
		{"letters beyond ASCII", "größe 漢字 é", "größe 漢字 é", "größe 漢字 é"},
		{"no-break space, the first after C1", "a\u00a0b", "a\u00a0b", "a\u00a0b"},
		{"replacement character", "\ufffd", "?", "\ufffd"},
		{"escape sequence", "\x1b[31mR\x1b]0;P\a", "?[31mR?]0;P?", `\033[31mR\033]0;P\a`},
		{"line ends", "a\nb\rc\td\ve\ff\bg", "a?b?c?d?e?f?g", `a\nb\rc\td\ve\ff\bg`},
		{"zero and DEL", "\x00\x7f", "??", `\000\177`},
		{"C1 in UTF-8", "a\u009b31mb", "a?31mb", `a\302\23331mb`},
		{"C1 as a byte", "a\x9b31mb", "a?31mb", `a\23331mb`},
		{"direction of text", "a\u202eb\u2066c\u061cd", "a?b?c?d",
			`a\342\200\256b\342\201\246c\330\234d`},
		{"without a width", "a\u200bb\u2028c\ufeffd\u2060", "a?b?c?d?",
			`a\342\200\213b\342\200\250c\357\273\277d\342\201\240`},
		{"tags", "a\U000e0041", "a?", `a\363\240\201\201`},
		{"cut off", "a\xe6\xbc", "a??", `a\346\274`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Clean(tt.in); got != tt.clean {
				t.Errorf("Clean: %q, want %q", got, tt.clean)
			}
			if got := Escape(tt.in); got != tt.escaped {
				t.Errorf("Escape: %q, want %q", got, tt.escaped)
			}
		})
	}
}

// What AppendJSON writes has no character that IsShown refuses, and a parser reads the same text.
func TestJSONWithoutControls(t *testing.T) {
	for _, text := range []string{
		"", "größe", "a\u009b\x7fb\u202e", "\U000e0041x", "\x1b\n\t", "\ufffd",
	} {
		t.Run(text, func(t *testing.T) {
			in, err := json.Marshal([]string{text})
			if err != nil {
				t.Fatal(err)
			}
			out := AppendJSON(nil, in)
			for _, r := range string(out) {
				if !IsShown(r) {
					t.Errorf("%q has %q", out, r)
				}
			}
			var got []string
			if err := json.Unmarshal(out, &got); err != nil || got[0] != text {
				t.Errorf("%q: %q, %v", out, got, err)
			}
		})
	}
}
