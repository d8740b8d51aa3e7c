package cases

import (
	"context"
	"fmt"
	"math"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// tries is how often a story is played when the machine is too busy with other things to show it.
const tries = 3

// abreast is how many light stories play at once.
const abreast = 5

// TestStories plays every story, but for those of TestTables, and holds the diagnosis against the
// truth: light ones some at a time when the others are over.
func TestStories(t *testing.T) {
	if quick() {
		return
	}
	needLab(t)
	bin := needProgram(t)
	timeout := time.Now().Add(5 * time.Minute) // then a disturbed story is judged as it is
	stage := make(chan struct{}, abreast)
	elsewhere := tableStories()
	for _, story := range Catalogue() {
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
		wrong, notes, disturbed := tell(t, story, bin, more)
		for _, s := range notes {
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

// tell plays a story once. wrong is what the diagnosis said amiss; disturbed says why that may not
// be its fault.
func tell(
	t *testing.T, story Story, bin string, more func(context.Context, *Scene) error,
) (wrong, notes []string, disturbed string) {
	t.Helper()
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sc, err := story.Play(l, Options{})
	if err != nil {
		return []string{err.Error()}, nil, ""
	}
	if err := sleep(ctx, 500*time.Millisecond); err != nil { // TCP has found its speed by then
		t.Fatal(err)
	}
	type measured struct{ outside, said []string }
	scene := make(chan measured, 1)
	go func() { // while the diagnosis looks, not before: the machine may be quiet only then
		outside, said := sc.Outside(ctx, 3*time.Second)
		scene <- measured{outside, said}
	}()
	look := func() func() (busy, idle, own, labs float64) {
		start, busy, idle, own, labs := time.Now(), machineBusy(), machineIdle(), cpuOf(
			l.Run(),
		), cpuOf(
			"",
		)
		return func() (float64, float64, float64, float64) {
			over := time.Since(start).Seconds()
			return (machineBusy() - busy) / over, (machineIdle() - idle) / over, since(
				own, cpuOf(l.Run()),
			) / over, since(labs, cpuOf("")) / over
		}
	}()
	r, err := diagnose(ctx, sc, bin)
	busy, idle, own, labs := look()
	// Strangers, this diagnosis among them, may do anything. What other scenes take leaves CPUs
	// free, or it is of this machine that it does not.
	others, limit := busy-labs, 0.3*float64(runtime.NumCPU())
	limited := others > limit || busy-own > limit && idle < limit/2
	m := <-scene
	if err != nil {
		return []string{err.Error()}, nil, ""
	}
	wrong, notes = judge(sc.Truth, r, l.Run(), limited)
	for _, f := range r.Findings {
		notes = append(notes, "said: "+f.String())
	}
	if len(wrong) > 0 {
		for _, m := range r.Missing {
			notes = append(notes, fmt.Sprintf("missing for %s: %s %s", m.Rule, m.Statistic, m.Why))
		}
		notes = append(notes, m.said...)
	}
	if more != nil {
		if err := more(ctx, sc); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if bad := sc.Failed(); len(bad) > 0 {
		return append(wrong, "a load ended: "+strings.Join(bad, "; ")), notes, disturbed
	}
	var why []string
	if limited {
		why = append(why, fmt.Sprintf("others took %.1f CPUs, other scenes %.1f", others, labs-own))
	}
	if len(m.outside) > 0 {
		why = append(why, m.outside...)
		// A scene that isn't what it should be proves nothing, whatever was said of it.
		wrong = append(wrong, "the scene isn't as it should be: "+strings.Join(m.outside, "; "))
	}
	return wrong, notes, strings.Join(why, "; ")
}

// judge holds a diagnosis against the truth. run is the name of the scene's run: somebody may play
// a story in another at the same time, and what is said of that one is let pass. limited says that
// others took a good part of the CPUs meanwhile: what is said of CPUs is true then, whoever is
// named.
func judge(truth Truth, r report, run string, limited bool) (wrong, notes []string) {
	severe := func(f finding) bool { return f.Severity == "high" || f.Severity == "medium" }
	foreign := func(f finding) bool {
		other := false
		// A cgroup's name is a path.
		for _, of := range []string{f.Culprit.NetNS, path.Base(f.Culprit.Name)} {
			other = other || strings.HasPrefix(of, namePrefix) && !strings.HasPrefix(of, run+"-")
		}
		return other || limited && strings.HasPrefix(f.Rule, "cpu-") && f.Rule != truth.Rule
	}
	found := -1
	for i, f := range r.Findings {
		wrong = append(wrong, misshapen(f)...)
		switch {
		case f.Rule == truth.Rule && truth.Rule != "":
			if found < 0 {
				found = i
				for _, before := range r.Findings[:i] {
					if severe(before) && !foreign(before) &&
						!slices.Contains(truth.Also, before.Rule) {
						wrong = append(
							wrong,
							fmt.Sprintf("%s is ranked before the truth, %s", before.Rule, f.Rule),
						)
					}
				}
			}
		case foreign(f):
			notes = append(notes, "let pass, for others were busy: "+f.String())
		case slices.Contains(truth.Never, f.Rule):
			wrong = append(wrong, "plainly wrong: "+f.String())
		case severe(f) && !slices.Contains(truth.Also, f.Rule):
			wrong = append(wrong, "accused a wrong culprit: "+f.String())
		}
	}
	if truth.Rule == "" {
		return wrong, notes
	}
	if found < 0 {
		return append(wrong, "not found: "+truth.Rule), notes
	}
	return append(wrong, amiss(truth, r.Findings[found])...), notes
}

// amiss lists what is wrong with the finding that ought to be there.
func amiss(truth Truth, f finding) (wrong []string) {
	rank := map[string]int{"low": 1, "medium": 2, "high": 3}
	if lowest := max(rank[truth.Lowest], 1); rank[f.Severity] < lowest ||
		truth.Lowest == "" && rank[f.Severity] < 2 {
		wrong = append(wrong, fmt.Sprintf("%s is of %s severity", f.Rule, f.Severity))
	}
	if len(truth.Kind) > 0 && !slices.Contains(truth.Kind, f.Culprit.Kind) {
		wrong = append(
			wrong,
			fmt.Sprintf(
				"the culprit is a %s, not a %s", f.Culprit.Kind, strings.Join(truth.Kind, " or "),
			),
		)
	}
	if len(truth.Names) > 0 &&
		!slices.ContainsFunc(
			truth.Names,
			func(n string) bool { return n == f.Culprit.Name || n == path.Base(f.Culprit.Name) },
		) {
		wrong = append(
			wrong,
			fmt.Sprintf(
				"the culprit is %q, not %s", f.Culprit.Name, strings.Join(truth.Names, " or "),
			),
		)
	}
	if f.Culprit.Kind == "process" && truth.PID != 0 && f.Culprit.PID != truth.PID {
		wrong = append(
			wrong, fmt.Sprintf("the culprit is process %d, not %d", f.Culprit.PID, truth.PID),
		)
	}
	if truth.Explains > 0 && (f.Explains == nil || *f.Explains < truth.Explains) {
		wrong = append(
			wrong,
			fmt.Sprintf(
				"%s explains %s of the symptom, less than %.2f", f.Rule, optional(f.Explains),
				truth.Explains,
			),
		)
	}
	for _, s := range truth.Says {
		if !slices.ContainsFunc(f.Evidence, func(e struct{ Value *float64 }) bool {
			return e.Value != nil && *e.Value >= s.Low && *e.Value <= s.High
		}) {
			var values []string
			for _, e := range f.Evidence {
				values = append(values, optional(e.Value))
			}
			wrong = append(
				wrong,
				fmt.Sprintf(
					"no evidence says %s, %.4g to %.4g; there are %s", s.What, s.Low, s.High,
					strings.Join(values, ", "),
				),
			)
		}
	}
	for _, c := range truth.Cleared {
		if !slices.Contains(f.Exonerated, c) {
			wrong = append(
				wrong, fmt.Sprintf("%s doesn't rule %s out, only %v", f.Rule, c, f.Exonerated),
			)
		}
	}
	return wrong
}

// misshapen lists what any finding must have and this one hasn't.
func misshapen(f finding) (wrong []string) {
	say := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("finding %s: ", f.Rule)+fmt.Sprintf(format, args...))
	}
	if f.ID == "" || f.Claim == "" || f.Verify == "" || f.Culprit.Kind == "" ||
		f.Culprit.Name == "" {
		say(
			"id %q, claim %q, verify %q, culprit %q %q: one is empty", f.ID, f.Claim, f.Verify,
			f.Culprit.Kind, f.Culprit.Name,
		)
	}
	if c := f.Confidence; c == nil || !(*c > 0 && *c <= 1) {
		say("its confidence is %s", optional(c))
	}
	if e := f.Explains; e != nil && !(*e >= 0 && *e <= 1) {
		say("it explains %s", optional(e))
	}
	known := false
	for _, e := range f.Evidence {
		known = known || e.Value != nil && !math.IsNaN(*e.Value)
	}
	if !known {
		say("no evidence with a number")
	}
	if f.Fix != nil && (f.Fix.Command == "" || f.Fix.Risk == "") {
		say("its fix lacks command or risk")
	}
	return wrong
}

func optional(v *float64) string {
	if v == nil {
		return "null"
	}
	return fmt.Sprintf("%.3g", *v)
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
		wrong, _ := judge(c.truth, report{Findings: c.said}, "culab1", c.limited)
		if got := strings.Join(wrong, "; "); c.want == "" && got != "" ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s: judged %q, want %q", c.what, got, c.want)
		}
	}
}
