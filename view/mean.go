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

	// Of the first rows of the answer before, which mostly come again in the same order: their keys
	// and which rows they were, and when its dictionary came.
	known []measure.Label
	at    []int32
	turn  uint32
	shape measure.Shape // of that answer; 0 where not all its rows are known so
}

type meanRow struct{ sum, weight float64 }

// mostMeans bounds the rows that a mean keeps of one statistic: processes and connections that come
// and go for days must not fill the memory for the sake of a last line. Rows beyond it are left
// out, and the frame's notes say so.
const mostMeans = 1 << 16

// mostKnown bounds how many rows of an answer are found again by their place.
const mostKnown = 1 << 10

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
		k.shape = 0
		if !m.words.seen(a.Labels) || k.turn != m.words.turn {
			k.known, k.at, k.turn = k.known[:0], k.at[:0], m.words.turn
		}
		for i := range a.Series {
			s := &a.Series[i]
			if len(s.Values)+len(s.Dists()) == 0 {
				continue
			}
			n := k.again(i, s.Key)
			if n < 0 {
				n = m.row(k, a.Labels, s.Key)
				k.remember(i, s.Key, n)
			}
			if n < 0 {
				k.more = true
				continue
			}
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

// again gives the number of a row that stands where it stood in the answer before, -1 when another
// does.
func (k *meanAnswer) again(i int, key []measure.Label) int {
	if i < len(k.at) && slices.Equal(k.known[i*len(key):(i+1)*len(key)], key) {
		return int(k.at[i])
	}
	return -1
}

// remember keeps what row stands at a place, which is behind the last that is known or one of them.
func (k *meanAnswer) remember(i int, key []measure.Label, n int) {
	switch {
	case i < len(k.at):
		copy(k.known[i*len(key):], key)
		k.at[i] = int32(n)
	case i == len(k.at) && i < mostKnown:
		k.known, k.at = append(k.known, key...), append(k.at, int32(n))
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
