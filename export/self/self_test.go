package self

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/measure"
)

// rowsOf returns the rows of batches as text, sorted.
func rowsOf(batches []*measure.Batch) (out []string) {
	for _, b := range batches {
		for i := range b.Rows() {
			var labels []string
			for _, l := range b.Key(i) {
				labels = append(labels, b.Labels[l])
			}
			out = append(out, fmt.Sprintf("%s(%s) %v", b.Stat, strings.Join(labels, ","), b.Values[i]))
		}
	}
	slices.Sort(out)
	return out
}

// everything returns a reading that wants all statistics.
func everything() *reading {
	r := &reading{wanted: map[measure.StatID]bool{}, counted: map[measure.StatID]float64{}}
	for _, st := range new(Source).Stats() {
		r.wanted[st.ID] = true
	}
	return r
}

// TestReading checks the rows of two readings: levels as they are, counters by their growth.
func TestReading(t *testing.T) {
	s := State{
		Health: measure.Health{
			Started: 5, CPU: 0.25, Memory: 6, Disk: 7, DiskLimit: 8, Refused: 10, Late: 20,
			Costs:    []measure.CostPart{{Name: "datasets", CPU: 0.2}, {Name: "other", CPU: 0.05}},
			Problems: []measure.Problem{{}, {}, {}},
		},
		Version: "1.0", Newest: 9, Diagnosed: true,
		Findings: []Finding{{"link-saturated", "interface", "eth0", "high", 0.9}},
	}
	r, now := everything(), time.Unix(1000, 0)
	r.read(s, now)
	s.Health.Refused, s.Health.Late = 13, 24
	batches := r.read(s, now.Add(time.Second))
	want := []string{
		"finding.confidence(link-saturated,interface,eth0,high) 0.9",
		"server.cost(datasets) 0.2",
		"server.cost(other) 0.05",
		"server.cpu() 0.25",
		"server.disk() 7",
		"server.disk.limit() 8",
		"server.info(1.0) 1",
		"server.late() 4",
		"server.memory() 6",
		"server.refused() 3",
		"server.started() 5",
		"server.tick() 9",
		"server.troubles() 3",
	}
	if got := rowsOf(batches); !slices.Equal(got, want) {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, b := range batches {
		if b.Over.Span() != measure.Second {
			t.Errorf("%s covers %v", b.Stat, b.Over)
		}
	}
}

// TestFindings checks that a reading has at most MaxFindings findings, the most severe ones, once
// each, with short names.
func TestFindings(t *testing.T) {
	s := State{Diagnosed: true, Findings: []Finding{
		{"a", "disk", "sda", "low", 0.9}, {"a", "disk", "sda", "low", 0.95},
		{"b", "process", strings.Repeat("ü", 100), "high", 0.3},
		{"c", "process", "nan", "medium", measure.NaN},
	}}
	for i := range 2 * MaxFindings {
		s.Findings = append(s.Findings, Finding{"d", "process", fmt.Sprint(i), "medium", 0.5})
	}
	r := everything()
	r.wanted = map[measure.StatID]bool{Findings: true}
	got := rowsOf(r.read(s, time.Now()))
	if len(got) != MaxFindings {
		t.Errorf("%d findings", len(got))
	}
	long := "finding.confidence(b,process," + strings.Repeat("ü", 62) + "…,high) 0.3"
	if got[0] != long {
		t.Errorf("the first is %s, want %s", got[0], long)
	}
	s.Findings = s.Findings[:4]
	got = rowsOf(r.read(s, time.Now()))
	want := []string{
		"finding.confidence(a,disk,sda,low) 0.95", long,
		"finding.confidence(c,process,nan,medium) 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("findings %q, want %q", got, want)
	}
}

// TestNoDiagnosis checks that findings are unmeasured before the first diagnosis, and measured as
// none after one without findings.
func TestNoDiagnosis(t *testing.T) {
	r := everything()
	for _, diagnosed := range []bool{false, true} {
		r.read(State{}, time.Unix(1, 0))
		b := r.read(State{Diagnosed: diagnosed}, time.Unix(2, 0))[0]
		if b.Stat != Findings || b.Rows() != 0 || (b.Over.Span() > 0) != diagnosed ||
			(len(b.Notes) == 0) != diagnosed {
			t.Errorf("diagnosed %v: %+v", diagnosed, b)
		}
	}
}

// TestRun checks that a run reports what is asked, each tick, and ends with the context.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	s := &Source{Read: func() State { return State{Version: "1"} }}
	err := s.Run(ctx, []measure.Query{{Stat: "server.info", Step: 10 * measure.Millisecond}},
		measure.SinkFunc(func(b []*measure.Batch) error {
			if n++; n == 3 {
				cancel()
			}
			if len(b) != 1 || b[0].Stat != "server.info" || b[0].Over.Span() <= 0 {
				t.Errorf("%d batches: %+v", len(b), b[0])
			}
			return nil
		}))
	if err != nil || n != 3 {
		t.Errorf("%d ticks, error %v", n, err)
	}
	if err := s.Run(t.Context(), []measure.Query{{Stat: "server.info"}}, nil); err == nil {
		t.Error("a run without a step is no error")
	}
}
