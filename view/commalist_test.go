package view

import (
	"slices"
	"strings"
	"testing"
)

func TestCommaList(t *testing.T) {
	for text, want := range map[string][]string{`a,b`: {"a", "b"}, `a\,b*?,c`: {"a,b*?", "c"}, `\,`: {","}, `a\`: {`a\`}, `x\,y\,z`: {"x,y,z"}, ``: {""}} {
		if got := CommaList(strings.Split(text, ",")); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
