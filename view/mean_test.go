package view

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"culprit/measure"
)

func TestMeanOfDaysStaysSmall(t *testing.T) {
	var m Mean
	for n := range 20 {
		a := &measure.Answer{
			Query:   measure.Query{Stat: "process.cpu", By: []string{"pid"}},
			Kind:    measure.Delta,
			Sparse:  true,
			Elapsed: []measure.Span{measure.Second},
		}
		for i := range maxMeanRows / 10 {
			a.Series = append(
				a.Series,
				measure.Series{Key: []measure.Label{measure.Label(i)}, Values: []float64{1}},
			)
			a.Labels = append(a.Labels, fmt.Sprint(n, ".", i))
		}
		m.Add(&Frame{Answers: []*measure.Answer{a}})
	}
	f := m.Frame()
	a := f.Answers[0]
	if len(a.Series) > maxMeanRows+maxMeanRows/10 || len(f.Notes(nil, 80)) != 1 ||
		a.Label(0, 0) != "0.0" ||
		a.Series[0].Values[0] != 0.05 {
		t.Errorf(
			"%d rows, notes %q, first %s = %g", len(a.Series), f.Notes(nil, 80), a.Label(0, 0),
			a.Series[0].Values[0],
		)
	}
}

// answerOf returns an answer by name over an interval of some seconds; the rows are pairs of name
// and value.
func answerOf(id measure.StatID, seconds measure.Span, rows ...any) *measure.Answer {
	a := &measure.Answer{
		Query: measure.Query{Stat: id, By: []string{"name"}}, Kind: measure.Delta,
		Elapsed: []measure.Span{seconds * measure.Second},
	}
	for n := 0; n < len(rows); n += 2 {
		a.Labels = append(a.Labels, rows[n].(string))
		a.Series = append(a.Series, measure.Series{
			Key:    []measure.Label{measure.Label(len(a.Labels) - 1)},
			Values: []float64{rows[n+1].(float64)},
		})
	}
	return a
}

// TestMeanOfKinds averages two intervals of different lengths: a row that comes later, one that is
// unknown for a while, peaks, sums, sparse rows and levels.
func TestMeanOfKinds(t *testing.T) {
	tests := []struct {
		name   string
		change func(a *measure.Answer)
		mean   Mean
		want   string // of the rows a, b, c
	}{
		{"rows of a delta", func(*measure.Answer) {}, Mean{}, "5.5 8 4"},
		{"a sparse delta", func(a *measure.Answer) { a.Sparse = true }, Mean{}, "5.5 6 1"},
		{"a sum", func(*measure.Answer) {}, Mean{Sums: []measure.StatID{"x.y"}}, "5.5 6 1"},
		{"a peak", func(*measure.Answer) {}, Mean{Peaks: []measure.StatID{"x.y"}}, "7 8 4"},
		{
			"a sparse peak", func(a *measure.Answer) { a.Sparse = true },
			Mean{Peaks: []measure.StatID{"x.y"}}, "7 8 4",
		},
		{
			"a sparse level", func(a *measure.Answer) { a.Sparse, a.Kind = true, measure.Level },
			Mean{Sums: []measure.StatID{"x.y"}}, "5.5 8 4",
		},
		{"another statistic", func(*measure.Answer) {}, Mean{Sums: []measure.StatID{"z"}}, "5.5 8 4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := tt.mean
			for n, a := range []*measure.Answer{
				answerOf("x.y", 1, "a", 1.0, "b", measure.NaN, "c", 4.0),
				answerOf("x.y", 3, "b", 8.0, "a", 7.0),
			} {
				tt.change(a)
				a.Notes, a.Loss = []string{"a note"}, []measure.Loss{{Reason: "x"}}
				m.Add(&Frame{
					Over: measure.Interval{
						Start: measure.Time(n) * 1e9, End: measure.Time(4*n+1) * 1e9,
					},
					Answers: []*measure.Answer{a},
				})
			}
			f := m.Frame()
			var got []string
			for i := range f.Answers[0].Series {
				got = append(got, fmt.Sprint(f.Answers[0].Series[i].Values[0]))
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("means %s, want %s", got, tt.want)
			}
			if f.Over != (measure.Interval{Start: 0, End: 5e9}) || m.Len() != 2 ||
				f.Answers[0].Elapsed[0] != 4*measure.Second || len(f.Answers[0].Notes) > 0 ||
				len(f.Answers[0].Loss) > 0 {
				t.Errorf("%d frames over %v, answer %+v", m.Len(), f.Over, f.Answers[0])
			}
		})
	}
}

// TestMeanOfDists merges distributions of rows, also of a row without values before.
func TestMeanOfDists(t *testing.T) {
	var m Mean
	for n := range 3 {
		a := answerOf("x.y", 1, "a", 0.0, "b", 0.0)
		a.Kind = measure.Dists
		for i := range a.Series {
			a.Series[i].Values = nil
			var d measure.Dist
			d.Add(uint64(100*(i+1)), uint64(n+1))
			if n > 0 || i > 0 {
				a.Series[i].SetDists([]measure.Dist{d})
			}
		}
		m.Add(&Frame{Answers: []*measure.Answer{a}})
	}
	a := m.Frame().Answers[0]
	counts := map[string]uint64{}
	for i := range a.Series {
		d := a.Series[i].Dists()
		counts[a.LabelOf(i, "name")] = d[0].Count()
	}
	if counts["a"] != 5 || counts["b"] != 6 {
		t.Errorf("numbers of values %v", counts)
	}
}

