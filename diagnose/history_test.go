package diagnose

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"

	"culprit/measure"
)

// recording ticks each second, as fast as it is called, and has swap traffic for a while.
type recording struct {
	ticked func(at measure.Time) // called at each tick; may be nil
	last   measure.Time
	until  measure.Time
	sick   func(at measure.Time) bool
	asked  []measure.Interval
}

func (r *recording) Tick(ctx context.Context, after measure.Time) (measure.Time, error) {
	if r.last == 0 {
		r.last = measure.Time(1000 * measure.Second)
	}
	for r.last <= after {
		r.last = r.last.Add(measure.Second)
	}
	if r.last > r.until {
		return 0, errors.New("the recording has ended")
	}
	if r.ticked != nil {
		r.ticked(r.last)
	}
	return r.last, nil
}

// Ask answers for swap traffic alone: the rule needs no other number.
func (r *recording) Ask(_ context.Context, q measure.Query) (*measure.Answer, error) {
	if n := len(r.asked); n == 0 || r.asked[n-1] != q.Over {
		r.asked = append(r.asked, q.Over)
	}
	cells := int(q.Over.Span() / q.Step)
	a := &measure.Answer{Query: q, Kind: measure.Delta, Unit: "event/s", Start: q.Over.Start,
		Step: q.Step, Elapsed: slices.Repeat([]measure.Span{q.Step}, cells)}
	if q.String() != swapQuery {
		return nil, measure.ErrUnsupported
	}
	v := 0.0
	if r.sick(q.Over.End) {
		v = 5000 * 4096
	}
	a.Labels, a.Unit = []string{"in", "out"}, "B/s"
	for i := range 2 {
		a.Series = append(a.Series, measure.Series{Key: []measure.Label{measure.Label(i)},
			Values: slices.Repeat([]float64{v}, cells)})
	}
	return a, nil
}

type memoryLog struct {
	mu   sync.Mutex
	at   []measure.Time
	docs [][]byte
	full error
}

