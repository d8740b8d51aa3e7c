package collect

import "culprit/measure"

// NoLabel is no label of any dictionary.
const NoLabel = ^measure.Label(0)

// NumberLabels keeps the labels of small numbers, as those of CPUs, so that a row costs no look-up. The zero value is ready.
type NumberLabels struct {
	epoch  int
	labels []measure.Label
}

// Of gives the label of n, which must not be negative; those below a few thousand are kept.
func (l *NumberLabels) Of(o *Out, n int) measure.Label {
	if n >= 1<<14 { // more than any machine has CPUs (NR_CPUS is 8192 at most)
		return o.Number(int64(n))
	}
	if l.epoch != o.Epoch {
		l.epoch, l.labels = o.Epoch, l.labels[:0]
	}
	for len(l.labels) <= n {
		l.labels = append(l.labels, NoLabel)
	}
	if l.labels[n] == NoLabel {
		l.labels[n] = o.Number(int64(n))
	}
	return l.labels[n]
}

// WordLabels keeps the labels of a fixed list of words, by their place in it.
type WordLabels struct {
	epoch  int
	labels []measure.Label
}

// Of gives the labels of the words, which must be the same each time.
func (l *WordLabels) Of(o *Out, words []string) []measure.Label {
	if l.epoch != o.Epoch || len(l.labels) != len(words) {
		l.epoch, l.labels = o.Epoch, l.labels[:0]
		for _, w := range words {
			l.labels = append(l.labels, o.Label(w))
		}
	}
	return l.labels
}

// At returns the label of word i. Valid after labels of this reading.
func (l *WordLabels) At(i int) measure.Label { return l.labels[i] }