// TestMeanOfColumns adds answers of one shape, whose values take a short way.
func TestMeanOfColumns(t *testing.T) {
	var m Mean
	for n := range 3 {
		a := answerOf("x.y", measure.Span(n+1), "a", 1.0, "b", 2.0)
		values := []float64{float64(6 * n), measure.NaN}
		if n == 1 {
			values[1] = 5
		}
		for i := range a.Series {
			a.Series[i].Values = values[i : i+1]
		}
		a.SetColumn(values, 7)
		m.Add(&Frame{Answers: []*measure.Answer{a}})
	}
	a := m.Frame().Answers[0]
	if got, want := a.Series[0].Values[0], (0*1+6*2+12*3)/6.0; got != want {
		t.Errorf("the mean is %v, want %v", got, want)
	}
	if got := a.Series[1].Values[0]; got != 5 {
		t.Errorf("the mean of the time in which it was known is %v, want 5", got)
	}
}

// TestFolded folds several series of a row: their mean, or the largest.
func TestFolded(t *testing.T) {
	p := NewPivot("name")
	p.Add(answerOf("x.y", 1, "a", 1.0, "b", 1.0, "c", 1.0))
	a := &measure.Answer{
		Query: measure.Query{By: []string{"name", "cpu"}}, Labels: []string{"a", "b", "d", "0"},
	}
	for _, row := range []struct {
		name  measure.Label
		value float64
	}{{0, 9}, {1, measure.NaN}, {0, 2}, {2, 50}, {0, 4}, {1, -3}} {
		a.Series = append(a.Series, measure.Series{
			Key: []measure.Label{row.name, 3}, Values: []float64{row.value},
		})
	}
	mean, most := p.Folded(measure.Mean, a), p.Folded(measure.Max, a)
	for row, want := range []string{"5 9", "-3 -3", "NaN NaN"} {
		if got := fmt.Sprint(mean(row), " ", most(row)); got != want {
			t.Errorf("row %d: mean and maximum %s, want %s", row, got, want)
		}
	}
	count := p.Distinct(a, "name", "cpu")
	for row, want := range []int{1, 1, 0} {
		if got := count(row); got != want {
			t.Errorf("row %d has %d distinct tuples, want %d", row, got, want)
		}
	}
}

// TestWordsOverflow reads labels at so many addresses that the counter of them overflows.
func TestWordsOverflow(t *testing.T) {
	var w words
	first, second := []string{"a", "b"}, []string{"c", "a"}
	if w.numberOf(first, 0) != 0 || w.numberOf(first, 1) != 1 {
		t.Fatal("texts are not numbered in order")
	}
	w.generation = math.MaxUint32
	w.byLabel[1].turn = 1 // as it was looked up ages ago, at an address that is in use again
	for label, want := range []measure.Label{2, 0} {
		if got := w.numberOf(second, measure.Label(label)); got != want {
			t.Errorf("label %d has the number %d, want %d", label, got, want)
		}
	}
	if w.generation != 1 {
		t.Errorf("generation %d", w.generation)
	}
}

// TestInternIsBounded checks that texts beyond maxWords are returned and not kept.
func TestInternIsBounded(t *testing.T) {
	var w words
	for n := range maxWords + 2 {
		for range 2 { // the second time from the table
			if text := fmt.Sprint(n); w.intern([]byte(text)) != text {
				t.Fatalf("%s changed", text)
			}
		}
	}
	if len(w.texts) != maxWords {
		t.Errorf("%d texts are kept, want %d", len(w.texts), maxWords)
	}
}

// TestMeanIsFull checks that rows beyond maxMeanRows are left out, and that known ones still count.
func TestMeanIsFull(t *testing.T) {
	for words, truncated := range map[int]bool{4*maxMeanRows - 1: false, 4 * maxMeanRows: true} {
		var m Mean
		m.Add(&Frame{Answers: []*measure.Answer{answerOf("x.y", 1, "a", 1.0)}})
		for n := len(m.words.texts); n < words; n++ {
			m.words.add(fmt.Sprint("word", n))
		}
		m.Add(&Frame{Answers: []*measure.Answer{answerOf("x.y", 1, "a", 3.0, "b", 5.0)}})
		a := m.Frame().Answers[0]
		if got := len(a.Notes) > 0; got != truncated {
			t.Errorf("with %d words: notes %q", words, a.Notes)
		}
		if a.Series[0].Values[0] != 2 || (len(a.Series) == 1) != truncated {
			t.Errorf("with %d words: %d rows, the first is %v", words, len(a.Series),
				a.Series[0].Values)
		}
	}
}

// TestSortAfterFewerCalls makes a table in the memory of one with more answers: rows that only the
// missing answer had are gone.
func TestSortAfterFewerCalls(t *testing.T) {
	f := &Frame{Buffers: &Buffers{}}
	first := answerOf("x.y", 1, "b", 1.0, "a", 2.0)
	second := answerOf("x.z", 1, "c", 3.0, "a", 4.0)
	for i := range first.Series {
		first.Series[i].Values = []float64{float64(i)}
	}
	for n, answers := range [][]*measure.Answer{{first, second}, {first}, {first, second}} {
		for _, a := range answers {
			values := []float64{}
			for i := range a.Series {
				values = append(values, a.Series[i].Values[0])
			}
			a.SetColumn(values, 5)
		}
		p := f.NewPivot("name")
		for _, a := range answers {
			p.Add(a)
		}
		p.Sort()
		var got []string
		for r := range p.Len() {
			got = append(got, p.ID(r))
		}
		if want := "a b c"[:2*len(answers)+1]; strings.Join(got, " ") != want {
			t.Errorf("table %d has the rows %s, want %s", n, got, want)
		}
	}
}
