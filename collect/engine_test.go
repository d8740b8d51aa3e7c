package collect

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/measure"
)

// TestDictionaryLimits fills dictionaries up to and beyond their limit.
func TestDictionaryLimits(t *testing.T) {
	fill := func(d *Dictionary, words int) {
		for n := len(d.words); n < words; n++ {
			d.Label(fmt.Sprint(n))
		}
	}
	d := NewDictionary()
	fill(d, fewWords)
	if d.StartTick(); d.epoch != 0 || len(d.words) != fewWords {
		t.Errorf("with %d words it is reset", fewWords)
	}
	fill(d, fewWords+1)
	if d.StartTick(); d.epoch != 1 || len(d.words) != 0 {
		t.Errorf("with one more it has %d words", len(d.words))
	}
	const used = 20_000 // words of one tick
	fill(d, used)
	d.StartTick()
	fill(d, 4*used)
	if d.StartTick(); d.epoch != 1 {
		t.Error("with four times the words of a tick it is reset")
	}
	fill(d, 4*used+1)
	if d.StartTick(); d.epoch != 2 {
		t.Error("with more than four times the words of a tick it is not reset")
	}
	one, two := d.Label("x"), d.LabelBytes([]byte("y"))
	if d.Label("y") != two || d.LabelBytes([]byte("x")) != one || one == two ||
		d.Word(one) != "x" || d.Word(two) != "y" {
		t.Errorf("the labels are %d and %d", one, two)
	}
}

// TestLabelCaches checks cached labels of numbers and words before and after a reset.
func TestLabelCaches(t *testing.T) {
	words := NewDictionary()
	out := NewOut(nil, words, false)
	var numbers NumberLabels
	var list WordLabels
	for range 2 {
		out.Start(false, time.Now())
		for _, n := range []int{3, 0, 1, 1<<14 - 1, 1 << 14, 3} {
			if got := words.Word(numbers.Of(out, n)); got != fmt.Sprint(n) {
				t.Errorf("%d has the label %s", n, got)
			}
		}
		if len(numbers.labels) != 1<<14 {
			t.Errorf("%d labels are kept, want %d", len(numbers.labels), 1<<14)
		}
		for range 2 {
			labels := list.Of(out, []string{"a", "b"})
			if len(labels) != 2 || words.Word(labels[1]) != "b" || list.At(0) != labels[0] ||
				words.Word(labels[0]) != "a" {
				t.Errorf("the labels of words are %v", labels)
			}
		}
		words.Reset()
		words.Label("another word takes the first label")
	}
}

