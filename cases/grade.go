package cases

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Grade is a diagnosis of a scene, compared with its truth.
type Grade struct {
	// Rank is the position of the right culprit among the findings, from 1; 0: it is not there.
	Rank int
	// Severe is the number of findings of high and medium severity, and True how many of them name
	// the truth or what goes with it. Findings about other programs of the machine do not count.
	Severe, True int
	Seconds      float64  // from the start of the diagnosis to its end
	Others       float64  // CPUs that programs outside the lab used
	Wrong        []string // what is wrong with the diagnosis, or with the scene
	Notes        []string
	Limited      bool // programs outside the lab used much of the CPUs
	Void         bool // the scene was not as it should be: the diagnosis proves nothing
	Crowded      bool // another scene was played beside it
	// Disturbed is why a wrong diagnosis may not be its fault; "": it is.
	Disturbed string
}

// Grading describes how a scene is played and diagnosed.
type Grading struct {
	Program string // the path of culprit
	Over    string // the time that the diagnosis watches, such as "5s"
	Beside  bool   // a second, healthy workload runs beside the scene
	// More is called after the diagnosis, while the scene lasts; its error is something wrong. May
	// be nil.
	More func(context.Context, *Scene) error
}

// Grade plays a story once in a lab of its own and diagnoses it. The error is that of the lab, or
// of the context.
func (s Story) Grade(ctx context.Context, how Grading) (g Grade, err error) {
	l, err := New()
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	sc, err := s.Play(l, Options{})
	if err == nil && how.Beside {
		err = neighbours(l)
	}
	if err != nil {
		return Grade{Wrong: []string{err.Error()}, Void: true}, nil
	}
	if err := sleep(ctx, 500*time.Millisecond); err != nil { // TCP has found its speed by then
		return g, err
	}
	if s.Over != "" {
		how.Over = s.Over
	}
	return how.observe(ctx, sc), nil
}

// observe diagnoses a scene and compares the diagnosis with its truth.
func (how Grading) observe(ctx context.Context, sc *Scene) Grade {
	type measured struct {
		outside, said []string
		beside        []int // processes of other scenes, which come and go
	}
	scene := make(chan measured, 1)
	go func() { // while the diagnosis looks, not before: the machine may be quiet only then
		m := measured{beside: processesBeside(sc.Lab.Run())}
		m.outside, m.said = sc.Outside(ctx, 3*time.Second)
		m.beside = append(m.beside, processesBeside(sc.Lab.Run())...)
		scene <- m
	}()
	look := watchCPUs(sc.Lab)
	start := time.Now()
	r, err := diagnose(ctx, sc, how.Program, how.Over)
	seconds := time.Since(start).Seconds()
	used := look()
	m := <-scene
	if err != nil {
		return Grade{
			Wrong: []string{err.Error()}, Others: used.others(), Limited: used.limited(),
		}
	}
	limited := used.limited()
	g := judge(sc.Truth, r, sc.Lab.Run(), limited, m.beside...)
	g.Seconds, g.Others, g.Limited = seconds, used.others(), limited
	g.Crowded = len(m.beside) > 0
	for _, f := range r.Findings {
		g.Notes = append(g.Notes, "said: "+f.String())
	}
	if len(g.Wrong) > 0 {
		for _, m := range r.Missing {
			g.Notes = append(
				g.Notes, fmt.Sprintf("missing for %s: %s %s", m.Rule, m.Statistic, m.Why),
			)
		}
		g.Notes = append(g.Notes, m.said...)
	}
	if how.More != nil {
		if err := how.More(ctx, sc); err != nil {
			g.Wrong = append(g.Wrong, err.Error())
		}
	}
	if bad := sc.Failed(); len(bad) > 0 {
		g.Wrong, g.Void = append(g.Wrong, "a load ended: "+strings.Join(bad, "; ")), true
		return g
	}
	var why []string
	if limited {
		why = append(why, fmt.Sprintf("others took %.1f CPUs, other scenes %.1f", used.others(),
			used.labs-used.own))
	}
	if len(m.outside) > 0 {
		why = append(why, m.outside...)
		// A scene that isn't what it should be proves nothing, whatever was said of it.
		g.Wrong = append(
			g.Wrong, "the scene isn't as it should be: "+strings.Join(m.outside, "; "),
		)
		g.Void = true
	}
	g.Disturbed = strings.Join(why, "; ")
	return g
}

