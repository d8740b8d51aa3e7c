package cases

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tries is how often a story is played when the machine is too busy with other things to show it.
const tries = 3

// abreast is how many light stories play at once.
const abreast = 5

// envStories selects what TestStories plays: "all", or the number of a tenth, 0 to 9. The default
// is a tenth that changes daily. -run TestStories/NAME selects among all.
const envStories = "CULPRIT_STORIES"

// selected returns the stories to play, and how they were selected.
func selected() (stories []Story, how string, err error) {
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return Catalogue(), "those that match -run", nil
	}
	switch v := os.Getenv(envStories); v {
	case "all":
		return Catalogue(), v, nil
	case "":
		tenth := time.Now().UTC().YearDay() % 10
		return Chosen(tenth), fmt.Sprintf("the five, and tenth %d of the others", tenth), nil
	default:
		tenth, err := strconv.Atoi(v)
		if err != nil || tenth < 0 || tenth > 9 {
			return nil, "", fmt.Errorf("%s=%q: give all, or a number from 0 to 9", envStories, v)
		}
		return Chosen(tenth), fmt.Sprintf("the five, and tenth %d of the others", tenth), nil
	}
}

func TestChosen(t *testing.T) {
	seen := map[string]int{}
	most := 0
	for tenth := range 10 {
		some := Chosen(tenth)
		most = max(most, len(some))
		for _, s := range some {
			seen[s.Name]++
		}
	}
	for _, s := range Catalogue() {
		if seen[s.Name] == 0 {
			t.Errorf("no tenth plays %s", s.Name)
		}
	}
	for _, name := range Five() {
		s, err := Find(name)
		if err != nil || s.Twin == "" || seen[name] != 10 || seen[s.Twin] != 10 {
			t.Errorf("%s (%v) is played by %d tenths, its twin %q by %d", name, err, seen[name],
				s.Twin, seen[s.Twin])
		}
	}
	if most > len(Catalogue())/2 {
		t.Errorf("a tenth plays %d of %d stories", most, len(Catalogue()))
	}
}

// TestStories plays the selected stories, but for those of TestTables, and compares the diagnosis
// with the truth: light ones some at a time when the others are over.
func TestStories(t *testing.T) {
	if quick() {
		return
	}
	needLab(t)
	bin := needProgram(t)
	timeout := time.Now().Add(5 * time.Minute) // then a disturbed story is judged as it is
	stage := make(chan struct{}, abreast)
	elsewhere := tableStories()
	stories, how, err := selected()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d stories: %s", len(stories), how)
	for _, story := range stories {
		if slices.ContainsFunc(elsewhere, func(s Story) bool { return s.Name == story.Name }) {
			continue
		}
		t.Run(story.Name, func(t *testing.T) {
			if story.Light {
				t.Parallel()
				stage <- struct{}{}
				defer func() { <-stage }()
			}
			played(t, story, bin, timeout, nil)
		})
	}
}

// played plays a story, again where the machine was disturbed. After the diagnosis the scene is
// shown to more, which may be nil.
func played(
	t *testing.T, story Story, bin string, timeout time.Time,
	more func(context.Context, *Scene) error,
) {
	t.Helper()
	if story.Needs != nil {
		if why := story.Needs(); why != "" {
			t.Skipf("needs: %s", why)
		}
	}
	for n := 1; ; n++ {
		g, err := story.Grade(t.Context(), Grading{Program: bin, Over: "5s", More: more})
		if err != nil {
			t.Fatal(err)
		}
		wrong, disturbed := g.Wrong, g.Disturbed
		for _, s := range g.Notes {
			t.Log(s)
		}
		if len(wrong) > 0 && disturbed != "" && n < tries && time.Now().Before(timeout) {
			t.Logf(
				"again, for the machine is disturbed: %s; wrong was: %s", disturbed,
				strings.Join(wrong, "; "),
			)
			quieter(t.Context())
			continue
		}
		for _, s := range wrong {
			t.Error(s)
		}
		if disturbed != "" {
			t.Log(disturbed)
		}
		return
	}
}

// quieter waits until the machine has a second with less than a third of a CPU in use, at most a
// quarter of a minute.
func quieter(ctx context.Context) {
	for range 15 {
		before, start := machineBusy(), time.Now()
		if sleep(ctx, time.Second) != nil ||
			(machineBusy()-before)/time.Since(start).Seconds() < 0.33 {
			return
		}
	}
}

