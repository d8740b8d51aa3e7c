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
func typed(t testing.TB, spec *btf.Spec, text string, strsize int64) *ir.Program {
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
	here.Mounts = 1
	here.Offset = func(typ, member string) (int, error) { return memberOffset(spec, typ, member) }
	old := Kernel{RingBuffer: true, CPUs: ebpf.MustPossibleCPU(), Offset: here.Offset, Mounts: 1}
	const text = `inline fileinfo_t *file = xlate <fileinfo_t *> ((struct request *)arg0);
	BEGIN { s = d_path(&curthread->fs->pwd); t = fds[0].fi_name; u = fds[0].fi_dirname;
		v = fds[0].fi_mount; w = fds[0].fi_pathname; x = fds[0].fi_fs; }
	BEGIN { a = file->fi_pathname; c = file->fi_name;
		d = file->fi_dirname; e = file->fi_mount; f = file->fi_fs; }`
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
				prog := r.program([]*check.Probe{probe}, 0, 1)
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

// BenchmarkPath measures the cost of names of a file in eight directories, as BenchmarkEvent does.
func BenchmarkPath(b *testing.B) {
	needRoot(b)
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		b.Skipf("needs: kernel feature BTF: %v", err)
	}
	dir := filepath.Join(b.TempDir(), "one", "two", "three", "four", "five")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	k := kernelHere()
	k.Offset = func(typ, member string) (int, error) { return memberOffset(spec, typ, member) }
	fd := strconv.Itoa(int(f.Fd()))
	for _, c := range []struct{ name, text string }{
		{"nothing", `BEGIN { this->n = arg0; }`},
		{"descriptor", `BEGIN { this->n = fds[` + fd + `].fi_oflags; }`},
		{"fi_fs", `BEGIN { this->s = fds[` + fd + `].fi_fs; }`},
		{"fi_name", `BEGIN { this->s = fds[` + fd + `].fi_name; }`},
		{"fi_mount", `BEGIN { this->s = fds[` + fd + `].fi_mount; }`},
		{"fi_pathname", `BEGIN { this->s = fds[` + fd + `].fi_pathname; }`},
		{"d_path of the directory", `BEGIN { this->s = d_path(&curthread->fs->pwd); }`},
	} {
		b.Run(strings.ReplaceAll(c.name, " ", "_"), func(b *testing.B) {
			benchmarkProgram(b, typed(b, spec, c.text, 256), k)
		})
	}
}