// neighbours starts the second workload: a fifth of each CPU in several processes, and 20 MB/s over
// loopback.
func neighbours(l *Lab) error {
	for cpu := range runtime.NumCPU() {
		l.Start(Program{
			Name: fmt.Sprintf("neighbour-%d", cpu), Act: "burn", CPUs: []int{cpu},
			Args: []string{"-duty", "0.2"},
		})
	}
	h := l.Host("next")
	l.Start(Program{
		Name: "next-cache", Act: "sink", On: h, Args: []string{"-at", "127.0.0.1:7070"},
	})
	l.Start(Program{
		Name: "next-feeder", Act: "stream", On: h,
		Args: []string{"-to", "127.0.0.1:7070", "-rate", "20e6"},
	})
	return l.Err()
}

// cpuUse is the mean number of CPUs that were in use.
type cpuUse struct {
	busy, idle float64 // of the machine
	own        float64 // of this scene
	labs       float64 // of all scenes
}

// others returns the CPUs that programs outside the lab used, the diagnosis among them.
func (u cpuUse) others() float64 { return u.busy - u.labs }

// limited reports whether other programs took so much of the CPUs that findings about CPUs may be
// true of them. Other scenes count where they leave few CPUs idle.
func (u cpuUse) limited() bool {
	n := float64(runtime.NumCPU())
	return u.others() > 0.3*n || u.busy-u.own > 0.3*n && u.idle < 0.15*n ||
		u.others() > 0.1*n && u.idle < 0.1*n
}

// watchCPUs begins to watch; the function that it returns ends it.
func watchCPUs(l *Lab) func() cpuUse {
	start, busy, idle := time.Now(), machineBusy(), machineIdle()
	own, labs := cpuOf(l.Run()), cpuOf("")
	return func() cpuUse {
		over := time.Since(start).Seconds()
		return cpuUse{
			busy: (machineBusy() - busy) / over, idle: (machineIdle() - idle) / over,
			own: since(own, cpuOf(l.Run())) / over, labs: since(labs, cpuOf("")) / over,
		}
	}
}

// judge holds a diagnosis against the truth. run is the name of the scene's run: somebody may play
// a story in another at the same time, and what is said of that one is let pass. limited says that
// others took a good part of the CPUs meanwhile: what is said of CPUs is true then, whoever is
// named. elsewhere lists the processes of other runs.
func judge(truth Truth, r report, run string, limited bool, elsewhere ...int) (g Grade) {
	foreign := func(f finding) bool {
		other := slices.Contains(elsewhere, f.Culprit.PID)
		// A cgroup's name is a path.
		for _, of := range []string{f.Culprit.NetNS, path.Base(f.Culprit.Name)} {
			other = other || strings.HasPrefix(of, namePrefix) && !strings.HasPrefix(of, run+"-")
		}
		return other || limited && strings.HasPrefix(f.Rule, "cpu-") && f.Rule != truth.Rule
	}
	wrong := func(format string, args ...any) {
		g.Wrong = append(g.Wrong, fmt.Sprintf(format, args...))
	}
	var found *finding
	var before []finding // what is ranked before the next one
	for i, f := range r.Findings {
		g.Wrong = append(g.Wrong, misshapen(f)...)
		isTruth := f.Rule == truth.Rule && truth.Rule != ""
		if foreign(f) && !isTruth {
			g.Notes = append(g.Notes, "let pass, for others were busy: "+f.String())
			continue
		}
		right := isTruth && len(misnamed(truth, f)) == 0
		if f.severe() {
			g.Severe++
			if right || slices.Contains(truth.Also, f.Rule) {
				g.True++
			}
		}
		if right && g.Rank == 0 {
			g.Rank = len(before) + 1
		}
		switch {
		case isTruth && found == nil:
			found = &r.Findings[i]
			for _, b := range before {
				if b.severe() && !slices.Contains(truth.Also, b.Rule) {
					wrong("%s is ranked before the truth, %s", b.Rule, f.Rule)
				}
			}
		case isTruth:
		case slices.Contains(truth.Never, f.Rule):
			wrong("plainly wrong: %s", f)
		case f.severe() && !slices.Contains(truth.Also, f.Rule):
			wrong("accused a wrong culprit: %s", f)
		}
		before = append(before, f)
	}
	switch {
	case truth.Rule == "":
	case found == nil:
		wrong("not found: %s", truth.Rule)
	default:
		g.Wrong = append(g.Wrong, amiss(truth, *found)...)
	}
	return g
}

// amiss lists what is wrong with the finding that ought to be there.
func amiss(truth Truth, f finding) (wrong []string) {
	rank := map[string]int{"low": 1, "medium": 2, "high": 3}
	if lowest := max(rank[truth.Lowest], 1); rank[f.Severity] < lowest ||
		truth.Lowest == "" && rank[f.Severity] < 2 {
		wrong = append(wrong, fmt.Sprintf("%s is of %s severity", f.Rule, f.Severity))
	}
	wrong = append(wrong, misnamed(truth, f)...)
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

// misnamed lists how the culprit of a finding differs from the right one.
func misnamed(truth Truth, f finding) (wrong []string) {
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
