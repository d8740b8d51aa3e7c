package term

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view/classic"
)

// locksMachine reports one wait of 2 ms per second in a pipe.
type locksMachine struct{ machine }

func (m *locksMachine) Watch(
	_ context.Context, queries []measure.Query, each func(*measure.Tick) error,
) error {
	for n := range m.ticks {
		start := measure.Time(n+1) * 1e9
		tick := &measure.Tick{Over: measure.Interval{Start: start, End: start + 1e9}}
		for _, q := range queries {
			a := &measure.Answer{
				Query:   q,
				Kind:    measure.Delta,
				Sparse:  true,
				Start:   start,
				Step:    measure.Second,
				Elapsed: []measure.Span{measure.Second},
				Labels: []string{
					"mutex",
					"cat",
				},
				Stacks: make([]bool, len(q.By)),
				Frames: []measure.Frame{
					{Symbol: "ksys_write+0x1", Module: "vmlinux", Parent: -1},
					{Symbol: "pipe_write+0x43", Module: "vmlinux", Parent: 0},
					{Symbol: "mutex_lock+0x1", Module: "vmlinux", Parent: 1},
				},
			}
			value, there := map[measure.StatID]float64{"lock.wait.count": 1, "lock.wait.time": 0.002, "lock.wait.max": 2e6}[q.Stat]
			if there {
				s := measure.Series{Values: []float64{value}}
				for i, by := range q.By {
					a.Stacks[i] = by == "stack"
					s.Key = append(
						s.Key,
						map[string]measure.Label{"kind": 0, "process": 1, "pid": 1, "stack": 2}[by],
					)
				}
				a.Series = []measure.Series{s}
			}
			tick.Answers = append(tick.Answers, a)
		}
		tick.Answers[0].Loss = []measure.Loss{{Reason: "buffer full", Events: 3}}
		if err := each(tick); err != nil {
			return err
		}
	}
	return m.err
}

// locksRun runs a command line and returns the request to the tracer; nil: none.
func locksRun(t *testing.T, args ...string) (asked *Locking, status int, out, errs string) {
	t.Helper()
	var unused Profiling
	p, read := sampledBy(t, &unused)
	ended := false
	p.Locks = func(_ context.Context, q Locking) (Machine, func(), error) {
		asked = &q
		return &locksMachine{machine{ticks: 3}}, func() { ended = true }, nil
	}
	status = Run(t.Context(), p, append([]string{"locks"}, args...))
	if asked != nil && !ended {
		t.Error("the tracer goes on")
	}
	out, errs = read()
	return asked, status, out, errs
}

func TestLocksShown(t *testing.T) {
	_, status, out, errs := locksRun(t, "-s", "2", "1", "2")
	const table = `  Count  indv  cuml   wait   mean    max Lock          Caller
      %d 100.0 100.0 %s 2.00ms 2.00ms mutex         pipe_write+0x43
            pipe_write+0x43
            ksys_write+0x1
`
	want := fmt.Sprintf("  1 wait in 1.0 s (1.0/s), 2.00ms waited\n"+table, 1, "2.00ms")
	all := fmt.Sprintf("In all  2 waits in 2.0 s (1.0/s), 4.00ms waited\n"+table, 2, "4.00ms")
	if status != 0 || strings.Count(out, want) != 2 || !strings.HasSuffix(out, "\n\n"+all) ||
		errs != "lost: 3: buffer full\nlost since: 3: buffer full\n" {
		t.Errorf("status %d\n%s%s\nwant\n%s%s", status, out, errs, want, all)
	}
	for line := range strings.Lines(out) {
		if len(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("wider than the terminal: %s", line)
		}
	}
}

func TestLocksOfPrograms(t *testing.T) {
	_, status, out, _ := locksRun(t, "--json", "-s", "1", "1", "1")
	var got struct {
		View string
		Rows []struct {
			Count    float64
			Wait     float64 `json:"wait_ns"`
			Caller   string
			Stack    []string
			Kind     string
			CumlRate float64 `json:"cuml_ratio"`
		}
		Loss []measure.Loss
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 0 ||
		got.View != "locks" || len(got.Rows) != 1 || got.Rows[0].Wait != 2e6 ||
		got.Rows[0].Caller != "vmlinux`pipe_write+0x43" ||
		!reflect.DeepEqual(got.Rows[0].Stack, []string{"vmlinux`pipe_write+0x43"}) ||
		got.Rows[0].Kind != "mutex" ||
		got.Rows[0].CumlRate != 1 ||
		len(got.Loss) != 1 {
		t.Errorf("status %d, %v: %s", status, err, out)
	}
	if _, _, out, _ = locksRun(t, "--csv", "--by", "process", "1", "1"); !strings.HasPrefix(
		out,
		"time,seconds,count,count_per_s,indv_ratio,cuml_ratio,wait_ns,mean_ns,max_ns,process\n",
	) ||
		!strings.HasSuffix(out, ",1,1,1,1,2000000,2000000,2000000,cat\n") {
		t.Error(out)
	}
}

func TestLocksAsked(t *testing.T) {
	for line, want := range map[string]Locking{
		"":                 {Unwind: "auto", Stacks: true},
		"--by process":     {Unwind: "auto", ByProcess: true},
		"--by kind --hist": {Unwind: "auto", Dists: true},
		"--kernel --by pid,caller --min 20us -p 7,8 --cpu 1 --thread 9 --process a,b --cgroup /c --unwind fp": {Kernel: true, ByProcess: true, Stacks: true, Least: 20 * measure.Microsecond, PIDs: []int{7, 8}, CPUs: []int{1},
			TIDs: []int{9}, Processes: []string{"a", "b"}, Cgroups: []string{"/c"}, Unwind: "fp"},
	} {
		got, status, _, errs := locksRun(t, strings.Fields(line)...)
		if got == nil || status != 0 || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: status %d, %+v, %s", line, status, got, errs)
		}
	}
}

func TestLocksRefused(t *testing.T) {
	for line, want := range map[string]string{
		"--kernel --user":      "exclude each other",
		"--by proces":          "did you mean process?",
		"--by=":                "--by takes some of",
		"-s 0":                 "from 1 to 127",
		"-s many":              "--stacks \"many\"",
		"-s 128":               "from 1 to 127",
		"--min soon":           "--min \"soon\" is not a time",
		"--pid -1":             "numbers from 0 on",
		"--process=":           "take a name",
		"--unwind dwarf":       "auto, fp or tables",
		"--from -5m":           "not recorded",
		"--at now 1":           "not recorded",
		"--server https://a:1": "not recorded",
		"0":                    "out of range",
		"1 0":                  "not a positive number",
		"--json --csv":         "exclude each other",
		"--sort wiat_ns 1 1":   "did you mean wait_ns?",
		"--stack 3":            "did you mean --stacks?",
	} {
		asked, status, out, errs := locksRun(t, strings.Fields(line)...)
		if status != exitUsage || !strings.Contains(errs, want) || out != "" ||
			asked != nil && !strings.Contains(line, "--sort") {
			t.Errorf("%s: status %d, asked %v: %s%s", line, status, asked, out, errs)
		}
	}
	if n := len(classic.LocksBy()); n != 4 {
		t.Errorf("%d words for --by, and the help names four", n)
	}
}
