package term

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
)

// --by puts fields of the thread at the root, in their order, for samples and waits.
func TestProfileBy(t *testing.T) {
	stacks := []ProfiledStack{
		{Process: "worker-1", Leader: "java", PID: 7, TID: 8, Cgroup: "/a.service", User: []string{"java`run"}, State: "sleeping", Count: 3, Amount: 3},
		{Process: "worker-2", Leader: "java", PID: 7, TID: 9, Cgroup: "/docker/" + strings.Repeat("3f2a", 16), User: []string{"java`run"}, State: "sleeping", Count: 5, Amount: 5},
	}
	for _, tt := range []struct{ name, args, want string }{
		{"samples", "--by process,thread", "java;worker-*;run;[sleeping] 8\n"},
		{"IDs", "--by thread,process --pids --tids", "worker-1-8;java-7;run;[sleeping] 3\nworker-2-9;java-7;run;[sleeping] 5\n"},
		{"waits", "--off-cpu --by container", "[no container];run;[sleeping] 3\ndocker:3f2a3f2a3f2a;run;[sleeping] 5\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var q Profiling
			p, read := sampledBy(t, &q)
			p.Profile = func(_ context.Context, asked Profiling) (*Profiled, error) {
				q = asked
				return &Profiled{
					CPUs: 2, Frames: 127, Took: measure.Second, Stacks: slices.Values(stacks),
				}, nil
			}
			args := append([]string{"profile", "--format", "folded"}, strings.Fields(tt.args)...)
			if status := Run(t.Context(), p, args); status != 0 {
				t.Fatal(read())
			}
			if out, _ := read(); out != tt.want {
				t.Errorf("got\n%swant\n%s", out, tt.want)
			}
			if len(q.By) == 0 {
				t.Error("the sampler was not asked for the fields")
			}
		})
	}
}

func TestByRefuses(t *testing.T) {
	folded := filepath.Join(t.TempDir(), "a.folded")
	if err := os.WriteFile(folded, []byte("a;b 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, want string }{
		{"profile --by pod", `--by "pod" is none of process, thread, container`},
		{"profile --by thread,thread", "--by has thread twice"},
		{"profile --by process --tids", "--tids with --by needs thread"},
		{"profile --by container --pids", "--pids with --by needs process"},
		{"profile --by process --table", "--by is for stacks"},
		{"flame --by= " + folded, "--by takes fields"},
		{"flame --by process " + folded, "--by process: the format, folded, does not name"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var q Profiling
			p, read := sampledBy(t, &q)
			status := Run(t.Context(), p, strings.Split(tt.args, " "))
			if _, errs := read(); status == 0 || !strings.Contains(errs, tt.want) {
				t.Errorf("status %d, %s", status, errs)
			}
		})
	}
}
