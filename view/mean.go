package view

import "culprit/measure"

// Mean gathers frames and gives their average: what a tool prints when it is interrupted. Rates are weighted by the
// measured time, so the mean is the amount over the whole time divided by that time.
type Mean struct {
	first, last measure.Interval
	n           int
	words       words
	answers     []*meanAnswer
	key         []measure.Label // scratch
}

type meanAnswer struct {
	of      measure.Answer // the latest, without its series
	keys    keys
	rows    []meanRow
	dists   []measure.Dist // of the rows, where the statistic has them
	elapsed measure.Span
	more    bool // there were more rows than are kept
}

type meanRow struct{ sum, weight float64 }

// mostMeans bounds the rows that a mean keeps of one statistic: processes and connections that come and go for days must not fill the
// memory for the sake of a last line. Rows beyond it are left out, and the frame's notes say so.
const mostMeans = 1 << 16

// Add takes a frame.
func (m *Mean) Add(f *Frame) {
	if m.n == 0 {
		m.first = f.Over
		for _, a := range f.Answers {
			m.answers = append(m.answers, &meanAnswer{keys: keys{width: len(a.Query.By)}})
		}
	}
	m.last = f.Over
	m.n++
	for i, a := range f.Answers {
		k := m.answers[i]
		k.of = *a
		k.of.Series, k.of.Labels, k.of.Elapsed, k.of.Loss, k.of.Notes = nil, nil, nil, nil, nil
		k.elapsed += a.Elapsed[0]
		for _, s := range a.Series {
			if len(s.Values)+len(s.Dists) == 0 {
				continue
			}
			n := m.row(k, a.Labels, s.Key)
			if n < 0 {
				k.more = true
				continue
			}
			if len(s.Dists) > 0 {
				for n >= len(k.dists) {
					k.dists = append(k.dists, measure.Dist{})
				}
				d := &k.dists[n]
				if len(d.Counts) == 0 {
					d.Base = s.Dists[0].Base
				}
				d.Merge(s.Dists[0])
				continue
			}
			if v := s.Values[0]; v == v {
				k.rows[n].sum += v * float64(a.Elapsed[0])
				k.rows[n].weight += float64(a.Elapsed[0])
			}
		}
	}
}

// row gives the number of a row, -1 for a new one when there are too many.
func (m *Mean) row(k *meanAnswer, labels []string, key []measure.Label) int {
	full := len(k.rows) >= mostMeans || len(m.words.texts) >= 4*mostMeans
	m.key = m.key[:0]
	for _, l := range key {
		if full {
			if _, known := m.words.index[labels[l]]; !known {
				return -1
			}
		}
		m.key = append(m.key, m.words.of(labels, l))
	}
	if full {
		return k.keys.find(m.key)
	}
	n := k.keys.number(m.key)
	if n == len(k.rows) {
		k.rows = append(k.rows, meanRow{})
	}
	return n
}

// Len gives the number of frames taken.
func (m *Mean) Len() int { return m.n }

// Frame gives the mean of all frames. A row of a sparse statistic counts as 0 where it was absent; of another only
// the time counts in which it was there.
func (m *Mean) Frame() *Frame {
	f := &Frame{Over: measure.Interval{Start: m.first.Start, End: m.last.End}}
	for _, k := range m.answers {
		a := k.of
		a.Labels, a.Elapsed = m.words.texts, []measure.Span{k.elapsed}
		if k.more {
			a.Notes = []string{"the averages leave out rows that came late: there were too many"}
		}
		for n, r := range k.rows {
			if k.of.Kind == measure.Dists {
				var d measure.Dist
				if n < len(k.dists) {
					d = k.dists[n]
				}
				a.Series = append(a.Series, measure.Series{Key: k.keys.key(n), Dists: []measure.Dist{d}})
				continue
			}
			v := measure.NaN
			weight := r.weight
			if a.Sparse && a.Kind == measure.Delta {
				weight = float64(k.elapsed)
			}
			if r.weight > 0 && weight > 0 {
				v = r.sum / weight
			}
			a.Series = append(a.Series, measure.Series{Key: k.keys.key(n), Values: []float64{v}})
		}
		f.Answers = append(f.Answers, &a)
	}
	return f
}
