package diagnose

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"culprit/measure"
)

// deviceTable returns a table by namespace, device and direction. It covers four seconds; the
// second one was not measured.
func deviceTable(t *testing.T) *Table {
	t.Helper()
	q, err := measure.ParseQuery("net.device.bytes by netns,device,direction")
	if err != nil {
		t.Fatal(err)
	}
	a := &measure.Answer{
		Query: q, Unit: "B/s", Start: 10e9, Step: measure.Second,
		Elapsed: []measure.Span{measure.Second, 0, measure.Second, 2 * measure.Second},
		Labels:  []string{"", "blue", "eth0", "eth1", "rx", "tx"},
	}
	for _, row := range []struct {
		key    []measure.Label
		values []float64
	}{
		{[]measure.Label{0, 2, 4}, []float64{1, 2, 3, 4}},
		{[]measure.Label{0, 2, 5}, []float64{5, 6, measure.NaN, 8}},
		{[]measure.Label{1, 2, 4}, []float64{math.Inf(1), 10, -11, 12}},
		{[]measure.Label{0, 3, 4}, []float64{13}},
		{[]measure.Label{0, 3}, []float64{14, 15, 16, 17}}, // too few words
	} {
		a.Series = append(a.Series, measure.Series{Key: row.key, Values: row.values})
	}
	return tabulate(a, q)
}

