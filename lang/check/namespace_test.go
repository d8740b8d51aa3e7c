package check

import (
	"strings"
	"testing"
)

// TestNamespaceWithin checks that each process ID in D's libraries, and nothing else, is replaced
// within a namespace.
func TestNamespaceWithin(t *testing.T) {
	data, err := texts.ReadFile("lib/process.d")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	var none *Namespace
	if none.within(text) != text {
		t.Error("the first namespace changes the text")
	}
	own := (&Namespace{Level: 2, Inum: 4026532001}).within(text)
	was, is := strings.Split(text, "\n"), strings.Split(own, "\n")
	if len(was) != len(is) {
		t.Fatal("lines came or went")
	}
	for i := range was {
		member, _, _ := strings.Cut(strings.TrimSpace(was[i]), " ")
		number := strings.Contains(was[i], " = ") &&
			(strings.Contains(was[i], "tgid") || strings.Contains(was[i], "T->pid") ||
				strings.Contains(was[i], "numbers"))
		if changed := was[i] != is[i]; changed != number {
			t.Errorf("%s: changed is %v, want %v: %s", member, changed, number, is[i])
		}
		if number &&
			(!strings.Contains(is[i], "numbers[2].nr") ||
				!strings.Contains(is[i], "!= 4026532001")) {
			t.Errorf("%s: %s", member, is[i])
		}
	}
	for _, m := range numbered {
		if strings.Count(text, "\t"+m.member+" = ") != 1 {
			t.Errorf("%s is not there once", m.member)
		}
	}
}
