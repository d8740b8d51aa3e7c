package manual

import "testing"

func TestRoffEscapes(t *testing.T) {
	var b roff
	b.text("a -b \\ c\n.not a macro\n'neither\n\nsecond \"paragraph\"")
	if got, want := b.String(), "a \\-b \\e c\n\\&.not a macro\n\\&'neither\n.PP\nsecond \"paragraph\"\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
