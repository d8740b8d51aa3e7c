package check_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/lang/check"
	"culprit/lang/syntax"

	"github.com/cilium/ebpf/btf"
)

// TestLibraries asks for every member that the translators of D's libraries give, on this kernel.
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
		first, _, _ := strings.Cut(string(text), "\n")
		for _, item := range prog.Items {
			var gives string
			switch item := item.(type) {
			case *syntax.Declaration:
				gives = item.Vars[0].Name.Text
			case *syntax.Inline:
				gives = item.Var.Name.Text
			case *syntax.Translator:
				gives = item.Output.(*syntax.Named).Name
				members := map[string]bool{}
				for _, m := range item.Members {
					members[m.Name.Text] = true
				}
				for m := range members {
					line := fmt.Sprintf("BEGIN { trace(xlate <%s *> ((%s)arg0)->%s); }", gives, syntax.Print(item.Input), m)
					p, ds := compile(line, check.Options{}, &env{spec: spec})
					if ds != nil {
						t.Errorf("%s\n%s", line, ds.Marked())
						continue
					}
					checkTree(t, p)
				}
			}
			if !strings.HasPrefix(gives, "__") && !strings.Contains(first, " "+gives+" ") {
				t.Errorf("%s: its first line does not tell of %s", name, gives)
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
