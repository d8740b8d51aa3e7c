package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"culprit/measure"

	"github.com/google/pprof/profile"
)

// ownedReader has ten seconds of samples of two processes of one name, and of a thread without a
// process.
type ownedReader struct{ unnamed bool }

func (r ownedReader) Ask(_ context.Context, q measure.Query) (*measure.Answer, error) {
	a := &measure.Answer{Query: q, Start: q.Over.Start, Step: q.Step,
		Elapsed: []measure.Span{10 * measure.Second}}
	row := func(v float64, key ...measure.Label) {
		a.Series = append(a.Series, measure.Series{Key: key, Values: []float64{v}})
	}
	switch q.Stat {
	case measure.StackRate:
		a.Labels = []string{"0"}
		row(49, 0)
	case measure.StackSamples:
		a.Labels = []string{"worker", "11", "12", "13"}
		a.Frames = []measure.Frame{
			{Parent: -1}, {Symbol: "main", Module: "nginx", Parent: -1},
			{Symbol: "send", Module: "nginx", Parent: 1}, {Symbol: "tcp_sendmsg", Parent: -1},
		}
		row(2, 0, 0, 2, 1)
		row(3, 0, 3, 2, 2)
		row(0.5, 0, 0, 1, 3)
	default:
		if r.unnamed {
			return nil, errors.New("not recorded")
		}
		a.Labels = []string{"11", "12", "nginx", "/system.slice/nginx.service", "/docker/c0ffee"}
		row(1, 0, 2, 3)
		row(1, 1, 2, 4)
	}
	return a, nil
}

// owned returns the written profile of ownedReader.
func owned(t *testing.T, r ownedReader) []byte {
	t.Helper()
	got, err := AskOwned(t.Context(), r,
		measure.Interval{Start: 1_772_366_400e9, End: 1_772_366_410e9})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := WriteOwned(&b, got.Tree); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestOwned shows the labels and the values of samples, and what servers of profiles require of the
// header: two sample types, the period with its type, time and duration.
func TestOwned(t *testing.T) {
	p, err := profile.ParseData(owned(t, ownedReader{}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range p.Sample {
		got = append(got, fmt.Sprint(s.Label["process"], s.Label["cgroup"], s.Label["service"],
			s.Value[0], len(s.Location)))
	}
	slices.Sort(got)
	want := []string{
		"[nginx] [/docker/c0ffee] [nginx] 30 4",
		"[nginx] [/system.slice/nginx.service] [nginx] 20 3",
		"[worker] [] [worker] 5 2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if p.PeriodType == nil || p.PeriodType.Type != "cpu" || p.PeriodType.Unit != "nanoseconds" ||
		p.Period < 20e6 || p.Period > 21e6 || p.TimeNanos != 1_772_366_400e9 ||
		p.DurationNanos != 10e9 || p.DefaultSampleType != "cpu" || len(p.SampleType) != 2 {
		t.Errorf("header %+v", p)
	}
	for _, m := range p.Mapping {
		if !m.HasFunctions {
			t.Errorf("mapping %s has no functions", m.File)
		}
	}
}

// TestOwnedByGo reads the profile with Go's own tool, which must print no warning.
func TestOwnedByGo(t *testing.T) {
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("needs: tool go")
	}
	path := filepath.Join(t.TempDir(), "profile.pb.gz")
	if err := os.WriteFile(path, owned(t, ownedReader{}), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(tool, "tool", "pprof", "-top", "-tagfocus=cgroup=docker", path)
	c.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil || errs.Len() > 0 {
		t.Errorf("%v: %s", err, &errs)
	}
	if !strings.Contains(out.String(), "tcp_sendmsg") || !strings.Contains(out.String(), "612.24ms") {
		t.Errorf("output %s", &out)
	}
}

// TestOwnedWithoutNames shows that samples have the threads' names where processes are unknown.
func TestOwnedWithoutNames(t *testing.T) {
	p, err := profile.ParseData(owned(t, ownedReader{unnamed: true}))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Sample {
		if fmt.Sprint(s.Label["process"]) != "[worker]" {
			t.Errorf("labels %v", s.Label)
		}
	}
	if !strings.Contains(fmt.Sprint(p.Comments), "control groups are unknown: not recorded") {
		t.Errorf("comments %v", p.Comments)
	}
}

// TestServices shows the profiles of services, by their samples, and those beyond a number.
func TestServices(t *testing.T) {
	for _, tt := range []struct {
		most int
		want []string
	}{
		{2, []string{"nginx [nginx nginx] 50", "worker [worker] 5"}},
		{1, []string{"nginx [nginx nginx] 50", "other [worker] 5"}},
		{0, []string{"other [nginx nginx worker] 55"}},
	} {
		got, err := AskOwned(t.Context(), ownedReader{},
			measure.Interval{Start: 1_772_366_400e9, End: 1_772_366_410e9})
		if err != nil {
			t.Fatal(err)
		}
		all, err := Services(got.Tree, tt.most)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, one := range all {
			p, err := profile.ParseData(one.Data)
			if err != nil {
				t.Fatal(err)
			}
			var processes []string
			sum := int64(0)
			for _, s := range p.Sample {
				processes = append(processes, s.Label["process"][0])
				sum += s.Value[0]
			}
			slices.Sort(processes)
			texts = append(texts, fmt.Sprint(one.Service, " ", processes, " ", sum))
			if p.DurationNanos != 10e9 || p.DefaultSampleType != "cpu" {
				t.Errorf("header %+v", p)
			}
		}
		if !slices.Equal(texts, tt.want) {
			t.Errorf("most %d: %q, want %q", tt.most, texts, tt.want)
		}
	}
}

func TestServiceOf(t *testing.T) {
	for _, tt := range []struct{ process, cgroup, want string }{
		{"nginx", "/system.slice/nginx.service", "nginx"},
		{"firefox", "/user.slice/user@1000.service/app.slice/web.service", "web"},
		{"bash", "/user.slice/session-3.scope", "bash"},
		{"kworker/0:1", "", "kworker"},
		{"x", "/.service", "x"},
	} {
		if got := serviceOf(tt.process, tt.cgroup); got != tt.want {
			t.Errorf("%s in %s: %s, want %s", tt.process, tt.cgroup, got, tt.want)
		}
	}
}
