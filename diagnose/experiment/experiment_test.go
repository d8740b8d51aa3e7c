package experiment

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/measure"
)

// row is a row of an answer: its words, and its rate in each second.
type row struct {
	words []string
	rates []float64
}

// answers is a reader with the rows of each statistic; seconds is how long they were measured.
type answers struct {
	seconds int
	rows    map[measure.StatID][]row
	notes   []string
}

// Ask returns the rows of a statistic.
func (r answers) Ask(_ context.Context, q measure.Query) (*measure.Answer, error) {
	a := &measure.Answer{Query: q, Unit: "B/s", Start: 1e9, Step: measure.Second, Notes: r.notes}
	for range r.seconds {
		a.Elapsed = append(a.Elapsed, measure.Second)
	}
	for _, row := range r.rows[q.Stat] {
		s := measure.Series{Values: row.rates}
		for _, w := range row.words {
			s.Key = append(s.Key, measure.Label(len(a.Labels)))
			a.Labels = append(a.Labels, w)
		}
		a.Series = append(a.Series, s)
	}
	return a, nil
}

// full returns a report with a full disk, whose time was divided by an estimate.
func full(culprit diagnose.Culprit) *diagnose.Report {
	return &diagnose.Report{Findings: []diagnose.Finding{{ID: "disk-saturated/sda",
		Rule: "disk-saturated", Culprit: culprit, Claim: "sda is saturated.",
		Fix:     &diagnose.Fix{Command: "ionice -c 3 -p 7"},
		Subject: facts.SaturatedDisk{Device: "sda", Title: "sda", Least: 0.3},
		Attribution: &diagnose.Attribution{Resource: "busy time of sda", Unit: "ratio", Total: 0.98,
			Limit: 0.9, Basis: "estimated: busy time by bytes", Users: []diagnose.ResourceUser{
				{Name: "ship.py (python3)[7]", PID: 7, Part: 0.6, Wants: 0.7}}}}}}
}

var requests = answers{3, map[measure.StatID][]row{"disk.io.bytes": {
	{[]string{"sda", "python3", "7"}, []float64{10, 20, 30}},
	{[]string{"sda", "kworker/u8:1", "50"}, []float64{40, 40, 40}},
	{[]string{"sda", "kworker/3:2H", "51"}, []float64{0, 30, 0}},
	{[]string{"sda", "tar", "12"}, []float64{300, 300, 360}},
	{[]string{"sda", "tar", "13"}, []float64{90, 0, 0}},
	{[]string{"sdb", "cp", "9"}, []float64{9e9, 9e9, 9e9}},
}}, nil}

// TestDisk: the program that causes most requests becomes the culprit, with measured evidence.
func TestDisk(t *testing.T) {
	r := full(diagnose.Culprit{Kind: "process", Name: "python3", PID: 7})
	p := NewPlan(r)
	if len(p.Queries) != 1 || p.Queries[0] != DiskBytes {
		t.Fatalf("queries %v", p.Queries)
	}
	changed, err := p.Apply(t.Context(), requests)
	if err != nil {
		t.Fatal(err)
	}
	f := &r.Findings[0]
	// tar 350, kernel threads 50, python3 20 of 420 B/s
	const text = "Without tar[12] sda would be busy 16 % of the time (now 98 %)."
	if f.Attribution.Text != text || !strings.HasPrefix(f.Attribution.Basis, "measured") {
		t.Errorf("%+v", f.Attribution)
	}
	if c := f.Culprit; c.Name != "tar" || c.PID != 12 || f.Fix != nil || f.ID != "disk-saturated/sda" {
		t.Errorf("culprit %+v, fix %+v, ID %s", c, f.Fix, f.ID)
	}
	if math.Abs(float64(f.Explains)-0.833) > 0.001 {
		t.Errorf("explains %v", f.Explains)
	}
	e := f.Evidence[0]
	if e.Text != "tar[12] caused 350 B/s of requests to sda, 83 % of them (measured)" ||
		e.Value != 350 || e.ComparedWith != 420 ||
		e.Statistic != `disk.io.bytes where device = "sda" and pid in (12, 13)` {
		t.Errorf("evidence %+v", e)
	}
	if len(changed) != 1 || !strings.HasPrefix(changed[0],
		"disk-saturated/sda: the culprit is tar[12]") {
		t.Errorf("changed %q", changed)
	}
	users := map[string]float64{}
	for _, u := range f.Attribution.Users {
		users[u.Name] = float64(u.Part)
	}
	if math.Abs(users["python3[7]"]-0.98*20/420) > 1e-5 ||
		math.Abs(users[writers]-0.98*50/420) > 1e-5 {
		t.Errorf("users %v", users)
	}
}

// TestDiskConfirmed: a culprit that causes most requests stays, with its fix.
func TestDiskConfirmed(t *testing.T) {
	r := full(diagnose.Culprit{Kind: "process", Name: "tar", PID: 12})
	if _, err := NewPlan(r).Apply(t.Context(), requests); err != nil {
		t.Fatal(err)
	}
	if f := r.Findings[0]; f.Culprit.PID != 12 || f.Fix == nil || f.Claim != "sda is saturated." {
		t.Errorf("%+v", f)
	}
}

