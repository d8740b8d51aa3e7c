package measure

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// same reports whether two numbers are equal, or both NaN.
func same(a, b float64) bool { return a == b || a != a && b != b }

func TestRates(t *testing.T) {
	for _, tt := range []struct {
		name   string
		unit   Unit
		amount float64
		over   Span
		want   float64
		of     Unit
	}{
		{"bytes", Bytes, 600, 2 * Second, 300, "B/s"},
		{"a plain number", Count, 600, 2 * Second, 300, "1/s"},
		{"half a second", Events, 7, Second / 2, 14, "event/s"},
		{"time per time is a ratio", Nanoseconds, 6e8, 2 * Second, 0.3, Ratio},
		{"one nanosecond", Nanoseconds, 5, 1, 5, Ratio},
		{"no time", Bytes, 600, 0, NaN, "B/s"},
		{"negative time", Bytes, 600, -Second, NaN, "B/s"},
		{"unknown amount", Bytes, NaN, Second, NaN, "B/s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.unit.Rate(tt.amount, tt.over); !same(got, tt.want) {
				t.Errorf("Rate: %g, want %g", got, tt.want)
			}
			amounts := []float64{tt.amount, 2 * tt.amount}
			tt.unit.Rates(amounts, tt.over)
			if !same(amounts[0], tt.want) || !same(amounts[1], 2*tt.want) {
				t.Errorf("Rates: %g, want %g and its double", amounts, tt.want)
			}
			if got := tt.unit.PerSecond(); got != tt.of {
				t.Errorf("PerSecond: %q, want %q", got, tt.of)
			}
		})
	}
}

func TestCombine(t *testing.T) {
	for _, tt := range []struct {
		fold   Fold
		values []float64
		want   float64
		n      int
	}{
		{Sum, []float64{3, -5, 10}, 8, 3},
		{Max, []float64{-3, -5, -10}, -3, 3},
		{Max, []float64{3, 10, 5}, 10, 3},
		{Min, []float64{3, 5, 10}, 3, 3},
		{Min, []float64{10, 3, 5}, 3, 3},
		{Mean, []float64{3, 5, 10}, 6, 3},
		{Mean, []float64{NaN, 3, NaN, 5}, 4, 2},
		{Sum, []float64{NaN, 3, NaN, 5}, 8, 2},
		{Max, []float64{NaN, -3}, -3, 1},
		{Sum, []float64{NaN, NaN}, NaN, 0},
	} {
		t.Run(fmt.Sprint(tt.fold, tt.values), func(t *testing.T) {
			got, n := NaN, 0
			for _, v := range tt.values {
				got, n = tt.fold.Combine(got, n, v)
			}
			if !same(got, tt.want) || n != tt.n {
				t.Errorf("%g of %d, want %g of %d", got, n, tt.want, tt.n)
			}
		})
	}
}

// The words stand in JSON, in archives and on the page: they never change.
func TestWordsOfEnumerations(t *testing.T) {
	for _, tt := range []struct {
		got  fmt.Stringer
		want string
	}{
		{Delta, "delta"}, {Level, "level"}, {Dists, "dist"}, {Kind(0), ""}, {Kind(4), "?"},
		{Word, "word"}, {Number, "number"}, {Stack, "stack"}, {Type(4), "?"},
		{Sum, "sum"}, {Max, "max"}, {Mean, "mean"}, {Min, "min"}, {Fold(4), "?"},
		{Equal, "="}, {NotEqual, "!="}, {Less, "<"}, {LessEqual, "<="}, {Greater, ">"},
		{GreaterEqual, ">="}, {Matches, "~"}, {NotMatches, "!~"}, {In, "in"}, {Op(10), "?"},
	} {
		if got := tt.got.String(); got != tt.want {
			t.Errorf("%T %v: %q, want %q", tt.got, tt.got, got, tt.want)
		}
	}
	// archives contain the numbers
	if Delta != 1 || Level != 2 || Dists != 3 || Word != 1 || Number != 2 || Stack != 3 {
		t.Error("a number of an enumeration has changed")
	}
}

