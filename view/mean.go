package view

import (
	"slices"

	"culprit/measure"
)

// Mean averages frames, for the last line of a tool. Rates are weighted by the measured time: the
// mean is the amount over the whole time divided by that time.
type Mean struct {
	first, last measure.Interval
	n           int
	Peaks       []measure.StatID // whose greatest value counts, and no mean
	Sums        []measure.StatID // whose rows are added up: one counts as 0 where it was absent, or the sum would be of more than there was
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
	peak    bool // of each row the greatest value counts
	summed  bool // rows are added up

	shape measure.Shape // of the newest answer; 0: unknown, or some of its series have no row
	at    []int32       // row of each series of that answer
}

type meanRow struct{ sum, weight float64 }

// mostMeans bounds the rows that a mean keeps of one statistic: processes and connections that come
// and go for days must not fill the memory for the sake of a last line. Rows beyond it are left
// out, and the frame's notes say so.
const mostMeans = 1 << 16

// Add adds a frame.
func (m *Mean) Add(f *Frame) {
	if m.n == 0 {
		m.first = f.Over
		for _, a := range f.Answers {
			m.answers = append(
				m.answers,
				&meanAnswer{
					keys:   keys{width: len(a.Query.By)},
					peak:   slices.Contains(m.Peaks, a.Query.Stat),
					summed: slices.Contains(m.Sums, a.Query.Stat),
				},
			)
		}
	}
	m.last = f.Over
	m.n++
	for i, a := range f.Answers {
		k := m.answers[i]
		k.of = *a
		k.of.Series, k.of.Labels, k.of.Elapsed, k.of.Loss, k.of.Notes = nil, nil, nil, nil, nil
		k.of.SetColumn(nil, 0)
		k.elapsed += a.Elapsed[0]
		values, shape := a.Column()
		if shape != 0 && shape == k.shape && !k.peak {
			k.add(values, float64(a.Elapsed[0]))
			continue
		}
		k.shape, k.at = 0, k.at[:0]
		for i := range a.Series {
			s := &a.Series[i]
			if len(s.Values)+len(s.Dists()) == 0 {
				continue
			}
			n := m.row(k, a.Labels, s.Key)
			if n < 0 {
				k.more = true
				continue
			}
			k.at = append(k.at, int32(n))
			if dists := s.Dists(); len(dists) > 0 {
				for n >= len(k.dists) {
					k.dists = append(k.dists, measure.Dist{})
				}
				d := &k.dists[n]
				if len(d.Counts) == 0 {
					d.Base = dists[0].Base
				}
				d.Merge(dists[0])
				continue
			}
			if v := s.Values[0]; v == v && k.peak {
				k.rows[n] = meanRow{max(k.rows[n].sum, v), 1}
			} else if v == v {
				k.rows[n].sum += v * float64(a.Elapsed[0])
				k.rows[n].weight += float64(a.Elapsed[0])
			}
		}
		if len(k.at) == len(values) && !k.more {
			k.shape = shape
		}
	}
}

// add adds the values of an answer whose rows are those of the answer before.
func (k *meanAnswer) add(values []float64, elapsed float64) {
	for i, v := range values {
		if v == v {
			r := &k.rows[k.at[i]]
			r.sum += v * elapsed
			r.weight += elapsed
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

// Len returns the number of frames.
func (m *Mean) Len() int { return m.n }

// Frame returns the mean of all frames. A row of a sparse statistic, or of one whose rows are added
// up, counts as 0 while it was absent; another row is averaged over the time in which it was there.
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
				s := measure.Series{Key: k.keys.key(n)}
				s.SetDists([]measure.Dist{d})
				a.Series = append(a.Series, s)
				continue
			}
			v := measure.NaN
			weight := r.weight
			if (a.Sparse || k.summed) && a.Kind == measure.Delta && !k.peak {
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