// TestStarts: the process that starts most programs is named where none was.
func TestStarts(t *testing.T) {
	for _, tt := range []struct {
		name, culprit, want string
		others              float64
	}{
		{"unknown", "short-lived processes", "make", 20},
		{"known", "bash", "bash", 20},
		{"several", "short-lived processes", "short-lived processes", 30},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &diagnose.Report{Findings: []diagnose.Finding{{ID: "cpu-saturated/short-lived",
				Rule: "cpu-saturated", Culprit: diagnose.Culprit{Kind: "process",
					Name: tt.culprit}}}}
			changed, err := NewPlan(r).Apply(t.Context(), answers{2, map[measure.StatID][]row{
				"process.exec.count": {
					{[]string{"cc1", "31", "make"}, []float64{30, 50}},
					{[]string{"as", "31", "make"}, []float64{10, 10}},
					{[]string{"date", "32", "sh"}, []float64{tt.others, tt.others}},
					{[]string{"true", "33", "cron"}, []float64{tt.others, tt.others}},
				}}, nil})
			if err != nil || len(changed) != 1 {
				t.Fatalf("%q, %v", changed, err)
			}
			if got := r.Findings[0].Culprit.Name; got != tt.want {
				t.Errorf("culprit %s, want %s: %s", got, tt.want, changed)
			}
		})
	}
}

// TestNotMeasured: without an answer the report stays as it was, and the reason is known.
func TestNotMeasured(t *testing.T) {
	r := full(diagnose.Culprit{Kind: "process", Name: "python3", PID: 7})
	_, err := NewPlan(r).Apply(t.Context(), answers{1, nil, []string{"needs CAP_BPF"}})
	if err == nil || !strings.Contains(err.Error(), "needs CAP_BPF") {
		t.Errorf("%v", err)
	}
	if f := r.Findings[0]; f.Culprit.PID != 7 || len(f.Evidence) > 0 ||
		!strings.HasPrefix(f.Attribution.Basis, "estimated") {
		t.Errorf("%+v", f)
	}
	if _, err := NewPlan(r).Apply(t.Context(), failing{}); !errors.Is(err, measure.ErrDenied) {
		t.Errorf("%v", err)
	}
}

// failing is a reader that refuses.
type failing struct{}

// Ask returns an error.
func (failing) Ask(context.Context, measure.Query) (*measure.Answer, error) {
	return nil, measure.ErrDenied
}

// TestNothingToMeasure: other findings start no experiment.
func TestNothingToMeasure(t *testing.T) {
	r := &diagnose.Report{Findings: []diagnose.Finding{{ID: "cpu-saturated/crunch",
		Rule: "cpu-saturated"}, {ID: "disk-saturated/sda", Rule: "disk-saturated",
		Subject: facts.SaturatedDisk{Device: "sda"}}}}
	if p := NewPlan(r); len(p.Queries) > 0 || len(p.Findings()) > 0 {
		t.Errorf("%v for %v", p.Queries, p.Findings())
	}
}

// TestWaits: waits are counted by place for the processes of the finding, of its kind only.
func TestWaits(t *testing.T) {
	r := &diagnose.Report{Findings: []diagnose.Finding{{ID: "io-stalled",
		Subject: facts.Waiters{PIDs: []int{7, 8}, On: facts.WaitsOnDevice}}}}
	p := NewPlan(r)
	if w := p.Waiting(); len(w) != 2 || len(p.Queries) != 0 || p.Findings()[0] != "io-stalled" {
		t.Fatalf("%v, queries %v, findings %v", w, p.Queries, p.Findings())
	}
	read := []string{"libc.so.6`read+0x12", "cp`main+0x7"}
	throttled := []string{"vmlinux`io_schedule+0x46", "vmlinux`rq_qos_wait+0xb0"}
	changed := p.ApplyWaits([]Wait{
		{"cp", 7, "uninterruptible", throttled, read, 2 * measure.Second},
		{"cp", 8, "uninterruptible", throttled, read, measure.Second / 2},
		{"cp", 7, "uninterruptible", []string{"vmlinux`folio_wait_bit+0x1"}, nil, measure.Second / 2},
		{"cp", 7, "sleeping", throttled, read, 90 * measure.Second},
		{"other", 9, "uninterruptible", throttled, read, 90 * measure.Second},
	}, 3)
	e := r.Findings[0].Evidence
	if len(e) != 2 || e[0].Text != "83 % of the waits for I/O are in rq_qos_wait, called from "+
		"read, main, mostly those of cp[7] (measured)" || math.Abs(float64(e[0].Value)-2.5/3) > 1e-9 ||
		float64(e[0].ComparedWith) != 1 ||
		e[1].Text != "17 % of the waits for I/O are in folio_wait_bit, mostly those of cp[7] "+
			"(measured)" {
		t.Errorf("%+v", e)
	}
	if len(changed) != 1 || !strings.HasPrefix(changed[0], "io-stalled: 83 % of the waits") {
		t.Errorf("%q", changed)
	}
	if none := p.ApplyWaits(nil, 3); none[0] != "io-stalled: no wait of its programs ended meanwhile" {
		t.Errorf("%q", none)
	}
}
