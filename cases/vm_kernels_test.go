package cases

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kernelKeysScript runs in the emulated machine with its default limit of locked memory.
const kernelKeysScript = `#!/bin/busybox sh
export GOGC=off GOMEMLIMIT=400MiB
./kernel.test -test.run 'Since|Locking|CountsLocked' || echo FAILED kernel
(while :; do ls -R /sys >/dev/null; done) & busy=$!
./culprit profile --for 1s --table 2>&1 | grep -q vmlinux || echo FAILED profile
./culprit profile --off-cpu --for 1s --table 2>&1 | grep -q sleeping || echo FAILED profile --off-cpu
./culprit trace -qn 'syscall::openat:entry /execname=="ls"/ { @[copyinstr(arg1), strjoin("x", copyinstr(arg1)), execname] = count(); } tick-1s { exit(0); }' 2>&1 | grep -q 'x/sys' || echo FAILED long keys
kill $busy
ulimit -l unlimited
./gen.test -test.run '(TestTwinsOfLongKeys|TestStackCut)/^old($|,_deep)' || echo FAILED gen
./culprit serve --dir /tmp/served --for 10s >/dev/null 2>/tmp/said || { echo FAILED serve; cat /tmp/said; }
echo ended
`

// The oldest kernel that is supported and the newest: BPF with the default limit of locked memory, keys that are longer than the old
// one takes, and ten seconds of serve.
func TestKernelKeys(t *testing.T) {
	if quick() {
		return
	}
	for _, tool := range []string{"qemu-system-x86_64", "busybox", "cpio", "zstd", "lz4"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs: tool " + tool)
		}
	}
	dir := t.TempDir()
	for _, build := range [][]string{{"test", "-trimpath", "-c", "-o", "kernel.test", "../kernel"}, {"test", "-trimpath", "-c", "-o", "gen.test", "../lang/gen"}, {"build", "-trimpath", "-o", "culprit", "../cmd/culprit"}} {
		for i, arg := range build {
			if i > 0 && build[i-1] == "-o" {
				build[i] = filepath.Join(dir, arg)
			}
		}
		run := exec.Command("go", build...)
		run.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	script := filepath.Join(dir, "keys")
	if err := os.WriteFile(script, []byte(kernelKeysScript), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, series := range []string{"5.10", "7.2"} {
		t.Run(series, func(t *testing.T) {
			t.Parallel() // each is one thread of QEMU
			if !haveKernel(series) {
				t.Skip("needs: tool kernel-" + series + " (vm/kernels fetches it)")
			}
			args := []string{"-n", "10", "vm/run", "-t", "300", "-k", series}
			for _, file := range []string{"kernel.test", "gen.test", "culprit"} {
				args = append(args, "-f", filepath.Join(dir, file))
			}
			out, err := exec.Command("nice", append(args, script)...).CombinedOutput()
			if text := string(out); err != nil || strings.Contains(text, "FAILED") || !strings.Contains(text, "ended") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