func TestTableTakes(t *testing.T) {
	tab := deviceTable(t)
	var got []string
	for _, r := range tab.Rows {
		got = append(got, fmt.Sprint(strings.Join(r.Words(), "/"), " ", r.Values))
	}
	want := []string{
		"/eth0/rx [1 NaN 3 4]", "/eth0/tx [5 NaN NaN 8]", "blue/eth0/rx [NaN NaN NaN 12]",
		"/eth1/rx [13 NaN NaN NaN]",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if fmt.Sprint(tab.Seconds) != "[1 0 1 2]" || tab.measured() != 3 || !tab.HasNumbers() {
		t.Errorf("seconds %v, measured %d", tab.Seconds, tab.measured())
	}
	q := measure.Query{Stat: "cache.growth"}
	a := answerOf(0, -3, 4)
	if got := tabulate(a, q).Rows[0].Values; got[0] != -3 {
		t.Errorf("a cache shrinks by %v", got)
	}
	empty := tabulate(&measure.Answer{Elapsed: []measure.Span{1}}, q)
	if empty.HasNumbers() || !empty.Have() {
		t.Error("an empty table has numbers, or was not measured")
	}
}

func TestTableRows(t *testing.T) {
	tab := deviceTable(t)
	for _, tt := range []struct {
		terms []string
		want  string
	}{
		{nil, "4 rows"},
		{[]string{"device"}, "4 rows"},
		{[]string{"device", "eth0"}, "3 rows"},
		{[]string{"netns", "", "device", "eth0"}, "2 rows"},
		{[]string{"device", "eth0", "netns", "", "direction", "tx"}, "1 rows"},
		{[]string{"device", "eth9"}, "0 rows"},
		{[]string{"owner", ""}, "4 rows"},
		{[]string{"owner", "x"}, "0 rows"},
	} {
		for range 2 { // the second time by an index
			if got := fmt.Sprint(len(tab.Where(tt.terms...)), " rows"); got != tt.want {
				t.Errorf("%q selects %s, want %s", tt.terms, got, tt.want)
			}
		}
	}
	row := tab.One("direction", "tx")
	if row != tab.Rows[1] || tab.Exact([]string{"", "eth0", "tx"}) != row {
		t.Errorf("the row is %+v", row)
	}
	if tab.One("device", "eth9") != nil || tab.Exact([]string{"", "eth0"}) != nil {
		t.Error("a missing row was found")
	}
	for field, want := range map[string]string{
		"netns": "", "device": "eth0", "direction": "tx", "owner": "",
	} {
		if got := row.Word(field); got != want {
			t.Errorf("%s of the row is %q, want %q", field, got, want)
		}
	}
	for c, want := range map[int]string{-1: "NaN", 0: "5", 2: "NaN", 3: "8", 4: "NaN"} {
		if got := fmt.Sprint(row.At(c)); got != want {
			t.Errorf("the value of cell %d is %s, want %s", c, got, want)
		}
	}
	if got := strings.Join(tab.Keys("device"), " "); got != "eth0 eth1" {
		t.Errorf("devices %s", got)
	}
	if got := fmt.Sprint(tab.Sum(tab.Where("direction", "rx"))); got != "[14 NaN 3 16]" {
		t.Errorf("the sum is %s", got)
	}
	var none *Row
	if none.Word("device") != "" || none.At(0) == none.At(0) || none.Query() != "" ||
		none.Mean(nil) == none.Mean(nil) || none.Part(nil) == none.Part(nil) ||
		none.Last() == none.Last() || none.Max() == none.Max() {
		t.Error("a missing row is not unknown")
	}
	if with := row.With([]float64{7}); with.Word("device") != "eth0" || with.At(0) != 7 {
		t.Errorf("with other values the row is %+v", with)
	}
}

func TestRowStacks(t *testing.T) {
	tab := &Table{
		Query:  measure.Query{By: []string{"pid", "stack"}},
		Frames: []measure.Frame{{Symbol: "main", Parent: -1}, {Symbol: "work", Parent: 0}},
		labels: []string{"7"}, isStack: []bool{false, true},
	}
	row := &Row{Table: tab, key: []measure.Label{0, 1}}
	if f, ok := row.Stack("stack"); !ok || f != 1 || row.Word("stack") != "main;work" {
		t.Errorf("the stack is frame %d, %v, %s", f, ok, row.Word("stack"))
	}
	if _, ok := row.Stack("pid"); ok {
		t.Error("a process is a stack")
	}
	if _, ok := row.Stack("other"); ok {
		t.Error("a missing field is a stack")
	}
	row.key[1] = 2
	if _, ok := row.Stack("stack"); ok {
		t.Error("a frame that does not exist is a stack")
	}
	row.key[0] = 1
	if got := row.Word("pid"); got != "" {
		t.Errorf("a label that does not exist is %q", got)
	}
}

func TestRowValues(t *testing.T) {
	tab := deviceTable(t)
	for n, want := range []string{
		"mean 3, part 3, last 4, max 4", "mean 7, part 5.25, last 8, max 8",
		"mean 12, part 6, last 12, max 12", "mean 13, part 3.25, last 13, max 13",
	} {
		r := tab.Rows[n]
		got := fmt.Sprintf("mean %v, part %v, last %v, max %v", r.Mean(nil), r.Part(nil), r.Last(),
			r.Max())
		if got != want {
			t.Errorf("row %d: %s, want %s", n, got, want)
		}
	}
	mask := []bool{true, true, false, true}
	r := tab.Rows[0]
	if mean, part := r.Mean(mask), r.Part(mask); mean != 3 || part != 3 {
		t.Errorf("in some cells the mean is %v, the part %v", mean, part)
	}
	for _, mask := range [][]bool{{false, true, false, false}, {false, false, false, false}} {
		if mean, part := r.Mean(mask), r.Part(mask); mean == mean || part == part {
			t.Errorf("in no measured cell the mean is %v, the part %v", mean, part)
		}
	}
	rising := &Row{Values: []float64{-5, 2, measure.NaN, -7}, Table: tab}
	if rising.Max() != 2 || rising.Last() != -7 {
		t.Errorf("max %v, last %v", rising.Max(), rising.Last())
	}
}

func TestQueriesOfRows(t *testing.T) {
	tab := deviceTable(t)
	for n, want := range []string{
		`net.device.bytes where device = "eth0" and direction = "rx"`,
		`net.device.bytes where device = "eth0" and direction = "tx"`,
		`net.device.bytes where netns = "blue" and device = "eth0" and direction = "rx"`,
	} {
		if got := plain(tab.Rows[n].Query()); got != plain(want) {
			t.Errorf("the query of row %d is %s, want %s", n, got, want)
		}
	}
	got := tab.QueryOf([]string{"direction"}, "netns", "", "device", "eth0", "odd")
	if want := `net.device.bytes by direction where device = "eth0"`; plain(got) != plain(want) {
		t.Errorf("the query is %s, want %s", got, want)
	}
	got = tab.QueryOf(nil, "netns", "blue")
	if want := `net.device.bytes where netns = "blue"`; plain(got) != plain(want) {
		t.Errorf("the query is %s, want %s", got, want)
	}
	tab.Query.Where = []measure.Term{
		{Field: "device", Op: measure.Equal, Values: []string{"eth0"}},
		{Field: "direction", Op: measure.NotEqual, Values: []string{"x"}},
	}
	got = tab.QueryOf(nil, "device", "eth1", "direction", "rx")
	want := `net.device.bytes where device = "eth0" and direction != "x" and direction = "rx"`
	if plain(got) != plain(want) || plain(tab.Rows[0].Query()) != plain(want) {
		t.Errorf("the queries are %s and %s, want %s", got, tab.Rows[0].Query(), want)
	}
}

// plain returns a query without the quotes that its words do not need.
func plain(query string) string { return strings.ReplaceAll(query, `"`, "") }

// TestTableOnAnotherGrid moves a table to grids that begin before and after it.
func TestTableOnAnotherGrid(t *testing.T) {
	for _, tt := range []struct {
		start measure.Time
		step  measure.Span
		cells int
		want  string
	}{
		{10e9, measure.Second, 4, "[1 0 1 2] [1 NaN 3 4]"},
		{9e9, measure.Second, 6, "[0 1 0 1 2 0] [NaN 1 NaN 3 4 NaN]"},
		{12e9, measure.Second, 1, "[1] [3]"},
		{9.6e9, measure.Second, 4, "[1 0 1 2] [1 NaN 3 4]"},
		{9.4e9, measure.Second, 4, "[0 1 0 1] [NaN 1 NaN 3]"},
		{9e9, 2 * measure.Second, 5, "[1 0 1 2 0] [1 NaN 3 4 NaN]"},
	} {
		tab := deviceTable(t).onto(tt.start, tt.step, tt.cells)
		if got := fmt.Sprint(tab.Seconds, " ", tab.Rows[0].Values); got != tt.want {
			t.Errorf("from %v on %s, want %s", tt.start, got, tt.want)
		}
	}
	late := deviceTable(t)
	rows := late.Rows
	late.Rows = nil
	late.fill = func() (*measure.Answer, error) {
		a := &measure.Answer{Labels: late.labels}
		for _, r := range rows {
			a.Series = append(a.Series, measure.Series{Key: r.key, Values: r.Values})
		}
		return a, nil
	}
	late.onto(9e9, measure.Second, 6)
	for range 2 {
		got := fmt.Sprint(late.filled().Rows[0].Values, late.Seconds)
		if want := "[NaN 1 NaN 3 4 NaN] [0 1 0 1 2 0]"; got != want {
			t.Errorf("fetched later it is %s, want %s", got, want)
		}
	}
	failing := deviceTable(t)
	failing.fill = func() (*measure.Answer, error) { return nil, errors.New("the disk is gone") }
	if failing.filled(); failing.Have() || !strings.Contains(failing.Why, "the disk is gone") {
		t.Errorf("it is missing because %q", failing.Why)
	}
}

// TestConfidence checks rounding, and that caveats reduce the confidence one after the other.
func TestConfidence(t *testing.T) {
	l := &Look{rule: &Rule{ID: "r"}}
	for confidence, want := range map[float64]Number{
		-1: 0, 0.123: 0.12, 0.126: 0.13, 1: 1, 7: 1, measure.NaN: 0,
	} {
		f := l.Found("x", High, confidence, Culprit{Name: "a\x1bb"}, "claim")
		if f.Confidence != want || f.ID != "r/x" || f.Culprit.Name == "a\x1bb" {
			t.Errorf("%v: confidence %v, want %v; %+v", confidence, f.Confidence, want, f)
		}
	}
	f := l.Found("", High, 0.9, Culprit{}, "claim")
	if f.ID != "r" || f.Culprit.Name != "unknown" {
		t.Errorf("the finding is %+v", f)
	}
	f.AddCaveat(0.2, "one %d", 1)
	f.AddCaveat(0.3, "two")
	f.AddCaveat(0, "three")
	if got := fmt.Sprint(f.Confidence, f.Against); got != "0.5 [one 1 two three]" {
		t.Errorf("confidence and caveats %s", got)
	}
	for share, want := range map[float64]Number{-1: 0, 0.1234: 0.123, 0.1236: 0.124, 2: 1} {
		f.SetEffect(share)
		f.SetExplains(share)
		if f.Effect != want || f.Explains != want {
			t.Errorf("%v: effect %v, explains %v, want %v", share, f.Effect, f.Explains, want)
		}
	}
	tab := deviceTable(t)
	whole := f.AddEvidence(tab, WholePeriod(tab), "q", 3, "B", "text")
	if whole.Over != [2]Time{10e9, 14e9} || whole.Value != 3 || whole.ComparedWith.Known() {
		t.Errorf("evidence %+v", whole)
	}
	part := f.AddEvidence(tab, Period{first: 1, end: 2}, "q", 3, "B", "text")
	if part.CompareTo(7, "the others"); part.Over != [2]Time{11e9, 13e9} ||
		part.ComparedWith != 7 || part.ComparedAs != "the others" {
		t.Errorf("evidence %+v", part)
	}
	if none := f.AddEvidence(tab, Period{first: 2, end: 1}, "q", 3, "B", ""); none.Over !=
		[2]Time{10e9, 14e9} {
		t.Errorf("evidence of an empty period is of %v", none.Over)
	}
}

func TestScore(t *testing.T) {
	for _, tt := range []struct {
		severity   Severity
		confidence Number
		effect     Number
		want       float64
	}{
		{High, 0.8, 1, 0.8}, {High, 0.8, 0, 0.4}, {Medium, 1, 0.5, 0.3}, {Low, 0.5, 1, 0.05},
		{High, 1, Number(measure.NaN), 0.625}, {"other", 1, 1, 0},
	} {
		f := &Finding{Severity: tt.severity, Confidence: tt.confidence, Effect: tt.effect}
		if got := f.score(); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s, %v, %v has the score %v, want %v", tt.severity, tt.confidence, tt.effect,
				got, tt.want)
		}
	}
}

