package show

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"culprit/diagnose"
	"culprit/diagnose/experiment"
	"culprit/diagnose/facts"
	"culprit/measure"
)

// barred is a machine that must not be asked: this process may not trace.
type barred struct{ *disk }

func (barred) CanTrace() error { return errors.New("use BPF: denied, needs CAP_BPF") }

// TestExperimentWithoutRights: without the rights to trace nothing is measured and nobody waits.
func TestExperimentWithoutRights(t *testing.T) {
	d := &disk{used: []float64{1}}
	r := &diagnose.Report{Findings: []diagnose.Finding{{ID: "fork-storm", Rule: "fork-storm"},
		{ID: "lock-convoy/x", Subject: facts.Waiters{PIDs: []int{7}}}}}
	from := time.Now()
	Experiment(t.Context(), barred{d}, r, Tracing{
		Began: func(int) { t.Error("something was measured") },
		Waits: func(context.Context, []int, int) ([]experiment.Wait, error) {
			t.Error("waits were measured")
			return nil, nil
		},
	})
	if len(r.Experiments) != 1 || !strings.Contains(r.Experiments[0].Missing, "CAP_BPF") ||
		len(r.Experiments[0].Findings) != 2 || d.looks != 0 {
		t.Errorf("%+v, %d looks", r.Experiments, d.looks)
	}
	if took := time.Since(from); took > time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestExperimentOfWaits: waits are measured for the processes that findings name, without a query.
func TestExperimentOfWaits(t *testing.T) {
	d := &disk{used: []float64{1}}
	r := &diagnose.Report{Findings: []diagnose.Finding{{ID: "lock-convoy/x",
		Subject: facts.Waiters{PIDs: []int{7}, On: facts.WaitsOnLock}}}}
	Experiment(t.Context(), d, r, Tracing{
		Waits: func(_ context.Context, pids []int, _ int) ([]experiment.Wait, error) {
			if len(pids) != 1 || pids[0] != 7 {
				t.Errorf("processes %v", pids)
			}
			return []experiment.Wait{{Process: "x", PID: 7, State: "sleeping", Amount: measure.Second,
				Kernel: []string{"vmlinux`schedule+0x1", "vmlinux`futex_do_wait+0x3f"},
				User:   []string{"libc.so.6`__lll_lock_wait+0x2a", "x`push+0x10"}}}, nil
		},
	})
	if len(r.Experiments) != 1 || r.Experiments[0].Missing != "" || d.looks != 0 ||
		r.Experiments[0].Statistics[0] != "culprit profile --off-cpu --pid 7" {
		t.Fatalf("%+v, %d looks", r.Experiments, d.looks)
	}
	const want = "100 % of the waits for locks are in futex_do_wait, called from " +
		"__lll_lock_wait, push, mostly those of x[7] (measured)"
	if e := r.Findings[0].Evidence; len(e) != 1 || e[0].Text != want {
		t.Errorf("%+v\nwant %s", e, want)
	}
}
