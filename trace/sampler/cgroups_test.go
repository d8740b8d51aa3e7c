package sampler

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/kernel/proc"
	"culprit/measure"
	"culprit/trace/probe"
	"culprit/trace/tracetest"
)

// Containers are looked for where their memory is limited.
func TestContainerHierarchy(t *testing.T) {
	v1 := func(name string) proc.Cgroup {
		return proc.Cgroup{Path: "/" + name, Controllers: []string{name}}
	}
	v2 := func(controllers ...string) proc.Cgroup {
		return proc.Cgroup{Path: "/unified", V2: true, Controllers: controllers}
	}
	for _, tt := range []struct {
		name string
		all  []proc.Cgroup
		want string
	}{
		{"version 2", []proc.Cgroup{v2("cpu", "memory", "pids")}, "/unified"},
		{"version 2 without controllers", []proc.Cgroup{v2()}, "/unified"},
		{"both, memory in 1", []proc.Cgroup{v2("hugetlb"), v1("cpu"), v1("memory")}, "/memory"},
		{"both, memory in 2", []proc.Cgroup{v1("cpuset"), v2("cpu", "memory")}, "/unified"},
		{"version 1 without memory", []proc.Cgroup{v1("cpuset"), v1("pids"), v2()}, "/pids"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := containerHierarchy(tt.all); got == nil || got.Path != tt.want {
				t.Errorf("%+v, want %s", got, tt.want)
			}
		})
	}
	if got := containerHierarchy([]proc.Cgroup{{Path: "/named"}}); got != nil {
		t.Errorf("%+v without a controller", got)
	}
}

// newTestCgroup returns a new control group and its path in the hierarchy.
func newTestCgroup(t *testing.T, at proc.Cgroup) (dir, path string) {
	t.Helper()
	dir, err := os.MkdirTemp(at.Path, "culprit-test-")
	if err != nil {
		t.Skip("needs: root (a control group: " + err.Error() + ")")
	}
	t.Cleanup(func() { // the kernel refuses until the last process is gone
		for range 100 {
			if os.Remove(dir) == nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Error("the control group cannot be removed")
	})
	return dir, filepath.Join(at.Part, filepath.Base(dir))
}

// Samples have the name of their process and the path of its control group.
func TestProfileByCgroup(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	groups, err := newCgroupPaths(env)
	if err != nil {
		t.Skip("needs: kernel feature control groups")
	}
	dir, want := newTestCgroup(t, groups.at)
	path := tracetest.CompileC(t, shortWork)
	pid := tracetest.Start(t, path, "60", "x")
	err = os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	p := Profile{Hz: 499, User: true, ByLeader: true, ByCgroup: true, For: measure.Second / 2}
	p.Threads.PIDs = []int{pid}
	got, err := p.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	all := int64(0)
	for s := range got.Stacks {
		if all += s.Count; s.Cgroup != want || !strings.HasPrefix(filepath.Base(path), s.Leader) ||
			s.Leader == "" || s.PID != pid {
			t.Errorf("process %q (%d) in %q, want %s (%d) in %q", s.Leader, s.PID, s.Cgroup,
				filepath.Base(path), pid, want)
		}
	}
	if all == 0 {
		t.Error("no samples")
	}
}
