package rules

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"culprit/diagnose"
	"culprit/diagnose/attribute"
	"culprit/measure"
)

var update = flag.Bool("update", false, "write the .golden files")

// TestCases runs all rules over each canned machine. The findings must be exactly the expected
// ones: a machine with one fault must not be accused of another. Their texts must be those of the
// .golden file.
func TestCases(t *testing.T) {
	files, _ := filepath.Glob("testdata/*/*.txt")
	if len(files) < 3 {
		t.Fatal("no cases")
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".txt")
		t.Run(name, func(t *testing.T) {
			c := readCanned(t, file, nil)
			if !c.nothing && len(c.expect) == 0 {
				t.Fatal("the case expects neither a finding nor nothing")
			}
			rep, err := diagnose.Run(context.Background(), c, Set(), c.over(), c.step)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range rep.Findings {
				want, ok := c.expect[f.ID]
				if !ok {
					t.Errorf("accuses %s: %s", f.ID, f.Claim)
				} else if want != "" && want != string(f.Severity) {
					t.Errorf("%s is %s, want %s", f.ID, f.Severity, want)
				}
				delete(c.expect, f.ID)
			}
			for id := range c.expect {
				t.Errorf("does not find %s", id)
			}
			for _, rule := range c.silent {
				if !strings.Contains(missingRules(rep), rule+" ") {
					t.Errorf("%s is not said to be unchecked: %s", rule, missingRules(rep))
				}
				for _, r := range All() {
					if r.ID == rule && contains(rep.Checked, r.Checks) {
						t.Errorf("%s is unchecked and in the list of what was checked", rule)
					}
				}
			}
			for _, r := range c.fine {
				found := false
				for _, e := range rep.Fine {
					found = found || e.Resource == r
				}
				if !found {
					t.Errorf("%s is not exonerated: %v", r, rep.Fine)
				}
			}
			var inDoubt []string
			for _, d := range rep.Doubtful {
				inDoubt = append(inDoubt, d.Resource)
			}
			if !slices.Equal(inDoubt, c.doubtful) {
				t.Errorf("in doubt are %v, want %v", inDoubt, c.doubtful)
			}
			wellFormed(t, rep)
			o := &outliner{canned: c}
			if late, err := diagnose.Run(context.Background(), o, Set(), c.over(),
				c.step); err != nil || render(late) != render(rep) {
				t.Errorf("the report differs when rows are fetched on first use: "+
					"%v\n%s", err, render(late))
			}
			if o.outlined == 0 || o.asked >= o.outlined {
				t.Errorf("of %d outlined tables %d were fetched", o.outlined,
					o.asked)
			}
			golden(t, strings.TrimSuffix(file, ".txt")+".golden", render(rep))
		})
	}
}

// outliner is a canned machine that answers with outlines first.
type outliner struct {
	*canned
	outlined, asked int
}

func (o *outliner) Ask(ctx context.Context, q measure.Query) (*measure.Answer, error) {
	o.asked++
	return o.canned.Ask(ctx, q)
}

func (o *outliner) Outline(ctx context.Context, q measure.Query) (a *measure.Answer, rows int,
	numbers, ok bool) {
	a, err := o.canned.Ask(ctx, q)
	if err != nil || a == nil || a.Kind == measure.Dists {
		return nil, 0, false, false
	}
	for _, s := range a.Series {
		for _, v := range s.Values {
			numbers = numbers || v == v
		}
	}
	o.outlined++
	rows, a.Series = len(a.Series), nil
	return a, rows, numbers, true
}

