package command

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"culprit/kernel/feature"
	"culprit/trace/tracetest"
)

func TestCgroupsBelow(t *testing.T) {
	root := t.TempDir()
	inner := filepath.Join(root, "a.slice", "b.scope")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(inner, "cgroup.procs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := cgroupsBelow(root)
	if len(got) != 3 {
		t.Errorf("%v: %d groups, want 3", got, len(got))
	}
	for dir, want := range map[string]string{
		root: "/", filepath.Dir(inner): "/a.slice", inner: "/a.slice/b.scope",
	} {
		id, err := cgroupID(dir)
		if err != nil || got[id] != want {
			t.Errorf("%s: %q, want %q; %v", dir, got[id], want, err)
		}
	}
	if got := cgroupsBelow(filepath.Join(root, "nothing")); len(got) != 0 {
		t.Errorf("a directory that does not exist has groups: %v", got)
	}
}

// cgroup_path() returns the path that /proc/self/cgroup has for version 2.
func TestBpftraceCgroupPath(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs: root (BPF)")
	}
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, own, ok := strings.Cut("\n"+string(b), "\n0::")
	if !ok {
		t.Skip("needs: kernel feature control groups of version 2")
	}
	own, _, _ = strings.Cut(own, "\n")
	var c cgroupPaths
	if c.scan(); len(c.roots) == 0 || c.roots[0].name != "unified" {
		t.Skip("needs: kernel feature control groups of version 2, mounted")
	}
	out, messages, err := runBpftrace(t, BpftraceRequest{
		Program: `BEGIN { printf("<%s|%s|%s>\n", cgroup_path(cgroup, "unified"),
			cgroup_path(cgroup, "no*"), cgroup_path(18446744073709551615)); exit(); }`, Quiet: true,
	})
	if want := "<unified:" + own + "||>\n"; err != nil || !strings.HasPrefix(out, want) {
		t.Errorf("%q %s %v, want %q", out, messages, err, want)
	}
}

// reg() is a register at the probe: the first argument of a function is in it.
func TestBpftraceRegister(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	needFiles(t, "uprobe:libc:chdir")
	first := map[string]string{"amd64": "di", "arm64": "r0"}[runtime.GOARCH]
	out, messages, err := runBpftrace(t, BpftraceRequest{
		Program: `uprobe:libc:chdir /pid == cpid/ {
			printf("%d %s\n", reg("` + first + `") == arg0, str(reg("` + first + `"))); exit(); }`,
		Command: "/bin/sh -c 'cd /usr/bin'", Quiet: true,
	})
	if err != nil || !strings.HasPrefix(out, "1 /usr/bin\n") {
		t.Errorf("%q %s %v", out, messages, err)
	}
}
