package command

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/lang/syntax"
	"culprit/trace/probe"
	"culprit/trace/tracetest"
)

// Every function of this program that -l prints is matched by its printed name: methods of
// pointers, instances for types with spaces and braces, paths with slashes and colons.
func TestListedNamesAreReadBack(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	e := probe.NewEnv(kernel.Root{})
	defer e.Close()
	provider := fmt.Sprint("pid", os.Getpid())
	var names []string
	d := &syntax.Probe{
		Parts:    4,
		Provider: syntax.Name{Text: provider},
		Module:   syntax.Name{Text: "a.out"},
		Name:     syntax.Name{Text: "entry"},
	}
	if err := e.List(d, func(l probe.Listed) {
		if strings.ContainsAny(l.Function, "()[]{}*/: ,;$\\") {
			names = append(names, l.Function)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if len(names) < 500 {
		t.Fatalf("%d names with brackets: the test needs more", len(names))
	}
	kinds := map[string]int{} // of each kind of character some, and the rest now and then
	for i, name := range names {
		few := false
		for _, c := range []string{"[", "(*", " ", "{", ",", ":", "/", ";", "$"} {
			if strings.Contains(name, c) && kinds[c] < 12 {
				kinds[c]++
				few = true
			}
		}
		if !few && i%29 != 0 {
			continue
		}
		text := provider + ":a.out:" + syntax.ProbePart(name) + ":entry"
		tree, wrong := syntax.Parse(text+"/pid == 1 ? 0 : 1/{ x = 1; }", syntax.Mode{})
		if len(wrong) > 0 {
			t.Errorf("%s: %v", text, wrong)
			continue
		}
		found := []string{}
		err := e.List(
			tree.Items[0].(*syntax.Clause).Probes[0],
			func(l probe.Listed) { found = append(found, l.Function+":"+l.Name) },
		)
		// a file may have several functions of one name
		if found = slices.Compact(found); err != nil || len(found) != 1 ||
			found[0] != name+":entry" {
			t.Errorf("%s is %v, %v", text, found, err)
		}
	}
	t.Log(len(names), "names", kinds)
}
