package gen

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/lang/ir/irtest"
	"culprit/lang/syntax"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// typed compiles a text with the types of this kernel.
func typed(t *testing.T, spec *btf.Spec, text string, strsize int64) *ir.Program {
	t.Helper()
	tree, wrong := syntax.Parse(text, syntax.Mode{})
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	checked, wrong := check.Check(
		"", text, tree, irtest.Env{Types: spec}, check.Options{StrSize: strsize},
	)
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	p, wrong := ir.Lower(checked)
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	if err := p.Verify(); err != nil {
		t.Fatal(err)
	}
	return p
}

// memberOffset returns the offset of a member of a kernel struct.
func memberOffset(spec *btf.Spec, typ, member string) (int, error) {
	var s *btf.Struct
	if err := spec.TypeByName(typ, &s); err != nil {
		return 0, err
	}
	var find func(members []btf.Member) int
	find = func(members []btf.Member) int {
		for _, m := range members {
			if m.Name == member {
				return int(m.Offset.Bytes())
			}
			var inner []btf.Member
			switch t := btf.UnderlyingType(m.Type).(type) {
			case *btf.Struct:
				inner = t.Members
			case *btf.Union:
				inner = t.Members
			}
			if m.Name == "" {
				if off := find(inner); off >= 0 {
					return int(m.Offset.Bytes()) + off
				}
			}
		}
		return -1
	}
	off := find(s.Members)
	if off < 0 {
		return 0, os.ErrNotExist
	}
	return off, nil
}

// The verifier accepts all parts of names, with and without bpf_loop, in strings of all sizes. The
// path of the working directory is the test's.
func TestPathLoads(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "some", "directories", "below")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	here := kernelHere()
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Skipf("needs: kernel feature BTF: %v", err)
	}
	here.Offset = func(typ, member string) (int, error) { return memberOffset(spec, typ, member) }
	old := Kernel{RingBuffer: true, CPUs: ebpf.MustPossibleCPU(), Offset: here.Offset}
	const text = `BEGIN { s = d_path(&curthread->fs->pwd); t = fds[0].fi_name; u = fds[0].fi_dirname;
		v = fds[0].fi_mount; w = fds[0].fi_pathname; }`
	for _, kernel := range []struct {
		name string
		k    Kernel
	}{{"this kernel", here}, {"old", old}} {
		for _, strsize := range []int64{2, 16, 33, 256, 2048} {
			t.Run(kernel.name+" "+strconv.Itoa(int(strsize)), func(t *testing.T) {
				p := typed(t, spec, text, strsize)
				r := load(t, p, kernel.k, Limits{})
				r.state(Inactive)
				probe := &check.Probe{
					ID: 1, Provider: "dtrace", Name: "BEGIN", Site: check.SiteRun,
				}
				prog := r.program([]*check.Probe{probe}, 0)
				locked(func() { r.run(prog) })
				if info, err := prog.Info(); err == nil {
					n, _ := info.VerifiedInstructions()
					t.Logf("the verifier followed %d instructions", n)
				}
				all := make([]byte, r.maps[MapGlobals].ValueSize())
				if err := r.maps[MapGlobals].Lookup(uint32(0), &all); err != nil {
					t.Fatal(err)
				}
				got, _, _ := bytes.Cut(all[8:], []byte{0}) // behind the mark that it is assigned
				if int64(len(dir)) < strsize && string(got) != dir {
					t.Errorf("the path is %q, want %q", got, dir)
				}
				if s := string(got); int64(len(s)) >= strsize ||
					strsize > 16 && int64(len(dir)) >= strsize &&
						(!strings.HasPrefix(s, ".../") || !strings.HasSuffix(dir, s[3:])) {
					t.Errorf("the path is %q, want the end of %q", s, dir)
				}
			})
		}
	}
}
