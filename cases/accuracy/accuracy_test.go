package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/cases"
	"culprit/heapbound"
)

func TestMain(m *testing.M) {
	cases.Act()
	os.Exit(m.Run())
}

// TestPage compares the page with the data: make cases writes both.
func TestPage(t *testing.T) {
	runs, err := readFile("runs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/ACCURACY.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != document(runs) {
		t.Error("docs/ACCURACY.md is not made of runs.jsonl: run make cases FOR=1s")
	}
	if len(runs) == 0 {
		t.Error("there are no runs")
	}
}

// at returns a time n minutes after the first one of the tests.
func at(n int) time.Time {
	return time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Minute)
}

func TestSummarize(t *testing.T) {
	got := summarize([]Run{
		{Rank: 1, Severe: 2, True: 2, Seconds: 13},
		{Rank: 3, Severe: 3, True: 1, Seconds: 11, Loaded: true},
		{Rank: 4, Severe: 5, True: 4, Seconds: 12},
		{Severe: 1, Seconds: 99},
		{Seconds: 98},
	})
	want := summary{
		Runs: 5, Loaded: 1, Found: 3, First: 1, Near: 2, Severe: 11, True: 7, Accused: 3,
		Seconds: []float64{11, 12, 13},
	}
	if !slices.Equal(got.Seconds, want.Seconds) {
		t.Errorf("seconds %v, want %v", got.Seconds, want.Seconds)
	}
	got.Seconds, want.Seconds = nil, nil
	if got.Runs != want.Runs || got.Loaded != want.Loaded || got.Found != want.Found ||
		got.First != want.First || got.Near != want.Near || got.Severe != want.Severe ||
		got.True != want.True || got.Accused != want.Accused {
		t.Errorf("summary %+v, want %+v", got, want)
	}
}

func TestNewest(t *testing.T) {
	var runs []Run
	for i := range windowOfFive { // older than all others
		runs = append(runs, Run{At: at(i), Story: "peer-slow", Five: true, Rank: 2})
	}
	runs = append(runs,
		Run{At: at(50), Story: "peer-slow", Five: true, Void: "a load ended"},
		Run{At: at(51), Story: "peer-slow", Five: true, Loaded: true, Rank: 3},
		Run{At: at(52), Story: "peer-slow", Five: true, Rank: 1},
		Run{At: at(53), Story: "peer-slow", Five: true, Beside: true, Rank: 5},
		Run{At: at(54), Story: "pids-limit", Loaded: true, Rank: 7},
	)
	got := newest(runs)
	one := got[mode{"peer-slow", false}]
	if len(one) != windowOfFive || one[0].Rank != 1 || !one[windowOfFive-1].At.Equal(at(1)) {
		t.Errorf("%d runs count, the first has rank %d, the last is of %v", len(one), one[0].Rank,
			one[len(one)-1].At)
	}
	if slices.ContainsFunc(one, func(r Run) bool { return r.Loaded || r.Void != "" }) {
		t.Error("a loaded or void run counts though there are enough quiet ones")
	}
	for m, rank := range map[mode]int{{"peer-slow", true}: 5, {"pids-limit", false}: 7} {
		if some := got[m]; len(some) != 1 || some[0].Rank != rank {
			t.Errorf("of %v count %v", m, some)
		}
	}
}