func missingRules(rep *diagnose.Report) string {
	s := ""
	for _, m := range rep.Missing {
		s += m.Rule + " "
	}
	return s
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// TestEveryRuleHasItsCases: each rule has a firing, a silent and a missing-data case.
func TestEveryRuleHasItsCases(t *testing.T) {
	for _, r := range All() {
		for _, kind := range []string{"fires", "silent", "missing"} {
			files, _ := filepath.Glob(filepath.Join("testdata", r.ID, kind+"*.txt"))
			if len(files) == 0 {
				t.Errorf("%s has no case that is %s", r.ID, kind)
			}
			for _, file := range files {
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				about := strings.Contains(string(b), "expect "+r.ID)
				if about != (kind == "fires") {
					t.Errorf("%s: expects the rule's finding: %v", file, about)
				}
				if kind == "missing" && !strings.Contains(string(b), "unchecked "+r.ID) {
					t.Errorf("%s: does not say unchecked %s", file, r.ID)
				}
			}
		}
	}
}

// TestSentences: every query of a rule parses, has fields of its statistic, and is declared by the
// rule that asks it.
func TestSentences(t *testing.T) {
	stats := contract(t)
	for _, s := range diagnose.Queries(All()) {
		q, err := measure.ParseQuery(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if q.String() != s {
			t.Errorf("not as sentences are written: %s, want %s", s, q)
		}
		if err := asksWhatIs(stats, q); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	ids := map[string]bool{}
	for _, r := range All() {
		if ids[r.ID] || r.Checks == "" || len(r.Needs)+len(r.Finds)+len(r.Traced) == 0 {
			t.Errorf("rule %+v", r)
		}
		ids[r.ID] = true
	}
}

// TestTracedIsQuiet: the reason why traced times are missing is not reported; caveats about
// measured ones are.
func TestTracedIsQuiet(t *testing.T) {
	run := func(softirqs *cannedStat) *diagnose.Report {
		c := readCanned(t, "testdata/interface-unused/fires-measured.txt", nil)
		c.stats["softirq.time"] = softirqs
		rep, err := diagnose.Run(context.Background(), c, Set(), c.over(), c.step)
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	for name, s := range map[string]*cannedStat{"noted": {notes: []string{"use BPF: needs root"}},
		"refused": {err: "needs root"}, "never": nil} {
		rep := run(s)
		if len(rep.Notes) > 0 || len(rep.Missing) > 0 || len(rep.Findings) != 1 {
			t.Errorf("%s: %q, missing %v, %d findings", name, rep.Notes, rep.Missing,
				len(rep.Findings))
		}
		if e := evidenceAbout(rep.Findings[0], "of a CPU"); !strings.Contains(e,
			"about 2 % of a CPU (estimated)") {
			t.Errorf("%s: %s", name, e)
		}
	}
	expensive := "measuring the time of interrupts takes more than 5 % of one CPU here"
	rep := run(&cannedStat{notes: []string{expensive},
		rows: []cannedRow{{[]string{"1", "NET_RX", "qfe0"}, []string{"0.1"}}}})
	if len(rep.Notes) != 1 || rep.Notes[0] != expensive {
		t.Errorf("%q", rep.Notes)
	}
	if e := evidenceAbout(rep.Findings[0], "of a CPU"); !strings.Contains(e,
		"10 % of a CPU, 11.6 us each (measured)") {
		t.Error(e)
	}
}

// evidenceAbout returns the evidence that contains words.
func evidenceAbout(f diagnose.Finding, words string) string {
	for _, e := range f.Evidence {
		if strings.Contains(e.Text, words) {
			return e.Text
		}
	}
	return ""
}

func asksWhatIs(stats map[string]measure.Stat, q measure.Query) error {
	st, ok := stats[string(q.Stat)]
	if !ok {
		return fmt.Errorf("no statistic %s", q.Stat)
	}
	for _, f := range q.By {
		if _, i := st.Field(f); i < 0 {
			return fmt.Errorf("%s has no field %s", q.Stat, f)
		}
	}
	for _, w := range q.Where {
		if _, i := st.Field(w.Field); i < 0 {
			return fmt.Errorf("%s has no field %s", q.Stat, w.Field)
		}
	}
	return nil
}

// divided fails the test unless the numbers of an attribution agree.
func divided(t *testing.T, stats map[string]measure.Stat, id string, a *diagnose.Attribution) {
	t.Helper()
	sum := a.Rest + a.OthersPart
	for _, u := range a.Users {
		sum += u.Part
		if !(u.Part > 0 && u.Wants >= u.Part && u.Without >= 0 && u.Without <= a.Total) {
			t.Errorf("%s: %+v of %v", id, u, a.Total)
		}
		if q, err := measure.ParseQuery(u.Statistic); err != nil {
			t.Errorf("%s: %q: %v", id, u.Statistic, err)
		} else if err := asksWhatIs(stats, q); err != nil {
			t.Errorf("%s: %q: %v", id, u.Statistic, err)
		}
	}
	if !(a.Total > 0) || math.Abs(float64(sum/a.Total)-1) > 1e-4 ||
		!(a.Without >= 0 && a.Without <= a.Total) || a.Named > 0 && a.Without >= a.Limit ||
		len(a.Users) == 0 || len(a.Users) > attribute.MostUsers || a.Named > attribute.MostNamed {
		t.Errorf("%s: parts of %v sum to %v: %+v", id, a.Total, sum, a)
	}
}

// wellFormed checks the invariants of every report.
func wellFormed(t *testing.T, rep *diagnose.Report) {
	t.Helper()
	stats := contract(t)
	ids := map[string]bool{}
	for _, f := range rep.Findings {
		if ids[f.ID] || !strings.HasPrefix(f.ID, f.Rule) {
			t.Errorf("id %s of %s", f.ID, f.Rule)
		}
		ids[f.ID] = true
		if !(f.Confidence >= 0 && f.Confidence <= 1) || f.Explains.Known() &&
			!(f.Explains >= 0 && f.Explains <= 1) {
			t.Errorf("%s: confidence %v explains %v", f.ID, f.Confidence, f.Explains)
		}
		if f.Severity.Weight() == 0 || f.Culprit.Kind == "" || f.Culprit.Name == "" ||
			f.Verify == "" || len(f.Evidence) == 0 {
			t.Errorf("%s is not complete: %+v", f.ID, f)
		}
		texts := append([]string{f.Claim, f.Verify}, f.Against...)
		if f.Fix != nil {
			texts = append(texts, f.Fix.Command, f.Fix.Undo, f.Fix.Risk)
		}
		for _, e := range f.Evidence {
			texts = append(texts, e.Text)
			q, err := measure.ParseQuery(e.Statistic)
			if err != nil {
				t.Errorf("%s: evidence %q: %v", f.ID, e.Statistic, err)
			} else if err := asksWhatIs(stats, q); err != nil {
				t.Errorf("%s: evidence %q: %v", f.ID, e.Statistic, err)
			}
			if !e.Value.Known() || e.Unit == "" || e.Over[0] < rep.Start || e.Over[1] > rep.End ||
				e.Over[0] >= e.Over[1] {
				t.Errorf("%s: evidence %+v", f.ID, e)
			}
		}
		if a := f.Attribution; a != nil {
			texts = append(texts, a.Text)
			divided(t, stats, f.ID, a)
		}
		for _, s := range texts {
			if strings.Contains(s, "NaN") || strings.Contains(s, "?") &&
				!strings.Contains(s, "$?") || strings.Contains(s, "Inf") ||
				strings.Contains(s, "%!") || strings.Contains(s, "  ") {
				t.Errorf("%s says %q", f.ID, s)
			}
		}
		if !strings.HasSuffix(f.Claim, ".") {
			t.Errorf("%s: the claim is no sentence: %s", f.ID, f.Claim)
		}
	}
	for _, d := range rep.Doubtful {
		if d.Because == "" || strings.Contains(d.Because, "?") ||
			strings.Contains(d.Because, "NaN") || strings.Contains(d.Because, "%!") {
			t.Errorf("%s is in doubt because of %q", d.Resource, d.Because)
		}
	}
	for _, e := range rep.Fine {
		if strings.Contains(e.Because, "?") || strings.Contains(e.Because, "NaN") ||
			strings.Contains(e.Because, "%!") {
			t.Errorf("%s is ruled out because of %q", e.Resource, e.Because)
		}
	}
}

// render returns a report in the format of the .golden files.
func render(rep *diagnose.Report) string {
	var b strings.Builder
	for _, f := range rep.Findings {
		fmt.Fprintf(&b, "%s %s, confidence %.2f", f.ID, f.Severity, float64(f.Confidence))
		if f.Explains.Known() {
			fmt.Fprintf(&b, ", explains %.3f", float64(f.Explains))
		}
		if f.Effect.Known() {
			fmt.Fprintf(&b, ", effect %.3f", float64(f.Effect))
		}
		c := f.Culprit
		fmt.Fprintf(&b, "\n  %s\n  culprit {Kind:%s Name:%s PID:%d NetNS:%s Interface:%s Local:%s "+
			"Peer:%s}", f.Claim, c.Kind, c.Name, c.PID, c.NetNS, c.Interface, c.Local, c.Peer)
		if c.Script+c.Group != "" {
			fmt.Fprintf(&b, " script %q group %q", c.Script, c.Group)
		}
		fmt.Fprintln(&b)
		for _, e := range f.Evidence {
			fmt.Fprintf(&b, "  - %s\n      %s = %.6g %s", e.Text, e.Statistic, float64(e.Value),
				e.Unit)
			if e.ComparedWith.Known() {
				fmt.Fprintf(&b, ", %s %.6g", e.ComparedAs, float64(e.ComparedWith))
			}
			fmt.Fprintln(&b)
		}
		if a := f.Attribution; a != nil {
			fmt.Fprintf(&b, "  attribution: %s\n      %s: %g of %s, limit %g\n", a.Text, a.Resource,
				float64(a.Total), a.Unit, float64(a.Limit))
			for _, u := range a.Users {
				fmt.Fprintf(&b, "      %s takes %g, wants %g, without it %g: %s\n", u.Name,
					float64(u.Part), float64(u.Wants), float64(u.Without), u.Statistic)
			}
		}
		for _, s := range f.Symptoms {
			fmt.Fprintf(&b, "  symptom %s: %s\n", s.ID, s.Claim)
		}
		for _, s := range f.Against {
			fmt.Fprintf(&b, "  against: %s\n", s)
		}
		fmt.Fprintf(&b, "  exonerated: %s\n  verify: %s\n", strings.Join(f.Exonerated, " "),
			f.Verify)
		if f.Fix != nil {
			fmt.Fprintf(&b, "  fix: %s\n  undo: %s\n  risk: %s\n", f.Fix.Command, f.Fix.Undo,
				f.Fix.Risk)
		}
	}
	for _, e := range rep.Fine {
		fmt.Fprintf(&b, "fine: %s: %s\n", e.Resource, e.Because)
	}
	for _, d := range rep.Doubtful {
		fmt.Fprintf(&b, "doubtful: %s: %s\n", d.Resource, d.Because)
	}
	var missing []string
	for _, m := range rep.Missing {
		missing = append(missing, "missing: "+m.String()+"\n")
	}
	sort.Strings(missing)
	b.WriteString(strings.Join(missing, ""))
	return b.String()
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if string(want) != got {
		t.Errorf("%s differs (go test -update writes it)\ngot:\n%s\nwant:\n%s", file, got, want)
	}
}
