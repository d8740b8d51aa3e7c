package command

import (
	"strings"
	"testing"
)

// print() prints members with name and type, and leaves out those that are 0.
func TestSessionPrintsStructs(t *testing.T) {
	_, out, errs := traced(t, program("%s", `enum way { OUT = 1, IN = 2 };
struct point { int x; int y; };
struct all { struct point at; char name[8]; enum way way; unsigned int low : 3; unsigned int high : 5; struct point *next; long long none; };
BEGIN { a = (struct all *)alloca(sizeof (struct all)); a->at.x = -7; a->name[0] = 'h'; a->name[1] = 'i'; a->way = IN; a->next = (struct point *)0x10; print(a); exit(0); }`), nil)
	pad := strings.Repeat(" ", 44)
	want := strings.Join(
		[]string{
			"(struct all) {",
			" .at = (struct point) {",
			"  .x = (int)-7,",
			" },",
			" .name = (char [8]) [",
			"  (char)'h',",
			"  (char)'i',",
			" ],",
			" .way = (enum way)IN,",
			" .next = (struct point *)0x10,",
			"}",
		},
		"\n"+pad,
	)
	_, body, ok := strings.Cut(out, " = *\n"+pad)
	if strings.TrimSpace(body) != want || !ok || errs != "" {
		t.Errorf("printed %q and %q, want %q", out, errs, want)
	}
}
