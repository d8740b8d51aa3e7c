package sampler

import (
	"context"
	"strings"
	"testing"
	"time"

	"culprit/kernel/feature"
	"culprit/trace/tracetest"
)

// The profile of a command has the processes that it starts, no others, and ends with it.
func TestProfileOfACommand(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	path := tracetest.CompileC(t, shortWork)
	other := tracetest.Start(t, path, "9", "x")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	p := Profile{Hz: 499, User: true, Command: []string{
		"sh", "-c", "for i in 1 2 3; do '" + path + "' 0.2 x; done; exit 0"}}
	seconds := 0
	p.Progress = func(now Progress) {
		if seconds++; now.Took <= 0 || now.Unnamed > now.Samples {
			t.Errorf("progress %+v", now)
		}
	}
	got, err := p.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Error("the profile did not end with the command")
	}
	pids, all := map[int]int64{}, int64(0)
	for s := range got.Stacks {
		if all += s.Count; s.PID == other {
			t.Errorf("a process that the command did not start has %d samples", s.Count)
		}
		if strings.Contains(strings.Join(s.User, " "), "`midwork") {
			pids[s.PID] += s.Count
		}
	}
	if len(pids) != 3 {
		t.Errorf("samples of midwork by process: %v; want three processes, of %d samples", pids, all)
	}
	if seconds == 0 && got.Took.Seconds() > 2 {
		t.Error("no progress was reported")
	}
}

// A command that cannot be started is an error.
func TestProfileOfNoCommand(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	p := Profile{Hz: 99, Command: []string{"/none/such"}}
	if _, err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "/none/such") {
		t.Errorf("error %v", err)
	}
}

// The clauses that follow children come before those that count, which match children too.
func TestFamily(t *testing.T) {
	for _, tt := range []struct {
		name   string
		filter ThreadFilter
		want   string
	}{
		{"children", ThreadFilter{PIDs: []int{5, 7}, Children: true}, "(pid == 5 || pid == 7) || family[pid]"},
		{"none", ThreadFilter{PIDs: []int{5}}, ""},
		{"all", ThreadFilter{Children: true}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.filter.family()
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("%q, want %q in it", got, tt.want)
			}
		})
	}
}
