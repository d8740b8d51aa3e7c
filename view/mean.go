package view

import (
	"strings"

	"culprit/measure"
)

// Mean gathers frames and gives their average: what a tool prints when it is interrupted. Rates are weighted by the
// measured time, so the mean is the amount over the whole time divided by that time.
type Mean struct {
	first, last measure.Interval
	n           int
	answers     []*meanAnswer
}

type meanAnswer struct {
	of      *measure.Answer // the latest, for everything but values
	rows    map[string]*meanRow
	order   []*meanRow
	elapsed measure.Span
}

type meanRow struct {
	words       []string
	sum, weight float64
}

// Add takes a frame.
func (m *Mean) Add(f *Frame) {
	if m.n == 0 {
		m.first = f.Over
		for range f.Answers {
			m.answers = append(m.answers, &meanAnswer{rows: map[string]*meanRow{}})
		}
	}
	m.last = f.Over
	m.n++
	for i, a := range f.Answers {
		k := m.answers[i]
		k.of = a
		k.elapsed += a.Elapsed[0]
		for j, s := range a.Series {
			if len(s.Values) == 0 {
				continue
			}
			words := make([]string, len(s.Key))
			for c := range s.Key {
				words[c] = a.Label(j, c)
			}
			id := strings.Join(words, "\x00")
			r := k.rows[id]
			if r == nil {
				r = &meanRow{words: words}
				k.rows[id] = r
				k.order = append(k.order, r)
			}
			if v := s.Values[0]; v == v {
				r.sum += v * float64(a.Elapsed[0])
				r.weight += float64(a.Elapsed[0])
			}
		}
	}
}

// Len gives the number of frames taken.
func (m *Mean) Len() int { return m.n }

// Frame gives the mean of all frames. A row of a sparse statistic counts as 0 where it was absent; of another only
// the time counts in which it was there.
func (m *Mean) Frame() *Frame {
	f := &Frame{Over: measure.Interval{Start: m.first.Start, End: m.last.End}}
	for _, k := range m.answers {
		a := *k.of
		a.Series, a.Labels, a.Loss, a.Notes = nil, nil, nil, nil
		a.Elapsed = []measure.Span{k.elapsed}
		for _, r := range k.order {
			s := measure.Series{Values: []float64{measure.NaN}}
			for _, w := range r.words {
				s.Key = append(s.Key, measure.Label(len(a.Labels)))
				a.Labels = append(a.Labels, w)
			}
			weight := r.weight
			if a.Sparse && a.Kind == measure.Delta {
				weight = float64(k.elapsed)
			}
			if r.weight > 0 && weight > 0 {
				s.Values[0] = r.sum / weight
			}
			a.Series = append(a.Series, s)
		}
		f.Answers = append(f.Answers, &a)
	}
	return f
}
