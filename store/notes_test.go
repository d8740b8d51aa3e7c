package store

import (
	"slices"
	"testing"

	"culprit/measure"
)

// A note belongs to the ticks that have it, also to those that could not look, and also after the
// frames are replayed.
func TestNotesStayInTheirTicks(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	st := measure.Stat{
		ID:     "a.b",
		Kind:   measure.Level,
		Unit:   measure.Count,
		Fields: []measure.Field{{Name: "x", Type: measure.Word}},
	}
	id, err := s.Save(
		measure.Dataset{
			Query: measure.Query{Stat: st.ID, By: []string{"x"}, Step: measure.Second},
			Stat:  st,
			State: measure.Recording,
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	const first = 1_000_000_000
	notes := [][]string{
		nil,
		{"one"},
		{"one"},
		{"two", "one"},
		{"two", "one"},
		{},
		{"one"},
		{"blind"},
	}
	for i, n := range slices.Concat(notes, make([][]string, 80), notes) { // beyond a key frame
		at := measure.Time(first+i) * 1e9
		b := &measure.Batch{
			Stat:   st.ID,
			By:     []string{"x"},
			Over:   measure.Interval{Start: at - 1e9, End: at},
			Labels: []string{"y"},
			Keys:   []measure.Label{0},
			Values: []float64{float64(i)},
			Notes:  n,
		}
		if slices.Contains(n, "blind") {
			b.Over.Start, b.Keys, b.Values = at, nil, nil
		}
		if err := s.Append(at, []uint32{id}, []*measure.Batch{b}); err != nil {
			t.Fatal(err)
		}
	}
	look := func() {
		t.Helper()
		for _, from := range []int{0, 88} {
			for i, want := range notes {
				at := measure.Time(first+from+i) * 1e9
				a, err := s.Ask(
					t.Context(),
					measure.Query{
						Stat: st.ID,
						By:   []string{"x"},
						Over: measure.Interval{Start: at - 1e9, End: at},
						Step: measure.Second,
					},
				)
				if err != nil || !slices.Equal(sorted(a.Notes), sorted(want)) {
					t.Errorf("tick %d: notes %q, %v, want %q", from+i, a.Notes, err, want)
				}
			}
		}
		over := measure.Interval{Start: first*1e9 + 2e9, End: first*1e9 + 6e9}
		a, err := s.Ask(
			t.Context(),
			measure.Query{Stat: st.ID, By: []string{"x"}, Over: over, Step: measure.Second},
		)
		if want := []string{"one", "two"}; err != nil || !slices.Equal(sorted(a.Notes), want) {
			t.Errorf("four ticks: notes %q, %v, want %q", a.Notes, err, want)
		}
	}
	look()
	s.mu.Lock()
	s.closedWindows, s.window = append(s.closedWindows, s.window), nil
	s.mu.Unlock()
	s.Settle()
	look()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	look()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func sorted(texts []string) []string { return slices.Sorted(slices.Values(texts)) }

// All rows of a batch that was filtered and folded before are recorded, although it lacks the field
// of the filter.
func TestFilteredBefore(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	st := measure.Stat{
		ID:     "a.b",
		Kind:   measure.Level,
		Unit:   measure.Count,
		Fields: []measure.Field{{Name: "x", Type: measure.Word}, {Name: "y", Type: measure.Word}},
	}
	q := measure.Query{
		Stat:  st.ID,
		By:    []string{"x"},
		Where: []measure.Term{{Field: "y", Op: measure.Equal, Values: []string{"z"}}},
		Step:  measure.Second,
	}
	id, err := s.Save(measure.Dataset{Query: q, Stat: st, State: measure.Recording})
	if err != nil {
		t.Fatal(err)
	}
	const at = 1_000_000_000 * 1e9
	b := &measure.Batch{
		Stat:   st.ID,
		By:     []string{"x"},
		Over:   measure.Interval{Start: at - 1e9, End: at},
		Labels: []string{"w"},
		Keys:   []measure.Label{0},
		Values: []float64{7},
	}
	if err := s.Append(at, []uint32{id}, []*measure.Batch{b}); err != nil {
		t.Fatal(err)
	}
	q.Over = b.Over
	a, err := s.Ask(t.Context(), q)
	if err != nil || len(a.Notes) > 0 || len(a.Series) != 1 || a.Series[0].Values[0] != 7 {
		t.Errorf("%+v, %v", a, err)
	}
}