func TestWholes(t *testing.T) {
	stat := func(id measure.StatID, fields ...string) measure.Stat {
		st := measure.Stat{ID: id}
		for _, f := range fields {
			st.Fields = append(st.Fields, measure.Field{Name: f})
		}
		return st
	}
	shared := stat("disk.busy", "device", "direction")
	stats := []measure.Stat{
		shared, stat("cgroup.memory", "cgroup", "kind"),
		stat("cgroup.memory.events", "cgroup", "kind"), stat("cpu.time", "cpu", "mode"),
		stat("process.cpu", "pid"), stat("thread.cpu", "tid"), stat("net.sockets.memory", "protocol"),
		stat("net.sockets", "protocol", "state", "netns"), stat("process.rss", "pid"),
	}
	wholes(stats)
	for n, want := range []string{
		"device", "cgroup kind", "cgroup", "", "", "", "", "protocol state", "",
	} {
		var got []string
		for _, f := range stats[n].Fields {
			if f.Overlaps {
				got = append(got, f.Name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("values of %s overlap in %q, want %q", stats[n].ID, got, want)
		}
		part := stats[n].ID == "process.cpu" || stats[n].ID == "thread.cpu"
		if (stats[n].Whole.Query != "") != part {
			t.Errorf("the whole of %s is %q", stats[n].ID, stats[n].Whole.Query)
		}
	}
	if shared.Fields[0].Overlaps {
		t.Error("a slice that statistics share was changed")
	}
}

// TestShortages checks the problems of collectors that lack a resource: one per reason, with at
// most four statistics named.
func TestShortages(t *testing.T) {
	s := &Source{}
	collector := func(ids ...measure.StatID) *running {
		var stats []measure.Stat
		for _, id := range ids {
			stats = append(stats, measure.Stat{ID: id})
		}
		return &running{out: NewOut(stats, NewDictionary(), false)}
	}
	many, few := collector("a.e", "a.d", "a.c", "a.b"), collector("b.x")
	same := collector("a.a", "a.b")
	check := func(want ...string) {
		t.Helper()
		var got []string
		for _, p := range s.Problems() {
			text, _ := strings.CutPrefix(p.Text, "not measured for now: ")
			text, _ = strings.CutSuffix(text, "; culprit tries again at each tick")
			got = append(got, p.Key+" | "+text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("problems\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	check()
	s.shortages.set(many, "no memory", true)
	check("shortage: no memory | a.b, a.c, a.d, a.e: no memory")
	s.shortages.set(few, "files", true)
	s.shortages.set(same, "no memory", true)
	check("shortage: files | b.x: files",
		"shortage: no memory | a.a, a.b, a.c, a.d and 1 more: no memory")
	s.shortages.set(many, "", false)
	check("shortage: files | b.x: files", "shortage: no memory | a.a, a.b: no memory")
	s.shortages.set(few, "is gone", false)
	s.shortages.set(same, "", false)
	check()
}

// TestMeter divides the cost of a reading by rows: a table without rows counts as one.
func TestMeter(t *testing.T) {
	stats := []measure.Stat{
		{ID: "a.b", Fields: []measure.Field{{Name: "x"}}}, {ID: "c.d", Fields: []measure.Field{{Name: "x"}}},
	}
	m := &meter{cost: map[measure.StatID]float64{}}
	out := NewOut(stats, NewDictionary(), false)
	out.Start(true, time.Now())
	for n := range 2 {
		out.Table("a.b").Put(float64(n), out.Number(int64(n)))
	}
	out.Table("c.d").AddCost(70)
	m.add(out, 1000)
	if a, b := m.of("a.b"), m.of("c.d"); a != 750 || b != 320 {
		t.Errorf("the statistics cost %d and %d ns, want 750 and 320", a, b)
	}
	m.add(out, 100)
	if a := m.of("a.b"); a != 825 {
		t.Errorf("after another reading the first costs %d ns, want 825", a)
	}
	if got := m.of("e.f"); got != 0 {
		t.Errorf("an unknown statistic costs %d ns", got)
	}
}

// TestLacks: a statistic without rows that lacks a part was not measured; one with rows was.
func TestLacks(t *testing.T) {
	out, began := NewOut([]measure.Stat{{ID: "a.b"}}, NewDictionary(), false), time.Now()
	for n, tt := range []struct {
		lacks, row, measured bool
	}{{false, false, true}, {true, false, false}, {true, true, true}, {false, true, true}} {
		out.Start(n == 0, began.Add(time.Duration(n)*time.Second))
		table := out.Table("a.b")
		if tt.lacks {
			table.Lacks("a part")
		}
		if tt.row {
			table.Put(1)
		}
		b := out.Finish(nil)
		if n == 0 {
			continue
		}
		if got := b[0].Over.Span() > 0; got != tt.measured || (len(b[0].Notes) > 0) != tt.lacks {
			t.Errorf("lacks %v, row %v: measured %v, notes %q", tt.lacks, tt.row, got, b[0].Notes)
		}
	}
	var none *Table
	none.Lacks("of a statistic that is not wanted")
}

// TestPerNamespace opens what belongs to the tool's own namespace, once, and closes it.
func TestPerNamespace(t *testing.T) {
	opened, closed := 0, 0
	var fails error
	s := PerNamespace[int]{
		Env:   &Env{},
		Open:  func(*Namespace[int]) (int, error) { opened++; return opened, fails },
		Close: func(n int) { closed += n },
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	out := NewOut(nil, NewDictionary(), false)
	for range 2 {
		out.Start(false, time.Now())
		list := s.Follow(out)
		if len(list) != 1 || list[0].Data != 1 || !list[0].Own() || list[0].Of() != "" ||
			out.words.Word(list[0].Label(out)) != "" {
			t.Fatalf("the namespaces are %+v", list)
		}
	}
	if opened != 1 || closed != 0 || s.Matches != 1 {
		t.Errorf("opened %d times, closed %d", opened, closed)
	}
	if s.Shut(); closed != 1 || len(s.List) != 0 {
		t.Errorf("closed %d", closed)
	}
	fails = errors.New("it cannot be read")
	failing := PerNamespace[int]{Env: &Env{}, Open: s.Open, Close: s.Close}
	if err := failing.Start(); err == nil || !strings.Contains(err.Error(), "it cannot be read") {
		t.Errorf("the error is %v", err)
	}
	stats := []measure.Stat{{ID: "a.b"}}
	out = NewOut(stats, NewDictionary(), false)
	out.Start(false, time.Now())
	if list := failing.Follow(out); len(list) != 0 {
		t.Errorf("the namespaces are %+v", list)
	}
	notes := out.Table("a.b").Batch().Notes
	if len(notes) != 1 || !strings.Contains(notes[0], "it cannot be read") {
		t.Errorf("notes %q", notes)
	}
	if failing.Shut(); closed != 1 {
		t.Errorf("what was not opened is closed")
	}
	named := PerNamespace[int]{Env: &Env{Netns: "culprit-test-none"}, Open: s.Open, Close: s.Close}
	if err := named.Start(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a namespace that does not exist: %v", err)
	}
	var d *measure.Diagnostic
	if err := CheckNetns("culprit-test-none"); !errors.As(err, &d) || d.Pos != len("--netns ") ||
		d.Len != len("culprit-test-none") {
		t.Errorf("a name that does not exist: %v", err)
	}
	for _, name := range []string{"", "all"} {
		if err := CheckNetns(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}
