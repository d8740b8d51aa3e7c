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
	Peaks       []measure.StatID // statistics whose mean is the greatest value
	// Statistics whose rows a table adds up: an absent row counts as 0.
	Sums    []measure.StatID
	words   words
	answers []*meanAnswer
	key     []measure.Label // scratch
}

type meanAnswer struct {
	newest    measure.Answer // without its series
	keys      keys
	rows      []meanRow
	dists     []measure.Dist // per row, of a statistic of distributions
	elapsed   measure.Span
	truncated bool // there were more rows than maxMeanRows
	peak      bool // the mean of a row is its greatest value
	summed    bool // the table adds up the rows

	shape measure.Shape // of the newest answer; 0: unknown, or some of its series have no row
	at    []int32       // row of each series of that answer
}

type meanRow struct{ sum, weight float64 }

// maxMeanRows bounds the rows of one statistic in a mean. Processes and connections that come and
// go for days must not fill the memory. More rows are left out, with a note.
const maxMeanRows = 1 << 16

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
		k.newest = *a
		k.newest.Series, k.newest.Labels, k.newest.Elapsed = nil, nil, nil
		k.newest.Loss, k.newest.Notes = nil, nil
		k.newest.SetColumn(nil, 0)
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
				k.truncated = true
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
		if len(k.at) == len(values) && !k.truncated {
			k.shape = shape
		}
	}
}

// add adds the values of an answer with the shape of the newest one.
func (k *meanAnswer) add(values []float64, elapsed float64) {
	for i, v := range values {
		if v == v {
			r := &k.rows[k.at[i]]
			r.sum += v * elapsed
			r.weight += elapsed
		}
	}
}

// row returns the number of a row; -1 for a new row if there are too many.
func (m *Mean) row(k *meanAnswer, labels []string, key []measure.Label) int {
	full := len(k.rows) >= maxMeanRows || len(m.words.texts) >= 4*maxMeanRows
	m.key = m.key[:0]
	for _, l := range key {
		if full {
			if _, known := m.words.index[labels[l]]; !known {
				return -1
			}
		}
		m.key = append(m.key, m.words.numberOf(labels, l))
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

// Frame returns the mean of all frames. A row of a sparse statistic, or of one in Sums, counts as 0
// while it was absent. Another row is averaged over the time in which it was there.
func (m *Mean) Frame() *Frame {
	f := &Frame{Over: measure.Interval{Start: m.first.Start, End: m.last.End}}
	for _, k := range m.answers {
		a := k.newest
		a.Labels, a.Elapsed = m.words.texts, []measure.Span{k.elapsed}
		if k.truncated {
			a.Notes = []string{"the averages leave out the newest rows: there were too many"}
		}
		for n, r := range k.rows {
			if k.newest.Kind == measure.Dists {
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
