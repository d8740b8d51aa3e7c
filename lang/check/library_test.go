package check_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"culprit/lang/check"
	"culprit/lang/syntax"

	"github.com/cilium/ebpf/btf"
)

// TestLibraries checks every member that the translators of D's libraries define, on this kernel.
func TestLibraries(t *testing.T) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Skipf("needs: kernel feature BTF: %v", err)
	}
	list, err := filepath.Glob("lib/*.d")
	if err != nil || len(list) < 4 {
		t.Fatal(list, err)
	}
	for _, name := range list {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		prog, ds := syntax.Parse(string(text), syntax.Mode{File: name})
		if ds != nil {
			t.Fatal(ds.Marked())
		}
		first, _, _ := strings.Cut(string(text), "*/")
		for _, item := range prog.Items {
			var declared string
			switch item := item.(type) {
			case *syntax.Declaration:
				declared = item.Vars[0].Name.Text
			case *syntax.Inline:
				declared = item.Var.Name.Text
			case *syntax.Translator:
				declared = item.Output.(*syntax.Named).Name
				members := map[string]bool{}
				for _, m := range item.Members {
					members[m.Name.Text] = true
				}
				for m := range members {
					line := fmt.Sprintf("BEGIN { trace(xlate <%s *> ((%s)arg0)->%s); }", declared,
						syntax.Print(item.Input), m)
					p, ds := compile(line, check.Options{}, &env{spec: spec})
					if ds != nil {
						t.Errorf("%s\n%s", line, ds.Marked())
						continue
					}
					checkTree(t, p)
				}
			}
			if !strings.HasPrefix(declared, "__") &&
				!slices.Contains(strings.Fields(first), declared) {
				t.Errorf("%s: its first comment does not list %s", name, declared)
			}
		}
	}
	for _, line := range []string{
		"BEGIN { trace(fds[0].fi_name); trace(fds[pid].fi_oflags & O_WRONLY); trace(curpsinfo->pr_psargs); trace(curlwpsinfo->pr_sname); trace(curcpu->cpu_id); }",
		"cpuinfo_t *c; BEGIN { c = curcpu; trace(c->cpu_chip + chip + lgrp); trace((int64_t)curcpu); trace(curcpu); }",
		"BEGIN { trace(xlate <bufinfo_t *> ((struct bio *)arg0)->b_flags & B_READ ? \"R\" : \"W\"); }",
	} {
		if _, ds := compile(line, check.Options{}, &env{spec: spec}); ds != nil {
			t.Errorf("%s\n%s", line, ds.Marked())
		}
	}
}