// TestJudge shows that the judge sees each kind of mistake: a test of a diagnosis that can't fail
// proves nothing.
func TestJudge(t *testing.T) {
	one, tenth := 1.0, 0.1
	good := func(rule, severity, kind, name string) finding {
		f := finding{
			ID:         rule + "/" + name,
			Rule:       rule,
			Severity:   severity,
			Claim:      "it is so",
			Verify:     "look",
			Confidence: &one,
			Explains:   &one,
			Evidence:   []struct{ Value *float64 }{{&one}},
			Exonerated: []string{"disk"},
		}
		f.Culprit.Kind, f.Culprit.Name, f.Culprit.PID = kind, name, 7
		return f
	}
	truth := Truth{
		Rule:  "link-saturated",
		Kind:  []string{"process"},
		Names: []string{"bulk"},
		PID:   7,
		Also:  []string{"net-drops"},
		Never: []string{
			"cpu-saturated",
		},
		Explains: 0.8,
		Cleared:  []string{"disk"},
		Says:     []Span{{"how much", 0.9, 1.1}},
	}
	right := good("link-saturated", "high", "process", "bulk")
	with := func(change func(*finding)) []finding { f := right; change(&f); return []finding{f} }
	within := func(ns string) []finding { return with(func(f *finding) { f.Culprit.NetNS = ns }) }
	for _, c := range []struct {
		what    string
		truth   Truth
		said    []finding
		limited bool
		want    string // "" = nothing is wrong
	}{
		{"all right", truth, []finding{right, good("net-drops", "medium", "interface", "eth0")}, false, ""},
		{"nothing said", truth, nil, false, "not found"},
		{"another process", truth, with(func(f *finding) { f.Culprit.Name = "bash" }), false, `the culprit is "bash"`},
		{"another pid", truth, with(func(f *finding) { f.Culprit.PID = 8 }), false, "process 8, not 7"},
		{"another kind", truth, with(func(f *finding) { f.Culprit.Kind = "disk" }), false, "is a disk"},
		{"a remark only", truth, with(func(f *finding) { f.Severity = "low" }), false, "of low severity"},
		{"explains too little", truth, with(func(f *finding) { f.Explains = &tenth }), false, "explains 0.1"},
		{"explains unknown", truth, with(func(f *finding) { f.Explains = nil }), false, "explains null"},
		{"clears nothing", truth, with(func(f *finding) { f.Exonerated = nil }), false, "doesn't rule disk out"},
		{"no evidence", truth, with(func(f *finding) { f.Evidence = nil }), false, "no evidence"},
		{"a wrong number", truth, with(func(f *finding) { f.Evidence = []struct{ Value *float64 }{{&tenth}} }), false, "no evidence says how much, 0.9 to 1.1; there are 0.1"},
		{"no confidence", truth, with(func(f *finding) { f.Confidence = nil }), false, "confidence is null"},
		{"a wrong culprit too", truth, []finding{right, good("disk-saturated", "medium", "disk", "sda")}, false, "accused a wrong culprit"},
		{"a remark besides", truth, []finding{right, good("disk-saturated", "low", "disk", "sda")}, false, ""},
		{"a plain mistake", truth, []finding{right, good("cpu-saturated", "low", "cpu", "all")}, false, "plainly wrong"},
		{"ranked below another", truth, []finding{good("peer-slow", "medium", "peer", "10.0.0.1"), right}, false, "peer-slow is ranked before the truth"},
		{"ranked below another truth", truth, []finding{good("net-drops", "medium", "interface", "eth0"), right}, false, ""},
		{"twin, silent", Truth{}, nil, false, ""},
		{"twin, accused", Truth{}, []finding{right}, false, "accused a wrong culprit"},
		{"others busy", Truth{Never: []string{"cpu-saturated"}}, []finding{good("cpu-saturated", "high", "process", "compile")}, true, ""},
		{"others busy, but no disk", Truth{}, []finding{good("disk-saturated", "high", "disk", "vda")}, true, "accused a wrong culprit"},
		{"the CPU story on a busy machine", Truth{Rule: "cpu-saturated", Names: []string{"crunch"}}, []finding{good("cpu-saturated", "high", "process", "compile")}, true, `the culprit is "compile"`},
		{"another run's scene", Truth{}, within("culab12-src"), false, ""},
		{"another run's cgroup", Truth{}, []finding{good("cgroup-throttled", "high", "cgroup", "/culab12-app")}, false, ""},
		{"this run's cgroup", Truth{}, []finding{good("cgroup-throttled", "high", "cgroup", "/culab1-app")}, false, "accused a wrong culprit"},
		{"this run's scene", Truth{}, within("culab1-src"), false, "accused a wrong culprit"},
	} {
		g := judge(c.truth, report{Findings: c.said}, "culab1", c.limited)
		if got := strings.Join(g.Wrong, "; "); c.want == "" && got != "" ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s: judged %q, want %q", c.what, got, c.want)
		}
	}
}