func (l *memoryLog) Log(kind string, at measure.Time, doc []byte) error {
	if kind != historyKind {
		return errors.New(kind)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full != nil {
		return l.full
	}
	l.at, l.docs = append(l.at, at), append(l.docs, doc)
	return nil
}

func (l *memoryLog) Logged(_ context.Context, _ string, _ measure.Interval,
	each func(measure.Time, []byte) error) error {
	for i := range l.at {
		if err := each(l.at[i], l.docs[i]); err != nil {
			return err
		}
	}
	return nil
}

// TestHistory: findings are logged when they begin, when they are confirmed, each minute while they
// last, when they end, and when they are withdrawn;
// no findings once.
func TestHistory(t *testing.T) {
	const start = 1000
	sec := func(n int) measure.Time { return measure.Time(n) * measure.Time(measure.Second) }
	r := &recording{until: sec(start + 400),
		sick: func(at measure.Time) bool { return at > sec(start+100) && at <= sec(start+260) }}
	l := &memoryLog{}
	used := measure.Span(0)
	h := NewHistory(r, l, swapRule(),
		func() measure.Span { used += measure.Millisecond; return used })
	h.Run(t.Context())
	var got []int
	var findings []int
	err := h.Reports(t.Context(), measure.Interval{}, func(at measure.Time, doc []byte) error {
		var rep Report
		if err := json.Unmarshal(doc, &rep); err != nil {
			return err
		}
		if rep.End != at || rep.End.Sub(rep.Start) != 10*measure.Second {
			t.Errorf("the report at %v is of %v to %v", at, rep.Start, rep.End)
		}
		got, findings = append(got, int(at/sec(1))-start), append(findings, len(rep.Findings))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{10, 110, 120, 180, 240, 270, 320}; !slices.Equal(got, want) {
		t.Errorf("written down at %v, want %v", got, want)
	}
	if want := []int{0, 1, 1, 1, 1, 0, 0}; !slices.Equal(findings, want) {
		t.Errorf("%v findings, want %v", findings, want)
	}
	at, doc, err := h.Report(t.Context(), 0)
	if err != nil || at != sec(start+400) || len(doc) == 0 {
		t.Errorf("the newest is of %v, %v", at, err)
	}
	if _, _, err := h.Report(t.Context(), at); err == nil {
		t.Error("a history that has ended returns another report")
	}
}

// TestHistoryIsCheap: an expensive diagnosis is less frequent, and a full log is reported.
func TestHistoryIsCheap(t *testing.T) {
	r := &recording{until: measure.Time(2000 * measure.Second),
		sick: func(measure.Time) bool { return false }}
	l := &memoryLog{full: errors.New("no space left")}
	used := measure.Span(0)
	h := NewHistory(r, l, swapRule(),
		func() measure.Span { used += 45 * measure.Millisecond; return used })
	h.Run(t.Context())
	if h.Cost() != 45*measure.Millisecond {
		t.Errorf("a diagnosis costs %v", h.Cost())
	}
	for i, over := range r.asked[1:] {
		if gap := over.End.Sub(r.asked[i].End); gap != 45*measure.Second {
			t.Errorf("a diagnosis of 45 ms comes after %v", gap)
		}
	}
	if h.Trouble() == "" {
		t.Error("a log that refuses is no trouble")
	}
}

// TestHistoryWithAReader: a diagnosis of 45 ms comes each ten seconds while somebody reads it, and
// one of 120 ms as often as half a percent of a CPU allows. The reader comes between two of them.
func TestHistoryWithAReader(t *testing.T) {
	for _, tt := range []struct {
		name        string
		costs       measure.Span
		alone, with measure.Span
	}{
		{"cheap", 45 * measure.Millisecond, 45 * measure.Second, 10 * measure.Second},
		{"expensive", 120 * measure.Millisecond, 120 * measure.Second, 24 * measure.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			comes, leaves := measure.Time(1500*measure.Second), measure.Time(1800*measure.Second)
			var h *History
			var leave func()
			r := &recording{until: measure.Time(2500 * measure.Second),
				sick: func(measure.Time) bool { return false }}
			r.ticked = func(at measure.Time) {
				if at >= comes && leave == nil {
					leave = h.Attend()
				}
				if at >= leaves {
					leave()
					leave() // once is enough
				}
			}
			used := measure.Span(0)
			h = NewHistory(r, &memoryLog{}, swapRule(),
				func() measure.Span { used += tt.costs; return used })
			h.Run(t.Context())
			before, during, after := 0, 0, 0
			for i, over := range r.asked[1:] {
				gap := over.End.Sub(r.asked[i].End)
				switch {
				case over.End < comes && gap == tt.alone:
					before++
				case r.asked[i].End > comes && over.End < leaves && gap == tt.with:
					during++
				case r.asked[i].End > leaves && gap == tt.alone:
					after++
				case over.End < comes, r.asked[i].End > comes && over.End < leaves,
					r.asked[i].End > leaves:
					t.Errorf("%v after %v", over.End, r.asked[i].End)
				}
			}
			if before < 2 || during < 8 || after < 2 {
				t.Errorf("%d before, %d with the reader, %d after", before, during, after)
			}
		})
	}
}

// TestHistoryConfirmsSoon: an expensive diagnosis with a new finding is repeated after ten seconds,
// and the time of the others stays, on average.
func TestHistoryConfirmsSoon(t *testing.T) {
	const start = 1000
	sec := func(n int) measure.Time { return measure.Time(n) * measure.Time(measure.Second) }
	r := &recording{until: sec(start + 400),
		sick: func(at measure.Time) bool { return at > sec(start+100) }}
	used := measure.Span(0)
	h := NewHistory(r, &memoryLog{}, swapRule(),
		func() measure.Span { used += 45 * measure.Millisecond; return used })
	h.Run(t.Context())
	var ends []int
	for _, over := range r.asked {
		if n := int(over.End/sec(1)) - start; over.Span() == HistoryOver && len(ends) == 0 ||
			len(ends) > 0 && n > ends[len(ends)-1] {
			ends = append(ends, n)
		}
	}
	if want := []int{10, 55, 100, 145, 155, 235, 280, 325, 370}; !slices.Equal(ends, want) {
		t.Errorf("diagnoses at %v, want %v", ends, want)
	}
}

const swapQuery = `memory.swap by direction`

// swapRule finds any swap traffic that lasts.
func swapRule() RuleSet {
	return RuleSet{Rules: []Rule{{ID: "swap", Checks: "swap", Needs: []string{swapQuery},
		Check: func(l *Look) {
			t := l.Table(swapQuery)
			in := t.One("direction", "in")
			if s, ok := Lasting(t, HasValue(in), func(c int) bool { return in.At(c) > 0 }); ok {
				f := l.Found("", Medium, 1, Culprit{Kind: "memory", Name: "swap"}, "It swaps.")
				f.AddEvidence(t, s, in.Query(), in.Mean(s.Mask), t.Unit, "swapped in")
			}
		}}}}
}
