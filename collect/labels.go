package collect

import "culprit/measure"

// NoLabel is a label that no dictionary has.
const NoLabel = ^measure.Label(0)

// NumberLabels caches the labels of small numbers, such as CPU numbers. The zero value is ready.
type NumberLabels struct {
	epoch  int
	labels []measure.Label
}

// Of returns the label of n, which must not be negative.
func (l *NumberLabels) Of(o *Out, n int) measure.Label {
	if n >= 1<<14 { // more than the CPUs of any machine: NR_CPUS is 8192 at most
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

// WordLabels caches the labels of a fixed list of words. The zero value is ready.
type WordLabels struct {
	epoch  int
	labels []measure.Label
}

// Of returns the labels of the words. The words must be the same in each call.
func (l *WordLabels) Of(o *Out, words []string) []measure.Label {
	if l.epoch != o.Epoch || len(l.labels) != len(words) {
		l.epoch, l.labels = o.Epoch, l.labels[:0]
		for _, w := range words {
			l.labels = append(l.labels, o.Label(w))
		}
	}
	return l.labels
}

// At returns the label of word i. It is valid after Of was called in this reading.
func (l *WordLabels) At(i int) measure.Label { return l.labels[i] }
