package collect

import (
	"sync/atomic"

	"culprit/measure"
)

// Dictionary numbers words. All batches of a run share it. It is reset when most of its words are
// no longer in use.
type Dictionary struct {
	index map[string]measure.Label
	words []string
	epoch int
	last  *atomic.Int64 // the latest epoch of this dictionary and its siblings
	limit int
	fresh bool // reset at the last tick: StartTick sets the limit by its size
}

const fewWords = 1 << 16 // a smaller dictionary is never reset: 2 to 4 MB

// NewDictionary returns an empty dictionary.
func NewDictionary() *Dictionary {
	return &Dictionary{
		index: map[string]measure.Label{}, last: new(atomic.Int64), limit: fewWords,
	}
}

// sibling returns an empty dictionary that shares no epoch with d.
func (d *Dictionary) sibling() *Dictionary {
	return &Dictionary{
		index: map[string]measure.Label{}, last: d.last, limit: fewWords,
		epoch: int(d.last.Add(1)),
	}
}

// translate replaces the labels of a batch, of another dictionary, by those of d.
func (d *Dictionary) translate(b *measure.Batch) {
	for i, l := range b.Keys {
		b.Keys[i] = d.Label(b.Labels[l])
	}
	b.Labels, b.Shape = d.words, measure.NewShape()
}

// StartTick drops all words if there are more than the limit. It then sets the limit to four times
// the words that one tick uses.
func (d *Dictionary) StartTick() {
	if d.fresh {
		d.fresh, d.limit = false, max(fewWords, 4*len(d.words))
	}
	if len(d.words) <= d.limit {
		return
	}
	d.Reset()
}

// Reset drops all words. Labels made before are invalid.
func (d *Dictionary) Reset() {
	d.index, d.words = make(map[string]measure.Label, 1<<12), make([]string, 0, 1<<12)
	d.fresh = true
	d.epoch = int(d.last.Add(1))
}

// Word returns the word of a label.
func (d *Dictionary) Word(l measure.Label) string { return d.words[l] }

// Label returns the label of a word and adds a new word.
func (d *Dictionary) Label(w string) measure.Label {
	if l, ok := d.index[w]; ok {
		return l
	}
	return d.add(w)
}

// LabelBytes is Label for bytes that the caller may change later.
func (d *Dictionary) LabelBytes(w []byte) measure.Label {
	if l, ok := d.index[string(w)]; ok {
		return l
	}
	return d.add(string(w))
}

func (d *Dictionary) add(w string) measure.Label {
	l := measure.Label(len(d.words))
	d.index[w] = l
	d.words = append(d.words, w)
	return l
}