// TestMissing: a second start makes only the missing runs, first of the faults that lack most.
// Loaded and void runs are made again.
func TestMissing(t *testing.T) {
	o := options{only: "pids-"}
	runs := []Run{
		{Story: "pids-limit", Commit: "a"}, {Story: "pids-limit", Commit: "b"},
		{Story: "pids-limit", Commit: "b", Loaded: true},
		{Story: "pids-limit", Beside: true, Commit: "b", Void: "x"},
	}
	for range runsOfOther {
		runs = append(runs, Run{Story: "pids-busy", Commit: "a"})
	}
	for _, tt := range []struct {
		name  string
		fresh bool
		want  []int // of limit, limit beside, busy, busy beside
	}{
		{"any commit", false, []int{3, 5, 0, 5}},
		{"this commit", true, []int{4, 5, 5, 5}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o.fresh = tt.fresh
			lacking, count := o.missing(runs, "b")
			for i, m := range []mode{
				{"pids-limit", false}, {"pids-limit", true}, {"pids-busy", false},
				{"pids-busy", true},
			} {
				if count[m] != tt.want[i] {
					t.Errorf("%v lacks %d, want %d", m, count[m], tt.want[i])
				}
			}
			if len(lacking) == 0 || lacking[len(lacking)-1] != (mode{"pids-limit", false}) {
				t.Errorf("the mode with the fewest missing runs is not the last of %v", lacking)
			}
		})
	}
}

func TestDocument(t *testing.T) {
	text := document([]Run{
		{
			At: at(1), Commit: "c1", Kernel: "6.1", CPUs: 2, Story: "peer-slow", Fault: true, Five: true,
			Rank: 1, Severe: 1,
			True: 1, Seconds: 10.5,
		},
		{
			At: at(2), Commit: "c2", Kernel: "6.1", CPUs: 2, Story: "peer-slow", Fault: true, Five: true,
			Severe: 3, True: 2,
			Wrong: []string{"not found: peer-slow"}, Loaded: true, Others: 1.5,
		},
		{At: at(3), Commit: "c3", Story: "peer-equal", Kernel: "6.1", CPUs: 2, Severe: 1},
		{At: at(4), Commit: "c3", Story: "peer-equal", Kernel: "6.1", CPUs: 2, Void: "too slow"},
	})
	for _, want := range []string{
		"| peer-slow | 2 | 1 | 50 % | 50 % | 50 % | 75 % | 10.5 | 10.5 |",
		"| peer-equal | 1 | 0 | 1 | 0 | 0 | - |",
		"| five stories | no | 2 | 1 | 50 % | 50 % | 50 % | 75 % |",
		"| healthy twins | no | 1 | 0 | 100 % |",
		"* peer-slow, others used 1.5 CPUs (2026-11-27 12:02, c2): not found: peer-slow",
		"3 runs count, of 2026-11-27 to 2026-11-27, on Linux 6.1 with 2 CPUs, of 3 commits from c1",
		"1 runs are void",
	} {
		if !strings.Contains(strings.ReplaceAll(text, "\n", " "), want) &&
			!strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestReadRuns(t *testing.T) {
	good := Run{At: at(1), Story: "peer-slow", Rank: 2, Severe: 3, True: 1, Wrong: []string{"x"}}
	path := filepath.Join(t.TempDir(), "runs.jsonl")
	for range 2 {
		if err := appendRun(path, good); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := readFile(path)
	if err != nil || len(runs) != 2 || runs[1].Rank != 2 || runs[1].Wrong[0] != "x" {
		t.Errorf("read %+v, %v", runs, err)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"no JSON", "\n{", "line 2"},
		{"another field", `{"story":"a","speed":1}`, "speed"},
		{"no time", `{"story":"a"}`, "story and at"},
		{"more true than severe", `{"at":"2026-11-27T12:00:00Z","story":"a","true":1}`, "no more true"},
		{"too long", strings.Repeat(" ", maxLine+1), "line 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := readRuns(strings.NewReader(tt.text)); err == nil ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("read %q: %v, want an error with %q", tt.text, err, tt.want)
			}
		})
	}
}

func FuzzReadRuns(f *testing.F) {
	f.Add([]byte(`{"at":"2026-11-27T12:00:00Z","story":"peer-slow","rank":1,"severe":1,"true":1}`))
	heapbound.Fuzz(f, func(t *testing.T, data []byte) {
		runs, err := readRuns(strings.NewReader(string(data)))
		if err == nil {
			document(runs)
		}
	})
}