// TestMerge: symptoms go below their cause, with their own symptoms. In a cycle the better ranked
// finding is the cause.
func TestMerge(t *testing.T) {
	one := &Finding{ID: "1", Rule: "one"}
	two := &Finding{ID: "2", Rule: "two"}
	three := &Finding{ID: "3", Rule: "three"}
	other := &Finding{ID: "4", Rule: "three"}
	one.Cover("two", nil)
	two.Cover("three", func(f *Finding) bool { return f.ID == "3" })
	two.Cover("one", nil)
	two.Symptoms = []Symptom{{Claim: "its own"}}
	var got []string
	for _, f := range merge([]*Finding{one, two, three, other}, nil) {
		text := f.ID
		for _, s := range f.Symptoms {
			text += " " + s.ID + s.Claim
		}
		got = append(got, text)
	}
	if strings.Join(got, "; ") != "1 2 its own 3; 4" {
		t.Errorf("findings %s", strings.Join(got, "; "))
	}
}

// TestSettle checks which resources are ruled out, in doubt or neither.
func TestSettle(t *testing.T) {
	rule := func(id, resource string) *Rule {
		return &Rule{ID: id, Resource: resource, Checks: id + "s"}
	}
	evidence := []Evidence{{Text: "x"}}
	looks := []*Look{
		{rule: rule("c1", "cpu"), fine: []Exoneration{{"cpu", "it is idle"}}},
		{rule: rule("c2", "cpu"), fine: []Exoneration{{"cpu", "no queue"}}},
		{rule: rule("m1", "memory"), Findings: []*Finding{
			{ID: "m1", Rule: "m1", Severity: High, Confidence: 1, Evidence: evidence},
			{ID: "m1", Rule: "m1", Severity: High, Confidence: 1, Evidence: evidence, Claim: "again"},
			{ID: "m1/none", Rule: "m1", Severity: High, Confidence: 1},
		}},
		{rule: rule("d1", "disk"), fine: []Exoneration{{"disk", "3 % busy"}}, Findings: []*Finding{
			{ID: "d1", Rule: "d1", Severity: Low, Confidence: 1, Evidence: evidence},
		}},
		{rule: rule("n1", "network"), fine: []Exoneration{{"network", "idle"}}},
		{rule: rule("n2", "network"), unchecked: true, missing: []Missing{{Rule: "n2", Why: "gone"}}},
		{rule: rule("x1", ""), fine: []Exoneration{{"", "nothing"}}},
	}
	var rep Report
	settle(&rep, RuleSet{}, looks, nil)
	if got := fmt.Sprint(rep.Fine); got != "[{cpu it is idle, no queue} {disk 3 % busy}]" {
		t.Errorf("ruled out: %s", got)
	}
	if got := strings.Join(rep.Checked, " "); got != "c1s c2s m1s d1s n1s x1s" {
		t.Errorf("checked: %s", got)
	}
	if len(rep.Missing) != 1 || len(rep.Findings) != 2 {
		t.Fatalf("missing %v, findings %+v", rep.Missing, rep.Findings)
	}
	for n, want := range []string{"m1 [cpu disk]", "d1 [cpu]"} {
		f := rep.Findings[n]
		if got := fmt.Sprint(f.ID, " ", f.Exonerated); got != want || f.Against == nil ||
			f.Symptoms == nil {
			t.Errorf("finding %s, want %s; %+v", got, want, f)
		}
	}

	silent := []*Look{{rule: rule("c1", "cpu"), fine: []Exoneration{{"cpu", "it is idle"}}},
		{rule: rule("c2", "cpu")}}
	rep = Report{}
	if settle(&rep, RuleSet{}, silent, nil); len(rep.Fine) != 0 {
		t.Errorf("a rule said nothing, and %v is ruled out", rep.Fine)
	}

	doubt := []*Look{{rule: rule("c1", "cpu"), fine: []Exoneration{{"cpu", "it is idle"}},
		doubts: []Doubt{{"cpu", "half is unknown"}, {"cpu", "and a quarter"}}}}
	set := RuleSet{Doubts: func(Tables) []Doubt {
		return []Doubt{{"cpu", "the gate"}, {"disk", "it waits"}}
	}}
	rep = Report{}
	settle(&rep, set, doubt, nil)
	want := "[{cpu half is unknown, and a quarter; otherwise it is idle} {disk it waits}]"
	if got := fmt.Sprint(rep.Doubtful); got != want || len(rep.Fine) != 0 {
		t.Errorf("in doubt: %s, want %s; ruled out %v", got, want, rep.Fine)
	}
}
