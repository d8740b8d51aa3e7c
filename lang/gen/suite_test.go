package gen

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/lang/ir/irtest"
	"culprit/lang/syntax"
	"culprit/measure"

	"github.com/cilium/ebpf/btf"
)

// TestSuite loads the programs of a peer's test suite that compile: each probe's program, as one
// run by hand. CULPRIT_DTRACE_TESTS is the suite's directory; none of it is in this repository.
func TestSuite(t *testing.T) {
	dir := os.Getenv("CULPRIT_DTRACE_TESTS")
	if dir == "" {
		t.Skip("needs: tool dtrace-tests (unpacked, in CULPRIT_DTRACE_TESTS)")
	}
	var files []string
	err := filepath.WalkDir(
		filepath.Join(dir, "test"),
		func(path string, e os.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".d") {
				files = append(files, path)
			}
			return err
		},
	)
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	types, err := btf.LoadKernelSpec()
	if err != nil {
		t.Skip("needs: kernel feature BTF")
	}
	k := kernelHere()
	k.Offset = offsets(types)
	known := map[string]string{
		"unittest/dif/copyout.d":               "a kernel that is locked down lets nobody write to processes",
		"unittest/funcs/copyout/err.copyout.d": "the same",
		"unittest/multiaggs/tst.many.d":        "a program may use 64 maps",
	}
	programs, refused := 0, map[string][]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p := compiled(string(text), types)
		name := strings.TrimPrefix(file, dir+"/test/")
		if p == nil || known[name] != "" {
			continue
		}
		by := map[string][]int{}
		for i, c := range p.Source.Clauses {
			for _, pr := range c.Probes {
				by[pr.String()] = append(by[pr.String()], i)
			}
		}
		t.Run(name, func(t *testing.T) {
			r := load(t, p, k, Limits{Ring: 1 << 12, Dynamic: 64, AggKeys: 64, Stacks: 64})
			for _, clauses := range by {
				pr := *p.Source.Clauses[clauses[0]].Probes[0]
				pr.Site = check.SiteRun
				programs++
				if _, err := Assemble(p, k, []*check.Probe{&pr}, clauses); errors.Is(
					err, measure.ErrUnsupported,
				) {
					refused[err.Error()] = append(refused[err.Error()], name)
					continue
				}
				r.program([]*check.Probe{&pr}, clauses...).Close()
			}
			for _, m := range r.maps {
				m.Close()
			}
		})
	}
	t.Logf("%d programs", programs)
	for why, names := range refused {
		t.Logf("%s: %d: %s", why, len(names), strings.Join(names, " "))
	}
}

// compiled returns the steps of a text, nil if it does not compile.
func compiled(text string, types *btf.Spec) (p *ir.Program) {
	o := check.Options{StrSize: 256, DefaultArgs: true}
	tree, wrong := syntax.Parse(text, syntax.Mode{})
	if len(wrong) > 0 {
		return nil
	}
	checked, wrong := check.Check("", text, tree, irtest.Env{Types: types}, o)
	if len(wrong) > 0 {
		return nil
	}
	if p, wrong = ir.Lower(checked); len(wrong) > 0 || p.Verify() != nil {
		return nil
	}
	return p
}