func TestNameOf(t *testing.T) {
	for in, want := range map[string]string{
		"Reads": "reads", "a-b c": "a_b_c", "--x--": "x", "a  b": "a_b", "az09AZ": "az09az",
		"": "", "++": "", "x_y": "x_y", "a`b{c/d:e": "a_b_c_d_e", "ä": "", "1st": "1st",
	} {
		if got := NameOf(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestStatFields(t *testing.T) {
	s := Stat{Kind: Delta, Unit: Bytes, Fields: []Field{
		{Name: "pid", Type: Number}, {Name: "stack", Type: Stack}, {Name: "device", Type: Word},
	}}
	if f, i := s.Field("device"); i != 2 || f.Name != "device" {
		t.Errorf("device is field %d, %v", i, f)
	}
	if f, i := s.Field("none"); i != -1 || f.Name != "" {
		t.Errorf("none is field %d, %v", i, f)
	}
	if got := s.Stacks([]string{"pid", "device"}); got != nil {
		t.Errorf("no field is a stack: %v", got)
	}
	if got := s.Stacks([]string{"pid", "stack", "device"}); len(got) != 3 || got[0] || !got[1] || got[2] {
		t.Errorf("the second is a stack: %v", got)
	}
	if got := s.AnswerUnit(); got != "B/s" {
		t.Errorf("unit of a rate: %s", got)
	}
	s.Kind = Level
	if got := s.AnswerUnit(); got != Bytes {
		t.Errorf("unit of a level: %s", got)
	}
}

func TestTimes(t *testing.T) {
	at := time.Date(2026, 11, 25, 21, 34, 38, 5e6, time.UTC)
	moment := Time(at.UnixNano())
	if got := moment.String(); got != "2026-11-25T21:34:38.005000000Z" {
		t.Errorf("String: %s", got)
	}
	text, err := moment.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var again Time
	if err := again.UnmarshalText(text); err != nil || again != moment {
		t.Errorf("%s parses as %s, %v", text, again, err)
	}
	if err := again.UnmarshalText([]byte("2026-11-25T22:34:38+01:00")); err != nil ||
		again != moment-Time(5*Millisecond) {
		t.Errorf("another zone, no fraction: %s, %v", again, err)
	}
	if err := again.UnmarshalText([]byte("yesterday")); err == nil {
		t.Error("yesterday is a time")
	}
	over := Interval{moment, moment.Add(1500 * Millisecond)}
	if over.Span() != 1500*Millisecond || over.Seconds() != 1.5 || over.Start.Sub(over.End) >= 0 {
		t.Errorf("interval: %s, %g s", over.Span(), over.Seconds())
	}
	if got := over.Span(); got.String() != "1.5s" || got.AsDuration() != 1500*time.Millisecond {
		t.Errorf("span: %s", got)
	}
	if Microsecond != 1e3 || Millisecond != 1e6 || Second != 1e9 || Minute != 60e9 {
		t.Error("a span is wrong")
	}
}

// An answer of three cells of which the second was measured for half its time.
func threeCells() *Answer {
	return &Answer{
		Query: Query{By: []string{"device", "stack"}}, Start: 1000, Step: 10,
		Elapsed: []Span{10, 5, 10, 0},
		Labels:  []string{"", "eth0", "lo"},
		Frames:  []Frame{{Symbol: "main", Parent: -1}, {Symbol: "read", Parent: 0}},
		Stacks:  []bool{false, true},
		Series: []Series{
			{Key: []Label{1, 1}, Values: []float64{4, 16, NaN, 100}},
			{Key: []Label{2, 0}, Values: []float64{NaN, NaN, NaN, NaN}},
			{Key: []Label{2, 0}, Values: []float64{-4, -16, -7, NaN}}, // the last value is unknown
			{Key: []Label{2, 0}, Values: []float64{1, 2, 3, 4, 5}},
		},
	}
}

func TestAnswerNumbers(t *testing.T) {
	a := threeCells()
	for _, tt := range []struct {
		name      string
		got, want float64
	}{
		{"mean, weighted by time", a.Mean(0), (4*10 + 16*5) / 15.0},
		{"mean of nothing", a.Mean(1), NaN},
		{"mean of all", a.Mean(2), (-4*10 - 16*5 - 7*10) / 25.0},
		{"mean, more values than cells", a.Mean(3), (1*10 + 2*5 + 3*10) / 25.0},
		{"last", a.Last(0), 100},
		{"last, the latest is unknown", a.Last(2), -7},
		{"last of nothing", a.Last(1), NaN},
		{"max", a.Max(0), 100},
		{"max of negative numbers", a.Max(2), -4},
		{"max of nothing", a.Max(1), NaN},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !same(tt.got, tt.want) && math.Abs(tt.got-tt.want) > 1e-12 {
				t.Errorf("%g, want %g", tt.got, tt.want)
			}
		})
	}
	if got, want := a.Over(), (Interval{1000, 1040}); got != want {
		t.Errorf("Over: %v, want %v", got, want)
	}
}

func TestAnswerLabels(t *testing.T) {
	a := threeCells()
	for _, tt := range []struct{ name, got, want string }{
		{"word", a.Label(0, 0), "eth0"},
		{"stack", a.Label(0, 1), "main;read"},
		{"by name", a.LabelOf(2, "device"), "lo"},
		{"stack by name", a.LabelOf(0, "stack"), "main;read"},
		{"a field that it lacks", a.LabelOf(0, "pid"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("%q, want %q", tt.got, tt.want)
			}
		})
	}
	a.Stacks = nil
	if got := a.Label(0, 1); got != "eth0" {
		t.Errorf("no field is a stack: %q", got)
	}
	if i := a.FieldIndex("pid"); i != -1 {
		t.Errorf("index of a field that it lacks: %d", i)
	}
}

func TestSeriesDetails(t *testing.T) {
	var s Series
	if s.Min() != nil || s.Max() != nil || s.Dists() != nil {
		t.Error("a series without details has some")
	}
	s.SetRange([]float64{1}, []float64{9})
	if s.Min()[0] != 1 || s.Max()[0] != 9 || s.Dists() != nil {
		t.Errorf("range: %v to %v, %v", s.Min(), s.Max(), s.Dists())
	}
	s.SetDists([]Dist{{Sum: 4}})
	if len(s.Dists()) != 1 || s.Dists()[0].Sum != 4 {
		t.Errorf("distributions: %v", s.Dists())
	}
}

func TestBatchRows(t *testing.T) {
	b := Batch{By: []string{"a", "b"}, Keys: []Label{1, 2, 3, 4}, Values: []float64{5, 6}}
	if b.Rows() != 2 || b.Key(1)[0] != 3 || b.Key(1)[1] != 4 || len(b.Key(1)) != 2 {
		t.Errorf("%d rows, the second is %v", b.Rows(), b.Key(1))
	}
	b = Batch{Dists: make([]Dist, 3)}
	if b.Rows() != 3 {
		t.Errorf("%d rows of distributions", b.Rows())
	}
}
