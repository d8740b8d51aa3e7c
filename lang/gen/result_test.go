package gen

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"culprit/lang/check"

	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
)

// narrowC is a program whose function leaves more in the result register than the type of the
// result. It calls it once.
const narrowC = `long __attribute__((noinline)) wide(long n) { __asm__ volatile("" : "+r"(n)); return n; }
int main(void) { return wide(0x7766554433221181) == 0; }
`

// TestResultsAreTyped checks that arg1 at a return has the function's type: negative numbers are
// negative, and bits above the type are dropped.
func TestResultsAreTyped(t *testing.T) {
	needRoot(t)
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("needs: tool gcc")
	}
	dir := t.TempDir()
	source, work := filepath.Join(dir, "work.c"), filepath.Join(dir, "work")
	if err := os.WriteFile(source, []byte(narrowC), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := exec.Command(gcc, "-O1", "-o", work, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%.2000s", err, b)
	}
	exe, err := link.OpenExecutable(work)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		of   btf.Type
		want int64
	}{
		{"signed char", &btf.Int{Size: 1, Encoding: btf.Signed}, -0x7f},
		{"unsigned char", &btf.Int{Size: 1}, 0x81},
		{"short", &btf.Int{Size: 2, Encoding: btf.Signed}, 0x1181},
		{"int", &btf.Typedef{Type: &btf.Int{Size: 4, Encoding: btf.Signed}}, 0x33221181},
		{"enum", &btf.Enum{Size: 1, Signed: true}, -0x7f},
		{"long", &btf.Int{Size: 8, Encoding: btf.Signed}, 0x7766554433221181},
		{"pointer", &btf.Pointer{Target: &btf.Void{}}, 0x7766554433221181},
		{"unknown", nil, 0x7766554433221181},
	} {
		t.Run(c.name, func(t *testing.T) {
			probe := &check.Probe{
				ID:       50,
				Provider: "pid",
				Function: "wide",
				Name:     "return",
				Site:     check.SiteUretprobe,
			}
			if c.of != nil {
				probe.Args = []check.Arg{
					{Name: "offset", C: "long"},
					{Name: "return", Type: c.of, From: -1},
				}
			}
			h := newHand(64).clause(probe)
			got := h.global()
			h.store(got, h.arg(1), 8)
			h.finish()
			r := load(t, h.p, kernelHere(), Limits{})
			l, err := exe.Uretprobe("wide", r.program([]*check.Probe{probe}, 0), nil)
			if err != nil {
				t.Skipf("needs: kernel feature uretprobe: %v", err)
			}
			defer l.Close()
			if err := exec.Command(work).Run(); err != nil {
				t.Fatal(err)
			}
			if n := int64(r.globals()[got.Off/8]); n != c.want {
				t.Errorf("arg1 is %#x, want %#x", n, c.want)
			}
		})
	}
}
